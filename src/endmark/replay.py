"""Replay: ask about yesterday's changes again, on fresh connections, and compare the verdicts.

A pass that is not repeated on a change that stands merged is an incident. Every repetition is recorded with the
decision it repeats; one that fails also ends a pass that is not merged yet.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime

import msgspec

from endmark.core.flips import Pair, Rate, Word, rates
from endmark.core.policy import Policy
from endmark.core.refusal import CannotTry, Refused
from endmark.core.states import Decision, Review
from endmark.effects.git import Gate, read_blocks
from endmark.effects.git.shown import Block
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import ADVICE, DecisionEntry, NewReview, ReviewEntry
from endmark.steps.patch_case import Case, read_again
from endmark.steps.reviewing import COMPLETE, Reviewing

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
        stop: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._book = book
        self._gate = gate
        self._reviewing = reviewing
        self._clock = clock
        self._workers = max(1, workers)
        self._policy = policy
        self._stop = stop

    def run(self, repository: str, since: datetime, times: int, progress: Progress) -> Replayed:
        """Repeat every whole review since `since`, `times` times each. Raises CannotTry.

        Changes are read while reviewers are at work, and no more of them than are needed soon.
        """
        found = [one for one in self._book.since(since) if one.repository == repository and one.diff_sha is not None]
        wanted = [(one, first) for one in found if (first := self._first_of_each(one))]
        total, done = sum(len(first) for _, first in wanted) * times, 0
        pairs: list[Pair] = []
        skipped: list[Skipped] = []
        with ThreadPoolExecutor(self._workers) as pool:
            running: set[Future[Pair]] = set()

            def gather(most: int) -> None:
                nonlocal running, done
                while len(running) > most:
                    ended, running = wait(running, return_when=FIRST_COMPLETED)
                    for one in ended:
                        pairs.append(one.result())
                        done += 1
                        progress(done, total)

            try:
                for decision, first in wanted:
                    for task in self._prepare(decision, first, skipped):
                        for _ in range(times):
                            running.add(pool.submit(self._repeat, task))
                            gather(2 * self._workers)
                    done = len(pairs) + len(skipped) * times
                gather(0)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return Replayed(pairs=pairs, rates=rates(pairs), skipped=skipped)

    def _first_of_each(self, decision: DecisionEntry) -> list[ReviewEntry]:
        """The first whole verdict of each reviewer: what the decision rests on."""
        first: dict[str, ReviewEntry] = {}
        for one in self._book.reviews(decision.decision_id):
            if one.state in COMPLETE and one.purpose not in ("replay", ADVICE):
                first.setdefault(one.reviewer, one)
        return list(first.values())

    def _prepare(
        self, decision: DecisionEntry, first: Sequence[ReviewEntry], skipped: list[Skipped]
    ) -> Iterator[_Task]:
        def skip(one: ReviewEntry, why: str) -> None:
            skipped.append(Skipped(decision_id=decision.decision_id, reviewer=one.reviewer, why=why))

        try:
            case = read_again(self._gate, decision, self._policy)
            self._reviewing.check(case.place)
            blocks = read_blocks(self._gate, case.change, case.place.branch.max_diff_bytes)
        except (Refused, CannotTry) as fault:
            if name := self._stop():  # git was stopped, nothing is wrong with the change
                raise CannotTry(f"{name} came; what was repeated by then is on record") from None
            for one in first:
                skip(one, fault.detail)
            return
        for one in first:
            if one.reviewer in case.place.policy.reviewers:
                yield _Task(case=case, blocks=blocks, decision=decision, first=one)
            else:
                skip(one, "the policy no longer names this reviewer")

    def _repeat(self, task: _Task) -> Pair:
        if name := self._stop():
            raise CannotTry(f"{name} came; what was repeated by then is on record")
        reviewer = task.case.place.policy.reviewers[task.first.reviewer]
        shown = self._reviewing.show(task.case, reviewer, task.blocks)
        how = NewReview(
            reviewer=reviewer.name,
            purpose="replay",
            model=reviewer.model,
            prompt_sha256=None if isinstance(shown, Refused) else shown.instructions_sha256,
            shown_sha256=None if isinstance(shown, Refused) else shown.sha256,
        )
        asked = self._book.ask(task.decision.decision_id, how, self._clock())
        answer, body, stderr = self._reviewing.answer(task.case, reviewer, shown)
        self._book.answered(asked.review_id, answer, self._clock(), body=body, stderr=stderr)
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
