"""The reading side of the book."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from endmark.core import strictjson
from endmark.core.evidence import RESTORED, REVERTED
from endmark.core.refusal import Refused
from endmark.core.states import Decision, Review, State
from endmark.ledger.entry import COLUMNS, Entry, Event, entry_of
from endmark.ledger.store import Store

_SELECT = f"SELECT {', '.join(COLUMNS)} FROM attempts "  # noqa: S608  # names of our own
_BY_ID = _SELECT + "WHERE attempt_id = ?"
_BY_JOB = _SELECT + "WHERE job_id = ? AND owner = 1"
_CARRIED = _SELECT + "WHERE job_id = ? AND job_id IS NOT NULL AND owner = 0 AND sha256 IS NULL "
_SPENT = (
    f"{_BY_JOB} UNION ALL SELECT * FROM "  # noqa: S608  # names of our own
    f"({_CARRIED}AND coalesce(submitter, '') = ? ORDER BY n LIMIT 1) AS mine"
)
_BODY = "SELECT body FROM bodies WHERE attempt = (SELECT n FROM attempts WHERE attempt_id = ?)"
_EVENTS = (
    "SELECT id, seq, at, event, from_state, to_state, data, hash FROM events "
    "WHERE attempt = (SELECT n FROM attempts WHERE attempt_id = ?) ORDER BY seq"
)


_KEPT = tuple(state.value for state in State if state is not State.RECEIVED)
_NEWEST = 2**63 - 1
_STATES = {word.value: word.value for kind in (State, Review, Decision) for word in kind}
_Value = TypeVar("_Value")

_TOGETHER = 16  # targets that one question looks for one by one; SQLite joins 500 parts at most


class Queries:
    """What can be asked of an open ledger. Each method raises `CannotTry` when it cannot be read."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def place(self) -> Path | str:
        """The file, or the database as a URL without a user or a password."""
        return self.store.place

    def get(self, attempt_id: str) -> Entry | None:
        """The attempt with this id."""
        return _first(self.ask(entry_of, _BY_ID, attempt_id))

    def by_job(self, job_id: str) -> Entry | None:
        """The attempt that owns this job id."""
        return _first(self.ask(entry_of, _BY_JOB, job_id))

    def spent(self, job_id: str, submitter: str | None) -> Entry | None:
        """What keeps this job id from a new body of this submitter: the attempt that owns it, else the first of theirs
        that said it beside bytes that prove nothing."""
        found = self.ask(entry_of, _SPENT, job_id, job_id, submitter or "")
        return next((entry for entry in found if entry.owner), _first(found))

    def find(self, name: str) -> Entry | None:
        """The attempt of this id, else the one that owns `name` as its job id: no job can hide an attempt. Where none
        owns it, the first that said it beside bytes that prove nothing."""
        if "\0" in name:  # no id has one, and PostgreSQL takes none
            return None
        return self.get(name) or self.by_job(name) or _first(self.ask(entry_of, f"{_CARRIED}ORDER BY n LIMIT 1", name))

    def reverted_by(self, job_id: str) -> str | None:
        """The job that undid this one, or None while its effect stands as far as this book knows."""
        for number in itertools.count(1):
            former = self.by_job(f"{job_id}.revert" if number == 1 else f"{job_id}.revert.{number}")
            if former is None or (former.kind == "revert" and former.state is State.APPLIED):
                return None if former is None else former.job_id
        return None

    def body(self, attempt_id: str) -> bytes | None:
        """The raw bytes kept with this attempt."""
        return _first(self.ask(lambda row: bytes(row[0]), _BODY, attempt_id))

    def events(self, attempt_id: str) -> list[Event]:
        """The chain of this attempt, oldest first; empty for an unknown id."""
        return self.ask(event_of, _EVENTS, attempt_id)

    def in_state(self, state: State, target: str | None = None) -> list[Entry]:
        """Every attempt in `state` (and for `target`), oldest first; through an index, whatever the size of the book.

        None is ever left in `received`.
        """
        where, values = _where(state, target)
        return self.ask(entry_of, f"{_SELECT}WHERE {where} ORDER BY n", *values)

    def page(
        self,
        limit: int,
        before: str | None = None,
        state: State | None = None,
        target: str | tuple[str, ...] | None = None,
    ) -> list[Entry]:
        """At most `limit` attempts, newest first, recorded before the attempt whose id is `before`.

        `target`: only those for it, or for one of these.
        The last id of one page is the `before` of the next; an unknown one gives an empty page.
        """
        first = _NEWEST
        if before is not None:
            found = self.ask(lambda row: int(row[0]), "SELECT n FROM attempts WHERE attempt_id = ?", before)
            first = found[0] if found else 0
        targets = (target,) if isinstance(target, str) else target
        if targets is not None and 0 < len(targets) <= _TOGETHER and (state is None or len(targets) > 1):
            # The index has them by target and state: the newest of each, then of those.
            pairs = tuple(itertools.product(targets, _KEPT if state is None else (state.value,)))
            each = "SELECT n FROM (SELECT n FROM attempts WHERE target = ? AND state = ? AND n < ? {}) AS part{}"
            newest = "ORDER BY n DESC LIMIT ?"
            among = " UNION ALL ".join(each.format(newest, number) for number, _ in enumerate(pairs))
            values = tuple(itertools.chain.from_iterable((*pair, first, limit) for pair in pairs))
            return self.ask(entry_of, f"{_SELECT}WHERE n IN ({among}) {newest}", *values, limit)
        where, names = _where(state, target)
        return self.ask(entry_of, f"{_SELECT}WHERE {where} AND n < ? ORDER BY n DESC LIMIT ?", *names, first, limit)

    def stands(self) -> bool:
        """Whether what was opened still stands at its place: not removed, not replaced."""
        return self.store.stands()

    def close(self) -> None:
        """Close it. Closing twice is fine."""
        self.store.close()

    def ask(self, make: Callable[[tuple[Any, ...]], _Value], sql: str, *values: Any) -> list[_Value]:
        """The rows of a question, each made a value. Raises CannotTry."""
        rows = self.store.ask(sql, values)
        try:
            return [make(row) for row in rows]
        except (Refused, ValueError, KeyError, TypeError, AttributeError) as error:
            raise self.store.unreadable(error) from error


def _first(values: list[_Value]) -> _Value | None:
    return values[0] if values else None


def event_of(row: tuple[Any, ...]) -> Event:
    """The event that a row holds."""
    number, seq, at, event, before, after, data, digest = row
    return Event(
        id=number,
        seq=seq,
        at=at,
        event=event,
        from_state=_state(before),
        to_state=_state(after),
        data=strictjson.loads(data.encode()),
        hash=digest.hex(),
    )


def _state(word: str | None) -> str | None:
    """The word as it is, if any state is called so. Raises KeyError."""
    return None if word is None else _STATES[word]


def _where(state: State | None, target: str | tuple[str, ...] | None) -> tuple[str, tuple[str, ...]]:
    """The condition, in the words of the index, and its values."""
    parts: list[str] = ["TRUE"]
    values: list[str] = []
    if state is not None:
        parts.append("state = ? AND state <> 'received'")
        values.append(state.value)
    if isinstance(target, str):
        parts.append("target = ?")
        values.append(target)
    elif target is not None:
        parts.append(f"target IN ({', '.join('?' * len(target))})" if target else "FALSE")
        values += target
    return " AND ".join(parts), tuple(values)


PUT_BACK = "restored"  # the event of a job whose effect is gone, for its target is the one from before it


def with_revert(ledger: Queries, entry: Entry) -> Entry:
    """`entry`, with the evidence that it was reverted where this book knows of it."""
    by = ledger.reverted_by(entry.job_id) if entry.job_id and entry.state is State.APPLIED else None
    if by is not None:
        return msgspec.structs.replace(entry, evidence=(*entry.evidence, f"{REVERTED}-by:{by}"))
    if entry.state is State.APPLIED and any(event.event == PUT_BACK for event in ledger.events(entry.attempt_id)):
        return msgspec.structs.replace(entry, evidence=(*entry.evidence, RESTORED))
    return entry


def reverted(entry: Entry) -> bool:
    """Whether the evidence says that what the job did was undone since."""
    return any(word.startswith((REVERTED, RESTORED)) for word in entry.evidence)
