"""The writing side of the book: each act is one transaction, with an event for every change."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from endmark.core.refusal import CannotTry, Signal
from endmark.core.states import MOVES, State
from endmark.ledger import verify
from endmark.ledger.chain import EVERY, ZERO, checkpoint_hash, event_hash
from endmark.ledger.entry import COLUMNS, Entry, Event, Moved, New, Report, columns_of, entry_of, stamp
from endmark.ledger.file import connect, explained, open_file, unreadable
from endmark.ledger.ids import new_id
from endmark.ledger.queries import Queries

__all__ = ["Entry", "Event", "Ledger", "Moved", "New", "Report"]

_INSERT_COLUMNS = ("attempt_id", *New.__struct_fields__, "received_at", "changed_at", "events", "head")
_INSERT = (
    f"INSERT INTO attempts ({', '.join(_INSERT_COLUMNS)}) "  # noqa: S608  # names of our own
    f"VALUES ({', '.join('?' * len(_INSERT_COLUMNS))})"
)
_INSERT_EVENT = (
    "INSERT INTO events (attempt, decision, seq, hash, at, event, from_state, to_state, data) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_BODY = "INSERT INTO bodies (attempt, body) VALUES (?, ?)"
_INSERT_CHECKPOINT = "INSERT INTO checkpoints (n, first_event, last_event, at, hash) VALUES (?, ?, ?, ?, ?)"
_CURRENT = f"SELECT n, events, head, {', '.join(COLUMNS)} FROM attempts WHERE attempt_id = ?"  # noqa: S608  # as above
_OWNED = "SELECT attempt_id FROM attempts WHERE job_id = ? AND owner = 1"
_NOTE = "UPDATE attempts SET events = ?, head = ? WHERE n = ?"
_LAST_CHECKPOINT = "SELECT n, last_event, hash FROM checkpoints ORDER BY n DESC LIMIT 1"


class _Row(msgspec.Struct):
    """Where an attempt's chain ends, while a transaction adds to it."""

    n: int
    events: int
    head: bytes
    entry: Entry


class Ledger(Queries):
    """The book of every attempt. One object may serve many threads; a process opens its own.

    Each writing method is one transaction: it happened whole or it raised. It raises `CannotTry` when the file could
    not be written (locked past the timeout, full, read-only, damaged), `Moved` where that is said, and ValueError or
    KeyError for what a caller must not ask. `now` needs a time zone. With `durable=False` the commit is not flushed to
    the disk by itself: a power cut may take it back, until the next durable commit of the same file.
    """

    _durable: bool | None = True  # what the connection is set to
    _written = _last_event = 0  # events of the current transaction: how many, and the id of the last

    @classmethod
    def open(cls, path: Path, *, create: bool, timeout: float = 10.0) -> Self:
        """The ledger at `path`; with `create`, a missing or empty file becomes one.

        `timeout`, in seconds, is how long any act waits for another process. Raises `CannotTry`, nothing else.
        """
        return cls(open_file(path, create=create, timeout=timeout), path.absolute(), timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def record(self, new: New, now: datetime, *, body: bytes | None, durable: bool = True) -> tuple[Entry, bool]:
        """Write a new attempt as `received` and move it to `new.state`; keep `body`, its raw bytes, where given.

        Returns (entry, True). If `new` would own a job id that has an owner, nothing is written: (the owner, False).
        """
        _legal(State.RECEIVED, (new.state,))
        if body is not None and len(body) != new.received_bytes:
            raise ValueError(f"{len(body)} bytes are to be kept of {new.received_bytes} received")
        at = stamp(now)
        facts = msgspec.structs.asdict(new)
        entry = Entry(
            attempt_id=new_id("att", now),
            **facts,
            statements_run=None,
            approver=None,
            approved_fingerprint=None,
            fingerprint_before=None,
            fingerprint_after=None,
            backup=None,
            statement_rows=None,
            received_at=at,
            changed_at=at,
        )
        known = {name: value for name, value in facts.items() if value is not None and name != "state"}
        data = msgspec.json.encode({"set": known, "body_kept": body is not None})
        head = event_hash(ZERO, entry.attempt_id, 1, at, "received", None, State.RECEIVED, data)
        columns = columns_of(facts | {"state": State.RECEIVED})
        _check_evidence(new.evidence)
        with self.transaction(at, durable):
            if new.owner and new.job_id is not None:
                owner = self._connection.execute(_OWNED, (new.job_id,)).fetchone()
                if owner is not None:
                    return self._row(owner[0]).entry, False
            values = (entry.attempt_id, *columns.values(), at, at, 1, head)
            n = self._connection.execute(_INSERT, values).lastrowid
            assert n is not None  # noqa: S101  # an INSERT that did not raise has made a row
            self.add_event((n, None, 1, head, at, "received", None, State.RECEIVED.value, data.decode()))
            if body is not None:
                self._connection.execute(_INSERT_BODY, (n, body))
            self._move_row(_Row(n, 1, head, entry), State.RECEIVED, new.state, at, {}, {})
        return entry, True

    def move(
        self,
        attempt_id: str,
        expect: State,
        to: State | Sequence[State],
        now: datetime,
        *,
        signal: Signal | None = None,
        detail: str | None = None,
        target: str | None = None,
        evidence: tuple[str, ...] | None = None,
        approver: str | None = None,
        approved_fingerprint: str | None = None,
        statements_run: int | None = None,
        statement_rows: tuple[int, ...] | None = None,
        fingerprint_before: str | None = None,
        fingerprint_after: str | None = None,
        backup: str | None = None,
        data: Mapping[str, Any] | None = None,
        durable: bool = True,
    ) -> Entry:
        """Move an attempt that is in `expect`, through several states where `to` names several, and return it.

        Facts given replace what the row said; `evidence` is added to it; `target` can be set once. They and `data`
        (which has no key "set") stand in the event of the last move, an approval in that of the move to `approved`.
        A move back to `staged` clears the approval. Raises `Moved` when the attempt is in another state, KeyError when
        there is none of this id.
        """
        path = (to,) if isinstance(to, State) else tuple(to)
        _legal(expect, path)
        _check_evidence(evidence or ())
        at = stamp(now)
        approval = _given(approver=approver, approved_fingerprint=approved_fingerprint)
        facts = _given(
            signal=signal,
            detail=detail,
            target=target,
            statements_run=statements_run,
            statement_rows=statement_rows,
            fingerprint_before=fingerprint_before,
            fingerprint_after=fingerprint_after,
            backup=backup,
        )
        with self.transaction(at, durable):
            row = self._row(attempt_id)
            if row.entry.state is not expect:
                raise Moved(row.entry)
            if evidence:
                facts["evidence"] = row.entry.evidence + evidence
            last = len(path) - 1
            approved = path.index(State.APPROVED) if State.APPROVED in path else last
            for step, state in enumerate(path):
                changed = {"approver": None, "approved_fingerprint": None} if state is State.STAGED else {}
                if step == approved:
                    changed |= approval
                if step == last:
                    changed |= facts
                self._move_row(row, row.entry.state, state, at, changed, (data or {}) if step == last else {})
        return row.entry

    def note(
        self, attempt_id: str, event: str, now: datetime, data: Mapping[str, Any], *, durable: bool = True
    ) -> None:
        """Add an event that moves nothing, in any state. Raises KeyError for an unknown id."""
        if event in ("received", "moved"):
            raise ValueError(f"{event!r} is the name of a move")
        at = stamp(now)
        with self.transaction(at, durable):
            row = self._row(attempt_id)
            self._append(row, at, event, None, None, {}, data)
            self._connection.execute(_NOTE, (row.events, row.head, row.n))

    def redelivered(self, attempt_id: str, now: datetime, received_bytes: int, *, durable: bool = True) -> None:
        """Note that the same body came again. Raises KeyError for an unknown id."""
        self.note(attempt_id, "redelivered", now, {"received_bytes": received_bytes}, durable=durable)

    def checkpoint(self, now: datetime) -> None:
        """Fix every event since the last checkpoint in its order. This also happens by itself, every 1,024 events."""
        self._checkpoint(stamp(now), durable=True)

    def verify(self, progress: Callable[[int, int], None] | None = None) -> Report:
        """Audit the whole book as it stands now, in bounded memory, while others go on writing.

        `progress` is called with (rows read, rows in all). Raises `CannotTry` if the file cannot be opened again.
        """
        try:
            connection = connect(self._path, self._timeout)
            try:
                return verify.audit(connection, progress)
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise explained(error, self._path, self._timeout) from error

    @contextmanager
    def transaction(self, at: str, durable: bool) -> Iterator[sqlite3.Connection]:
        """What happens inside is committed whole, or rolled back whole and the reason raised."""
        with self._lock:
            self._written = self._last_event = 0
            try:
                if durable is not self._durable:
                    # It can be set only between transactions; before one, so that nothing can fail after a COMMIT.
                    self._durable = None  # unknown, should this be interrupted
                    self._connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                    self._durable = durable
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back()
                raise explained(error, self._path, self._timeout) from error
            except BaseException:
                self._roll_back()
                raise
            if self._last_event // EVERY > (self._last_event - self._written) // EVERY:
                with suppress(CannotTry):  # what was asked for stands committed; the next checkpoint covers this one
                    self._checkpoint(at, durable=False)

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _row(self, attempt_id: str) -> _Row:
        row = self._connection.execute(_CURRENT, (attempt_id,)).fetchone()
        if row is None:
            raise KeyError(attempt_id)
        try:
            return _Row(row[0], row[1], row[2], entry_of(row[3:]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise unreadable(self._path, error) from error

    def _move_row(
        self, row: _Row, before: State, after: State, at: str, facts: Mapping[str, Any], data: Mapping[str, Any]
    ) -> None:
        """Append the event of one move, then change the row, in this order: the SQL wants to see the event."""
        self._append(row, at, "moved", before.value, after.value, facts, data)
        columns = {"state": after.value, **columns_of(facts), "changed_at": at, "events": row.events, "head": row.head}
        names = ", ".join(f"{name} = ?" for name in columns)
        self._connection.execute(f"UPDATE attempts SET {names} WHERE n = ?", (*columns.values(), row.n))  # noqa: S608
        row.entry = msgspec.structs.replace(row.entry, state=after, changed_at=at, **facts)

    def _append(
        self,
        row: _Row,
        at: str,
        event: str,
        before: str | None,
        after: str | None,
        facts: Mapping[str, Any],
        data: Mapping[str, Any],
    ) -> None:
        if "set" in data:
            raise ValueError('"set" in the data of an event is for the facts it writes')
        raw = msgspec.json.encode({"set": facts, **data} if facts else data)
        row.events += 1
        row.head = event_hash(row.head, row.entry.attempt_id, row.events, at, event, before, after, raw)
        self.add_event((row.n, None, row.events, row.head, at, event, before, after, raw.decode()))

    def add_event(self, values: tuple[Any, ...]) -> None:
        """Write one event, within a transaction: number of the attempt, of the decision (one of them None), seq, hash,
        at, event, from_state, to_state, data."""
        self._last_event = self._connection.execute(_INSERT_EVENT, values).lastrowid or 0
        self._written += 1

    def _checkpoint(self, at: str, durable: bool) -> None:
        with self.transaction(at, durable):
            n, covered, previous = self._connection.execute(_LAST_CHECKPOINT).fetchone() or (0, 0, ZERO)
            (last,) = self._connection.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()
            if last > covered:
                hashes = self._connection.execute("SELECT hash FROM events WHERE id > ? ORDER BY id", (covered,))
                try:
                    digest = checkpoint_hash(previous, n + 1, covered + 1, last, at, (row[0] for row in hashes))
                except TypeError as error:
                    raise unreadable(self._path, error) from error
                self._connection.execute(_INSERT_CHECKPOINT, (n + 1, covered + 1, last, at, digest))


def _legal(start: State, path: tuple[State, ...]) -> None:
    if not path:
        raise ValueError("a move leads somewhere")
    for before, after in zip((start, *path), path, strict=False):
        if after not in MOVES[before]:
            raise ValueError(f"{before} > {after} is not a legal move")


def _given(**facts: Any) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


def _check_evidence(evidence: tuple[str, ...]) -> None:
    if not all(evidence) or any("\n" in item for item in evidence):
        raise ValueError("a piece of evidence is one line of text")
