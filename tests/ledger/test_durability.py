"""What is flushed when, and the checkpoints that come by themselves."""

import sqlite3

import pytest
from tests.ledger.plans import NOW, a_plan, book_with, open_book

from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.ledger.chain import EVERY


@pytest.fixture
def ledger(tmp_path):
    with open_book(tmp_path / "ledger.db") as ledger:
        yield ledger
        assert ledger.verify().problems == ()


@pytest.fixture
def either(path):
    """In each engine."""
    with open_book(path) as ledger:
        yield ledger
        assert ledger.verify().problems == ()


def test_a_durable_commit_is_flushed(ledger):
    """What `PRAGMA synchronous` says inside each transaction: 2 is FULL, 1 is NORMAL."""
    seen: list[int] = []

    class Watching:
        def __init__(self, real):
            self.real = real

        def execute(self, sql, *values):
            if sql == "COMMIT":
                seen.append(self.real.execute(f"PRAGMA synchronous -- {len(seen)}").fetchone()[0])
            return self.real.execute(sql, *values)

        def __getattr__(self, name):
            return getattr(self.real, name)

    ledger.store.connection = Watching(ledger.store.connection)
    for durable in (True, False, False, True, False, True):
        entry, _ = ledger.record(a_plan(), NOW, body=None, durable=durable)
        ledger.move(entry.attempt_id, State.STAGED, State.DECLINED, NOW, durable=not durable)
    assert seen == [2, 1, 1, 2, 1, 2, 2, 1, 1, 2, 2, 1]


def test_an_interruption_leaves_no_doubt_about_durability(ledger):
    """Interrupted right after the setting took effect, before we could note it."""
    real = ledger.store.connection

    class Interrupted:
        def execute(self, sql, *values):
            real.execute(sql, *values)
            raise KeyboardInterrupt

        def __getattr__(self, name):
            return getattr(real, name)

    ledger.store.connection = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        ledger.record(a_plan(), NOW, body=None, durable=False)
    ledger.store.connection = real
    ledger.record(a_plan(), NOW, body=None, durable=True)
    assert real.execute("PRAGMA synchronous").fetchone() == (2,)


def test_checkpoints_come_by_themselves(either):
    ledger = either
    entry = book_with(ledger, State.STAGED)  # two events
    for _ in range(EVERY - 3):
        ledger.redelivered(entry.attempt_id, NOW, 1, durable=False)
    assert ledger.verify().checkpoints == 0
    book_with(ledger, State.TRUNCATED)  # two more: across the border
    report = ledger.verify()
    assert (report.checkpoints, report.checkpoint[:2]) == (1, (1, EVERY + 1))
    ledger.checkpoint(NOW)  # nothing new
    assert ledger.verify().checkpoints == 1
    book_with(ledger, State.TRUNCATED)
    ledger.checkpoint(NOW)
    assert ledger.verify().checkpoint[:2] == (2, EVERY + 3)


def test_a_checkpoint_that_fails_takes_nothing_back(ledger, monkeypatch):
    monkeypatch.setattr("endmark.ledger.book.EVERY", 2)
    real = ledger.store.connection

    class Refusing:
        def execute(self, sql, *values):
            if "INTO checkpoints" in sql:
                raise sqlite3.OperationalError("disk I/O error")
            return real.execute(sql, *values)

        def __getattr__(self, name):
            return getattr(real, name)

    ledger.store.connection = Refusing()
    entry = book_with(ledger, State.STAGED)
    assert ledger.get(entry.attempt_id) == entry
    with pytest.raises(CannotTry):
        ledger.checkpoint(NOW)
    ledger.store.connection = real
    book_with(ledger, State.STAGED)
    assert ledger.verify().checkpoint[:2] == (1, 4)
