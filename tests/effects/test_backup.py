"""The copy before the first write: whole, restorable, on the disk under its name, or not there at all."""

import sqlite3
from contextlib import closing

import pytest
from tests.support.faults import as_user, file_size_limit, open_folder
from tests.support.world import MODES, SEED, dump, files, make_database, query

from endmark.core.refusal import CannotTry, Signal
from endmark.effects.sqlite import SqliteTarget
from endmark.effects.target import Failed

COUNT = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3000)"
LARGE = (*SEED, "CREATE TABLE big (x)", f"INSERT INTO big {COUNT} SELECT zeroblob(1500) FROM c")  # more than 512 pages
ENCODED = ("PRAGMA encoding = 'UTF-16'", "PRAGMA page_size = 1024", *SEED, "CREATE VIRTUAL TABLE v USING fts5(x)")


def back_up(path, to, progress=lambda done, total: None, stop=lambda: None):
    with SqliteTarget(path).open() as session:
        session.lock(0)
        session.backup(to, progress, stop)


@pytest.fixture(params=MODES)
def database(request, tmp_path):
    path = tmp_path / "target.db"
    make_database(path, request.param)
    return path


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("statements", [SEED, LARGE, ENCODED, ()], ids=["small", "large", "UTF-16", "empty"])
def test_the_copy_equals_the_target(tmp_path, mode, statements):
    path, to = tmp_path / "target.db", tmp_path / "backups" / "of" / "it.db"
    make_database(path, mode, statements)
    before, bytes_before = dump(path), files(path)
    told = []
    back_up(path, to, lambda *told_now: told.append(told_now))
    assert [at.name for at in to.parent.iterdir()] == ["it.db"]  # complete in one file
    assert dump(to) == before == dump(path)
    assert files(path) == bytes_before
    assert query(to, "PRAGMA integrity_check") == [("ok",)]
    assert told[-1] == (query(path, "PRAGMA page_count")[0][0],) * 2
    assert to.stat().st_mode & 0o777 == 0o600
    assert to.parent.stat().st_mode & 0o777 == 0o700


def test_it_holds_what_is_still_in_the_log(tmp_path):
    """Committed rows may stand in the -wal file alone."""
    path = tmp_path / "target.db"
    make_database(path, "wal")
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("INSERT INTO users VALUES (3, 'eve')")
        assert b"eve" not in path.read_bytes()
        back_up(path, tmp_path / "copy.db")
    assert query(tmp_path / "copy.db", "SELECT name FROM users WHERE id = 3") == [("eve",)]


def test_it_is_made_under_the_lock_that_the_job_will_use(database):
    """What a plan changes after it is not in it, and nobody else can have written between the two."""
    to = database.parent / "copy.db"
    with SqliteTarget(database).open() as session:
        session.lock(0)
        session.backup(to, lambda *_: None, lambda: None)
        with (
            closing(sqlite3.connect(database, timeout=0)) as other,
            pytest.raises(sqlite3.Error, match="locked"),
        ):
            other.execute("INSERT INTO users VALUES (3, 'eve')")
    assert dump(to) == dump(database)


@pytest.mark.parametrize("looks", [1, 2, 3])
@pytest.mark.parametrize("mode", MODES)
def test_stopping_leaves_nothing(tmp_path, mode, looks):
    path, folder = tmp_path / "target.db", tmp_path / "backups"
    make_database(path, mode, LARGE)
    before = files(path)
    asked = []

    def stop():
        asked.append(1)
        return "SIGTERM" if len(asked) >= looks else None

    with pytest.raises(Failed) as caught:
        back_up(path, folder / "it.db", stop=stop)
    assert caught.value.signal is Signal.INTERRUPTED
    assert list(folder.iterdir()) == []
    assert files(path) == before


def test_an_exception_leaves_nothing_and_goes_on_up(database):
    folder = database.parent / "backups"

    def progress(_done, _total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        back_up(database, folder / "it.db", progress)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("taken", ["it.db", "it.db.part"])
def test_a_file_that_is_there_stays_as_it_is(database, taken):
    folder = database.parent / "backups"
    folder.mkdir()
    (folder / taken).write_bytes(b"somebody's")
    with pytest.raises(CannotTry, match="exist"):
        back_up(database, folder / "it.db")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {taken: b"somebody's"}


def test_a_folder_that_cannot_be_made_or_written_is_no_backup(database):
    (database.parent / "file").write_bytes(b"")
    before = files(database)
    for to in (database.parent / "file" / "it.db", database.parent / ("x" * 300) / "it.db"):
        with pytest.raises(CannotTry, match="no backup could be made"):
            back_up(database, to)
    assert files(database) == before


@pytest.mark.parametrize("mode", MODES)
def test_a_folder_that_is_read_only_is_no_backup(mode):
    with open_folder() as folder:
        make_database(folder / "target.db", mode)
        (folder / "target.db").chmod(0o666)
        (folder / "backups").mkdir(mode=0o555)
        before = files(folder / "target.db")
        with as_user(), pytest.raises(CannotTry, match="no backup could be made"):
            back_up(folder / "target.db", folder / "backups" / "it.db")
        assert list((folder / "backups").iterdir()) == []
        assert files(folder / "target.db") == before


@pytest.mark.parametrize("mode", MODES)
def test_a_full_disk_leaves_nothing(tmp_path, mode):
    path, folder = tmp_path / "target.db", tmp_path / "backups"
    make_database(path, mode, LARGE)
    before = files(path)
    with file_size_limit(1_000_000), pytest.raises(CannotTry, match="no backup could be made"):
        back_up(path, folder / "it.db")
    assert list(folder.iterdir()) == []
    assert files(path) == before


def test_a_copy_with_another_schema_is_no_backup(database, monkeypatch):
    from endmark.effects.sqlite import backup

    monkeypatch.setattr(backup, "fingerprint", lambda _conn: "0" * 64)
    with pytest.raises(CannotTry, match="schema is not the target's"):
        back_up(database, database.parent / "backups" / "it.db")
    assert list((database.parent / "backups").iterdir()) == []
