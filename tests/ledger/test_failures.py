"""A failure at any moment of a write leaves the book as it was, or the whole act done; never a half."""

import resource
import sqlite3
from contextlib import closing, suppress

import pytest
from tests.ledger.plans import BODY, NOW, a_plan, book_with, dump, failure_of, open_book, raw

from endmark.core.refusal import CannotTry
from endmark.core.states import State


class Failing:
    """A real connection that fails on the nth statement, before it or (with `late`) after it was done."""

    def __init__(self, real, on, error, late=False):
        self.real, self.on, self.error, self.late, self.seen = real, on, error, late, 0

    def execute(self, sql, *values):
        self.seen += 1
        if self.seen == self.on and not self.late:
            raise self.error
        result = self.real.execute(sql, *values)
        if self.seen == self.on:
            raise self.error
        return result

    def __getattr__(self, name):
        return getattr(self.real, name)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path):
    with open_book(path, timeout=0.2) as ledger:
        book_with(ledger, State.APPLIED)
        yield ledger
        assert ledger.verify().problems == ()


def record(ledger, _entry):
    ledger.record(a_plan(job_id="j"), NOW, body=BODY, durable=False)


def move(ledger, entry):
    ledger.move(
        entry.attempt_id, State.STAGED, [State.APPROVED, State.APPLYING], NOW, approver="ann", detail="x", durable=False
    )


def note(ledger, entry):
    ledger.note(entry.attempt_id, "alarm", NOW, {"x": 1}, durable=False)


def checkpoint(ledger, _entry):
    ledger.checkpoint(NOW)


ACTS = [record, move, note, checkpoint]


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk I/O error"), KeyboardInterrupt(), MemoryError()])
def test_each_statement_fails(ledger, path, act, late, error):
    real = ledger.store.connection
    entry = book_with(ledger, State.STAGED)
    before = dump(path)
    fired = 0
    for on in range(1, 40):
        ledger.store.connection = Failing(real, on, error, late)
        failure = failure_of(act, ledger, entry)
        ledger.store.connection = real
        if failure is None:
            break
        fired += 1
        assert isinstance(failure, CannotTry) is isinstance(error, sqlite3.Error)
        assert not real.in_transaction
        if dump(path) != before:
            assert late  # the one statement after which all was done: its COMMIT, reported as failed
            break
    assert fired >= 4
    assert act_is_done(ledger, act, entry)


def act_is_done(ledger, act, entry):
    if act is record:
        return ledger.body(ledger.by_job("j").attempt_id) == BODY
    if act is move:
        return ledger.get(entry.attempt_id).state is State.APPLYING
    if act is note:
        return ledger.events(entry.attempt_id)[-1].event == "alarm"
    return ledger.verify().checkpoints == 1


@pytest.mark.parametrize("act", ACTS)
def test_interrupted_inside_a_statement(ledger, path, act):
    """SQLite stops after every so many of its own steps, in the midst of rows, indexes and triggers."""
    real = ledger.store.connection
    entry = book_with(ledger, State.STAGED)
    before = dump(path)
    fired = 0
    for steps in range(1, 4000, 13):
        left = [steps]

        def stop(left=left):
            left[0] -= 1
            return left[0] == 0

        real.set_progress_handler(stop, 1)
        failure = failure_of(act, ledger, entry)
        real.set_progress_handler(None, 1)
        if failure is None:
            break
        fired += 1
        assert "interrupted" in failure.detail
        if dump(path) != before:
            break  # SQLite's last look at the handler comes after a COMMIT is done: the whole result
    assert fired > 5
    assert act_is_done(ledger, act, entry)


@pytest.mark.parametrize("act", [record, move, note])
def test_the_disk_fails_at_any_byte(ledger, path, act):
    """The operating system itself refuses to let a file grow, at a byte that moves through the write."""
    entry = book_with(ledger, State.STAGED)
    before = dump(path)
    wal = path.with_name("ledger.db-wal").stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    fired = 0
    for room in range(0, 200_000, 1_500):
        resource.setrlimit(resource.RLIMIT_FSIZE, (wal + room, limits[1]))
        failure = failure_of(act, ledger, entry)
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        if failure is None:
            break
        fired += 1
        assert "disk" in failure.detail
        assert dump(path) == before
        assert not ledger.store.connection.in_transaction
    assert fired > 5
    assert act_is_done(ledger, act, entry)


def test_a_full_disk(ledger, path):
    entry = book_with(ledger, State.STAGED)
    (pages,) = ledger.store.connection.execute("PRAGMA page_count").fetchone()
    ledger.store.connection.execute(f"PRAGMA max_page_count={pages}")
    before = dump(path)
    big = b"x" * 100_000
    with pytest.raises(CannotTry, match=r"its disk is full; .*; nothing was changed; free some space"):
        ledger.record(a_plan(received_bytes=len(big)), NOW, body=big)
    with pytest.raises(CannotTry, match="full"):
        ledger.note(entry.attempt_id, "alarm", NOW, {"x": "x" * 100_000})
    assert dump(path) == before
    assert ledger.get(entry.attempt_id) == entry
    ledger.store.connection.execute("PRAGMA max_page_count=100000")
    book_with(ledger, State.APPLIED)


def test_locked_past_the_timeout(ledger, path):
    entry = book_with(ledger, State.STAGED)
    before = dump(path)
    with closing(raw(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        for act in ACTS:
            with pytest.raises(CannotTry, match=r"it stayed locked by another process for 0\.2 s"):
                act(ledger, entry)
        assert ledger.get(entry.attempt_id) == entry  # readers need not wait
        assert ledger.verify().ok
        other.execute("ROLLBACK")
    assert dump(path) == before
    record(ledger, entry)


def test_read_only(ledger, path):
    entry = book_with(ledger, State.STAGED)
    before = dump(path)
    ledger.store.connection.execute("PRAGMA query_only=ON")
    for act in ACTS:
        with pytest.raises(CannotTry, match="it is read-only"):
            act(ledger, entry)
    ledger.store.connection.execute("PRAGMA query_only=OFF")
    assert dump(path) == before


@pytest.mark.parametrize("act", ACTS)
def test_damaged_while_open(path, act):
    """The table an act needs is gone: an error of the file, not of the caller."""
    with open_book(path) as ledger:
        entry = book_with(ledger, State.STAGED)
        with closing(raw(path)) as other:
            other.execute("DROP TABLE events")
        with pytest.raises(CannotTry, match="no such table"):
            act(ledger, entry)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE attempts SET state = 'nonsense'",
        "UPDATE attempts SET signal = 'nonsense'",
        "UPDATE attempts SET evidence = x'00'",
        "UPDATE attempts SET statement_rows = 'a b'",
        "UPDATE attempts SET detail = CAST(x'ff' AS TEXT)",
        "UPDATE events SET data = '{'",
        "UPDATE events SET data = 1.5",
        "UPDATE events SET to_state = 'nonsense'",
        "UPDATE events SET hash = 'x'",
        "UPDATE bodies SET body = 'é'",
    ],
)
def test_rows_nobody_wrote_cannot_be_read(path, change):
    """Readers raise `CannotTry` for what only a stranger can have put there."""
    with open_book(path) as ledger:
        entry = book_with(ledger, State.APPLIED)
        with closing(raw(path)) as other:
            other.execute("PRAGMA ignore_check_constraints=ON")
            for (name,) in other.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                other.execute(f"DROP TRIGGER {name}")
            other.execute(change)

        def read():
            ledger.get(entry.attempt_id)
            ledger.page(5)
            ledger.events(entry.attempt_id)
            ledger.body(entry.attempt_id)

        with pytest.raises(CannotTry, match="endmark ledger verify"):
            read()
        with suppress(CannotTry):
            ledger.note(entry.attempt_id, "alarm", NOW, {})
        with suppress(CannotTry):
            ledger.checkpoint(NOW)
        assert not ledger.verify().ok
