"""A person's word on what a policy leaves to a person, on record before the merge that goes by it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from endmark.core.patch_outcome import PatchOutcome
from endmark.core.refusal import CannotTry
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import DecisionEntry
from endmark.ledger.patch_outcomes import outcome_of
from endmark.steps.patch_case import APPROVED, Case

_APPROVED = "approved"


class Conflict(CannotTry):
    """The decision is not one that anybody approves. Nothing was done."""


def approve(
    book: PatchBook, case: Case, entry: DecisionEntry, approver: str, clock: Callable[[], datetime]
) -> PatchOutcome:
    """Write down that `approver` looked at the change of a pass. It binds the decision, and with it diff and policy.

    Raises Conflict, and CannotTry.
    """
    if not case.for_a_person:
        raise Conflict(f"{entry.decision_id} changes nothing that needs a person. Nothing was done; it may be merged.")
    book.note(entry.decision_id, _APPROVED, clock(), {"approver": approver})
    stands = outcome_of(entry, book.reviews(entry.decision_id))
    return msgspec.structs.replace(
        stands,
        evidence=[*stands.evidence, f"{APPROVED}{approver}"],
        detail=f"{approver} looked at what the policy leaves to a person. Nothing was merged yet.",
    )


def approver_of(book: PatchBook, decision_id: str) -> str | None:
    """Who approved it last; None for nobody."""
    said = [event.data.get("approver") for event in book.events(decision_id) if event.event == _APPROVED]
    return str(said[-1]) if said else None
