"""Settle what a crash left of patches: merges that were made but not written down, reviews that nobody will answer."""

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from endmark.core.patch_outcome import PatchOutcome
from endmark.core.policy import MOST_SECONDS
from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.core.states import Decision, Review
from endmark.effects.git import Gate
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import Answer, DecisionEntry, DecisionMoved, ReviewEntry
from endmark.ledger.patch_outcomes import outcome_of
from endmark.steps.merging import merged_all_the_same, settle_merges
from endmark.steps.patch_case import policy_of

GRACE = timedelta(seconds=60)
"""How much longer than its policy lets a reviewer take it is waited before whoever asked counts as dead."""

_ALARM = "merge-found"


class SettledPatches(msgspec.Struct, frozen=True, kw_only=True):
    """`merged`: decisions whose merge was found on the branch. `ended`: ids of reviews that nobody would have answered.

    `alarms`: decisions that ended as failed or overtaken although the branch holds their merge; each is told once.
    """

    merged: list[PatchOutcome]
    ended: list[str]
    alarms: list[PatchOutcome]


def reconcile_patches(book: PatchBook, gate: Gate, repository: str, clock: Callable[[], datetime]) -> SettledPatches:
    """Settle every decision of one repository. Raises CannotTry when the ledger or the repository cannot be read."""

    def outcome(entry: DecisionEntry) -> PatchOutcome:
        return outcome_of(entry, book.reviews(entry.decision_id))

    merged = [outcome(entry) for entry in settle_merges(book, gate, repository, clock)]
    alarms = []
    for entry, commit in merged_all_the_same(book, gate, repository):
        if all(event.event != _ALARM for event in book.events(entry.decision_id)):
            book.note(entry.decision_id, _ALARM, clock(), {"commit": commit})
            said = f"It ended as {entry.state}, and {entry.ref} holds its merge {commit}: a person must look at it."
            alarms.append(msgspec.structs.replace(outcome(entry), detail=said))
    ended = [one.review_id for one in book.asked(repository) if _end(book, gate, one, clock)]
    return SettledPatches(merged=merged, ended=ended, alarms=alarms)


def _end(book: PatchBook, gate: Gate, one: ReviewEntry, clock: Callable[[], datetime]) -> bool:
    """End a review that has waited for longer than anybody may take. Should it be answered after all, that counts."""
    decision = book.get(one.decision_id)
    assert decision is not None  # noqa: S101  # a review has its decision, or the SQL would not have taken it
    patience = timedelta(seconds=_most_seconds(gate, decision)) + GRACE
    if clock() - datetime.fromisoformat(one.asked_at) < patience:
        return False
    said = "whoever asked ended before an answer was on record"
    answer = Answer(state=Review.INCOMPLETE, signal=Signal.NO_TERMINAL, received_bytes=0, detail=said)
    try:
        book.answered(one.review_id, answer, clock(), body=None)
    except ValueError:  # it came a moment ago
        return False
    still = any(other.state is Review.ASKED for other in book.reviews(one.decision_id))
    if not still and one.purpose == "review":
        try:
            signal = Signal.NO_TERMINAL
            book.move(one.decision_id, Decision.PENDING, Decision.INCOMPLETE, clock(), signal=signal, detail=said)
        except DecisionMoved:
            pass
    return True


def _most_seconds(gate: Gate, decision: DecisionEntry) -> float:
    """How long one attempt may take by the decision's policy; the most that any policy allows, where that is gone."""
    try:
        policy = policy_of(gate, decision.base)
        if policy.sha256 == decision.policy_sha256:
            return policy.branch(decision.ref).total_seconds
    except (Refused, CannotTry):
        pass
    return MOST_SECONDS
