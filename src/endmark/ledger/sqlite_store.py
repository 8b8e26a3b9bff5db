"""The book in one SQLite file: a single writer at a time, readers beside it."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any

from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.ledger import schema
from endmark.ledger.entry import RECEIVED_COLUMNS
from endmark.ledger.file import batch_ended as _ended
from endmark.ledger.file import connect, explained, unreadable
from endmark.ledger.source import Source
from endmark.ledger.store import EVENT_COLUMNS, Busy, Received, Row

_INSERT = (
    f"INSERT INTO attempts ({', '.join(RECEIVED_COLUMNS)}) "  # noqa: S608  # names of our own
    f"VALUES ({', '.join('?' * len(RECEIVED_COLUMNS))})"
)
_INSERT_EVENT = f"INSERT INTO events ({', '.join(EVENT_COLUMNS)}) VALUES ({', '.join('?' * len(EVENT_COLUMNS))})"  # noqa: S608
_INSERT_BODY = "INSERT INTO bodies (attempt, body) VALUES (?, ?)"
_OWNED = "SELECT attempt_id FROM attempts WHERE job_id = ? AND owner = 1"
_MOVE = "UPDATE attempts SET state = ?, changed_at = ?, events = 2, head = ? WHERE n = ?"


class SqliteStore:
    """One connection, shared by all threads of a process."""

    quick = True
    row_lock = ""  # the file has one writer
    last_event = written = 0

    _durable: bool | None = True  # what the connection is set to
    _patient = True  # whether the connection waits for other processes
    _batching = False

    def __init__(self, connection: sqlite3.Connection, path: Path, timeout: float) -> None:
        self.connection = connection
        self.place: Path | str = path
        self._path = path
        self._timeout = timeout
        self._file = _which(path)
        self._lock = RLock()

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        with self._lock:
            try:
                if not (self._patient or self.connection.in_transaction):
                    self._be_patient(True)
                return self.connection.execute(sql, values).fetchall()
            except sqlite3.Error as error:
                raise explained(error, self._path, self._timeout) from error

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        self.connection.execute(sql, values)

    def insert(self, table: str, columns: Sequence[str], values: Sequence[Any]) -> int:
        marks = ", ".join("?" * len(columns))
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608  # names of our own
        return _number(self.connection.execute(sql, values))

    def add_event(self, values: Sequence[Any]) -> None:
        self.last_event = self.connection.execute(_INSERT_EVENT, values).lastrowid or 0
        self.written += 1

    def alone(self, about: str) -> None:
        """Every writer is."""

    @contextmanager
    def transaction(self, durable: bool, *, wait: bool = True) -> Iterator[None]:
        with self._lock:
            if self._batching:
                with self._part():
                    yield
                return
            self.written = self.last_event = 0
            try:
                if durable is not self._durable:
                    # It can be set only between transactions; before one, so that nothing can fail after a COMMIT.
                    self._durable = None  # unknown, should this be interrupted
                    self.connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                    self._durable = durable
                self._begin(wait)
                yield
                self.connection.execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back()
                raise explained(error, self._path, self._timeout) from error
            except BaseException:
                self._roll_back()
                raise

    def _be_patient(self, patient: bool) -> None:
        self.connection.execute(f"PRAGMA busy_timeout={round(self._timeout * 1000) if patient else 0:d}")
        self._patient = patient

    def _begin(self, wait: bool) -> None:
        if wait is not self._patient:
            self._be_patient(wait)
        try:
            self.connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if wait or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            raise Busy(explained(error, self._path, 0).detail) from error

    @contextmanager
    def batch(self, durable: bool, *, wait: bool = True) -> Iterator[None]:
        with self.transaction(durable, wait=wait):
            self._batching = True
            try:
                yield
            finally:
                self._batching = False

    @contextmanager
    def _part(self) -> Iterator[None]:
        """A transaction within a batch."""
        if not self.connection.in_transaction:  # a full disk ends all of it: nothing may begin another by itself
            raise _ended(self._path)
        before = self.written, self.last_event
        try:
            self.connection.execute("SAVEPOINT part")
            yield
            self.connection.execute("RELEASE part")
        except BaseException as error:
            self.written, self.last_event = before
            try:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK TO part")
                    self.connection.execute("RELEASE part")
            except sqlite3.Error:
                self._roll_back()  # all of it: what is half done must not be committed
            if isinstance(error, sqlite3.Error):
                raise explained(error, self._path, self._timeout) from error
            raise

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    def record(self, new: Received, job_id: str | None, durable: bool) -> str | None:
        received = State.RECEIVED.value
        first, last = new.heads
        with self.transaction(durable):
            if job_id is not None:
                owner = self.connection.execute(_OWNED, (job_id,)).fetchone()
                if owner is not None:
                    return str(owner[0])
            n = _number(self.connection.execute(_INSERT, new.columns))
            self.add_event((n, None, 1, first, new.at, "received", None, received, new.data))
            if new.body is not None:
                self.connection.execute(_INSERT_BODY, (n, new.body))
            self.add_event((n, None, 2, last, new.at, "moved", received, new.state, "{}"))
            self.connection.execute(_MOVE, (new.state, new.at, last, n))
        return None

    def settled_event(self, *, wait: bool) -> int:
        (last,) = self.connection.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()
        return int(last)

    def stands(self) -> bool:
        return _which(self._path) == self._file

    def which(self) -> tuple[str, ...]:
        return tuple(map(str, self._file or ()))

    def unreadable(self, error: Exception) -> CannotTry:
        return unreadable(self._path, error)

    @contextmanager
    def audited(self) -> Iterator[Source]:
        try:
            connection = connect(self._path, self._timeout)
            try:
                # What is no UTF-8 must not end the reading: it is replaced, and then the hash does not match.
                connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
                connection.execute("BEGIN")
                yield SqliteSource(connection)
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise explained(error, self._path, self._timeout) from error

    def close(self) -> None:
        with self._lock:
            self.connection.close()


class SqliteSource:
    """A file in one read transaction."""

    errors: tuple[type[Exception], ...] = (sqlite3.DatabaseError,)
    gapless = True
    bodies = True

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return self._connection.execute(sql, values)

    def is_number(self, column: str) -> str:
        return f"typeof({column}) = 'integer'"

    def damage(self) -> Iterator[str]:
        for (line,) in self._connection.execute("PRAGMA quick_check(100)"):
            if line != "ok":
                yield f"the file is damaged: {line}"

    def rules(self) -> Iterator[str]:
        expected, found = _rules_made(), rules_of(self._connection)
        for name, sql in expected.items():
            if name not in found:
                yield f"the {name} is missing"
            elif found[name] != sql:
                yield f"the {name} was changed"
        for name in found.keys() - expected.keys():
            yield f"the {name} is not ours"

    def given(self) -> dict[str, Any]:
        return dict(self._connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())


def _which(path: Path) -> tuple[int, int] | None:
    """Which file stands at `path` now."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def rules_of(connection: sqlite3.Connection) -> dict[str, str]:
    """Every table, index and trigger, and the SQL that made it."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {f"{kind} {name}": sql for kind, name, sql in rows if name not in ("sqlite_sequence", "sqlite_stat1")}


@cache
def _rules_made() -> dict[str, str]:
    fresh = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for _, statements in schema.MIGRATIONS:
            for statement in statements:
                fresh.execute(statement)
        return rules_of(fresh)
    finally:
        fresh.close()


def _number(cursor: sqlite3.Cursor) -> int:
    n = cursor.lastrowid
    assert n is not None  # noqa: S101  # an INSERT that did not raise has made a row
    return n
