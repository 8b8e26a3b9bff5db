"""A gate that is killed at one step: `python -m tests.effects.postgres.child_alone FOLDER URL STEP STATEMENT`.

STEP is `before|after|sent:N:TEXT`: the Nth time that something which begins with TEXT is said to the server.
"""

import os
import signal
import sys
from pathlib import Path

from tests.support.world import PATIENT, plan_bytes

from endmark.apply_gate import ApplyGate, Delivery
from endmark.effects.postgres import PostgresTarget
from endmark.effects.postgres.channel import Channel
from endmark.faces.api import now
from endmark.ledger.book import Ledger


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def arm(when, number, text):
    said, talk, wait = 0, Channel.talk, Channel._await
    armed = False

    def talking(self, steps, **more):
        nonlocal said, armed
        steps = list(steps)
        hit = any(step.sql.startswith(text.encode()) for step in steps)
        said += hit
        armed = hit and said == number
        if armed and when == "before":
            die()
        yield from talk(self, steps, **more)
        if armed and when == "after":
            die()

    def waiting(self, *more):
        if armed and when == "sent" and not self._pg.flush():
            die()
        return wait(self, *more)

    instead = {"talk": talking, "_await": waiting}
    for name, function in instead.items():
        setattr(Channel, name, function)


def main(folder, url, step, statement):
    when, number, text = step.split(":", 2)
    arm(when, int(number), text)
    with Ledger.open(Path(folder, "book", "ledger.db"), create=False, timeout=60) as ledger:
        raw = plan_bytes("j1", [statement])
        ApplyGate(ledger, now).apply(Delivery(raw=raw), PostgresTarget(url), PATIENT, "ann")


if __name__ == "__main__":
    main(*sys.argv[1:])
