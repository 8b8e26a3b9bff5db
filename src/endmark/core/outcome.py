"""The one object `--json` prints: what became of an attempt, in a fixed order of keys (spec/exit-codes.md)."""

import msgspec

from endmark.core.decision import Next, row_of
from endmark.core.refusal import Refused, Signal
from endmark.core.states import EXIT, State

VERSION = 1


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one attempt (X3). `at` is RFC 3339 UTC; byte counts are of the raw input as received."""

    version: int = VERSION
    attempt_id: str | None = None
    job_id: str | None = None
    state: str
    signal: str
    received_bytes: int | None = None
    expected_bytes: int | None = None
    sha256: str | None = None
    stmt_count: int | None = None
    statements_run: int | None = None
    target: str | None = None
    evidence: list[str] = []
    detail: str = ""
    next: Next = Next.NONE
    exit_code: int
    at: str


def standing(state: State, signal: Signal) -> tuple[int, Next]:
    """The exit code and the next step of a job that stands in `state` because of `signal` (X2, X4)."""
    if state is State.PARTIAL:
        return EXIT[state], Next.ASK  # whatever stopped it
    if state is State.SETTLED:
        return EXIT[state], Next.NONE
    if signal is Signal.TARGET_FAULT:
        return 20, Next.RESEND  # rolled back, and no fault of the plan's
    if signal is Signal.ID_REUSED:
        return EXIT[state], Next.NONE
    if state in (State.STAGED, State.APPROVED, State.APPLYING, State.RECEIVED):
        return EXIT[state], Next.WAIT
    if state is State.APPLIED or (state is State.DECLINED and signal is Signal.COMPLETE):
        return EXIT[state], Next.NONE
    return EXIT[state], row_of(signal).next


_ADVICE = {
    Signal.ID_REUSED: "Nothing was done.",
    Signal.WEAK_EVIDENCE: "Nothing was written. Seal the whole answer where it was captured, and send that under a new "
    "job id.",
    Signal.MERGE_CONFLICT: "Nothing was written. Merge the base into the head, or rebase the head, and ask again.",
    Signal.DIFF_OVER_CAP: "Nothing was written. Split the change, or have a person raise the cap, and ask again.",
}


def sentence(signal: Signal, detail: str) -> str:
    """What was found, what was not done and what to do now."""
    advice = row_of(signal).advice
    if signal in _ADVICE:
        advice = _ADVICE[signal]
    said = detail.rstrip(".")
    return " ".join(part for part in (f"{said[:1].upper()}{said[1:]}." if said else "", advice) if part)


def of_refusal(refusal: Refused, at: str) -> Outcome:
    """The outcome of bytes that were refused and recorded nowhere."""
    row = row_of(refusal.signal)
    return Outcome(
        state=row.state.value,
        signal=refusal.signal.value,
        received_bytes=refusal.received_bytes,
        expected_bytes=refusal.expected_bytes,
        detail=sentence(refusal.signal, refusal.detail).replace("the bytes are kept", "keep these bytes"),
        next=row.next,
        exit_code=row.exit_code,
        at=at,
    )


def could_not_try(
    detail: str, at: str, job_id: str | None = None, target: str | None = None, onward: Next = Next.WAIT
) -> Outcome:
    """The outcome when the ledger or the target could not be used: exit 20 (X5). `onward`: what to do now."""
    return Outcome(
        job_id=job_id,
        state="not-tried",
        signal="could-not-try",
        target=target,
        detail=detail,
        next=onward,
        exit_code=20,
        at=at,
    )
