"""The file itself: which paths name a target, what stands in its way, and that nothing of ours is left behind."""

import gc
import os
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.faults import as_user, file_size_limit, locked, open_folder
from tests.support.world import MODES, SEED, dump, files, make_database, query, run, work

from endmark.core.refusal import CannotTry, Signal
from endmark.effects.sqlite import SqliteTarget, rehearsal, target
from endmark.effects.target import Failed

COUNT = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 4000)"
GROW = ["CREATE TABLE big (x)", f"INSERT INTO big {COUNT} SELECT randomblob(1000) FROM c"]


@pytest.fixture(params=MODES)
def database(request, tmp_path):
    path = tmp_path / "target.db"
    make_database(path, request.param)
    return path


# --- what is no target


def no_target(folder):
    yield folder / "missing.db", "does not exist"
    yield folder / "no" / "folder.db", "does not exist"
    yield folder, "is not a file"
    yield Path("/dev/null"), "is not a file"
    yield folder / ("x" * 300), "cannot be reached"
    (folder / "text").write_text("some words that are no database at all\n" * 100)
    yield folder / "text", "is not a SQLite database"
    yield folder / "text" / "below.db", "cannot be reached"
    (folder / "random").write_bytes(bytes(range(256)) * 40)
    yield folder / "random", "is not a SQLite database"
    make_database(folder / "cut.db", "rollback", (*SEED, "CREATE TABLE more (x)"))
    os.truncate(folder / "cut.db", 5_000)
    yield folder / "cut.db", "is corrupt"
    os.mkfifo(folder / "pipe")
    yield folder / "pipe", "is not a file"


def test_what_is_no_database_file_is_no_target(tmp_path):
    tried = 0
    for path, part in no_target(tmp_path):
        before = {at.name: at.read_bytes() for at in tmp_path.iterdir() if at.is_file()}
        with pytest.raises(CannotTry, match=part) as caught:
            run(path, ["CREATE TABLE a (x)"])
        assert "Nothing was written" in caught.value.detail
        assert {at.name: at.read_bytes() for at in tmp_path.iterdir() if at.is_file()} == before
        tried += 1
    assert tried == 10


def test_what_is_no_path_is_no_target(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (Path("a\0b.db"), tmp_path / "\udcff.db", tmp_path / "loop"):
        with pytest.raises(CannotTry, match="Nothing was written"), SqliteTarget(path).open():
            pass


@pytest.mark.parametrize("name", ["a b.db", "q?mode=memory.db", "h#x.db", "50%25.db", "ž🂡.db", "-.db", "a;b'c.db"])
def test_any_name_of_a_file_is_taken_as_it_is(tmp_path, name):
    path = tmp_path / name
    make_database(path)
    run(path, ["CREATE TABLE a (x)"])
    assert query(path, "SELECT status FROM schema_jobs") == [("applied",)]
    assert [at.name for at in tmp_path.iterdir()] == [name]


def test_an_empty_file_is_an_empty_database(tmp_path):
    path = tmp_path / "empty.db"
    path.touch()
    run(path, ["CREATE TABLE a (x)"])
    assert query(path, "SELECT status FROM schema_jobs") == [("applied",)]


def test_one_file_has_one_identity(tmp_path, monkeypatch):
    path = tmp_path / "target.db"
    make_database(path)
    (tmp_path / "link.db").symlink_to(path)
    (tmp_path / "hard.db").hardlink_to(path)
    monkeypatch.chdir(tmp_path)
    target = SqliteTarget(path)
    assert target.identity == f"sqlite:///{path.resolve()}"
    for other in (Path("target.db"), tmp_path / "link.db", tmp_path / ".." / tmp_path.name / "target.db"):
        assert SqliteTarget(other).identity == target.identity
    assert all(target.is_file(tmp_path / name) for name in ("target.db", "link.db", "hard.db"))
    assert not target.is_file(tmp_path / "other.db")
    assert SqliteTarget(tmp_path / "not-yet.db").is_file(tmp_path / "not-yet.db")


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_what_sqlite_keeps_beside_a_database_is_no_target(tmp_path, suffix):
    path, beside = tmp_path / "app.db", tmp_path / f"app.db{suffix}"
    for each in (beside, path):
        make_database(each)
    assert SqliteTarget(path).is_file(beside)
    assert SqliteTarget(beside).is_file(path)
    with pytest.raises(CannotTry, match="belongs to the database beside it"):
        run(beside, ["CREATE TABLE a (x)"])
    path.unlink()
    run(beside, ["CREATE TABLE a (x)"])


def test_a_file_with_two_names_is_no_target(tmp_path):
    path, link = tmp_path / "target.db", tmp_path / "hard.db"
    make_database(path)
    link.hardlink_to(path)
    before = files(path)
    for name in (path, link):
        with pytest.raises(CannotTry, match="2 names"):
            run(name, ["CREATE TABLE a (x)"])
    assert files(path) == before
    link.unlink()
    run(path, ["CREATE TABLE a (x)"])


@pytest.mark.parametrize("then", ["another file", "no file"])
def test_a_file_that_is_replaced_under_the_job_fails_it(database, then):
    """What would be committed then stands in a file that nobody will look at."""
    aside, before = database.with_name("aside"), dump(database)
    with SqliteTarget(database).open() as session:
        session.lock(0)
        session.run(work(["CREATE TABLE a (x)"]), 5, lambda *_: None, lambda: None)
        database.rename(aside)
        if then == "another file":
            make_database(database)
        with pytest.raises(Failed, match="another file stands"):
            session.commit()
    assert dump(aside) == before
    assert then == "no file" or dump(database) == before


# --- locks


def test_a_locked_target_is_waited_for_and_then_given_up(database):
    for how in ("IMMEDIATE", "EXCLUSIVE"):
        with locked(database, how), SqliteTarget(database).open() as session:
            started = time.monotonic()
            with pytest.raises(CannotTry, match="locked by another process"):
                session.lock(0.2)
            assert 0.1 < time.monotonic() - started < 5
    run(database, ["CREATE TABLE a (x)"])


@pytest.mark.parametrize("how", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_lock_that_is_given_up_in_time_is_ours(database, how):
    """Also when it kept readers out while the session was opened, as every commit does for a moment."""
    with locked(database, how) as holder:
        release = threading.Timer(0.2, holder.execute, ["ROLLBACK"])
        release.start()
        with SqliteTarget(database).open() as session:
            session.lock(30)
            session.run(work(["CREATE TABLE a (x)"]), 5, lambda *_: None, lambda: None)
            session.commit()
        release.join()
    assert query(database, "SELECT status FROM schema_jobs") == [("applied",)]


def test_a_look_without_the_lock_waits_for_a_commit(tmp_path):
    path = tmp_path / "target.db"
    make_database(path)
    with locked(path, "EXCLUSIVE") as holder:
        release = threading.Timer(0.2, holder.execute, ["ROLLBACK"])
        release.start()
        with SqliteTarget(path).open() as session:
            assert session.receipt("j1") is None
        release.join()


def test_a_second_writer_is_kept_out_until_the_end(database):
    with SqliteTarget(database).open() as session:
        session.lock(0)
        session.run(work(["CREATE TABLE a (x)"]), 5, lambda *_: None, lambda: None)
        with SqliteTarget(database).open() as other, pytest.raises(CannotTry, match="locked"):
            other.lock(0)
        assert "CREATE TABLE a" not in "".join(dump(database))  # a reader sees nothing of it yet
        session.commit()
    assert "table a a CREATE TABLE a (x)" in dump(database)


def test_leaving_without_a_commit_undoes_all(database):
    before, bytes_before = dump(database), files(database)
    with SqliteTarget(database).open() as session:
        session.lock(0)
        session.run(work(["CREATE TABLE a (x)", "DELETE FROM users"]), 5, lambda *_: None, lambda: None)
    assert (dump(database), files(database)) == (before, bytes_before)


def test_a_reader_that_does_not_let_go_fails_the_commit_whole(tmp_path):
    path = tmp_path / "target.db"
    make_database(path)
    before = files(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM users").fetchall()
        with pytest.raises(Failed, match="the commit did not go through") as caught:
            run(path, ["CREATE TABLE a (x)"])
        assert caught.value.signal is Signal.TARGET_FAULT
    assert files(path) == before


# --- the disk


@pytest.mark.parametrize("mode", MODES)
def test_a_read_only_target_is_refused(mode):
    with open_folder() as folder:
        path = folder / "target.db"
        make_database(path, mode)
        path.chmod(0o444)
        folder.chmod(0o555)
        before = files(path)
        with as_user(), pytest.raises(CannotTry, match="cannot be written"):
            run(path, ["CREATE TABLE a (x)"])
        assert files(path) == before


@pytest.mark.parametrize("mode", MODES)
def test_a_folder_where_no_journal_can_be_made_is_refused(mode):
    with open_folder() as folder:
        path = folder / "target.db"
        make_database(path, mode)
        path.chmod(0o666)
        folder.chmod(0o555)
        before = files(path)
        with as_user(), pytest.raises(CannotTry, match="cannot be written"):
            run(path, ["CREATE TABLE a (x)"])
        assert files(path) == before


@pytest.mark.parametrize("mode", MODES)
def test_there_is_no_lock_on_what_may_only_be_read(mode):
    """Else reconciling would look for a receipt while somebody who may write is about to commit it."""
    with open_folder() as folder:
        path = folder / "target.db"
        make_database(path, mode)
        path.chmod(0o644)
        with as_user(), SqliteTarget(path).open() as session, pytest.raises(CannotTry, match="cannot be"):
            session.lock(0)


def test_a_full_database_is_the_targets_fault(database):
    before, bytes_before = dump(database), files(database)
    with SqliteTarget(database).open() as session:
        session.lock(0)
        session._conn.execute("PRAGMA max_page_count = 20")
        with pytest.raises(Failed, match="full") as caught:
            session.run(work(GROW), 5, lambda *_: None, lambda: None)
        assert (caught.value.signal, caught.value.statement) == (Signal.TARGET_FAULT, 2)
    assert (dump(database), files(database)) == (before, bytes_before)


@pytest.mark.parametrize("size", [0, 4_096, 8_192, 20_000, 100_000, 1_000_000, 3_000_000])
def test_an_error_of_the_disk_at_any_point_undoes_all(database, size):
    """The limit strikes at the journal, at a page written early, in the commit itself, or in the log."""
    before = dump(database)
    with file_size_limit(size), pytest.raises((Failed, CannotTry)) as caught:
        run(database, GROW)
    if isinstance(caught.value, Failed):
        assert caught.value.signal is Signal.TARGET_FAULT
    assert dump(database) == before
    assert query(database, "PRAGMA integrity_check") == [("ok",)]
    run(database, GROW)


def test_a_damaged_page_is_the_targets_fault(tmp_path):
    path = tmp_path / "target.db"
    make_database(path, "rollback", (*SEED, *GROW))
    raw = bytearray(path.read_bytes())
    raw[4096 * 100 : 4096 * 200] = b"\xa5" * 4096 * 100
    path.write_bytes(raw)
    with pytest.raises(Failed, match="malformed") as caught:
        run(path, ["CREATE TABLE a (x)", "UPDATE big SET x = 1"])
    assert (caught.value.signal, caught.value.statement) == (Signal.TARGET_FAULT, 2)
    assert path.read_bytes() == bytes(raw)


# --- what is left behind


def test_no_file_stays_open(database):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("this system does not list what is open")
    gc.collect()
    before = descriptors()
    failures = []  # kept, with all they hold on to
    for n in range(5):
        run(database, [f"CREATE TABLE t{n} (x)"], f"j{n}")
        with pytest.raises(Failed) as caught:
            run(database, ["INSERT INTO users SELECT id, name FROM users"], f"k{n}")
        failures.append(caught.value)
        with locked(database), pytest.raises(CannotTry):
            run(database, ["CREATE TABLE x (y)"], f"l{n}")
    assert descriptors() == before


# --- what one check alone sees


def limits(conn):
    """What a connection allows a plan."""
    settings = [conn.execute(f"PRAGMA {name}").fetchone()[0] for name in ("foreign_keys", "trusted_schema")]
    return [conn.getlimit(kind) for kind in (sqlite3.SQLITE_LIMIT_ATTACHED, sqlite3.SQLITE_LIMIT_LENGTH)] + settings


def test_a_target_and_its_copy_are_limited_alike(tmp_path, monkeypatch):
    make_database(tmp_path / "target.db")
    seen, real = [], rehearsal.run

    def looked_at(copy, *more):
        seen.append(limits(copy.conn))
        return real(copy, *more)

    monkeypatch.setattr(rehearsal, "run", looked_at)
    with SqliteTarget(tmp_path / "target.db").open() as session:
        seen.append(limits(session.connection))
        session.rehearse(work(["SELECT 1"]), 5, lambda: None)
    assert seen == [[0, 64 * 1024 * 1024, 0, 0]] * 2


def test_of_many_statements_the_last_is_told(tmp_path):
    make_database(tmp_path / "target.db")
    told = []
    run(tmp_path / "target.db", ["SELECT 1"] * 1_001, progress=lambda done, total: told.append((done, total)))
    assert told[-2:] == [(960, 1_001), (1_001, 1_001)]


def test_a_job_may_retry_one_that_has_no_receipt(tmp_path):
    make_database(tmp_path / "target.db")
    assert run(tmp_path / "target.db", ["SELECT 1"], retry_of="j0").rows_changed == (0,)


def test_a_plans_own_words_are_no_verdict_on_its_form(tmp_path):
    make_database(tmp_path / "target.db")
    trap = "CREATE TRIGGER t BEFORE INSERT ON users BEGIN SELECT RAISE(ABORT, 'one statement'); END"
    with pytest.raises(Failed) as caught:
        run(tmp_path / "target.db", [trap, "INSERT INTO users (name) VALUES ('eve')"])
    assert caught.value.signal is Signal.SQL_ERROR


class Failing(sqlite3.Connection):
    """A connection whose foreign keys cannot be checked, for each reason in its turn."""

    def __init__(self, *codes):
        super().__init__(":memory:")
        super().execute("CREATE TABLE users (id INTEGER PRIMARY KEY)")
        self.faults = list(codes)

    def execute(self, sql, *values):
        if "foreign_key_check" not in sql or not self.faults:
            return super().execute(sql, *values)
        fault = sqlite3.OperationalError("it failed")
        fault.sqlite_errorcode = self.faults.pop(0)
        raise fault


def test_only_a_key_that_cannot_be_checked_counts_as_broken():
    """Everything else that fails ends the job: what was not looked at is not called whole."""
    with closing(Failing(sqlite3.SQLITE_ERROR)) as conn:
        assert target._broken_keys(conn) == {}
    with closing(Failing(sqlite3.SQLITE_ERROR, sqlite3.SQLITE_ERROR)) as conn:
        assert len(target._broken_keys(conn)) == 1
    for codes in ([sqlite3.SQLITE_IOERR], [sqlite3.SQLITE_ERROR, sqlite3.SQLITE_IOERR]):
        with closing(Failing(*codes)) as conn, pytest.raises(sqlite3.OperationalError):
            target._broken_keys(conn)


def test_only_a_lock_is_waited_for_later():
    with closing(Failing(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR)) as conn:
        with target._unless_locked():
            conn.execute("PRAGMA foreign_key_check")
        with pytest.raises(sqlite3.OperationalError), target._unless_locked():
            conn.execute("PRAGMA foreign_key_check")
