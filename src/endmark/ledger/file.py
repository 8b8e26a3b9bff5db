"""How the file of the book is opened, or refused with one sentence: found, expected, unchanged, what to do."""

import os
import sqlite3
import stat
import time
from contextlib import suppress
from pathlib import Path

from endmark.core.refusal import CannotTry
from endmark.ledger.schema import APPLICATION_ID, MIGRATIONS


def open_file(path: Path, *, create: bool, timeout: float) -> sqlite3.Connection:
    """A connection to the ledger at `path`, brought up to the newest version; with `create`, a missing one is made.

    Raises `CannotTry`, and nothing else, when that is not to be had; a file that is not our ledger is left as it was.
    `timeout` is in seconds.
    """
    try:
        _look(path, create)
        connection = connect(path, timeout)
        try:
            _prepare(connection, path, timeout)
        except BaseException:
            connection.close()
            raise
        return connection
    except sqlite3.Error as error:
        raise explained(error, path, timeout) from error
    except (OSError, ValueError) as error:
        raise _cannot(path, str(error), "a file to open", "correct the path") from error


def connect(path: Path, timeout: float, mode: str = "rw") -> sqlite3.Connection:
    """A plain connection to an existing file: no transaction of its own, usable from any thread."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
    )


def explained(error: sqlite3.Error, path: Path, timeout: float) -> CannotTry:
    """What SQLite found, in words, with what to do about it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the kind, the rest its details
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        found, do = f"it stayed locked by another process for {timeout:g} s", "try again when that process is done"
    elif code in _ADVICE:
        found, do = _ADVICE[code]
    else:
        found, do = f"SQLite says: {error}", "run `endmark ledger verify`"
    return _cannot(path, found, "a ledger that can be read and written", do)


def unreadable(path: Path, error: Exception) -> CannotTry:
    """A row holds what was never written by us."""
    return _cannot(path, f"a row cannot be read ({error})", "what was recorded", "run `endmark ledger verify`")


def batch_ended(path: Path) -> CannotTry:
    """What others in the same batch met has ended the whole of it."""
    return _cannot(path, "an error ended the batch this was part of", "a ledger that can be written", "try again")


_ADVICE = {
    sqlite3.SQLITE_READONLY: ("it is read-only", "let this user write the file and its folder"),
    sqlite3.SQLITE_FULL: ("its disk is full", "free some space, then try again"),
    sqlite3.SQLITE_IOERR: ("its disk reports an error", "check the disk and its space, then try again"),
    sqlite3.SQLITE_CORRUPT: ("its pages are damaged", "keep the file for people to look at and restore a copy"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "let this user read and write the file and its folder"),
    sqlite3.SQLITE_NOTADB: ("it is not a SQLite database", "give the path of a ledger"),
}


def _cannot(path: Path, found: str, expected: str, do: str) -> CannotTry:
    return CannotTry(f"ledger {path}: {found}; expected {expected}; nothing was changed; {do}")


def _look(path: Path, create: bool) -> None:
    """Refuse what is not ours before anything could be written to it; with `create`, make a missing file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise _cannot(path, "its folder is missing", "an existing folder", "make it or correct the path") from None
        if not create:
            raise _cannot(path, "there is no such file", "a ledger", "correct the path") from None
        _make(path)
        return
    if not stat.S_ISREG(status.st_mode):
        found = "it is a folder" if stat.S_ISDIR(status.st_mode) else "it is not a regular file"
        raise _cannot(path, found, "a ledger file", "correct the path")
    if not (os.access(path, os.R_OK | os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)):
        found = "this user may not write it or its folder"
        raise _cannot(path, found, "both writable", "let this user write the file and its folder")
    if status.st_size == 0:  # a ledger that lost its bytes must not become a new one
        raise _cannot(path, "it is empty: 0 bytes", "a ledger", "restore a copy, or remove it to begin a new one")
    if status.st_size < 512:  # SQLite's smallest page; it takes a file of one byte for an empty database
        raise _cannot(path, "it is not a SQLite database", "a ledger", "give the path of a ledger")
    # `immutable` reads the file as it is: no lock, no journal, no file beside it. Never look with open(): closing a
    # descriptor of our own would drop every lock that SQLite holds on the same file in this process.
    # It is a first look: what seems empty or damaged may have the rest in its WAL, and only a true opening reads that.
    probe = connect(path, 0, mode="ro&immutable=1")
    try:
        probe.execute("BEGIN")
        if (identity := _identity(probe))[2]:
            _judge(path, identity)
        (page,) = probe.execute("PRAGMA page_size").fetchone()
        if status.st_size % page:  # SQLite writes whole pages, and rounds a torn one up to a whole
            found = f"its last page is torn: {status.st_size:,} bytes are no multiple of {page:,}"
            raise _cannot(path, found, "whole pages", "keep the file for people to look at and restore a copy")
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
    finally:
        probe.close()


def _make(path: Path) -> None:
    """A new ledger, made whole under another name: a file of this name is never an unfinished ledger."""
    part = path.with_name(f".{path.name}.{os.urandom(8).hex()}.new")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))  # private: plans may hold data
        connection = connect(part, 0)
        try:
            _migrate(connection, None)
            _use_wal(connection, 0)
        finally:
            connection.close()
        with suppress(FileExistsError):  # another process was first: theirs is as good
            os.link(part, path)
    finally:
        for name in (part, *(part.with_name(part.name + suffix) for suffix in ("-wal", "-shm", "-journal"))):
            name.unlink(missing_ok=True)


def _identity(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """(application id, version, number of tables, indexes and triggers), to be read in one transaction."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (things,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return application, version, things


def _judge(path: Path, identity: tuple[int, int, int]) -> None:
    application, version, things = identity
    newest = MIGRATIONS[-1][0]
    if application == 0 and things == 0:
        raise _cannot(path, "it is an empty database", "a ledger", "restore a copy, or remove it to begin a new one")
    if application != APPLICATION_ID:
        found = f"it is a database of another application (id {application:#x})"
        raise _cannot(path, found, f"a ledger (id {APPLICATION_ID:#x})", "give the ledger a file of its own")
    if version > newest:
        raise _cannot(path, f"it has version {version}", f"version {newest} or older", "use a newer endmark for it")


def _prepare(connection: sqlite3.Connection, path: Path, timeout: float) -> None:
    connection.execute("BEGIN")
    identity = _identity(connection)
    connection.execute("COMMIT")
    _judge(path, identity)
    if identity[1] < MIGRATIONS[-1][0]:
        _migrate(connection, path)
    if _use_wal(connection, timeout) != "wal":
        raise _cannot(path, "its file system has no shared memory", "one that can do WAL", "move it to a local disk")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA wal_autocheckpoint=4000")  # pages: a pause for fewer than one write in a hundred
    connection.execute("PRAGMA cache_size=-64000")  # KiB: the index of a million job ids


def _migrate(connection: sqlite3.Connection, path: Path | None) -> None:
    """Run every missing version in one transaction: the file has the newest version after it, or is as before.

    `path` is None for a file that is being made, which nobody else knows.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        identity = _identity(connection)  # again, now that nobody else can write
        if path is not None:
            _judge(path, identity)
        for version, statements in MIGRATIONS:
            if version > identity[1]:
                for statement in statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version={version:d}")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID:d}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _use_wal(connection: sqlite3.Connection, timeout: float) -> str:
    """Switch to WAL and return the mode. SQLite itself does not wait here while another process does the same."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            return str(mode)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
