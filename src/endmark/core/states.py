"""Every legal move of a job, a review and a decision, as data (spec/states.md, rules S1-S5).

The ledger writes its triggers from this table, the docs print it; a move that is not here is refused.
"""

from enum import StrEnum


class State(StrEnum):
    """The states of a job."""

    RECEIVED = "received"
    TRUNCATED = "truncated"
    REJECTED = "rejected"
    QUARANTINED = "quarantined"
    INCOMPLETE = "incomplete"
    STAGED = "staged"
    APPROVED = "approved"
    DECLINED = "declined"
    STALE = "stale"
    APPLYING = "applying"
    APPLIED = "applied"
    FAILED = "failed"
    PARTIAL = "partial"
    SETTLED = "settled"


class Review(StrEnum):
    """The states of one attempt at a review."""

    ASKED = "asked"
    PASS = "pass"
    FAIL = "fail"
    INCOMPLETE = "incomplete"


class Decision(StrEnum):
    """The states of a decision about a patch."""

    PENDING = "pending"
    PASS = "pass"
    FAIL = "fail"
    INCOMPLETE = "incomplete"
    MERGED = "merged"
    STALE = "stale"


# S1: jobs
MOVES: dict[State, tuple[State, ...]] = {
    State.RECEIVED: (State.TRUNCATED, State.REJECTED, State.QUARANTINED, State.INCOMPLETE, State.STAGED),
    State.STAGED: (State.APPROVED, State.DECLINED, State.STALE),
    State.APPROVED: (State.APPLYING, State.STAGED, State.STALE),
    State.APPLYING: (State.APPLIED, State.FAILED, State.PARTIAL),
    State.PARTIAL: (State.SETTLED,),
    # S2: a finished state never moves
    State.TRUNCATED: (),
    State.REJECTED: (),
    State.QUARANTINED: (),
    State.INCOMPLETE: (),
    State.DECLINED: (),
    State.STALE: (),
    State.APPLIED: (),
    State.FAILED: (),
    State.SETTLED: (),
}

# S3: reviews
REVIEW_MOVES: dict[Review, tuple[Review, ...]] = {
    Review.ASKED: (Review.PASS, Review.FAIL, Review.INCOMPLETE),
    Review.PASS: (),
    Review.FAIL: (),
    Review.INCOMPLETE: (),
}

# S4: decisions; `incomplete` blocks, and any complete `fail` outweighs every `pass` until the merge
DECISION_MOVES: dict[Decision, tuple[Decision, ...]] = {
    Decision.PENDING: (Decision.PASS, Decision.FAIL, Decision.INCOMPLETE),
    Decision.PASS: (Decision.FAIL, Decision.MERGED, Decision.STALE),
    Decision.FAIL: (),
    Decision.INCOMPLETE: (),
    Decision.MERGED: (),
    Decision.STALE: (),
}

FINISHED: frozenset[State] = frozenset(state for state, onward in MOVES.items() if not onward)

# S5: what ended without any effect, so that a plan may say `retry_of`
WITHOUT_EFFECT: frozenset[State] = FINISHED - {State.APPLIED, State.SETTLED}

# X1 X2: the exit code of a job that stands in this state (spec/exit-codes.md)
EXIT: dict[State, int] = {
    State.RECEIVED: 20,
    State.TRUNCATED: 10,
    State.REJECTED: 12,
    State.QUARANTINED: 11,
    State.INCOMPLETE: 13,
    State.STAGED: 16,
    State.APPROVED: 16,
    State.DECLINED: 1,
    State.STALE: 14,
    State.APPLYING: 20,
    State.APPLIED: 0,
    State.FAILED: 1,
    State.PARTIAL: 15,
    State.SETTLED: 1,
}
