"""The decision table: what each signal is treated as, the state it leads to and the exit code.

`spec/states.md`, the docs, the tests and `endmark decisions` read this table. First match wins.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from endmark.core.refusal import Signal
from endmark.core.states import State


class Next(StrEnum):
    """What whoever sent the bytes should do now (X4)."""

    RESEND = "resend-new-job-id"
    WAIT = "wait"
    ASK = "ask-person"
    NONE = "none"


class Row(msgspec.Struct, frozen=True):
    """One row of the table: `finds` says it to people, `signals` are its names in records, `advice` what to do."""

    number: int
    finds: str
    signals: tuple[Signal, ...]
    treat_as: str
    state: State
    exit_code: int
    next: Next
    advice: str
    keeps_bytes: bool = False


TABLE: tuple[Row, ...] = (
    Row(
        1,
        "empty; a proper prefix of a well-formed MC1 header; body shorter than declared; sentinel missing",
        (Signal.EMPTY, Signal.HEADER_CUT, Signal.BODY_CUT, Signal.NO_SENTINEL),
        "truncation",
        State.TRUNCATED,
        10,
        Next.RESEND,
        "Nothing was written. Send the whole payload again under a new job id.",
    ),
    Row(
        2,
        "any other header fault; declared length over the cap; bytes after the declared end; "
        "no envelope where one is needed",
        (Signal.BAD_HEADER, Signal.OVER_CAP, Signal.BYTES_AFTER_END, Signal.NO_ENVELOPE),
        "logic error",
        State.REJECTED,
        12,
        Next.RESEND,
        "Nothing was written. Mend it and send the whole payload under a new job id.",
    ),
    Row(
        3,
        "envelope digest mismatch",
        (Signal.ENVELOPE_DIGEST,),
        "corruption or mix-up",
        State.QUARANTINED,
        11,
        Next.RESEND,
        "Nothing was written; the bytes are kept. Send the whole payload again under a new job id.",
        keeps_bytes=True,
    ),
    Row(
        4,
        "JSON does not decode (it ended early, or is malformed at a byte)",
        (Signal.NOT_JSON,),
        "truncation",
        State.TRUNCATED,
        10,
        Next.RESEND,
        "Nothing was written. Send the whole payload again under a new job id.",
    ),
    Row(
        5,
        "decodes but is not strict: too deep, two documents, not an object, duplicate key, NaN or infinity, "
        "size of an integer, lone surrogate",
        (
            Signal.TOO_DEEP,
            Signal.TWO_DOCUMENTS,
            Signal.NOT_AN_OBJECT,
            Signal.DUPLICATE_KEY,
            Signal.NOT_FINITE,
            Signal.INTEGER_SIZE,
            Signal.LONE_SURROGATE,
        ),
        "logic error",
        State.REJECTED,
        12,
        Next.RESEND,
        "Nothing was written. Mend it and send the whole payload under a new job id.",
    ),
    Row(
        6,
        "trailer, count or asked-for marks absent, wrong or not where they must be",
        (Signal.NO_TRAILER, Signal.TRAILER_NOT_LAST, Signal.COUNT_NOT_FIRST, Signal.MARKS),
        "truncation",
        State.TRUNCATED,
        10,
        Next.RESEND,
        "Nothing was written. Send the whole payload again under a new job id.",
    ),
    Row(
        7,
        "unknown or missing key, wrong type or value, bad id, stmt_count is not the number of statements, "
        "a statement that says nothing, pass with a blocking finding, id already used for another body or target",
        (
            Signal.UNKNOWN_KEY,
            Signal.MISSING_KEY,
            Signal.WRONG_TYPE,
            Signal.WRONG_VALUE,
            Signal.BAD_ID,
            Signal.WRONG_COUNT,
            Signal.BLANK_STATEMENT,
            Signal.CONTRADICTION,
            Signal.ID_REUSED,
            Signal.RETRY_OF_LIVE_JOB,
        ),
        "logic error",
        State.REJECTED,
        12,
        Next.RESEND,
        "Nothing was written. Mend it and send the whole payload under a new job id.",
    ),
    Row(
        8,
        "digest of the statements does not match",
        (Signal.STATEMENTS_DIGEST, Signal.DOWN_DIGEST),
        "corruption or mix-up",
        State.QUARANTINED,
        11,
        Next.RESEND,
        "Nothing was written; the bytes are kept. Send the whole payload again under a new job id.",
        keeps_bytes=True,
    ),
    Row(
        9,
        "idle timeout, reset, abnormal or unknown stop reason, no terminal event, output tokens at the cap, "
        "input tokens too few for what was shown, less evidence than the target demands, reviewer unreachable, "
        "diff over the cap, merge conflict",
        (
            Signal.IDLE,
            Signal.RESET,
            Signal.BAD_STOP,
            Signal.NO_TERMINAL,
            Signal.TOKEN_CAP,
            Signal.INPUT_CUT,
            Signal.WEAK_EVIDENCE,
            Signal.UNREACHABLE,
            Signal.DIFF_OVER_CAP,
            Signal.MERGE_CONFLICT,
        ),
        "unknown completeness",
        State.INCOMPLETE,
        13,
        Next.RESEND,
        "Nothing was written. Get a whole answer and send it under a new job id.",
    ),
    Row(
        10,
        "bound to another diff, base, policy or fingerprint",
        (Signal.STALE_DIFF, Signal.STALE_BASE, Signal.STALE_POLICY, Signal.STALE_FINGERPRINT),
        "overtaken",
        State.STALE,
        14,
        Next.RESEND,
        "Nothing was written. Make it for what stands there now and send it under a new job id.",
    ),
    Row(
        11,
        "SQL error, forbidden statement, failed check, statement timeout, interruption, a fault of the target, "
        "no receipt after a crash",
        (
            Signal.SQL_ERROR,
            Signal.FORBIDDEN_STATEMENT,
            Signal.CHECK_FAILED,
            Signal.STATEMENT_TIMEOUT,
            Signal.INTERRUPTED,
            Signal.TARGET_FAULT,
            Signal.LOST,
        ),
        "partial-apply risk",
        State.FAILED,
        1,
        Next.RESEND,
        "Everything was rolled back. Mend the cause and send the whole payload under a new job id.",
    ),
    Row(12, "all evidence present", (Signal.COMPLETE,), "complete", State.STAGED, 16, Next.WAIT, ""),
)

_ROW_OF: dict[Signal, Row] = {signal: row for row in TABLE for signal in row.signals}


def row_of(signal: Signal) -> Row:
    """The row that `signal` stands in."""
    return _ROW_OF[signal]


def first(signals: Iterable[Signal]) -> Signal:
    """Of several signals found in the same bytes, the one that decides: the first in table order (S6).

    Raises ValueError for none: nothing found is not something proven.
    """
    found = set(signals)
    for row in TABLE:
        for signal in row.signals:
            if signal in found:
                return signal
    raise ValueError("no signal was given")
