"""What the book holds, as values: an attempt, one event of its chain, the report of an audit."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from endmark.core.refusal import Signal
from endmark.core.states import State


class New(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of an attempt as it arrives. `state` is the state it is to be recorded in, never `received`.

    `body_sha256` is the SHA-256 (lower-case hex) of the raw bytes as received and `received_bytes` their number;
    `sha256` and `stmt_count` are known only when proven. At most one owner has a given `job_id`.
    """

    job_id: str | None = None
    owner: bool = True
    kind: str = "plan"
    state: State
    signal: Signal
    received_bytes: int
    expected_bytes: int | None = None
    body_sha256: str
    sha256: str | None = None
    stmt_count: int | None = None
    target: str | None = None
    level: str | None = None
    evidence: tuple[str, ...] = ()
    detail: str = ""
    submitter: str | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt as the book has it. Times are RFC 3339 UTC with microseconds; `changed_at` is the last move's."""

    attempt_id: str
    job_id: str | None
    owner: bool
    kind: str
    state: State
    signal: Signal
    received_bytes: int
    expected_bytes: int | None
    body_sha256: str
    sha256: str | None
    stmt_count: int | None
    statements_run: int | None
    target: str | None
    level: str | None
    evidence: tuple[str, ...]
    detail: str
    submitter: str | None
    approver: str | None
    approved_fingerprint: str | None
    fingerprint_before: str | None
    fingerprint_after: str | None
    backup: str | None
    statement_rows: tuple[int, ...] | None
    received_at: str
    changed_at: str


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One link of an attempt's chain. `data["set"]` holds the facts that this event wrote into the attempt's row."""

    id: int
    seq: int
    at: str
    event: str
    from_state: str | None
    to_state: str | None
    data: dict[str, Any]
    hash: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit of the whole book found. `problems` holds the first of `problem_count` sentences.

    `checkpoint` is (number, id of the last event it covers, hash in hex) of the newest checkpoint: a copy of it kept
    elsewhere proves the book up to there.
    """

    attempts: int
    events: int
    checkpoints: int
    decisions: int
    reviews: int
    problems: tuple[str, ...]
    problem_count: int
    checkpoint: tuple[int, int, str] | None

    @property
    def ok(self) -> bool:
        return self.problem_count == 0


class Moved(Exception):
    """The attempt is not in the state the caller expected. Nothing was written; `entry` is what the book says now."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(f"attempt {entry.attempt_id} is {entry.state}")
        self.entry = entry


COLUMNS: tuple[str, ...] = Entry.__struct_fields__
RECEIVED_COLUMNS = ("attempt_id", *New.__struct_fields__, "received_at", "changed_at", "events", "head")
_STATES = {state.value: state for state in State}
_SIGNALS = {signal.value: signal for signal in Signal}


def entry_of(row: tuple[Any, ...]) -> Entry:
    """The attempt that a row holds, its values in the order of COLUMNS."""
    values = dict(zip(COLUMNS, row, strict=True))
    values["owner"] = bool(values["owner"])
    values["state"] = _STATES[values["state"]]
    values["signal"] = _SIGNALS[values["signal"]]
    values["evidence"] = tuple(values["evidence"].split("\n")) if values["evidence"] else ()
    if values["statement_rows"] is not None:
        values["statement_rows"] = tuple(map(int, values["statement_rows"].split()))
    return Entry(**values)


def columns_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The same facts as the table stores them: evidence one a line, row counts between spaces.

    Words are handed to SQLite as plain `str`: it would search for an adapter of any subclass, which is slow.
    """
    columns = dict(facts)
    for name in ("state", "signal"):
        if name in columns:
            columns[name] = str(columns[name])
    if "owner" in columns:
        columns["owner"] = int(columns["owner"])
    if "evidence" in columns:
        columns["evidence"] = "\n".join(columns["evidence"])
    if columns.get("statement_rows") is not None:
        columns["statement_rows"] = " ".join(map(str, columns["statement_rows"]))
    return columns


def stamp(now: datetime) -> str:
    """RFC 3339 in UTC with six decimals and a `Z`. Raises ValueError for a time without a zone."""
    if now.tzinfo is None:
        raise ValueError("a time needs its zone")
    if now.tzinfo is not UTC:
        now = now.astimezone(UTC)
    return now.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
