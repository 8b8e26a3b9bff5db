"""An attempt of the book as the object `--json` prints."""

from endmark.core.decision import Next
from endmark.core.evidence import FOUND_IN_REHEARSAL, JOURNAL, RECEIPT_FOUND, REVERTED, UNDONE_BY_DOWNS
from endmark.core.outcome import Outcome, sentence, standing
from endmark.core.states import State
from endmark.ledger.entry import Entry


def outcome_of(entry: Entry) -> Outcome:
    """What the book says of `entry` now."""
    exit_code, onward = standing(entry.state, entry.signal)
    if is_reverted(entry):  # `applied` would be believed, and its effect does not stand
        exit_code, onward = 1, Next.RESEND
    return Outcome(
        attempt_id=entry.attempt_id,
        job_id=entry.job_id,
        state=entry.state.value,
        signal=entry.signal.value,
        received_bytes=entry.received_bytes,
        expected_bytes=entry.expected_bytes,
        sha256=entry.sha256,
        stmt_count=entry.stmt_count,
        statements_run=entry.statements_run,
        target=entry.target,
        evidence=list(entry.evidence),
        detail=_words(entry),
        next=onward,
        exit_code=exit_code,
        at=entry.changed_at,
    )


def is_reverted(entry: Entry) -> bool:
    """Whether an applied job was undone since, as far as its evidence says."""
    return entry.state is State.APPLIED and any(item.startswith(REVERTED) for item in entry.evidence)


def _words(entry: Entry) -> str:
    if entry.state is State.PARTIAL:
        return (
            f"PARTIAL: {entry.statements_run} of {entry.stmt_count} statements stand in the target and could not be "
            f"undone: {entry.detail}. The target takes no other job until a person has looked at it and says "
            f"'endmark settle {entry.job_id} --reason TEXT'."
        )
    if entry.state is State.SETTLED:
        return f"Settled by {entry.approver or 'a person'}, who took charge of what it left: {entry.detail}."
    if entry.state is State.FAILED and UNDONE_BY_DOWNS in entry.evidence:
        return (
            f"{entry.detail[:1].upper()}{entry.detail[1:]}. The schema is the one from before; what the downs made of "
            "rows is the plan's word. Mend the cause and send the whole payload under a new job id."
        )
    if entry.state is State.DECLINED and FOUND_IN_REHEARSAL in entry.evidence:
        return (
            f"Found in rehearsal: {entry.detail}. The target was not touched. Mend the cause and send the whole "
            "payload under a new job id."
        )
    if entry.detail:
        return sentence(entry.signal, entry.detail)
    count = entry.stmt_count
    many = "1 statement" if count == 1 else f"{count} statements"
    if entry.state is State.STAGED:
        return (
            f"Whole and staged: {many} waiting for review. Nothing was written. "
            f"Look with 'endmark show {entry.job_id}', then 'endmark approve {entry.job_id}' or 'decline'."
        )
    if entry.state is State.APPROVED:
        return f"Approved by {entry.approver or 'a person'}, waiting to be applied. Nothing was written."
    if entry.state is State.APPLYING:
        return (
            "It is being applied right now, or was interrupted; 'endmark reconcile' settles it once the target is free."
        )
    if is_reverted(entry):
        by = next((f" by {item.partition(':')[2]}" for item in entry.evidence if ":" in item and REVERTED in item), "")
        return (
            f"It was applied, and reverted since{by}: its effect does not stand. "
            "Send it under a new job id to apply it again."
        )
    if entry.state is State.APPLIED and RECEIPT_FOUND in entry.evidence:
        return f"Applied: {many}, found by the receipt in the target."
    if entry.state is State.APPLIED and JOURNAL in entry.evidence:
        return f"Applied: {many}, each by itself and with its line in the target's journal; then the receipt."
    if entry.state is State.APPLIED:
        return f"Applied: {many}, with the receipt in the same transaction."
    if entry.state is State.DECLINED:
        return "Declined. Nothing was written."
    return ""
