"""The writing side of the book: each act is one transaction, with an event for every change."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from endmark.core.refusal import CannotTry, Signal
from endmark.core.states import MOVES, State
from endmark.ledger.chain import EVERY, ZERO, checkpoint_hash, event_hash
from endmark.ledger.entry import COLUMNS, Entry, Event, Moved, New, Report, columns_of, entry_of, stamp
from endmark.ledger.ids import new_id
from endmark.ledger.outbox import Call, Outbox
from endmark.ledger.queries import Queries
from endmark.ledger.store import Received, Store

__all__ = ["Entry", "Event", "Ledger", "Moved", "New", "Report"]

_INSERT_CHECKPOINT = "INSERT INTO checkpoints (n, first_event, last_event, at, hash) VALUES (?, ?, ?, ?, ?)"
_CURRENT = f"SELECT n, events, head, {', '.join(COLUMNS)} FROM attempts WHERE attempt_id = ?"  # noqa: S608  # as above
_NOTE = "UPDATE attempts SET events = ?, head = ? WHERE n = ?"
_HASHES = "SELECT hash FROM events WHERE id > ? AND id <= ? ORDER BY id"
_LAST_CHECKPOINT = "SELECT n, last_event, hash FROM checkpoints ORDER BY n DESC LIMIT 1"


_GO_OUT = (State.STAGED, State.APPROVED)  # somebody may have to do something about them
NEEDS_PSYCOPG = "a ledger in PostgreSQL needs psycopg and libpq: pip install 'endmark[postgres]'. Nothing was done."


class _Row(msgspec.Struct):
    """Where an attempt's chain ends, while a transaction adds to it."""

    n: int
    events: int
    head: bytes
    entry: Entry


class Ledger(Queries):
    """The book of every attempt. One object may serve many threads; a process opens its own.

    Each writing method is one transaction: it happened whole or it raised. It raises `CannotTry` when the book could
    not be written (locked past the timeout, full, read-only, damaged, out of reach), `Moved` where that is said, and
    ValueError or KeyError for what a caller must not ask. `now` needs a time zone. With `durable=False` the commit is
    not flushed to the disk by itself: a power cut may take it back, until the next durable commit.
    """

    _batching = False
    _outbox: Outbox | None = None

    @classmethod
    def open(cls, path: Path | str, *, create: bool, timeout: float = 10.0, outbox: Outbox | None = None) -> Self:
        """The ledger in the file at `path`, or in PostgreSQL where that is a `postgresql://` URL.

        With `create`, one that is missing is made. `timeout`, in seconds, is how long any act waits for another
        process. `outbox`, only with a ledger in PostgreSQL, is what goes out with its acts. Raises `CannotTry`,
        nothing else.
        """
        if isinstance(path, str):
            try:
                from endmark.ledger.postgres.store import open_store  # only who keeps a book there pays for it
            except ImportError:
                raise CannotTry(NEEDS_PSYCOPG) from None
            beside = () if outbox is None else outbox.schemas
            ledger = cls(open_store(path, create=create, timeout=timeout, beside=beside))
            ledger._outbox = outbox
            return ledger
        if outbox is not None:
            raise CannotTry(f"the ledger {path} is a file, and a queue needs one in PostgreSQL. Nothing was done.")
        from endmark.ledger.file import open_file
        from endmark.ledger.sqlite_store import SqliteStore

        return cls(SqliteStore(open_file(path, create=create, timeout=timeout), path.absolute(), timeout))

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
        received = State.RECEIVED.value
        first = event_hash(ZERO, entry.attempt_id, 1, at, "received", None, received, data)
        moved = event_hash(first, entry.attempt_id, 2, at, "moved", received, new.state.value, b"{}")
        columns = columns_of(facts | {"state": State.RECEIVED})
        _check_evidence(new.evidence)
        attempt = Received(
            columns=(entry.attempt_id, *columns.values(), at, at, 1, first),
            at=at,
            data=data.decode(),
            state=new.state.value,
            heads=(first, moved),
            body=body,
            call=self._call_for(entry),
        )
        owner = self.store.record(attempt, new.job_id if new.owner else None, durable)
        if owner is None:
            self._check_in(lambda: at)
        elif found := self.get(owner):
            return found, False
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
        with self.store.transaction(durable):
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
            self._send(row.entry)
        self._check_in(lambda: at)
        return row.entry

    def send(self, entries: Sequence[Entry], *, durable: bool = True) -> None:
        """Have what goes out with these attempts, as they stand, go out again, in one transaction."""
        with self.store.transaction(durable):
            for entry in entries:
                self._send(entry)

    def note(
        self, attempt_id: str, event: str, now: datetime, data: Mapping[str, Any], *, durable: bool = True
    ) -> None:
        """Add an event that moves nothing, in any state. Raises KeyError for an unknown id."""
        if event in ("received", "moved"):
            raise ValueError(f"{event!r} is the name of a move")
        at = stamp(now)
        with self.transaction(at, durable) as store:
            row = self._row(attempt_id)
            self._append(row, at, event, None, None, {}, data)
            store.run(_NOTE, (row.events, row.head, row.n))

    def redelivered(self, attempt_id: str, now: datetime, received_bytes: int, *, durable: bool = True) -> None:
        """Note that the same body came again. Raises KeyError for an unknown id."""
        self.note(attempt_id, "redelivered", now, {"received_bytes": received_bytes}, durable=durable)

    def checkpoint(self, now: datetime) -> None:
        """Fix every event since the last checkpoint in its order. This also happens by itself, every 1,024 events."""
        self._checkpoint(stamp(now), durable=True, wait=True)

    def verify(self, progress: Callable[[int, int], None] | None = None) -> Report:
        """Audit the whole book as it stands now, in bounded memory, while others go on writing.

        `progress` is called with (rows read, rows in all). Raises `CannotTry` if it cannot be opened again.
        """
        from endmark.ledger import verify  # only who audits pays for it

        with self.store.audited() as source:
            return verify.audit(source, progress)

    @contextmanager
    def batch(self, clock: Callable[[], datetime], *, durable: bool = True, wait: bool = True) -> Iterator[None]:
        """The acts inside are committed together when the block ends; none of them has happened before.

        Each act is whole or raises by itself, and the others go on. Other threads wait. Raises CannotTry when the
        commit was not made: then nothing of the batch happened. Without `wait`, raises Busy at once, and nothing of it
        was done, where another process writes and the book has one writer at a time.
        """
        self._batching = True
        try:
            with self.store.batch(durable, wait=wait):
                yield
        finally:
            self._batching = False
        self._check_in(lambda: stamp(clock()))

    @contextmanager
    def transaction(self, at: str, durable: bool) -> Iterator[Store]:
        """What happens inside is committed whole, or rolled back whole and the reason raised."""
        with self.store.transaction(durable):
            yield self.store
        self._check_in(lambda: at)

    def _check_in(self, at: Callable[[], str]) -> None:
        """After a transaction: make a checkpoint where one is due."""
        if self._batching:  # after the batch
            return
        last = self.store.last_event
        if last // EVERY > (last - self.store.written) // EVERY:
            with suppress(CannotTry):  # what was asked for stands committed; the next checkpoint covers this one
                self._checkpoint(at(), durable=False, wait=False)

    def _call_for(self, entry: Entry) -> Call | None:
        return self._outbox.call_for(entry) if self._outbox is not None and entry.state in _GO_OUT else None

    def _send(self, entry: Entry) -> None:
        call = self._call_for(entry)
        if call is not None:
            self.store.run(f"SELECT {call.sql}", call.values)

    def _row(self, attempt_id: str) -> _Row:
        rows = self.store.ask(_CURRENT + self.store.row_lock, (attempt_id,))
        if not rows:
            raise KeyError(attempt_id)
        row = rows[0]
        try:
            return _Row(row[0], row[1], row[2], entry_of(row[3:]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self.store.unreadable(error) from error

    def _move_row(
        self, row: _Row, before: State, after: State, at: str, facts: Mapping[str, Any], data: Mapping[str, Any]
    ) -> None:
        """Append the event of one move, then change the row, in this order: the SQL wants to see the event."""
        self._append(row, at, "moved", before.value, after.value, facts, data)
        columns = {"state": after.value, **columns_of(facts), "changed_at": at, "events": row.events, "head": row.head}
        names = ", ".join(f"{name} = ?" for name in columns)
        self.store.run(f"UPDATE attempts SET {names} WHERE n = ?", (*columns.values(), row.n))  # noqa: S608
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
        self.store.add_event((row.n, None, row.events, row.head, at, event, before, after, raw.decode()))

    def _checkpoint(self, at: str, durable: bool, wait: bool) -> None:
        with self.store.transaction(durable):
            last = self.store.settled_event(wait=wait)
            n, covered, previous = (self.store.ask(_LAST_CHECKPOINT) or [(0, 0, ZERO)])[0]
            if last <= covered:
                return
            hashes = [row[0] for row in self.store.ask(_HASHES, (covered, last))]
            try:
                digest = checkpoint_hash(previous, n + 1, covered + 1, last, at, hashes, len(hashes))
            except TypeError as error:
                raise self.store.unreadable(error) from error
            self.store.run(_INSERT_CHECKPOINT, (n + 1, covered + 1, last, at, digest))


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
