"""Opening: a ledger, or one clear sentence and a file nobody touched."""

import os
import resource
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from tests.ledger.plans import NOW, a_plan, book_with, dump, open_book, raw

from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.ledger import file, schema
from endmark.ledger.book import Ledger

NEWEST = schema.MIGRATIONS[-1][0]


def files(folder):
    """Every file below, with its bytes; of shared memory, where connections leave their locks, only the name."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {path: None if path.name.endswith("-shm") else path.read_bytes() for path in found}


def refusal(path, create=True, **options):
    """The sentence, after looking that nothing was changed."""
    before = files(path.parent) if path.parent.is_dir() else {}
    with pytest.raises(CannotTry) as caught:
        Ledger.open(path, create=create, **options)
    assert (files(path.parent) if path.parent.is_dir() else {}) == before
    detail = caught.value.detail
    assert detail.startswith(f"ledger {path}: ")
    assert "expected" in detail
    assert "nothing was changed" in detail
    assert "\n" not in detail
    return detail


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


def identity(path):
    with closing(raw(path)) as connection:
        return tuple(
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version", "journal_mode")
        )


# --- what opens


def test_a_new_one(path):
    with open_book(path) as ledger:
        assert ledger.store.connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert ledger.store.connection.isolation_level is None
        assert ledger.verify().ok
    assert identity(path) == (int.from_bytes(b"endm", "big"), NEWEST, "wal")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["ledger.db"]


def test_an_existing_one(path):
    with open_book(path) as ledger:
        entry = book_with(ledger, State.STAGED)
    for create in (False, True):
        with Ledger.open(path, create=create) as ledger:
            assert ledger.get(entry.attempt_id) == entry


@pytest.mark.parametrize(
    "name", ["a b.db", "50%.db", "what?.db", "#1.db", "é.db", "mode=ro&x", os.fsdecode(b"\xff.db")]
)
def test_any_name(tmp_path, name):
    with open_book(tmp_path / name) as ledger:
        book_with(ledger, State.STAGED)
        assert ledger.verify().ok
    assert os.listdir(tmp_path) == [name]


def test_a_relative_path_stays_the_same_file(path, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(path.parent)
    with open_book(Path("ledger.db")) as ledger:
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
        assert ledger.verify().ok


def test_a_link_to_one(path, tmp_path):
    open_book(path).close()
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with Ledger.open(link, create=False) as ledger:
        book_with(ledger, State.STAGED)


@pytest.mark.parametrize("create", [False, True])
def test_an_empty_file_is_no_new_one(path, create):
    """A ledger that lost its bytes must not begin anew under the same name."""
    path.touch()
    assert "it is empty" in refusal(path, create=create)


@pytest.mark.parametrize("create", [False, True])
def test_an_empty_database_is_no_new_one(path, create):
    with closing(raw(path)) as connection:
        connection.execute("VACUUM")
    assert path.stat().st_size == 4096
    assert "it is an empty database" in refusal(path, create=create)


@pytest.mark.parametrize("lost", [1, 512, 4095])
def test_a_torn_last_page(path, lost):
    with open_book(path) as ledger:
        book_with(ledger, State.STAGED)
    whole = path.read_bytes()
    path.write_bytes(whole[:-lost])
    assert "torn" in refusal(path)


def test_a_new_one_gets_its_name_when_it_is_whole(path, monkeypatch):
    def killed(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", killed)
    with pytest.raises(KeyboardInterrupt):
        open_book(path)
    assert list(path.parent.iterdir()) == []


def test_two_in_one_process(path):
    """Closing the second must not take the locks of the first: SQLite would think the file is nobody's."""
    with open_book(path) as first:
        open_book(path).close()
        entry = book_with(first, State.STAGED)
        script = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(c.execute('SELECT count(*) FROM attempts')"
            ".fetchone()[0]); c.close()"
        )
        found = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
        assert found.stdout == "1\n"
        assert path.with_name("ledger.db-wal").exists()
        assert first.get(entry.attempt_id) == entry


def test_opened_while_it_is_checkpointed(path, tmp_path_factory):
    """The first page already speaks of pages that do not stand in the file yet, only in the WAL."""
    with open_book(path) as ledger:
        few = path.read_bytes()
        for _ in range(50):
            book_with(ledger, State.APPLIED)
        wal = path.with_name("ledger.db-wal").read_bytes()
        ledger.store.connection.execute("PRAGMA wal_checkpoint(FULL)")
        many = path.read_bytes()
    assert len(many) > len(few)
    copy = tmp_path_factory.mktemp("copy") / "ledger.db"
    copy.write_bytes(many[:4096] + few[4096:])
    copy.with_name("ledger.db-wal").write_bytes(wal)
    with Ledger.open(copy, create=False) as ledger:
        report = ledger.verify()
        assert (report.problems, report.attempts) == ((), 50)


def test_opened_while_the_first_one_still_writes(path):
    """Another process has made the tables and is about to switch to WAL: it is waited for."""
    open_book(path).close()
    with closing(raw(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.2, connection.execute, ["ROLLBACK"])
        timer.start()
        with Ledger.open(path, create=False, timeout=20) as ledger:
            book_with(ledger, State.STAGED)
        timer.join()


# --- what does not


def test_nothing_there(path):
    assert "there is no such file" in refusal(path, create=False)
    assert not path.exists()


def test_no_folder(path):
    detail = refusal(path.parent / "none" / "ledger.db")
    assert "its folder is missing" in detail
    assert not (path.parent / "none").exists()


def test_a_folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    assert "it is a folder" in refusal(folder)


@pytest.mark.parametrize("device", ["/dev/null", "/dev/full"])
def test_a_device(device):
    with pytest.raises(CannotTry, match="not a regular file"):
        Ledger.open(Path(device), create=True)


def test_a_file_as_folder(path):
    path.touch()
    with pytest.raises(CannotTry, match="nothing was changed"):
        Ledger.open(path / "ledger.db", create=True)


def test_a_broken_link(path):
    path.symlink_to(path.parent / "none" / "x")
    assert "nothing was changed" in refusal(path)


def test_a_name_that_is_none(path):
    assert "nothing was changed" in refusal(path.parent / ("x" * 300))
    with pytest.raises(CannotTry, match="null"):
        Ledger.open(Path("a\0b"), create=True)


@pytest.mark.parametrize("content", [b"x", b"x" * 511, b"x" * 4096, b"\0" * 4096, b"SQLite format 3\0" + b"x" * 5000])
def test_no_database(path, content):
    path.write_bytes(content)
    for create in (True, False):
        assert "it is not a SQLite database" in refusal(path, create=create)


def test_a_cut_ledger(path):
    with open_book(path) as ledger:
        book_with(ledger, State.STAGED)
    whole = path.read_bytes()
    for size in (1, 100, 511):
        path.write_bytes(whole[:size])
        assert "it is not a SQLite database" in refusal(path)
    for size in (512, 4095, 4096, 8192):
        path.write_bytes(whole[:size])
        assert "its pages are damaged" in refusal(path)


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("application", [0, 77, -5])
def test_the_database_of_another_application(path, mode, application):
    with closing(raw(path)) as connection:
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute(f"PRAGMA application_id={application}")
        connection.execute("CREATE TABLE theirs (x)")
    for create in (True, False):
        assert "it is a database of another application" in refusal(path, create=create)


def test_another_application_at_work(path):
    """Its tables stand only in the WAL, its connection is open: we leave both alone."""
    with closing(raw(path)) as connection:
        connection.execute("PRAGMA journal_mode=wal")
        connection.execute("CREATE TABLE theirs (x)")
        connection.execute("INSERT INTO theirs VALUES (1)")
        wal = path.with_name("ledger.db-wal").read_bytes()
        assert "it is a database of another application" in refusal(path)
        assert path.with_name("ledger.db-wal").read_bytes() == wal
        assert connection.execute("SELECT x FROM theirs").fetchall() == [(1,)]


def test_another_application_that_crashed(path, tmp_path_factory):
    """What it left in its WAL is for itself to take in."""
    copy = tmp_path_factory.mktemp("copy") / "ledger.db"
    with closing(raw(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
        connection.execute("PRAGMA journal_mode=wal")
        connection.execute("INSERT INTO theirs VALUES (1)")
        for name in ("ledger.db", "ledger.db-wal"):
            copy.with_name(name).write_bytes(path.with_name(name).read_bytes())
    assert "it is a database of another application" in refusal(copy)
    assert sorted(os.listdir(copy.parent)) == ["ledger.db", "ledger.db-wal"]


def test_a_newer_version(path):
    open_book(path).close()
    with closing(raw(path)) as connection:
        connection.execute(f"PRAGMA user_version={NEWEST + 1}")
    detail = refusal(path)
    assert f"it has version {NEWEST + 1}; expected version {NEWEST} or older" in detail
    assert "use a newer endmark" in detail


def test_a_newer_version_that_stands_only_in_the_wal(path):
    with open_book(path), closing(raw(path)) as connection:
        connection.execute(f"PRAGMA user_version={NEWEST + 1}")
        assert f"it has version {NEWEST + 1}" in refusal(path)


def test_read_only(path, monkeypatch):
    open_book(path).close()
    if os.geteuid() == 0:  # root may write everything: ask the bits instead
        monkeypatch.setattr(os, "access", lambda name, mode: os.stat(name).st_mode >> 6 & mode == mode)
    for name, mode in ((path, 0o400), (path.parent, 0o500)):
        before = stat.S_IMODE(name.stat().st_mode)
        name.chmod(mode)
        try:
            assert "this user may not write it or its folder" in refusal(path)
        finally:
            name.chmod(before)


def test_locked(path):
    open_book(path).close()
    with closing(raw(path)) as connection:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(CannotTry, match=r"it stayed locked by another process for 0\.1 s") as caught:
            Ledger.open(path, create=False, timeout=0.1)
        assert "nothing was changed" in caught.value.detail
        connection.execute("ROLLBACK")


def with_disk_of(size, act):
    """Run `act` while no file may grow beyond `size` bytes: a real failing write, at that very byte."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        return act()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_no_room_for_a_new_one(path):
    failed = 0
    for size in range(0, 200_000, 3_000):

        def attempt(size=size):
            try:
                open_book(path).close()
            except CannotTry as cannot:
                return cannot.detail
            return None

        detail = with_disk_of(size, attempt)
        if detail is None:
            break
        failed += 1
        assert "disk" in detail or "cannot be opened" in detail, detail
        with open_book(path) as ledger:  # with room again: whole, whatever was left
            assert ledger.verify().ok
        for left in path.parent.iterdir():
            left.unlink()
    assert failed > 10
    with Ledger.open(path, create=False) as ledger:
        assert ledger.verify().ok


def test_full_while_it_is_made(path, monkeypatch):
    real = file.connect

    def small(*arguments, **options):
        connection = real(*arguments, **options)
        connection.execute("PRAGMA max_page_count=5")
        return connection

    monkeypatch.setattr(file, "connect", small)
    assert "its disk is full" in refusal(path)
    monkeypatch.undo()
    open_book(path).close()


def test_no_shared_memory(path, monkeypatch):
    monkeypatch.setattr(file, "_use_wal", lambda *_: "delete")
    with pytest.raises(CannotTry, match="no shared memory"):
        open_book(path)


# --- migrations

NEXT = (NEWEST + 1, ("ALTER TABLE attempts ADD COLUMN branch TEXT", "DROP TRIGGER target_stays"))
AFTER_NEXT = (NEWEST + 2, ("CREATE TABLE comments (n INTEGER PRIMARY KEY) ",))


def versions(monkeypatch, *more):
    monkeypatch.setattr(file, "MIGRATIONS", [*schema.MIGRATIONS, *more])


def test_an_older_version_is_brought_up(path, monkeypatch):
    with open_book(path) as ledger:
        entry = book_with(ledger, State.STAGED)
    versions(monkeypatch, NEXT, AFTER_NEXT)
    with Ledger.open(path, create=False) as ledger:
        assert ledger.get(entry.attempt_id) == entry
        assert ledger.store.connection.execute("SELECT branch FROM attempts").fetchall() == [(None,)]
        assert ledger.store.connection.execute("SELECT * FROM comments").fetchall() == []
    assert identity(path)[1] == NEWEST + 2
    before = dump(path)
    Ledger.open(path, create=False).close()
    assert dump(path) == before


def test_version_zero_is_brought_up(path):
    """Our id and nothing else yet."""
    with closing(raw(path)) as connection:
        connection.execute(f"PRAGMA application_id={schema.APPLICATION_ID}")
    with Ledger.open(path, create=False) as ledger:
        book_with(ledger, State.STAGED)
        assert ledger.verify().ok
    assert identity(path)[1] == NEWEST


def test_a_new_file_goes_through_every_version(path, monkeypatch):
    versions(monkeypatch, NEXT, AFTER_NEXT)
    open_book(path).close()
    assert identity(path)[1] == NEWEST + 2


@pytest.mark.parametrize("broken", ["CREATE TABLE attempts (x)", "nonsense", "SELECT RAISE(ABORT, 'x')"])
def test_a_migration_that_fails_changes_nothing(path, monkeypatch, broken):
    with open_book(path) as ledger:
        book_with(ledger, State.STAGED)
    before = dump(path)
    versions(monkeypatch, NEXT, (NEWEST + 2, ("CREATE TABLE a (x)", broken)))
    assert "SQLite says" in refusal(path)
    monkeypatch.undo()
    assert dump(path) == before
    assert identity(path)[1] == NEWEST
    with Ledger.open(path, create=False) as ledger:
        assert ledger.verify().ok


def test_another_process_was_faster(path, monkeypatch):
    """Between the look and the link the file was made by somebody else: theirs is as good."""
    real = file._migrate

    def late(connection, name):
        monkeypatch.setattr(file, "_migrate", real)
        with open_book(path) as ledger:
            ledger.record(a_plan(job_id="theirs"), NOW, body=None)
        real(connection, name)

    monkeypatch.setattr(file, "_migrate", late)
    with open_book(path) as ledger:
        assert ledger.by_job("theirs") is not None
        assert ledger.verify().ok


def test_sqlite_errors_all_have_a_sentence(path):
    for code in range(30):
        error = sqlite3.OperationalError("words")
        error.sqlite_errorcode = code
        assert "nothing was changed" in file.explained(error, path, 1).detail
    assert "words" in file.explained(sqlite3.OperationalError("words"), path, 1).detail
