"""The one result of a call about a patch, as the faces print it (spec/exit-codes.md)."""

import msgspec

from endmark.core.decision import Next, row_of
from endmark.core.refusal import Refused, Signal
from endmark.core.states import Decision

VERSION = 1

# X6: the exit code of a decision; an incomplete one has that of what was found.
EXIT: dict[Decision, int] = {
    Decision.PENDING: 16,
    Decision.PASS: 0,
    Decision.MERGED: 0,
    Decision.FAIL: 1,
    Decision.INCOMPLETE: 13,
    Decision.STALE: 14,
}
_NEXT: dict[Decision, Next] = {
    Decision.PENDING: Next.WAIT,
    Decision.PASS: Next.NONE,
    Decision.MERGED: Next.NONE,
    Decision.FAIL: Next.NONE,
    Decision.INCOMPLETE: Next.RESEND,
    Decision.STALE: Next.RESEND,
}


class Reviewed(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt at a review came to."""

    review_id: str
    reviewer: str
    purpose: str
    state: str
    signal: str | None
    received_bytes: int | None
    expected_bytes: int | None
    blocking: int | None
    advisory: int | None
    evidence: list[str] = []
    detail: str = ""


class PatchOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a patch. `at` is RFC 3339 UTC; `merged` is the commit that the branch was moved to."""

    version: int = VERSION
    decision_id: str | None = None
    state: str
    signal: str
    diff_sha: str | None = None
    ref: str | None = None
    base: str | None = None
    head: str | None = None
    policy_version: str | None = None
    merged: str | None = None
    reviews: list[Reviewed] = []
    evidence: list[str] = []
    detail: str = ""
    next: Next = Next.NONE
    exit_code: int
    at: str


def standing(state: Decision, signal: Signal) -> tuple[int, Next]:
    """The exit code and the next step of a decision that stands in `state` because of `signal` (X6)."""
    if state is Decision.INCOMPLETE and signal is not Signal.COMPLETE:
        return row_of(signal).exit_code, row_of(signal).next
    return EXIT[state], _NEXT[state]


def of_refusal(refusal: Refused, at: str) -> PatchOutcome:
    """The outcome where nothing could be decided, and nothing was recorded: what it is about could not be read."""
    row = row_of(refusal.signal)
    stale = row.exit_code == EXIT[Decision.STALE]
    return PatchOutcome(
        state=(Decision.STALE if stale else Decision.INCOMPLETE).value,
        signal=refusal.signal.value,
        detail=f"{refusal.detail[:1].upper()}{refusal.detail[1:]}. Nothing was merged.",
        next=row.next,
        exit_code=row.exit_code,
        at=at,
    )
