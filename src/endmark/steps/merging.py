"""Merging what a recorded pass binds to, and settling what a crash left: the branch has the last word."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from endmark.core import merge_message
from endmark.core.decision import Next
from endmark.core.patch_outcome import PatchOutcome, of_refusal
from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.core.states import Decision, Review
from endmark.effects.git import Gate, refs
from endmark.effects.git.find import find_merge
from endmark.effects.git.merge import OutcomeUnknown, Person, merge
from endmark.ledger.entry import stamp
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import DecisionEntry, DecisionMoved, ReviewEntry
from endmark.ledger.patch_outcomes import outcome_of
from endmark.ledger.patch_queries import MERGING
from endmark.steps.patch_case import APPROVED, Case, Place, change_of, read_case

if TYPE_CHECKING:
    from endmark.core import intoto

Sign = Callable[[bytes], bytes]
"""A statement's bytes -> its signed form."""

_TITLE_MOST = 200


class How(msgspec.Struct, frozen=True, kw_only=True):
    """How a merge is made. `person`: who the commit is by; `sign`: None for a merge without a record in its message."""

    person: Person
    sign: Sign | None = None
    approver: str | None = None


def merge_passed(book: PatchBook, gate: Gate, place: Place, how: How, clock: Callable[[], datetime]) -> PatchOutcome:
    """Merge the change of `place`, if a recorded pass binds to exactly this change and policy.

    Raises CannotTry when nothing could be tried (checked out, locked, no permission): the pass stands then.
    """
    settle_merges(book, gate, place.repository, clock)
    try:
        case = read_case(gate, place)
    except Refused as refused:
        return _not_merged(place, refused.signal, refused.detail, clock)
    if case.change.is_merged:
        for entry in book.on_head(place.repository, place.ref, place.head):
            if entry.state is Decision.MERGED and stands_merged(gate, entry):
                return outcome_of(entry, book.reviews(entry.decision_id))
    decision = _pass_for(book, case)
    if decision is None:
        return _without_pass(book, gate, case, clock)
    for_a_person = case.for_a_person
    if for_a_person and how.approver is None:
        names = ", ".join(ascii(path)[2:-1] for path in for_a_person[:5])
        detail = f"it changes {names}, which a person must look at: 'endmark merge ... --approve' says somebody did"
        return _waiting(book, decision, detail)
    book.note(decision.decision_id, MERGING, clock(), {"approver": how.approver} if how.approver else {})
    try:
        merged = book.merge(
            decision.decision_id,
            clock(),
            lambda entry: _move(book, gate, case, entry, how, clock()),
            approver=how.approver,
        )
    except DecisionMoved as moved:
        return outcome_of(moved.entry, book.reviews(moved.entry.decision_id))
    except Refused as refused:
        if refused.signal not in (Signal.STALE_BASE, Signal.STALE_DIFF):
            return _not_merged(place, refused.signal, refused.detail, clock, decision.decision_id)
        return _stale(book, gate, decision, refused.signal, refused.detail, clock)
    except OutcomeUnknown as unknown:
        raise CannotTry(f"{unknown.detail}. 'endmark reconcile' settles it.") from None
    return outcome_of(merged, book.reviews(merged.decision_id))


def settle_merges(book: PatchBook, gate: Gate, repository: str, clock: Callable[[], datetime]) -> list[DecisionEntry]:
    """Record the merges that were made but not written down: passes whose branch holds their merge commit.

    Raises CannotTry when the repository cannot be read.
    """
    settled = []
    for entry in book.told_to_merge(repository, Decision.PASS):
        with suppress(DecisionMoved):
            done = book.settle(entry.decision_id, clock(), lambda one: _made(gate, one))
            settled += [] if done is None else [done]
    return settled


def merged_all_the_same(book: PatchBook, gate: Gate, repository: str) -> list[tuple[DecisionEntry, str]]:
    """Decisions that were failed or overtaken while a merge of theirs was being made that a crash left unrecorded.

    Each with the commit that the branch holds. Raises CannotTry.
    """
    found = []
    for state in (Decision.FAIL, Decision.STALE):
        for entry in book.told_to_merge(repository, state):
            made = _made(gate, entry)
            found += [] if made is None else [(entry, made[0])]
    return found


def stands_merged(gate: Gate, entry: DecisionEntry) -> bool:
    """Whether the branch still holds the merge of a decision that reads `merged`. Raises CannotTry."""
    made = _made(gate, entry)
    return made is not None and made[0] == entry.merged


def _made(gate: Gate, entry: DecisionEntry) -> tuple[str, tuple[str, ...]] | None:
    """The merge of a decision that its branch holds, with the evidence for it."""
    if entry.merge_tree is None:
        return None
    found = find_merge(gate, entry.ref, base=entry.base, head=entry.head, tree=entry.merge_tree)
    if found is None or merge_message.decision_of(found.message) != entry.decision_id:
        return None
    return found.oid, ("merge-found",)


def _pass_for(book: PatchBook, case: Case) -> DecisionEntry | None:
    return next(iter(book.of_diff(case.change.diff_sha, case.place.policy.sha256, Decision.PASS)), None)


def _move(
    book: PatchBook, gate: Gate, case: Case, entry: DecisionEntry, how: How, now: datetime
) -> tuple[str, tuple[str, ...]]:
    """Make the commit and move the branch. Raises as `effects.git.merge` does."""
    from endmark.core import intoto  # only who merges pays for it

    place = case.place
    approved = () if how.approver is None else (f"{APPROVED}{how.approver}",)
    record = None if how.sign is None else how.sign(intoto.dumps(statement(book, case, entry, now, approved)))
    title = f"Merge {place.head[:12]} into {place.branch.name}"[:_TITLE_MOST]
    message = merge_message.write(title, entry.decision_id, record)
    done = merge(gate, case.change, message=message, person=how.person, at=int(now.timestamp()))
    return done.tip, (*approved, "record:unsigned" if record is None else "record:signed")


def statement(
    book: PatchBook, case: Case, entry: DecisionEntry, now: datetime, beside: tuple[str, ...] = ()
) -> intoto.Decision:
    """What the record of a decision says: the change, the policy, and every complete review. `beside`: evidence."""
    from endmark.core import intoto  # only who merges pays for it

    change, place = case.change, case.place
    asked = [
        _asked(one, case)
        for one in book.reviews_of_diff(change.diff_sha, place.policy.sha256, Review.PASS, Review.FAIL)
    ]
    return intoto.Decision(
        decision="fail" if entry.state is Decision.FAIL else "pass",
        change=change_of(case),
        policy_version=place.branch.policy,
        policy_sha256=place.policy.sha256,
        reviews=tuple(asked),
        evidence=(*entry.evidence, *beside),
        at=stamp(now),
    )


def _asked(one: ReviewEntry, case: Case) -> intoto.Asked:
    from endmark.core import intoto  # only who merges pays for it

    reviewer = case.place.policy.reviewers[one.reviewer]
    assert one.body_sha256 is not None  # noqa: S101  # the ledger's SQL demands it of a complete review
    from_us = one.purpose in ("review", "replay")
    return intoto.Asked(
        attempt_id=one.review_id,
        reviewer=one.reviewer,
        kind=reviewer.kind if from_us else one.purpose,
        model=one.model,
        wire=reviewer.wire if from_us else None,
        temperature=reviewer.temperature if from_us else None,
        max_output_tokens=reviewer.max_output_tokens if from_us else None,
        capacity=reviewer.capacity,
        prompt_sha256=one.prompt_sha256,
        shown_sha256=one.shown_sha256,
        verdict_sha256=one.body_sha256,
        verdict="pass" if one.state is Review.PASS else "fail",
        blocking=one.blocking or 0,
        advisory=one.advisory or 0,
        evidence=one.evidence,
    )


def _without_pass(book: PatchBook, gate: Gate, case: Case, clock: Callable[[], datetime]) -> PatchOutcome:
    """Why there is no pass to merge by: what was decided about this change, or about this head as it was before."""
    place, change = case.place, case.change
    decisions = book.of_diff(change.diff_sha, place.policy.sha256)
    for state in (Decision.FAIL, Decision.MERGED, Decision.PENDING, Decision.STALE, Decision.INCOMPLETE):
        for entry in decisions:
            if entry.state is state:
                if state is Decision.MERGED and not stands_merged(gate, entry):
                    detail = f"it was merged as {entry.merged}, which {place.ref} holds no longer; review it again"
                    return _not_merged(place, Signal.STALE_BASE, detail, clock, entry.decision_id)
                return outcome_of(entry, book.reviews(entry.decision_id))
    tip = refs.tip(gate.repository, place.ref)
    for entry in book.on_head(place.repository, place.ref, place.head):
        if entry.state is Decision.PASS:
            moved = entry.diff_sha != change.diff_sha
            signal, what = (
                (Signal.STALE_BASE, f"the branch {place.ref} moved")
                if moved
                else (Signal.STALE_POLICY, "the policy changed")
            )
            detail = f"{what} since this head was passed"
            if moved and tip == entry.base:  # whoever merges named another base; what was passed still stands
                detail = f"this head was passed on the base {entry.base}, not on {place.base}"
                return _not_merged(place, signal, detail, clock, entry.decision_id)
            return _stale(book, gate, entry, signal, detail, clock)
    detail = f"no decision about the change {change.diff_sha[:12]}... is on record"
    return _not_merged(place, Signal.STALE_DIFF, detail, clock)


def _stale(
    book: PatchBook, gate: Gate, entry: DecisionEntry, signal: Signal, detail: str, clock: Callable[[], datetime]
) -> PatchOutcome:
    """End a pass that was overtaken, unless it turns out that a killed process has merged it."""
    try:
        settled = book.settle(entry.decision_id, clock(), lambda one: _made(gate, one), (signal, detail))
        entry = settled or entry
    except DecisionMoved as moved:
        entry = moved.entry
    return outcome_of(entry, book.reviews(entry.decision_id))


def _waiting(book: PatchBook, entry: DecisionEntry, detail: str) -> PatchOutcome:
    stands = outcome_of(entry, book.reviews(entry.decision_id))
    said = f"{detail[:1].upper()}{detail[1:]}. Nothing was merged."
    return msgspec.structs.replace(stands, detail=said, next=Next.ASK, exit_code=16)


def _not_merged(
    place: Place, signal: Signal, detail: str, clock: Callable[[], datetime], decision_id: str | None = None
) -> PatchOutcome:
    found = of_refusal(Refused(signal, 0, None, detail), stamp(clock()))
    return msgspec.structs.replace(
        found,
        decision_id=decision_id,
        ref=place.ref,
        base=place.base,
        head=place.head,
        policy_version=place.branch.policy,
    )
