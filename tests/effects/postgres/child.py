"""Gates that are killed: `python -m tests.effects.postgres.child FOLDER URL MANY SEED`.

For each of `MANY` kills a process of its own applies a plan of its own; CALM of them live, to tell how long that takes.
"""

import json
import os
import random
import signal
import statistics
import sys
import time
from pathlib import Path

from tests.support.world import PATIENT, plan_bytes

from endmark.apply_gate import ApplyGate, Delivery
from endmark.effects.postgres import PostgresTarget
from endmark.faces.api import now
from endmark.ledger.book import Ledger

CALM = 3


def statements(n):
    """What job `n` does: tables and rows of its own."""
    first = [f"CREATE TABLE t{n} (n integer PRIMARY KEY, filler text)"]
    return first + [
        statement
        for at in range(20)
        for statement in (
            f"INSERT INTO t{n} SELECT g, repeat('x', 200) FROM generate_series({at * 20}, {at * 20 + 19}) AS g",
            f"CREATE TABLE t{n}_{at} (x integer)",
        )
    ]


def deliver(folder, url, n):
    with Ledger.open(Path(folder, "book", "ledger.db"), create=False, timeout=60) as ledger:
        raw = plan_bytes(f"j{n}", statements(n))
        ApplyGate(ledger, now).apply(Delivery(raw=raw), PostgresTarget(url), PATIENT, "ann")


def main(folder, url, many, seed):
    chance = random.Random(seed)
    took: list[float] = []
    for n in range(CALM + int(many)):
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            deliver(folder, url, n)
            os._exit(0)
        if n >= CALM:
            time.sleep(statistics.median(took) * (n - CALM + chance.random()) / int(many))
            os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if n < CALM:
            took.append(time.monotonic() - began)
        print(json.dumps([n, code]), flush=True)
        if not sys.stdin.readline():  # until what it left was looked at
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
