"""Processes that write into one ledger at the same time: started by `test_together`."""

import sys
import time
from pathlib import Path
from typing import Any

from tests.ledger.plans import BODY, NOW, a_plan, a_refusal

from endmark.core.states import State
from endmark.ledger.book import Ledger


def many(path, name, count):
    """Record `count` jobs of its own, each moved on once or refused."""
    with Ledger.open(path, create=True, timeout=60) as ledger:
        for number in range(int(count)):
            if number % 4:
                entry, created = ledger.record(a_plan(job_id=f"{name}-{number}"), NOW, body=BODY, durable=False)
                ledger.move(entry.attempt_id, State.STAGED, State.APPROVED, NOW, approver=name, durable=False)
            else:
                _, created = ledger.record(a_refusal(job_id=f"{name}-{number}"), NOW, body=None, durable=False)
            assert created


def race(path, name, start):
    """Record the one job that everybody records, at the moment given; say who did it and what came back."""
    with Ledger.open(path, create=False, timeout=60) as ledger:
        time.sleep(max(0, float(start) - time.time()))
        entry, created = ledger.record(a_plan(job_id="one", submitter=name), NOW, body=BODY)
        print(created, entry.attempt_id, entry.submitter, name)


def forever(path, name):
    """Record and move until killed. Each job that is applied is said aloud, after its commit."""
    with Ledger.open(path, create=True, timeout=60) as ledger:
        print("ready", flush=True)
        number = 0
        while True:
            number += 1
            entry, _ = ledger.record(a_plan(job_id=f"{name}-{number}"), NOW, body=BODY)
            ledger.move(entry.attempt_id, State.STAGED, [State.APPROVED, State.APPLYING], NOW, durable=False)
            ledger.move(entry.attempt_id, State.APPLYING, State.APPLIED, NOW, statements_run=3)
            print(f"{name}-{number}", flush=True)


if __name__ == "__main__":
    act: Any = {"many": many, "race": race, "forever": forever}[sys.argv[1]]
    where = sys.argv[2]
    act(where if "://" in where else Path(where), *sys.argv[3:])
