"""Group commit: what comes together is committed together, one bad act spoils no other, and nobody hears too early."""

import threading
import time
from concurrent.futures import Future

import pytest
from tests.ledger.plans import AT, BODY, NOW, a_plan, a_refusal

from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.ledger.batch import Writer
from endmark.ledger.book import Ledger
from endmark.ledger.chain import EVERY


def clock():
    return NOW


@pytest.fixture
def book(path):
    with Ledger.open(path, create=True) as ledger:
        yield ledger


@pytest.fixture
def other(book, path):
    with Ledger.open(path, create=False) as ledger:
        yield ledger


def stage(job_id):
    return lambda ledger: ledger.record(a_plan(job_id=job_id), NOW, body=BODY)


def nonsense(ledger):
    with ledger.transaction(AT, True) as store:
        store.run("UPDATE attempts SET state = 'applied'")
        store.run("nonsense")


def decline_a(ledger):
    return ledger.move(ledger.by_job("a").attempt_id, State.STAGED, State.DECLINED, NOW)


def held(writer):
    """Hold the writer up, so that what is posted meanwhile comes into one batch; call what this returns to go on."""
    began, go = threading.Event(), threading.Event()

    def wait(_ledger):
        began.set()
        go.wait(20)

    writer.submit(wait)
    assert began.wait(20)
    return go.set


def test_nothing_is_seen_before_the_commit(book, other):
    with book.batch(clock):
        entry, created = stage("a")(book)
        assert created
        assert book.get(entry.attempt_id) == entry
        assert other.page(10) == []
    assert other.page(10) == [entry]
    assert other.verify().problems == ()


def test_one_bad_act_spoils_no_other(book, other):
    writer = Writer(book, clock)
    go = held(writer)
    posted = [
        writer.submit(stage("a")),
        writer.submit(lambda ledger: ledger.move("att_none", State.STAGED, State.DECLINED, NOW)),
        writer.submit(nonsense),
        writer.submit(stage("a")),
        writer.submit(lambda ledger: ledger.record(a_refusal(job_id="c"), NOW, body=None)),
        writer.submit(decline_a),
    ]
    go()
    first = posted[0].result(20)
    assert first[1] is True
    assert isinstance(posted[1].exception(20), KeyError)
    assert posted[2].exception(20) is not None
    assert posted[3].result(20)[1] is False
    assert posted[4].result(20)[1] is True
    assert posted[5].result(20).state is State.DECLINED
    writer.close()
    assert [entry.state for entry in other.page(10)] == [State.TRUNCATED, State.DECLINED]
    assert other.verify().problems == ()


def test_a_commit_that_was_not_made_is_told_to_all(book, other, monkeypatch):
    writer = Writer(book, clock)
    go = held(writer)
    kept = writer.submit(stage("a"))
    lost = writer.submit(lambda ledger: _break(ledger))
    go()
    for promise in (kept, lost):
        with pytest.raises(CannotTry):
            promise.result(20)
    assert other.page(10) == []
    again = writer.submit(stage("b"))
    if isinstance(again.exception(20), CannotTry):  # the connection was lost, and is opened anew for the next one
        again = writer.submit(stage("b"))
    assert again.result(20)[1] is True
    writer.close()
    assert [entry.job_id for entry in other.page(10)] == ["b"]


def _break(ledger):
    """What a full disk does to SQLite, and a lost connection to PostgreSQL: all of the batch is gone."""
    connection = ledger.store.connection
    if hasattr(connection, "in_transaction"):
        connection.execute("ROLLBACK")
    else:
        connection.close()
    return stage("c")(ledger)


def test_many_threads_and_every_one_hears_of_its_own(book, other):
    writer = Writer(book, clock, most=16)
    heard = {}

    def deliver(start):
        for number in range(start, start + 25):
            heard[number] = writer.submit(stage(f"job-{number}")).result(30)[0]
            assert other.by_job(f"job-{number}") is not None

    threads = [threading.Thread(target=deliver, args=(start,)) for start in range(0, 100, 25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert len({entry.attempt_id for entry in heard.values()}) == 100
    report = other.verify()
    assert (report.problems, report.attempts, report.events) == ((), 100, 200)


def test_a_checkpoint_is_made_after_a_batch_that_passes_its_mark(book, other):
    with book.batch(clock):
        for number in range(EVERY // 2 + 1):
            stage(f"job-{number}")(book)
    report = other.verify()
    assert (report.problems, report.checkpoints) == ((), 1)


def test_after_its_end_nothing_is_taken(book):
    writer = Writer(book, clock)
    last = writer.submit(stage("a"))
    writer.close()
    writer.close()
    assert last.result(0)[1] is True
    with pytest.raises(CannotTry, match="is ending"):
        writer.submit(stage("b"))


class Kept(Future):
    """A promise, and in which thread it was kept."""

    def set_result(self, result):
        self.thread = threading.current_thread()
        super().set_result(result)


@pytest.fixture
def file(tmp_path):
    with Ledger.open(tmp_path / "alone.db", create=True) as ledger:
        yield ledger


@pytest.fixture
def second(file):
    with Ledger.open(file.place, create=False) as ledger:
        yield ledger


def test_who_comes_alone_writes_in_their_own_thread(file, second):
    told = []
    writer = Writer(file, clock, quick=60, committed=lambda acts, made: told.append((acts, made)))
    promise = Kept()
    assert writer.alone(stage("a"), promise)
    assert promise.result(0)[1] is True
    assert promise.thread is threading.current_thread()
    assert second.by_job("a") is not None
    broken = Kept()
    assert writer.alone(nonsense, broken)
    assert isinstance(broken.exception(0), CannotTry)
    lost = Kept()
    assert writer.alone(_break, lost)
    assert isinstance(lost.exception(0), CannotTry)
    assert told == [(1, True), (1, True), (1, False)]
    writer.close()
    assert not writer.alone(stage("b"), Kept())
    assert [entry.job_id for entry in second.page(10)] == ["a"]
    assert second.verify().problems == ()


def test_nobody_who_is_alone_waits(file, second):
    """Neither for the writer's thread nor for another process: nothing is done then, and it can be posted."""
    writer = Writer(file, clock, quick=60)
    go = held(writer)
    assert not writer.alone(stage("a"), Kept())
    posted = writer.submit(stage("b"))
    go()
    assert posted.result(20)[1] is True
    with second.transaction(AT, True):
        began = time.monotonic()
        assert not writer.alone(stage("a"), Kept())
        assert time.monotonic() - began < 5  # the ledger's own patience is ten seconds
        waiting = writer.submit(stage("c"))
        assert not waiting.done()
    assert waiting.result(20)[1] is True  # the thread waits as ever
    assert writer.alone(stage("a"), Kept())
    writer.close()
    assert [entry.job_id for entry in second.page(10)] == ["a", "c", "b"]


def test_after_a_slow_commit_of_their_own_everybody_posts_for_a_while(file):
    writer = Writer(file, clock)
    assert writer.alone(lambda _ledger: time.sleep(0.2), Kept())
    assert not writer.alone(stage("a"), Kept())
    assert writer.submit(stage("a")).result(20)[1] is True
    end = time.monotonic() + 20
    while not writer.alone(stage("b"), Kept()):
        assert time.monotonic() < end
        time.sleep(0.05)
    writer.close()


def test_a_ledger_on_another_machine_is_written_by_the_thread(book):
    writer = Writer(book, clock)
    assert writer.alone(stage("a"), Kept()) is book.store.quick
    writer.close()
