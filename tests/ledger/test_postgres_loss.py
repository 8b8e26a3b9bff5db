"""The connection goes at any moment: an act happened whole, or it raised and nothing of it is there."""

import random
import select
import socket
import threading
import time
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.ledger.plans import BODY, NOW, a_plan, book_with, checkpoint_of, dump, failure_of
from tests.support import ledgers
from tests.support.wire import Wire

from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.ledger.book import Ledger, Moved
from endmark.ledger.postgres.store import open_store


@pytest.fixture
def wire(url):
    parts = urlsplit(url)
    with Wire(parts.hostname, parts.port or 5432) as wire:
        yield wire


@pytest.fixture
def through(url, wire):
    """The book, reached over the wire."""
    parts = urlsplit(url)
    user = f"{parts.username}@" if parts.username else ""
    broken = parts._replace(netloc=f"{user}127.0.0.1:{wire.port}", query="sslmode=disable&gssencmode=disable").geturl()
    with Ledger.open(broken, create=False, timeout=2.0) as ledger:
        yield ledger


def test_the_answer_to_a_record_is_lost(url, wire, through):
    """The server did it, nobody heard: the second time finds it, and there is one attempt."""
    for turn in range(6):
        wire.cut("down", b"SELECT 1", late=False)  # the tag of the answer
        new = a_plan(job_id=f"j{turn}")
        entry, created = through.record(new, NOW, body=BODY)
        assert created
        assert through.by_job(f"j{turn}") == entry
        assert wire.fired == turn + 1
    assert len(through.page(100)) == 6
    with Ledger.open(url, create=False) as ledger:
        assert ledger.verify().problems == ()


def test_a_record_never_arrives(wire, through):
    wire.cut("up", b"job-lost")
    entry, created = through.record(a_plan(job_id="job-lost"), NOW, body=BODY)
    assert (created, wire.fired) == (True, 1)
    assert through.page(10) == [entry]


def test_a_record_that_was_lost_and_belongs_to_another(url, wire, through):
    with Ledger.open(url, create=False) as other:
        owner, _ = other.record(a_plan(job_id="j"), NOW, body=BODY)
    wire.cut("up", b"att_")
    assert through.record(a_plan(job_id="j"), NOW, body=BODY) == (owner, False)
    assert through.page(10) == [owner]


def test_nobody_can_say_whether_it_was_recorded(url, wire, through):
    wire.cut("down", b"SELECT 1", refuse=True)
    with pytest.raises(
        CannotTry, match=r"its server cannot be asked whether it was made; .* all of this act was recorded or nothing"
    ):
        through.record(a_plan(job_id="j"), NOW, body=BODY)
    wire.refuse(False)
    entry = through.by_job("j")  # it was, here; asking again is enough
    assert through.record(a_plan(job_id="j"), NOW, body=BODY) == (entry, False)


@pytest.mark.parametrize("late", [False, True])
def test_the_commit_of_a_move_is_lost(url, wire, through, late):
    """Before the server sees it: nothing happened. After: it did, whatever became of the answer."""
    entry = book_with(through, State.STAGED)
    before = dump(url)
    wire.cut("up", b"COMMIT\0", late=late)
    failure = failure_of(through.move, entry.attempt_id, State.STAGED, State.APPROVED, NOW)
    if failure is None:
        assert late
        assert through.get(entry.attempt_id).state is State.APPROVED
    else:
        assert "lost during a commit" in failure.detail
        assert "nothing was changed" in failure.detail
        assert dump(url) == before
    assert wire.fired == 1
    assert through.get(entry.attempt_id).state in (State.STAGED, State.APPROVED)
    assert through.verify().problems == ()


def test_the_answer_to_a_commit_is_lost(wire, through):
    entry = book_with(through, State.STAGED)
    wire.cut("down", b"COMMIT\0")
    moved = through.move(entry.attempt_id, State.STAGED, [State.APPROVED, State.APPLYING], NOW, approver="ann")
    assert (wire.fired, moved.state) == (1, State.APPLYING)
    assert through.get(entry.attempt_id) == moved
    assert [event.to_state for event in through.events(entry.attempt_id)][2:] == ["approved", "applying"]


def test_nobody_can_say_whether_it_was_committed(wire, through):
    entry = book_with(through, State.STAGED)
    wire.cut("down", b"COMMIT\0", refuse=True)
    with pytest.raises(CannotTry, match="its server cannot be asked whether it was made"):
        through.move(entry.attempt_id, State.STAGED, State.DECLINED, NOW)
    wire.refuse(False)
    assert through.get(entry.attempt_id).state is State.DECLINED


@pytest.mark.parametrize("number", [None, "999999999999"])
def test_a_server_that_knows_nothing_of_a_transaction(url, number):
    """Its status was forgotten long ago, or it is another server, which was promoted too early."""
    store = open_store(url, create=False, timeout=2.0)
    with closing(store), pytest.raises(CannotTry, match="cannot be asked whether it was made"):
        store._find_out(number)


@pytest.mark.parametrize("marker", [b"BEGIN", b"FOR UPDATE", b"INSERT INTO events", b"UPDATE attempts"])
@pytest.mark.parametrize("late", [False, True])
def test_lost_before_the_commit(url, wire, through, marker, late):
    entry = book_with(through, State.STAGED)
    before = dump(url)
    wire.cut("up", marker, late=late)
    failure = failure_of(through.move, entry.attempt_id, State.STAGED, State.APPROVED, NOW)
    assert wire.fired == 1
    if failure is None or dump(url) != before:
        assert late  # what follows was sent in the same breath
    assert through.get(entry.attempt_id).state in (State.STAGED, State.APPROVED)
    assert through.verify().problems == ()


def test_a_connection_that_ends_between_two_acts_is_replaced(url, through):
    entry = book_with(through, State.STAGED)
    with ledgers.stranger(url) as admin:
        for act in (
            lambda: through.record(a_plan(), NOW, body=BODY),
            lambda: through.get(entry.attempt_id),
            lambda: through.note(entry.attempt_id, "alarm", NOW, {}),
        ):
            pid = through.store.connection.info.backend_pid
            admin.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
            select.select([through.store.connection.fileno()], [], [], 5)  # until the end has come through the wire
            act()
            assert through.store.connection.info.backend_pid != pid
    assert len(through.page(10)) == 2


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 40))])
def test_cut_at_any_byte(url, wire, through, seed):
    """The connection breaks after so many bytes, in either direction: each job is there whole, or it was said not."""
    dice = random.Random(seed)
    said: dict[str, State | None] = {}
    for turn in range(25):
        job = f"j{turn}"
        wire.cut_after(dice.choice(("up", "down")), dice.randrange(1, 3000))
        entry = None
        with suppress(CannotTry):
            entry, created = through.record(a_plan(job_id=job), NOW, body=BODY)
            assert created
        said[job] = entry and entry.state
        if entry is not None:
            with suppress(CannotTry):
                moved = through.move(entry.attempt_id, State.STAGED, [State.APPROVED, State.APPLYING], NOW)
                said[job] = moved.state
    assert wire.fired > 10
    wire.cut_after("up", None)
    with Ledger.open(url, create=False) as ledger:
        assert ledger.verify().problems == ()
        found = {entry.job_id: entry.state for entry in ledger.page(100)}
    for job, state in said.items():
        assert state is None or found[job] == state
    assert len(through.page(100)) == len(found)


def test_a_line_that_goes_silent_is_not_waited_for(wire, through):
    """Nothing is closed, nothing comes: each act gives up by itself."""
    entry = book_with(through, State.STAGED)
    through.store.connection.patience = 0.5
    wire.hold()
    start = time.monotonic()
    with pytest.raises(CannotTry, match="cannot be reached"):
        through.note(entry.attempt_id, "alarm", NOW, {})
    assert time.monotonic() - start < 20
    wire.hold(False)
    wire.break_all()
    assert through.get(entry.attempt_id) == entry


def test_a_server_that_hangs_is_not_waited_for():
    """A listener that takes everything and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        start = time.monotonic()
        with pytest.raises(CannotTry, match="cannot be reached"):
            Ledger.open(f"postgresql://root@127.0.0.1:{port}/x?sslmode=disable", create=False, timeout=1.0)
        assert time.monotonic() - start < 10


def test_locked_past_the_timeout(url):
    with Ledger.open(url, create=False, timeout=0.3) as ledger, ledgers.stranger(url) as other:
        entry = book_with(ledger, State.STAGED, job_id="held")
        before = dump(url)
        other.execute("BEGIN")
        other.execute("SELECT 1 FROM attempts FOR UPDATE")
        with pytest.raises(CannotTry, match=r"it stayed locked by another process for 0\.3 s; .*; nothing was changed"):
            ledger.move(entry.attempt_id, State.STAGED, State.APPROVED, NOW)
        assert ledger.get(entry.attempt_id) == entry  # readers need not wait
        assert ledger.verify().ok
        assert ledger.record(a_plan(job_id="held"), NOW, body=BODY) == (entry, False)
        other.execute("ROLLBACK")
        assert dump(url) == before
        ledger.move(entry.attempt_id, State.STAGED, State.APPROVED, NOW)


def test_the_same_job_on_its_way_elsewhere_is_waited_for(url):
    """Two record one job: the second waits for the first to commit, and gets its answer; never an error."""
    answers = []
    with Ledger.open(url, create=False) as first, Ledger.open(url, create=False) as second:
        with ledgers.stranger(url) as holder:
            holder.execute("BEGIN")
            holder.execute("LOCK TABLE bodies IN SHARE MODE")  # the first gets as far as the body
            threads = [
                threading.Thread(
                    target=lambda book=book: answers.append(book.record(a_plan(job_id="j"), NOW, body=BODY))
                )
                for book in (first, second)
            ]
            for thread in threads:
                thread.start()
            while ledgers.waiting(url) < 2:
                pass
            assert answers == []
            holder.execute("ROLLBACK")
            for thread in threads:
                thread.join()
        assert sorted(created for _, created in answers) == [False, True]
        assert answers[0][0] == answers[1][0]
        assert len(first.page(10)) == 1


def test_two_gates_at_one_attempt(url):
    """Each waits for the other's row: no event is lost, and of two moves one finds that it came second."""
    answers: list[Any] = []

    def act(ledger, attempt_id):
        for _ in range(15):
            ledger.note(attempt_id, "alarm", NOW, {}, durable=False)
        try:
            answers.append(ledger.move(attempt_id, State.STAGED, State.APPROVED, NOW).state)
        except Moved as moved:
            answers.append(moved)

    with Ledger.open(url, create=False) as one, Ledger.open(url, create=False) as two:
        entry = book_with(one, State.STAGED)
        threads = [threading.Thread(target=act, args=(ledger, entry.attempt_id)) for ledger in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(type(answer).__name__ for answer in answers) == ["Moved", "State"]
        assert len(one.events(entry.attempt_id)) == 2 + 30 + 1
        assert one.verify().problems == ()


# --- checkpoints


def test_a_checkpoint_waits_for_a_slower_writer(url):
    """An event with a lower number may still be committed: no checkpoint covers it before it is there or never will."""
    with Ledger.open(url, create=False, timeout=0.3) as ledger, Ledger.open(url, create=False) as other:
        slow = book_with(ledger, State.STAGED)
        quick = book_with(ledger, State.STAGED)
        ledger.checkpoint(NOW)
        assert checkpoint_of(ledger) == (1, 4)
        with ledgers.stranger(url) as held:
            held.execute("BEGIN")
            held.execute(
                "INSERT INTO events (attempt, seq, hash, at, event, data) "
                "SELECT n, 3, decode(repeat('00', 32), 'hex'), '', 'slow', '{}' FROM attempts WHERE attempt_id = %s",
                (slow.attempt_id,),
            )  # event 5
            other.move(quick.attempt_id, State.STAGED, State.APPROVED, NOW)  # event 6
            with pytest.raises(CannotTry, match="in the midst of an act"):
                ledger.checkpoint(NOW)
            assert checkpoint_of(ledger) == (1, 4)
            held.execute("ROLLBACK")
        ledger.checkpoint(NOW)
        report = ledger.verify()
        assert (report.problems, checkpoint_of(ledger)) == ((), (2, 6))  # event 5 never was


def test_what_commits_while_a_checkpoint_waits_is_covered(url):
    with Ledger.open(url, create=False) as ledger, Ledger.open(url, create=False) as other:
        entry = book_with(ledger, State.STAGED)
        quick = book_with(ledger, State.STAGED)
        held = other.store.transaction(True)
        held.__enter__()
        row = other._row(entry.attempt_id)
        other._append(row, "2026-11-30T12:00:00.000250Z", "slow", None, None, {}, {})
        other.store.run("UPDATE attempts SET events = ?, head = ? WHERE n = ?", (row.events, row.head, row.n))
        other.store.ask("SELECT 1")  # it is on the server now, and has number 5
        ledger.move(quick.attempt_id, State.STAGED, State.APPROVED, NOW)
        sealing = threading.Thread(target=ledger.checkpoint, args=(NOW,))
        sealing.start()
        sealing.join(0.2)
        assert sealing.is_alive()
        held.__exit__(None, None, None)
        sealing.join(10)
        report = other.verify()
        assert (report.problems, checkpoint_of(ledger)) == ((), (1, 6))


def test_two_checkpoints_at_once_are_one_after_the_other(url):
    with Ledger.open(url, create=False) as one, Ledger.open(url, create=False) as two:
        for _ in range(5):
            book_with(one, State.STAGED)
            threads = [threading.Thread(target=book.checkpoint, args=(NOW,)) for book in (one, two)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        report = one.verify()
        assert (report.problems, report.checkpoints) == ((), 5)
