"""Replay: ask about yesterday's changes again, on fresh connections, and compare the verdicts.

A pass that is not repeated on a change that stands merged is an incident. Every repetition is recorded with the
decision it repeats; one that fails also ends a pass that is not merged yet.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import msgspec

from endmark.core.flips import Pair, Rate, Word, rates
from endmark.core.policy import Policy
from endmark.core.refusal import CannotTry, Refused
from endmark.core.states import Decision, Review
from endmark.effects.git import Gate, read_blocks
from endmark.effects.git.shown import Block
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import DecisionEntry, NewReview, ReviewEntry
from endmark.patch_case import Case, Place, policy_of, read_case
from endmark.reviewing import COMPLETE, Reviewing

Progress = Callable[[int, int], None]
"""Told (done, total) of repetitions."""


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded review that could not be repeated, and why."""

    decision_id: str
    reviewer: str
    why: str


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """All that was compared. `incidents`: a verdict that changed its mind about a change that stands merged."""

    pairs: Sequence[Pair]
    rates: Sequence[Rate]
    skipped: Sequence[Skipped]

    @property
    def incidents(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair.incident]


class _Task(msgspec.Struct, frozen=True, kw_only=True):
    case: Case
    blocks: Sequence[Block]
    decision: DecisionEntry
    first: ReviewEntry
    number: int


class Replay:
    """Repeats what one ledger has of one repository. `workers`: how many reviewers are asked at a time.

    `policy`: the policy on this machine that the decisions were made by, where it was not that of each base commit.
    """

    def __init__(
        self,
        book: PatchBook,
        gate: Gate,
        reviewing: Reviewing,
        clock: Callable[[], datetime],
        *,
        workers: int,
        policy: Policy | None = None,
    ) -> None:
        self._book = book
        self._gate = gate
        self._reviewing = reviewing
        self._clock = clock
        self._workers = workers
        self._policy = policy

    def run(self, repository: str, since: datetime, times: int, progress: Progress) -> Replayed:
        """Repeat every whole review since `since`, `times` times each. Raises CannotTry."""
        tasks: list[_Task] = []
        skipped: list[Skipped] = []
        for decision in self._book.since(since):
            if decision.repository == repository and decision.diff_sha is not None:
                self._prepare(decision, times, tasks, skipped)
        pairs = []
        with ThreadPoolExecutor(max(1, self._workers)) as pool:
            for done, pair in enumerate(pool.map(self._repeat, tasks), 1):
                pairs.append(pair)
                progress(done, len(tasks))
        return Replayed(pairs=pairs, rates=rates(pairs), skipped=skipped)

    def _prepare(self, decision: DecisionEntry, times: int, tasks: list[_Task], skipped: list[Skipped]) -> None:
        found = [one for one in self._book.reviews(decision.decision_id) if one.state in COMPLETE]
        first = list(_first_of_each(one for one in found if one.purpose != "replay"))
        if not first:
            return
        try:
            case = self._case(decision)
            blocks = read_blocks(self._gate, case.change, case.place.branch.max_diff_bytes)
        except (Refused, CannotTry) as fault:
            why = fault.detail
            skipped += [Skipped(decision_id=decision.decision_id, reviewer=one.reviewer, why=why) for one in first]
            return
        for one in first:
            if one.reviewer not in case.place.policy.reviewers:
                why = "the policy no longer names this reviewer"
                skipped.append(Skipped(decision_id=decision.decision_id, reviewer=one.reviewer, why=why))
                continue
            before = sum(other.purpose == "replay" and other.reviewer == one.reviewer for other in found)
            tasks += [
                _Task(case=case, blocks=blocks, decision=decision, first=one, number=before + number)
                for number in range(1, times + 1)
            ]

    def _case(self, decision: DecisionEntry) -> Case:
        """The change as it was, read again. Raises Refused and CannotTry, also where it is another now."""
        policy = self._policy or policy_of(self._gate, decision.base)
        place = Place(
            repository=decision.repository,
            ref=decision.ref,
            base=decision.base,
            head=decision.head,
            policy=policy,
            branch=policy.branch(decision.ref),
        )
        case = read_case(self._gate, place)
        if case.change.diff_sha != decision.diff_sha or policy.sha256 != decision.policy_sha256:
            raise CannotTry(
                "what is read now is not what was judged then: its policy lay elsewhere, or git merges anew"
            )
        return case

    def _repeat(self, task: _Task) -> Pair:
        reviewer = task.case.place.policy.reviewers[task.first.reviewer]
        shown = self._reviewing.show(task.case, reviewer, task.blocks)
        review_id = f"{task.decision.decision_id}.{reviewer.name}.replay.{self._clock():%Y%m%dT%H%M%S}.{task.number}"
        how = NewReview(
            review_id=review_id,
            reviewer=reviewer.name,
            purpose="replay",
            model=reviewer.model,
            prompt_sha256=None if isinstance(shown, Refused) else shown.instructions_sha256,
            shown_sha256=None if isinstance(shown, Refused) else shown.sha256,
        )
        self._book.ask(task.decision.decision_id, how, self._clock())
        answer, body = self._reviewing.answer(task.case, reviewer, shown)
        self._book.answered(review_id, answer, self._clock(), body=body)
        return Pair(
            decision_id=task.decision.decision_id,
            reviewer=reviewer.name,
            model=reviewer.model or reviewer.kind,
            policy_version=task.case.place.branch.policy,
            prompt_sha256=how.prompt_sha256 or "",
            first=_WORDS[task.first.state],
            again=_WORDS[answer.state],
            merged=task.decision.state is Decision.MERGED,
        )


_WORDS: dict[Review, Word] = {Review.PASS: "pass", Review.FAIL: "fail", Review.INCOMPLETE: "incomplete"}


def _first_of_each(reviews: Iterator[ReviewEntry]) -> Iterator[ReviewEntry]:
    """The first whole verdict of each reviewer: what the decision rests on."""
    seen = set()
    for one in reviews:
        if one.reviewer not in seen:
            seen.add(one.reviewer)
            yield one
