"""The patch gate: a reviewer's verdict opens a branch only if it is whole, says `pass`, and is bound to this change.

change -> (prompt with marks -> reviewer -> capture -> seal) -> verdict -> decision -> merge by compare-and-swap, with
the signed record in the merge commit. Nothing here reads the clock, the environment or chance; they are handed in.
"""

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from endmark.core.decision import first, row_of
from endmark.core.patch_outcome import PatchOutcome
from endmark.core.policy import Reviewer
from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.core.states import Decision, Review
from endmark.effects.git import Gate
from endmark.effects.git.shown import Block, read_blocks
from endmark.ledger.book import Ledger
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import ADVICE, Answer, DecisionEntry, DecisionMoved, NewDecision, NewReview, ReviewEntry
from endmark.ledger.patch_outcomes import outcome_of
from endmark.steps.merging import settle_merges, stands_merged
from endmark.steps.patch_case import Case, Place, read_case
from endmark.steps.reviewing import COMPLETE, Reviewing

__all__ = ["NoSuchReviewer", "PatchGate", "records_sha"]


class NoSuchReviewer(ValueError):
    """The branch does not ask whom a caller named, or the caller named nobody where it asks several."""


class PatchGate:
    """The gate over one ledger. `reviewing` asks reviewers and judges verdicts."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Callable[[], datetime],
        *,
        reviewing: Reviewing,
        stop: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._book = PatchBook(ledger)
        self._clock = clock
        self._reviewing = reviewing
        self._stop = stop

    @property
    def book(self) -> PatchBook:
        """The book of decisions that this gate writes."""
        return self._book

    # ---- the doings -------------------------------------------------------------------------------------------

    def review(
        self, gate: Gate, place: Place, submitter: str, *, begun: Callable[[str], None] = lambda _id: None
    ) -> PatchOutcome:
        """Ask the reviewers of the branch about a change, and decide.

        A change that was decided is not asked about again: a pass stands, and a fail is never asked into a pass. Only
        reviewers without a whole verdict are asked, each within its budget. `begun` is told the decision's id before
        anybody is asked; what it raises ends the call there. Raises CannotTry.
        """
        settle_merges(self._book, gate, place.repository, self._clock)
        case = self._read(gate, place, submitter)
        if isinstance(case, PatchOutcome):
            return case
        known = self._known(gate, case)
        if known is not None:
            return self.outcome(known)
        self._reviewing.check(place)
        decision = self._begin(case, submitter)
        begun(decision.decision_id)
        if self._failed(case) is not None:  # by a verdict that no decision was made by
            return self._conclude(case, decision)
        self._carry(case, decision)
        missing = self._missing(case, decision)
        advisors = self._silent(case)
        if missing or advisors:
            try:
                blocks = read_blocks(gate, case.change, case.place.branch.max_diff_bytes)
            except Refused as refused:
                return self._end(case, decision, Decision.INCOMPLETE, refused.signal, refused.detail)
            from concurrent.futures import ThreadPoolExecutor  # only who asks pays for it

            with ThreadPoolExecutor(len(missing) + len(advisors)) as pool:
                asking = [pool.submit(self._ask_within_budget, case, decision, one, blocks) for one in missing]
                asking += [
                    pool.submit(self._ask_within_budget, case, decision, one, blocks, ADVICE) for one in advisors
                ]
                for one in asking:
                    one.result()
        return self._conclude(case, decision)

    def decide(
        self,
        gate: Gate,
        place: Place,
        raw: bytes,
        submitter: str,
        *,
        reviewer: str | None = None,
        name: str | None = None,
        refused: Refused | None = None,
    ) -> PatchOutcome:
        """Decide on a verdict that was made elsewhere: `raw` is its envelope, `reviewer` whose it is.

        `name` is the id of this attempt, given outside the body; without one it is made of the bytes and the change, so
        that the same verdict brought twice is one attempt. What is brought about a change that was decided is recorded
        too: a fail ends a pass that is not merged, nothing else moves. `refused`: why the bytes are known not to have
        arrived whole; they are recorded so, and never judged. Raises CannotTry, and NoSuchReviewer.
        """
        whose = _whose(place, reviewer)
        settle_merges(self._book, gate, place.repository, self._clock)
        case = self._read(gate, place, submitter)
        if isinstance(case, PatchOutcome):
            return case
        digest = hashlib.sha256(raw).hexdigest()
        review_id = name
        if name is None and refused is None:  # bytes that were cut are no name for those that were not
            review_id = f"{digest[:32]}-{case.change.diff_sha[:16]}-{place.policy.sha256[:16]}-{whose.name}"
        former = None if review_id is None else self._book.review(review_id)
        if former is not None:
            return self._again(case, former, None if refused else digest, whose.name, submitter)
        if refused is not None:
            answer, body, _ = self._reviewing.cut(refused, raw)
        else:
            answer, body, _ = self._reviewing.judge(case, raw, signer=whose.signed_by)
        known = self._known(gate, case)
        is_fail = answer.state is Review.FAIL
        if known is not None and known.state is Decision.MERGED and is_fail:
            known = None  # what stands merged was failed: a decision of its own says so
        decision = known or self._begin(case, submitter)
        how = NewReview(review_id=review_id, reviewer=whose.name, purpose="elsewhere")
        try:
            brought = self._book.brought(decision.decision_id, how, answer, self._clock(), body=body)
        except ValueError:  # somebody brought the same at the same moment
            former = None if review_id is None else self._book.review(review_id)
            if former is None:
                raise
            return self._again(case, former, None if refused else digest, whose.name, submitter)
        if known is not None:
            stands = self._stands(known.decision_id, brought)
            if not (is_fail and stands.state == Decision.MERGED):
                return stands
            decision = self._begin(case, submitter)  # it was merged while this came
        self._carry(case, decision)
        return self._conclude(case, decision, partly=answer.state is not Review.INCOMPLETE)

    def outcome(self, entry: DecisionEntry) -> PatchOutcome:
        """What became of a decision, with its reviews."""
        return outcome_of(entry, self._book.reviews(entry.decision_id))

    # ---- what is known ----------------------------------------------------------------------------------------

    def _read(self, gate: Gate, place: Place, submitter: str) -> Case | PatchOutcome:
        """The case; or the recorded outcome where there is no merge to judge."""
        try:
            return read_case(gate, place)
        except Refused as refused:
            decision = self._book.open(_new(place, None, submitter), self._clock())
            return self._end(None, decision, Decision.INCOMPLETE, refused.signal, refused.detail)

    def _known(self, gate: Gate, case: Case) -> DecisionEntry | None:
        """The decision that stands for this change under this policy: a fail first, else a merge that the branch still
        holds, or a pass."""
        for state in (Decision.FAIL, Decision.MERGED, Decision.PASS):
            for decision in self._book.of_diff(case.change.diff_sha, case.place.policy.sha256, state):
                if state is not Decision.MERGED or stands_merged(gate, decision):
                    return decision
        return None

    def _begin(self, case: Case, submitter: str) -> DecisionEntry:
        """The decision that is pending for this change, or a new one."""
        for decision in self._book.of_diff(case.change.diff_sha, case.place.policy.sha256, Decision.PENDING):
            return decision
        return self._book.open(_new(case.place, case, submitter), self._clock())

    def _missing(self, case: Case, decision: DecisionEntry) -> list[Reviewer]:
        """The reviewers whose whole verdict this decision lacks."""
        reviews = self._book.reviews(decision.decision_id)
        have = {one.reviewer for one in reviews if one.state in COMPLETE and one.purpose != ADVICE}
        return [one for one in case.place.policy.reviewers_of(case.place.branch) if one.name not in have]

    def _silent(self, case: Case) -> list[Reviewer]:
        """The advisors whose whole advice on this change is not on record."""
        have = self._book.advised(case.change.diff_sha, case.place.policy.sha256)
        return [one for one in case.place.policy.advisors_of(case.place.branch) if one.name not in have]

    def _carry(self, case: Case, decision: DecisionEntry) -> None:
        """Bring the whole passes of this change from decisions that ended incomplete; and where the policy allows it,
        those of the same head whose records are equal on another base."""
        place, change = case.place, case.change
        found = [
            (one, f"carried-from:{one.review_id}", place.base)
            for one in self._book.reviews_of_diff(change.diff_sha, place.policy.sha256, Review.PASS)
            if one.purpose != "replay"
        ]
        if place.branch.carry == "identical":
            for former in self._book.on_head(place.repository, place.ref, place.head):
                alike = (former.policy_sha256, former.records_sha) == (place.policy.sha256, decision.records_sha)
                if alike and former.diff_sha is not None and former.diff_sha != change.diff_sha:
                    if self._book.failed(former.diff_sha, former.policy_sha256) is not None:
                        return  # nothing of a change that was failed is carried
                    found += [
                        (one, f"carried:{former.base}", former.base)
                        for one in self._book.reviews(former.decision_id)
                        if one.purpose not in ("replay", ADVICE)
                    ]
        for reviewer in self._missing(case, decision):
            for one, evidence, base in found:
                fits = (one.reviewer, one.state) == (reviewer.name, Review.PASS)
                fits = fits and one.decision_id != decision.decision_id
                if fits and self._reviewing.is_unchanged(place, reviewer, base, one.prompt_sha256):
                    self._bring(decision, one, evidence)
                    break

    def _bring(self, decision: DecisionEntry, one: ReviewEntry, evidence: str) -> None:
        body = self._book.answer(one.review_id)
        assert one.signal is not None and one.received_bytes is not None  # noqa: S101, PT018  # it is a pass
        self._book.carried(
            decision.decision_id,
            NewReview(
                reviewer=one.reviewer,
                purpose="carried",
                model=one.model,
                prompt_sha256=one.prompt_sha256,
                shown_sha256=one.shown_sha256,
            ),
            Answer(
                state=one.state,
                signal=one.signal,
                received_bytes=one.received_bytes,
                expected_bytes=one.expected_bytes,
                body_sha256=one.body_sha256,
                level=one.level,
                evidence=(*one.evidence, evidence),
                blocking=one.blocking,
                advisory=one.advisory,
            ),
            self._clock(),
            body=body,
        )

    def _again(
        self, case: Case, former: ReviewEntry, digest: str | None, reviewer: str, submitter: str
    ) -> PatchOutcome:
        """A review id came again: what is on record for the same bytes, reviewer and change, else a refusal.

        `digest` is None for bytes that were cut: they are the same as nothing.
        """
        decision = self._book.get(former.decision_id)
        assert decision is not None  # noqa: S101  # a review has its decision, or the SQL would not have taken it
        same = digest is not None and (former.body_sha256, former.reviewer) == (digest, reviewer)
        same = same and decision.diff_sha == case.change.diff_sha
        if same and decision.policy_sha256 == case.place.policy.sha256:
            if decision.state is Decision.PENDING:  # whoever brought it may have been killed before this
                self._carry(case, decision)
                return self._conclude(case, decision, partly=former.state is not Review.INCOMPLETE)
            found = self._stands(decision.decision_id, former)
            return msgspec.structs.replace(
                found, detail=f"Brought before, nothing was done now. {found.detail}".strip()
            )
        refused = Refused(
            Signal.ID_REUSED,
            0,
            None,
            f"the id {former.review_id} belongs to another verdict or change; that decision is {decision.state}",
        )
        entry = self._book.open(_new(case.place, case, submitter), self._clock())
        return self._end(case, entry, Decision.INCOMPLETE, refused.signal, refused.detail)

    def _stands(self, decision_id: str, brought: ReviewEntry) -> PatchOutcome:
        """What the bringer of a verdict is told of a decision that it did not make: one that was not whole is called
        incomplete, whatever else stands."""
        decision = self._book.get(decision_id)
        assert decision is not None and brought.signal is not None  # noqa: S101, PT018  # as above; it was answered
        found = self.outcome(decision)
        if brought.state is not Review.INCOMPLETE or decision.state is Decision.INCOMPLETE:
            return found
        row = row_of(brought.signal)
        said = f"{brought.detail[:1].upper()}{brought.detail[1:]}. It decided nothing: {decision_id} stays "
        return msgspec.structs.replace(
            found,
            state=Decision.INCOMPLETE.value,
            signal=brought.signal.value,
            detail=f"{said}{decision.state}.",
            next=row.next,
            exit_code=row.exit_code,
        )

    # ---- asking and judging -----------------------------------------------------------------------------------

    def _ask_within_budget(
        self,
        case: Case,
        decision: DecisionEntry,
        reviewer: Reviewer,
        blocks: Sequence[Block],
        purpose: str = "review",
    ) -> None:
        """Ask one reviewer until it gives a whole verdict or its budget for this change is spent.

        An attempt that reached nobody is recorded and not counted: an outage would block the change for good.
        """
        for _ in range(case.place.branch.retries + 1):
            if name := self._stop():
                raise CannotTry(f"{name} came before {reviewer.name} was asked; what was answered is on record")
            try:
                shown = self._reviewing.show(case, reviewer, blocks)
            except CannotTry as fault:
                if purpose != ADVICE:
                    raise
                shown = Refused(Signal.UNREACHABLE, 0, None, fault.detail.rstrip("."))  # stands in nobody's way
            how = NewReview(
                reviewer=reviewer.name,
                purpose=purpose,
                model=reviewer.model,
                prompt_sha256=None if isinstance(shown, Refused) else shown.instructions_sha256,
                shown_sha256=None if isinstance(shown, Refused) else shown.sha256,
            )
            most = case.place.branch.retries + 1
            asked = self._book.ask_within(decision.decision_id, how, self._clock(), most)
            if asked is None:
                return
            answer, body, stderr = self._reviewing.answer(case, reviewer, shown)
            try:
                self._book.answered(asked.review_id, answer, self._clock(), body=body, stderr=stderr)
            except ValueError:  # it took so long that reconciling ended it; what it says counts all the same
                late = msgspec.structs.replace(how, review_id=f"{asked.review_id}.late")
                self._book.brought(decision.decision_id, late, answer, self._clock(), body=body, stderr=stderr)
            if answer.state in COMPLETE or isinstance(shown, Refused):
                return

    # ---- concluding -------------------------------------------------------------------------------------------

    def _conclude(self, case: Case, decision: DecisionEntry, *, partly: bool = False) -> PatchOutcome:
        """Decide, by every review there is. `partly`: others may still bring what is missing."""
        place, change = case.place, case.change
        if (failed := self._failed(case)) is not None:
            return self._end(case, decision, Decision.FAIL, Signal.COMPLETE, failed)
        missing = {reviewer.name for reviewer in self._missing(case, decision)}
        if not missing:
            evidence = tuple(f"pass:{one}" for one in place.branch.reviewers)
            return self._end(case, decision, Decision.PASS, Signal.COMPLETE, "", evidence)
        if partly:
            return self.outcome(self._book.get(decision.decision_id) or decision)
        lacks = f"no whole verdict of {', '.join(sorted(missing))}"
        mine = [one for one in self._book.reviews(decision.decision_id) if one.state is Review.INCOMPLETE]
        tried = mine or self._book.reviews_of_diff(change.diff_sha, place.policy.sha256, Review.INCOMPLETE)
        tried = [one for one in tried if one.reviewer in missing]
        signal = first(one.signal for one in tried if one.signal is not None) if tried else Signal.UNREACHABLE
        last = next((one.detail for one in reversed(tried) if one.signal is signal), "it was not asked")
        evidence = tuple(f"budget-spent:{name}" for name in sorted(missing) if self._is_spent(case, name))
        return self._end(case, decision, Decision.INCOMPLETE, signal, f"{lacks}: {last}", evidence)

    def _is_spent(self, case: Case, reviewer: str) -> bool:
        times = self._book.times_asked(case.change.diff_sha, case.place.policy.sha256, reviewer)
        return times > case.place.branch.retries

    def _failed(self, case: Case) -> str | None:
        """Who failed this change under this policy, in a clause."""
        failed = self._book.failed(case.change.diff_sha, case.place.policy.sha256)
        if failed is None:
            return None
        count = failed.blocking or 0
        return f"the reviewer {failed.reviewer} failed it with {count} blocking finding{'' if count == 1 else 's'}"

    def _end(
        self,
        case: Case | None,
        decision: DecisionEntry,
        state: Decision,
        signal: Signal,
        detail: str,
        evidence: tuple[str, ...] = (),
    ) -> PatchOutcome:
        """Move a pending decision, and say what stands; another process may have been faster."""

        def move(to: Decision, said: str, beside: tuple[str, ...]) -> DecisionEntry:
            name, now = decision.decision_id, self._clock()
            return self._book.move(name, Decision.PENDING, to, now, signal=signal, detail=said, evidence=beside)

        try:
            try:
                entry = move(state, detail, evidence)
            except CannotTry:
                # The book takes no pass once a fail of this change is in it; that may have come a moment ago.
                failed = self._failed(case) if case is not None and state is Decision.PASS else None
                if failed is None:
                    raise
                entry = move(Decision.FAIL, failed, ())
        except DecisionMoved as moved:
            entry = moved.entry
            if case is not None and entry.state is Decision.INCOMPLETE and state is not Decision.INCOMPLETE:
                # Another process gave up on this decision while whole verdicts came: they count in one of their own.
                entry = self._book.open(_new(case.place, case, entry.submitter), self._clock())
                self._carry(case, entry)
                return self._conclude(case, entry)
        return self.outcome(entry)


def _new(place: Place, case: Case | None, submitter: str | None) -> NewDecision:
    return NewDecision(
        repository=place.repository,
        ref=place.ref,
        base=place.base,
        head=place.head,
        merge_tree=None if case is None else case.change.merge_tree,
        records_sha=None if case is None else records_sha(case),
        diff_sha=None if case is None else case.change.diff_sha,
        policy_version=place.branch.policy,
        policy_sha256=place.policy.sha256,
        required=place.branch.reviewers,
        submitter=submitter,
    )


def records_sha(case: Case) -> str:
    """What the change does, whatever it is made from: its records alone, which are equal on another base."""
    digest = hashlib.sha256()
    for one in sorted(case.change.records, key=lambda record: record.path):
        old_mode, new_mode, old, new, path = one.old_mode, one.new_mode, one.old_oid, one.new_oid, one.path
        sizes = len(old_mode), len(new_mode), len(old), len(new), len(path)
        digest.update(
            b"%d:%s,%d:%s,%d:%s,%d:%s,%d:%s,"
            % (sizes[0], old_mode, sizes[1], new_mode, sizes[2], old, sizes[3], new, sizes[4], path)
        )
    return digest.hexdigest()


def _whose(place: Place, name: str | None) -> Reviewer:
    """The reviewer whose verdict it is. Raises NoSuchReviewer."""
    known = place.branch.reviewers
    if name is None and len(known) > 1:
        raise NoSuchReviewer(f"branch {place.branch.name} asks {', '.join(known)}: whose verdict is it?")
    if name is not None and name not in known:
        raise NoSuchReviewer(f"branch {place.branch.name} does not ask {name}, only {', '.join(known)}")
    return place.policy.reviewers[name or known[0]]
