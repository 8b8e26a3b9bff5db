"""The Python face of the patch gate, and what its command line is written on."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from endmark.core.patch_outcome import PatchOutcome
from endmark.core.refusal import CannotTry, NotThere
from endmark.core.states import Decision
from endmark.effects.git import Gate as GitGate
from endmark.effects.git import Git, Person, open_repository
from endmark.effects.git.fetch import fetch_missing
from endmark.faces.api import now
from endmark.faces.books import ledger_place
from endmark.ledger.book import Ledger
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_outcomes import outcome_of
from endmark.patch_gate import PatchGate
from endmark.steps.merging import How, Sign, merge_passed, statement
from endmark.steps.patch_approval import Conflict, approve, approver_of
from endmark.steps.patch_case import Place, policy_in, read_again, read_place
from endmark.steps.reviewing import Reviewers, Reviewing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from types import TracebackType

    from endmark.core.policy import Policy
    from endmark.core.refusal import Refused
    from endmark.core.verdict import Finding
    from endmark.effects.target import Stop
    from endmark.ledger.patch_entry import DecisionEntry
    from endmark.reconcile_patches import SettledPatches
    from endmark.replay import Replayed


class Patches:
    """The patch gate over one ledger and one repository.

    `ledger` as for `Gate`. `repository`: a folder in it. `policy`: a file of this machine, instead of what stands in
    each base commit. `fetch`: the remote that a shallow clone fetches from what it lacks. `trusted_keys`: files of
    public keys; without them no signed verdict counts. Reviewers' keys are read from the environment. Raises CannotTry
    where the repository, the ledger or the keys cannot be used, and PolicyRefused (a `Refused`) for a policy that
    cannot decide. `may` is told the full name of the branch before anything is done about it; what it raises is
    raised. It belongs to one thread.
    """

    def __init__(
        self,
        ledger: str | Path,
        repository: str | Path = ".",
        *,
        policy: str | Path | None = None,
        fetch: str | None = None,
        create: bool = True,
        trusted_keys: str | Path | Iterable[str | Path] | None = None,
        stop: Stop = lambda: None,
        may: Callable[[str], None] = lambda _ref: None,
    ) -> None:
        self._may = may
        self._policy = None if policy is None else Path(policy)
        self._stop = stop
        self._verify = None
        if trusted_keys is not None:
            from endmark.sources import keys

            self._verify = keys.verifier(trusted_keys)
        found = open_repository(Git(os.environ, stop=stop), str(repository))
        if fetch is not None:
            found = fetch_missing(found, fetch)
        self.repository = os.path.realpath(found.common_dir)
        with ExitStack() as stack:
            self.git = stack.enter_context(GitGate(found))
            self.ledger = stack.enter_context(Ledger.open(ledger_place(ledger), create=create))
            self.book = PatchBook(self.ledger)
            self._reviewing = Reviewing(
                Reviewers(self.git, os.environ, stop), lambda: os.urandom(16).hex(), self._verify
            )
            self._doing = PatchGate(self.ledger, now, reviewing=self._reviewing, stop=stop)
            self._open = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._open.close()

    def review(
        self,
        base: str,
        head: str,
        *,
        ref: str | None = None,
        submitter: str = "python",
        begun: Callable[[str], None] = lambda _id: None,
    ) -> PatchOutcome:
        """Ask the branch's reviewers about merging `head` into `base`, and decide. `ref`: the branch, if not `base`.

        `begun` is told the decision's id before anybody is asked.
        """
        return self._doing.review(self.git, self._place(base, head, ref), submitter, begun=begun)

    def decide(
        self,
        verdict: bytes,
        base: str,
        head: str,
        *,
        ref: str | None = None,
        reviewer: str | None = None,
        job_id: str | None = None,
        submitter: str = "python",
        refused: Refused | None = None,
    ) -> PatchOutcome:
        """Decide by a verdict made elsewhere, in its envelope; `reviewer`: whose, where the branch asks several.

        `refused`: why the bytes are known not to have arrived whole; they are recorded so, and never judged.
        Read `outcome.state`: a verdict that is not whole, or is of something else, is `incomplete`; nothing is raised
        for it. Raises ValueError (`NoSuchReviewer`) for a reviewer whom the branch does not ask.
        """
        place = self._place(base, head, ref)
        return self._doing.decide(self.git, place, verdict, submitter, reviewer=reviewer, name=job_id, refused=refused)

    def merge(
        self,
        base: str,
        head: str,
        *,
        ref: str | None = None,
        key: str | Path | None = None,
        approver: str | None = None,
        name: str = "endmark",
        email: str = "endmark@localhost",
    ) -> PatchOutcome:
        """Merge what a recorded pass binds to; `outcome.merged` is the commit.

        `key`: signs the record in the merge's message. `approver`: who looked at what the policy leaves to a person.
        `name` and `email`: whom the commit is by.
        """
        how = How(person=Person(name, email), sign=None if key is None else _signer(key), approver=approver)
        return merge_passed(self.book, self.git, self._place(base, head, ref), how, now)

    def approve(self, decision_id: str, approver: str) -> PatchOutcome:
        """Record that `approver` looked at what the policy leaves to a person; `merge_decision` goes by it.

        Raises CannotTry, and Conflict (a CannotTry) for a decision that is no pass, or that needs nobody.
        """
        entry = self._recorded(decision_id)
        if entry.state is not Decision.PASS:
            raise Conflict(f"{decision_id} is {entry.state}: only a pass is approved. Nothing was done.")
        return approve(self.book, read_again(self.git, entry, self._rules()), entry, approver, now)

    def merge_decision(self, decision_id: str, *, key: str | Path | None = None) -> PatchOutcome:
        """As `merge`, for the very commits of a decision on record, with the approver that is on record."""
        entry = self._recorded(decision_id)
        approver = approver_of(self.book, decision_id)
        return self.merge(entry.base, entry.head, ref=entry.ref, key=key, approver=approver)

    def get(self, decision_id: str) -> PatchOutcome:
        """A decision on record. Raises CannotTry where there is none of this id."""
        entry = self.book.get(decision_id)
        if entry is None:
            raise NotThere(f"there is no decision {decision_id} in the ledger. Nothing was done.")
        return outcome_of(entry, self.book.reviews(decision_id))

    def findings(self, decision_id: str) -> list[Finding]:
        """What the whole verdicts of a decision found, in the order of its reviews."""
        from endmark.faces import patch_records

        reviews = self.book.reviews(decision_id)
        return [item for one in reviews for item in patch_records.findings(self.book, one, self._verify) or []]

    def sarif(self, decision_id: str) -> bytes:
        """The findings of a decision as SARIF 2.1.0; what was not whole is marked, and holds no results."""
        from endmark.faces import patch_records

        return patch_records.sarif_of(self.book, self.book.reviews(decision_id), self._verify)

    def record(self, decision_id: str, key: str | Path) -> bytes:
        """The signed in-toto record of a decision that is complete. Raises CannotTry for one that is not."""
        entry = self.book.get(decision_id)
        if entry is None or entry.state not in (Decision.PASS, Decision.FAIL, Decision.MERGED):
            state = "not on record" if entry is None else entry.state.value
            raise CannotTry(f"decision {decision_id} is {state}: there is no record of what is not complete")
        from endmark.core import intoto

        case = read_again(self.git, entry, self._rules())
        return _signer(key)(intoto.dumps(statement(self.book, case, entry, now())))

    def replay(
        self,
        since: datetime,
        *,
        times: int = 1,
        workers: int = 4,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> Replayed:
        """Ask again about what was judged since then, `workers` reviewers at a time, and compare."""
        from endmark.replay import Replay

        doing = Replay(
            self.book, self.git, self._reviewing, now, workers=workers, policy=self._rules(), stop=self._stop
        )
        return doing.run(self.repository, since, times, progress)

    def reconcile(self) -> SettledPatches:
        """Settle what a crash left of this repository's patches."""
        from endmark.reconcile_patches import reconcile_patches

        return reconcile_patches(self.book, self.git, self.repository, now)

    def _recorded(self, decision_id: str) -> DecisionEntry:
        """A decision on record about this repository. Raises CannotTry."""
        entry = self.book.get(decision_id)
        if entry is None or entry.repository != self.repository:
            raise NotThere(f"there is no decision {decision_id} of this repository in the ledger. Nothing was done.")
        self._may(entry.ref)
        return entry

    def _place(self, base: str, head: str, ref: str | None) -> Place:
        place = read_place(self.git, base=base, head=head, ref=ref, policy_file=self._policy)
        self._may(place.ref)
        return place

    def _rules(self) -> Policy | None:
        return None if self._policy is None else policy_in(self._policy)


def _signer(key: str | Path) -> Sign:
    from endmark.core import intoto
    from endmark.sources import keys

    return lambda payload: keys.sign(payload, key, intoto.PAYLOAD_TYPE)
