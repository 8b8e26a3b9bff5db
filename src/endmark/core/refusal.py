"""The one thing a reader raises, and the names of every fault it can find."""

from collections.abc import Callable
from enum import StrEnum


class Signal(StrEnum):
    """What was found. Each name stands in exactly one row of `core.decision.TABLE`."""

    # row 1
    EMPTY = "empty"
    HEADER_CUT = "header-cut"
    BODY_CUT = "body-cut"
    NO_SENTINEL = "no-sentinel"
    # row 2
    BAD_HEADER = "bad-header"
    NO_ENVELOPE = "no-envelope"
    OVER_CAP = "over-cap"
    BYTES_AFTER_END = "bytes-after-end"
    # row 3
    ENVELOPE_DIGEST = "envelope-digest"
    # row 4
    NOT_JSON = "not-json"
    # row 5
    NOT_AN_OBJECT = "not-an-object"
    DUPLICATE_KEY = "duplicate-key"
    NOT_FINITE = "not-finite"
    LONE_SURROGATE = "lone-surrogate"
    TOO_DEEP = "too-deep"
    INTEGER_SIZE = "integer-size"
    TWO_DOCUMENTS = "two-documents"
    # row 6
    NO_TRAILER = "no-trailer"
    TRAILER_NOT_LAST = "trailer-not-last"
    COUNT_NOT_FIRST = "count-not-first"
    MARKS = "marks"
    # row 7
    UNKNOWN_KEY = "unknown-key"
    MISSING_KEY = "missing-key"
    WRONG_TYPE = "wrong-type"
    WRONG_VALUE = "wrong-value"
    BAD_ID = "bad-id"
    WRONG_COUNT = "wrong-count"
    BLANK_STATEMENT = "blank-statement"
    CONTRADICTION = "contradiction"
    ID_REUSED = "id-reused"
    RETRY_OF_LIVE_JOB = "retry-of-live-job"
    # row 8
    STATEMENTS_DIGEST = "statements-digest"
    DOWN_DIGEST = "down-digest"
    # row 9
    IDLE = "idle"
    RESET = "reset"
    BAD_STOP = "bad-stop"
    NO_TERMINAL = "no-terminal"
    TOKEN_CAP = "token-cap"
    INPUT_CUT = "input-cut"
    WEAK_EVIDENCE = "weak-evidence"
    UNREACHABLE = "unreachable"
    DIFF_OVER_CAP = "diff-over-cap"
    MERGE_CONFLICT = "merge-conflict"
    # row 10
    STALE_DIFF = "stale-diff"
    STALE_BASE = "stale-base"
    STALE_POLICY = "stale-policy"
    STALE_FINGERPRINT = "stale-fingerprint"
    # row 11
    SQL_ERROR = "sql-error"
    FORBIDDEN_STATEMENT = "forbidden-statement"
    CHECK_FAILED = "check-failed"
    STATEMENT_TIMEOUT = "statement-timeout"
    INTERRUPTED = "interrupted"
    TARGET_FAULT = "target-fault"
    LOST = "lost"
    # row 12
    COMPLETE = "complete"


class Refused(Exception):
    """Bytes were not proven whole and right; nothing may be done with any of them.

    `received_bytes` counts what arrived; `expected_bytes` is what the bytes themselves declared, or None (S7).
    `detail` is one sentence; it is built when first read, so that refusing costs nothing but the proof.
    """

    __slots__ = ("_detail", "expected_bytes", "outcome", "received_bytes", "signal")

    def __init__(
        self,
        signal: Signal,
        received_bytes: int,
        expected_bytes: int | None = None,
        detail: str | Callable[[], str] = "",
    ) -> None:
        self.signal = signal
        self.received_bytes = received_bytes
        self.expected_bytes = expected_bytes
        self._detail = detail
        self.outcome: object | None = None  # the record of it, where a gate kept one

    @property
    def detail(self) -> str:
        if not isinstance(self._detail, str):
            self._detail = self._detail()
        return self._detail

    def __str__(self) -> str:
        return f"{self.signal}: {self.detail}"

    def __reduce__(self) -> tuple[type["Refused"], tuple[Signal, int, int | None, str]]:
        return Refused, (self.signal, self.received_bytes, self.expected_bytes, self.detail)


class CannotTry(Exception):
    """The world is not in a state to try: ledger or target missing, locked, full or newer. Nothing was changed."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class NotYours(CannotTry):
    """Somebody else has to do it: to wait helps nobody, another person does."""


class NotThere(CannotTry):
    """What was named is not there: no such job, ledger, repository or branch. To wait for it helps nobody."""
