"""Who may approve a job, and how long an approval holds."""

from datetime import datetime

from endmark.core.refusal import NotYours
from endmark.core.states import State
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry, stamp
from endmark.steps.treatment import Options

SELF_APPROVED = "self-approved"


def check_person(options: Options, submitter: str | None, approver: str) -> None:
    """Where the target wants two people, the second is not the first. Raises NotYours."""
    if options.other_approver and (submitter is None or _person(submitter) == _person(approver)):
        who = "nobody knows who submitted it" if submitter is None else f"{submitter} submitted it"
        raise NotYours(
            f'the target wants another approver than the submitter (approver = "other"), and {who}. '
            "Nothing was written; the job stays staged."
        )


def _person(name: str) -> str:
    """A name as `review.who` gives it, without the host of an agent: one person under two hosts is one."""
    return name.partition(" (")[0].strip().casefold()


def void(ledger: Ledger, entry: Entry, fingerprint: str, options: Options, now: datetime) -> str | None:
    """Why the approval that a job carries does not hold any more, or None. Raises CannotTry."""
    if entry.approved_fingerprint != fingerprint:
        return "the target's schema changed since it was approved"
    given = [event.at for event in ledger.events(entry.attempt_id) if event.to_state == State.APPROVED.value]
    if options.approval_expires is not None:
        age = (now - datetime.fromisoformat(given[-1])).total_seconds() if given else float("inf")
        if not 0 <= age <= options.approval_expires:
            return f"it was approved at {given[-1] if given else 'an unknown time'}, and expired by {stamp(now)}"
    return None
