"""A statement that would run for ever, or grow for ever, is stopped; so is any statement when somebody asks."""

import os
import threading
import time

import pytest
from tests.support.world import FOREVER, MODES, dump, files, make_database, query, run

from endmark.core.refusal import Signal
from endmark.effects.target import Failed

TEN = "(SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5)"
HUGE_JOIN = f"CREATE TABLE x AS SELECT 1 FROM {', '.join([TEN] * 16)}"
BOMBS = {
    "a huge join into a table": HUGE_JOIN,
    "a recursive query": FOREVER,
    "a recursive query into a table": f"CREATE TABLE x AS {FOREVER}",
    "a recursive query that returns rows": FOREVER.replace("count(*)", "n"),
    "a recursive query in an update": f"UPDATE users SET name = ({FOREVER})",
    "a recursive query in an upsert": f"INSERT INTO users (name) {FOREVER} WHERE 1 ON CONFLICT DO NOTHING",
    "random blobs into a table": FOREVER.replace("SELECT count(*)", "INSERT INTO users (name) SELECT randomblob(10)"),
    "one long text": FOREVER.replace("count(*)", "length(group_concat(n))"),
    "a sort of everything": FOREVER.replace("count(*)", "n") + " ORDER BY n DESC",
    "a check of an index": f"CREATE TABLE x AS SELECT n FROM ({FOREVER.replace('count(*)', 'n')}) WHERE n < 0",
}


@pytest.fixture(params=MODES)
def database(request, tmp_path):
    path = tmp_path / "target.db"
    make_database(path, request.param)
    return path


def fail(path, statements, **more):
    """Run what must fail, and compare the world. Returns the failure and the seconds it took."""
    before, bytes_before = dump(path), files(path)
    started = time.monotonic()
    with pytest.raises(Failed) as caught:
        run(path, statements, **more)
    took = time.monotonic() - started
    assert (dump(path), files(path)) == (before, bytes_before)
    return caught.value, took


@pytest.mark.parametrize("statement", BOMBS.values(), ids=BOMBS)
def test_a_statement_is_stopped_at_its_time(database, statement):
    failed, took = fail(database, ["CREATE TABLE good (x)", statement, "CREATE TABLE after (x)"], timeout=0.05)
    assert (failed.signal, failed.statement) == (Signal.STATEMENT_TIMEOUT, 2)
    assert failed.detail == "statement 2 ran longer than 0.05 s"
    assert took < 2


def test_few_large_rows_are_stopped_at_their_time(database):
    """The machine's steps are few here, so it is no count of them that ends it."""
    many = " UNION ALL ".join(["SELECT 1"] * 400)
    large = f"CREATE TABLE x AS SELECT zeroblob(4000000) FROM ({many})"
    failed, took = fail(database, [large], timeout=0.2)
    assert failed.signal is Signal.STATEMENT_TIMEOUT
    assert took < 2


def test_one_function_that_takes_too_long_is_found_out_afterwards(database):
    """SQLite looks at the clock between steps, and one call is one step: it cannot be cut short, but it is not kept."""
    slow = "INSERT INTO users (name) SELECT instr(zeroblob(200000), zeroblob(100000) || x'01')"
    failed, took = fail(database, [slow, "CREATE TABLE after (x)"], timeout=0.02)
    assert (failed.signal, failed.statement) == (Signal.STATEMENT_TIMEOUT, 1)
    assert took > 0.02


def test_the_time_is_that_of_one_statement(database):
    """Many short statements may together take longer than one may."""
    a_while = FOREVER.replace("FROM c)", "FROM c WHERE n < 20000)")
    started = time.monotonic()
    run(database, [a_while])
    once = time.monotonic() - started
    assert run(database, [a_while] * 20, "j2", timeout=max(10 * once, 0.5)).rows_changed == (0,) * 20


def test_a_temporary_file_of_a_stopped_sort_is_gone(database, tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("SQLITE_TMPDIR", str(folder))
    fail(database, [FOREVER.replace("count(*)", "randomblob(500) AS b") + " ORDER BY b"], timeout=0.1)
    assert list(folder.iterdir()) == []


# --- somebody asks to stop


@pytest.mark.parametrize("at", range(1, 6))
def test_stopping_after_any_statement_undoes_all(database, at):
    done: list[int] = []
    statements = [f"CREATE TABLE t{n} (x)" for n in range(5)]

    def stop():
        return "SIGTERM" if len(done) >= at - 1 else None

    failed, _ = fail(database, statements, progress=lambda n, _total: done.append(n), stop=stop)
    assert (failed.signal, failed.statement, failed.statements_run) == (Signal.INTERRUPTED, at, at - 1)
    assert failed.detail == f"SIGTERM after statement {at}"
    run(database, statements)


def test_stopping_in_a_long_statement_undoes_all(database):
    """The first look within the statement, and looks much later, find the wish."""
    for looks in (1, 2, 50):
        asked: list[int] = []

        def stop(asked=asked, looks=looks):
            asked.append(1)
            return "SIGINT" if len(asked) > looks else None

        failed, took = fail(database, ["CREATE TABLE good (x)", FOREVER], stop=stop, timeout=60)
        assert (failed.signal, failed.statement) == (Signal.INTERRUPTED, 2)
        assert failed.detail == "SIGINT during statement 2"
        assert took < 10


def test_stopping_from_another_thread(database):
    flag, entered = threading.Event(), threading.Event()

    def stop():
        entered.set()
        return "SIGTERM" if flag.is_set() else None

    def ask():
        entered.wait(30)
        flag.set()

    asker = threading.Thread(target=ask)
    asker.start()
    failed, _ = fail(database, [FOREVER], stop=stop, timeout=60)
    asker.join()
    assert failed.signal is Signal.INTERRUPTED


def test_stopping_in_the_checks_undoes_all(tmp_path):
    """The check of a large table's foreign keys is long work, too, before the plan and after it."""
    path = tmp_path / "target.db"
    count = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000)"
    parent = ("CREATE TABLE parent (id INTEGER PRIMARY KEY)", "INSERT INTO parent VALUES (1)")
    child = ("CREATE TABLE child (p REFERENCES parent (id))", f"INSERT INTO child {count} SELECT 1 FROM c")
    make_database(path, "rollback", (*parent, *child))
    failed, _ = fail(path, ["CREATE TABLE a (x)"], stop=lambda: "SIGTERM")
    assert (failed.signal, failed.detail) == (Signal.INTERRUPTED, "SIGTERM during the checks before it")
    done: list[int] = []
    late = {"progress": lambda n, _total: done.append(n), "stop": lambda: "SIGTERM" if done else None}
    failed, _ = fail(path, ["CREATE TABLE a (x)"], **late)
    assert (failed.signal, failed.detail) == (Signal.INTERRUPTED, "SIGTERM during the final checks")
    failed, _ = fail(path, ["CREATE TABLE a (x)"], timeout=0)
    assert (failed.signal, failed.detail) == (Signal.STATEMENT_TIMEOUT, "the checks before it ran longer than 0 s")


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, MemoryError, ZeroDivisionError])
def test_whatever_progress_raises_undoes_all_and_goes_on_up(database, raised):
    def progress(done, _total):
        if done == 2:
            raise raised

    before, bytes_before = dump(database), files(database)
    with pytest.raises(Failed if raised is MemoryError else raised):
        run(database, ["CREATE TABLE a (x)", "CREATE TABLE b (x)", "CREATE TABLE c (x)"], progress=progress)
    assert (dump(database), files(database)) == (before, bytes_before)


@pytest.mark.parametrize("raised", [KeyboardInterrupt, ZeroDivisionError])
def test_an_exception_inside_a_long_statement_ends_it_as_an_interruption(database, raised):
    """SQLite calls us there; what is raised cannot pass through it. It ends the statement instead."""
    asked = []

    def stop():
        if threading.current_thread() is threading.main_thread():  # the watch asks, too
            asked.append(1)
        if len(asked) > 1:
            raise raised

    failed, _ = fail(database, ["CREATE TABLE good (x)", FOREVER], stop=stop, timeout=60)
    assert (failed.signal, failed.detail) == (Signal.INTERRUPTED, "interrupted during statement 2")


@pytest.mark.soak
def test_a_bomb_stops_at_one_second_whatever_it_writes(database):
    for statement in BOMBS.values():
        failed, took = fail(database, [statement], timeout=1)
        assert failed.signal is Signal.STATEMENT_TIMEOUT
        assert took < 10
        assert sum(os.stat(path).st_size for path in database.parent.iterdir()) < 1_000_000
    assert query(database, "PRAGMA integrity_check") == [("ok",)]
