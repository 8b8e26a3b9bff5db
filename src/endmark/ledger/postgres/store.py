"""The book in PostgreSQL: many writers at once, each holding only the rows of its own chain."""

import select
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any

import msgspec
import psycopg
from psycopg.pq import TransactionStatus

from endmark.core.refusal import CannotTry
from endmark.ledger.postgres.audit import PostgresSource
from endmark.ledger.postgres.connection import Connection, cannot, connect, explained, lost, unknown
from endmark.ledger.postgres.counting import FOLD
from endmark.ledger.postgres.opening import open_connection
from endmark.ledger.postgres.place import Place, place_of
from endmark.ledger.postgres.rules import RECORD_ARGUMENTS
from endmark.ledger.source import Source
from endmark.ledger.store import EVENT_COLUMNS, Received, Row

_RECORD = f"SELECT owner_id, last_event FROM @.record({', '.join(['%s'] * len(RECORD_ARGUMENTS))})"  # noqa: S608
_CALL = "SELECT owner_id, last_event, CASE WHEN last_event > 0 THEN {} END FROM"
_INSERT_EVENT = (
    f"INSERT INTO events ({', '.join(EVENT_COLUMNS)}) "  # noqa: S608  # names of our own
    f"VALUES ({', '.join('?' * len(EVENT_COLUMNS))}) RETURNING id"
)
# Whoever writes events holds this lock on their table until his transaction ends.
_NOW_WRITING = (
    "SELECT coalesce(array_agg(virtualtransaction), '{}') FROM pg_locks "
    "WHERE locktype = 'relation' AND relation = 'events'::regclass AND mode = 'RowExclusiveLock' AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND pid IS DISTINCT FROM pg_backend_pid()"
)
# The database's number, and its cluster's, which was made by chance.
_WHICH = (
    "SELECT oid::text, CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE') "
    "THEN (SELECT system_identifier::text FROM pg_control_system()) ELSE '' END "
    "FROM pg_database WHERE datname = current_database()"
)
_PAUSE = 0.005  # seconds between two looks at what others are doing
_BRIEFLY = 1.0  # seconds that a checkpoint which nobody asked for waits for writers


def open_store(url: str, *, create: bool, timeout: float, beside: tuple[str, ...] = ()) -> "PostgresStore":
    """The book at a `postgresql://` URL; its session also looks into the schemas `beside`. Raises CannotTry."""
    place = msgspec.structs.replace(place_of(url), beside=beside)
    return PostgresStore(place, open_connection(place, timeout, create=create), timeout)


class PostgresStore:
    """One connection, shared by all threads of a process, and replaced when it is lost."""

    quick = False
    row_lock = " FOR UPDATE"

    def __init__(self, place: Place, connection: Connection, timeout: float) -> None:
        self.connection: Connection | None = connection
        self.place: Path | str = place.shown
        self.last_event = self.written = 0
        self._at = place
        self._timeout = timeout
        self._lock = RLock()
        self._closed = False
        self._inside = False
        self._batching = False
        self._events: list[psycopg.Cursor[Row]] = []
        self._record = _RECORD.replace("@.", f"{place.schema}.")

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        with self._lock:
            try:
                return self._live().execute(_spelled(sql), values).fetchall()
            except psycopg.Error as error:
                if self._inside or not lost(error, self.connection):
                    raise self._explained(error) from error
            try:  # a question may be asked twice
                return self._renewed().execute(_spelled(sql), values).fetchall()
            except psycopg.Error as error:
                raise self._explained(error) from error

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        self._live().execute(_spelled(sql), values)

    def insert(self, table: str, columns: Sequence[str], values: Sequence[Any]) -> int:
        marks = ", ".join("?" * len(columns))
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) RETURNING n"  # noqa: S608  # our own names
        ((n,),) = self._live().execute(_spelled(sql), values).fetchall()
        return int(n)

    def add_event(self, values: Sequence[Any]) -> None:
        self._events.append(self._live().execute(_spelled(_INSERT_EVENT), values))

    def alone(self, about: str) -> None:
        self._live().execute("SELECT pg_advisory_xact_lock(hashtextextended('endmark ' || %s, 0))", (about,))

    @contextmanager
    def transaction(self, durable: bool) -> Iterator[None]:
        """Its statements go out together; an answer is waited for only where one is needed, and at the end."""
        with self._lock:
            if self._batching:
                with self._part():
                    yield
                return
            self._events, self.last_event, self.written = [], 0, 0
            number: str | None = None
            committing = False
            try:
                connection = self._live()
                with self._whole(connection), connection.pipeline():
                    connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                    if not durable:
                        connection.execute("SET LOCAL synchronous_commit = off")
                    numbered = connection.execute("SELECT pg_current_xact_id()::text")
                    yield
                    ((number,),) = numbered.fetchall()
                    committing = True
                    commit = connection.execute("COMMIT")
                if commit.statusmessage != "COMMIT":  # it was not, and the server says so only here
                    raise cannot(self._at, f"it ended with {commit.statusmessage}", "COMMIT", "try again")
                self._count()
            except psycopg.Error as error:
                if not (committing and lost(error, self.connection)):
                    raise self._explained(error) from error
                self._find_out(number)  # raises unless all of it was done

    @contextmanager
    def batch(self, durable: bool, *, wait: bool = True) -> Iterator[None]:  # nobody is in the way
        """One transaction without a pipeline of its own: each part sends its statements together."""
        with self._lock:
            self._events, self.last_event, self.written = [], 0, 0
            number: str | None = None
            committing = False
            try:
                connection = self._live()
                with self._whole(connection):
                    connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                    if not durable:
                        connection.execute("SET LOCAL synchronous_commit = off")
                    ((number,),) = connection.execute("SELECT pg_current_xact_id()::text").fetchall()
                    self._batching = True
                    try:
                        yield
                    finally:
                        self._batching = False
                    committing = True
                    commit = connection.execute("COMMIT")
                    if commit.statusmessage != "COMMIT":
                        raise cannot(self._at, f"it ended with {commit.statusmessage}", "COMMIT", "try again")
            except psycopg.Error as error:
                if not (committing and lost(error, self.connection)):
                    raise self._explained(error) from error
                written, last = self.written, self.last_event
                self._find_out(number)  # raises unless all of it was done
                self.written, self.last_event = written, last

    @contextmanager
    def _part(self) -> Iterator[None]:
        """A transaction within a batch."""
        connection = self._live()
        if connection.info.transaction_status is not TransactionStatus.INTRANS:
            raise cannot(self._at, "an error ended the batch this was part of", "a ledger that can be written", "retry")
        before = self.written, self.last_event
        self._events = []
        try:
            with connection.pipeline():
                connection.execute("SAVEPOINT part")
                yield
                connection.execute("RELEASE part")
            ids = [int(row[0]) for cursor in self._events for row in cursor.fetchall()]
            self.written, self.last_event = before[0] + len(ids), max(ids, default=before[1])
        except BaseException as error:
            self.written, self.last_event = before
            try:
                if not isinstance(error, Exception):
                    connection.close()
                elif not connection.closed:
                    connection.execute("ROLLBACK TO part")
                    connection.execute("RELEASE part")
            except psycopg.Error:
                connection.close()  # all of it: what is half done must not be committed
            if isinstance(error, psycopg.Error):
                raise self._explained(error) from error
            raise

    @contextmanager
    def _whole(self, connection: Connection) -> Iterator[None]:
        """Nothing of a failed transaction is left: it is rolled back, or its connection ends."""
        self._inside = True
        try:
            yield
        except BaseException as error:
            clean = isinstance(error, Exception) and not (isinstance(error, psycopg.Error) and lost(error, connection))
            try:
                if not clean:
                    connection.close()
                elif connection.info.transaction_status is not TransactionStatus.IDLE:
                    connection.execute("ROLLBACK")
            except psycopg.Error:
                connection.close()
            raise
        finally:
            self._inside = False

    def _count(self) -> None:
        ids = [int(row[0]) for cursor in self._events for row in cursor.fetchall()]
        self.written, self.last_event, self._events = len(ids), max(ids, default=0), []

    def _find_out(self, number: str | None) -> None:
        """After a COMMIT without an answer: return if it was made. Raises CannotTry if not, or if nobody can say."""
        self._events = []
        deadline = time.monotonic() + 3 * max(self._timeout, 1.0)
        status: str | None = "in progress"
        try:
            connection = self._renewed()
            while status == "in progress" and time.monotonic() < deadline:  # the old server process may be at it still
                ((status,),) = connection.execute("SELECT pg_xact_status(%s::xid8)", (number,)).fetchall()
                if status == "in progress":
                    time.sleep(_PAUSE)
        except (psycopg.Error, CannotTry) as error:
            raise unknown(self._at) from error
        if status == "aborted":
            raise cannot(self._at, "the connection was lost during a commit", "its answer", "try again")
        if status != "committed":
            raise unknown(self._at)

    def record(self, new: Received, job_id: str | None, durable: bool) -> str | None:
        sql, values = self._recording(new, durable)
        with self._lock:
            if self._batching:
                return self._record_part(new, sql, values)
            self.last_event = self.written = 0
            try:
                row = self._live().execute(sql, values, prepare=True).fetchone()
            except psycopg.Error as error:
                if not lost(error, self.connection):
                    raise self._explained(error) from error
                row = self._record_again(sql, values)
            except BaseException:
                self._drop()
                raise
        owner, last = row[:2] if row else (None, 0)
        if owner is None:
            self.last_event, self.written = last, 2
        return None if owner == new.attempt_id else owner

    def _recording(self, new: Received, durable: bool) -> tuple[str | bytes, Sequence[Any]]:
        """One statement, and so one transaction: the row, and what goes out with it."""
        values = (*new.columns, new.data, new.state, new.heads[1], new.body, durable)
        if new.call is None:
            return self._record, values
        sql = self._record.replace("SELECT owner_id, last_event FROM", _CALL.format(new.call.sql))
        return _spelled(sql), (*new.call.values, *values)

    def _record_part(self, new: Received, sql: str | bytes, values: Sequence[Any]) -> str | None:
        before = self.written
        with self._part():
            found = self._live().execute(sql, values, prepare=True)
        row = found.fetchone()
        owner, last = row[:2] if row else (None, 0)
        if owner == new.attempt_id or owner is None:
            self.written, self.last_event = before + 2, last
        return None if owner == new.attempt_id else owner

    def _record_again(self, sql: str | bytes, values: Sequence[Any]) -> Row | None:
        """After a call without an answer: perhaps it was done, perhaps not, or it is still on its way.

        The unique index makes this one wait for that one, and find what it wrote.
        """
        try:
            return self._renewed().execute(sql, values, prepare=True).fetchone()
        except psycopg.Error as error:
            if (error.sqlstate or "").startswith(("22", "23")):  # a rule forbids it: the first time too
                raise self._explained(error) from error
            raise unknown(self._at) from error
        except CannotTry as error:
            raise unknown(self._at) from error

    def settled_event(self, *, wait: bool) -> int:
        """Every event up to the highest one that can be seen now was numbered before now. Whoever has such a number and
        is not through with it holds his lock on the table now: once those who hold it have ended, none can appear.
        """
        about = f"checkpoint {self._at.schema}"
        if wait:
            self.alone(about)
        elif not self.ask("SELECT pg_try_advisory_xact_lock(hashtextextended('endmark ' || ?, 0))", (about,))[0][0]:
            return 0  # somebody else is making one
        last = int(self.ask("SELECT coalesce(max(id), 0) FROM events")[0][0])
        writing = set(self.ask(_NOW_WRITING)[0][0])
        deadline = time.monotonic() + (self._timeout if wait else _BRIEFLY)
        while writing:
            if time.monotonic() > deadline:
                if not wait:
                    return 0
                found = f"another process has been in the midst of an act for {self._timeout:g} s"
                raise cannot(self._at, found, "writers that end", "try again when that process is done")
            time.sleep(_PAUSE)
            writing &= set(self.ask(_NOW_WRITING)[0][0])
        self.run(FOLD)
        return last

    def stands(self) -> bool:
        """Nothing can take its place under an open connection, and a new one looks at what it finds."""
        return True

    def which(self) -> tuple[str, ...]:
        return self.ask(_WHICH)[0]

    def unreadable(self, error: Exception) -> CannotTry:
        return cannot(self._at, f"a row cannot be read ({error})", "what was recorded", "run `endmark ledger verify`")

    @contextmanager
    def audited(self) -> Iterator[Source]:
        connection: Connection | None = None
        try:
            connection = connect(self._at, self._timeout, statement_timeout=3600.0)
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                yield PostgresSource(connection, self._at.schema)
        except psycopg.Error as error:
            raise self._explained(error) from error
        finally:
            if connection is not None:
                connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop()

    def _live(self) -> Connection:
        """The connection; outside a transaction, another one where the server has ended it."""
        connection = self.connection
        if self._inside and connection is not None:
            return connection
        if connection is None or connection.closed or connection.broken or not self._quiet(connection):
            return self._renewed()
        return connection

    def _quiet(self, connection: Connection) -> bool:
        """Whether the server has said nothing since: its last words are that it closes."""
        readable, _, _ = select.select([connection.fileno()], [], [], 0)
        if readable:
            with suppress(psycopg.Error):
                connection.execute("SELECT 1")
        return not (connection.closed or connection.broken)

    def _renewed(self) -> Connection:
        """A new connection in place of one that is lost. Raises CannotTry."""
        if self._closed:
            raise cannot(self._at, "it was closed", "an open ledger", "open it again")
        self._drop()
        self.connection = open_connection(self._at, self._timeout, create=False)
        return self.connection

    def _drop(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _explained(self, error: psycopg.Error) -> CannotTry:
        return explained(error, self._at, self._timeout)


@cache
def _spelled(sql: str) -> bytes:
    """The statement as psycopg wants it: no text of ours holds a question mark or a per cent sign of its own."""
    return sql.replace("?", "%s").encode()
