"""What a decision on record is answered with."""

from collections.abc import Iterable

from endmark.core.decision import Next
from endmark.core.patch_outcome import PatchOutcome, Reviewed, standing
from endmark.core.refusal import Signal
from endmark.core.states import Decision
from endmark.ledger.patch_entry import DecisionEntry, ReviewEntry

_SAYS = {
    Decision.PENDING: "It waits for reviews. Nothing was merged.",
    Decision.PASS: "Every reviewer passed it. Nothing was merged yet.",
    Decision.FAIL: "Nothing was merged. Change it, and have the new head reviewed.",
    Decision.INCOMPLETE: "Nothing was merged.",
    Decision.STALE: "Nothing was merged. Review it again as it stands now.",
    Decision.MERGED: "",
}


def outcome_of(entry: DecisionEntry, reviews: Iterable[ReviewEntry]) -> PatchOutcome:
    """The outcome of a decision and its reviews."""
    exit_code, onward = standing(entry.state, entry.signal)
    if entry.signal is Signal.ID_REUSED:
        onward = Next.NONE
    elif entry.state is Decision.INCOMPLETE and _is_spent(entry):
        onward = Next.ASK
    return PatchOutcome(
        decision_id=entry.decision_id,
        state=entry.state.value,
        signal=entry.signal.value,
        diff_sha=entry.diff_sha,
        ref=entry.ref,
        base=entry.base,
        head=entry.head,
        policy_version=entry.policy_version,
        merged=entry.merged,
        reviews=[_reviewed(one) for one in reviews],
        evidence=list(entry.evidence),
        detail=_sentence(entry),
        next=onward,
        exit_code=exit_code,
        at=entry.changed_at,
    )


def _reviewed(one: ReviewEntry) -> Reviewed:
    return Reviewed(
        review_id=one.review_id,
        reviewer=one.reviewer,
        purpose=one.purpose,
        state=one.state.value,
        signal=None if one.signal is None else one.signal.value,
        received_bytes=one.received_bytes,
        expected_bytes=one.expected_bytes,
        blocking=one.blocking,
        advisory=one.advisory,
        evidence=list(one.evidence),
        detail=one.detail,
    )


def _is_spent(entry: DecisionEntry) -> bool:
    """Whether reviewing again would ask nobody."""
    return any(one.startswith("budget-spent:") for one in entry.evidence)


def _sentence(entry: DecisionEntry) -> str:
    found = f"{entry.detail[:1].upper()}{entry.detail[1:]}." if entry.detail else ""
    says = _SAYS[entry.state]
    if entry.state is Decision.INCOMPLETE and _is_spent(entry):
        says += " Every attempt that the policy allows was made; another head, base or policy is asked about anew."
    if entry.state is Decision.MERGED and entry.merged:
        says = f"{entry.ref.removeprefix('refs/heads/')} stands at {entry.merged[:12]}."
    return f"{found} {says}".strip()
