"""What the tools do, without the protocol: each call opens the ledger, does one thing and closes it again."""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from endmark.core import mc1
from endmark.core.refusal import CannotTry, Refused
from endmark.faces.api import Gate
from endmark.faces.books import keep_apart
from endmark.faces.mcp import answers, confined
from endmark.faces.mcp.answers import Answer
from endmark.faces.mcp.settings import Settings
from endmark.faces.review import who

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_LIMIT = mc1.DEFAULT_CAP + mc1.HEADER_MAX
_IMMEDIATE = "mcp.immediate"  # who let a job through: the configuration


class Call:
    """One call: whether it was begun, given up before that, and whether it may have had an effect by now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = False
        self._given_up = False
        self.may_have_applied = False
        self.job_id: str | None = None

    def begin(self) -> bool:
        """Whether the work may start: not after `give_up`."""
        with self._lock:
            self._begun = not self._given_up
            return self._begun

    def give_up(self) -> bool:
        """Whether the work was not begun, and never will be."""
        with self._lock:
            self._given_up = not self._begun
            return self._given_up


class Desk:
    """The doings behind the tools. Any number of threads may call; `stop` ends what is applied between two steps."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stopped: str | None = None
        self._working = 0
        self._repository: str | None = None
        self._idle = threading.Condition()

    def stop(self, name: str) -> None:
        """`name`, a signal, ends it: what is being applied is rolled back at its next step."""
        self._stopped = name

    def wait(self) -> None:
        """Until nothing is being worked on."""
        with self._idle:
            self._idle.wait_for(lambda: self._working == 0)

    def perform(self, doing: "Callable[[Call], Answer]", call: Call) -> Answer:
        """Do it, and answer whatever happens."""
        with self._at_work():
            if not call.begin():
                return answers.busy()
            try:
                return doing(call)
            except Refused as refused:
                return answers.of_refused(refused)
            except CannotTry as fault:
                return answers.of_cannot(fault)
            except BaseException as fault:  # noqa: BLE001  # told; a dead thread would tell nobody
                say_fault(fault)
                return answers.our_fault(fault, may_have_applied=call.may_have_applied, job_id=call.job_id)

    @contextmanager
    def _at_work(self) -> "Iterator[None]":
        with self._idle:
            self._working += 1
        try:
            yield
        finally:
            with self._idle:
                self._working -= 1
                self._idle.notify_all()

    # ---- the doings -------------------------------------------------------------------------------------------

    def apply_file(self, path: str, call: Call) -> Answer:
        """Take a plan from a file below the root."""
        return self.apply(confined.read(self._settings.root, path, FILE_LIMIT), call)

    def apply_text(self, plan: str, call: Call) -> Answer:
        """Take a plan that is the whole text of an argument."""
        return self.apply(_bytes(plan), call)

    def apply(self, raw: bytes, call: Call) -> Answer:
        """Prove and stage a plan; apply it where the configuration says that it need not wait."""
        place = self._settings.place
        if place is None:
            raise CannotTry("[mcp] names no target")
        config = self._settings.config
        keep_apart(place.target, config.ledger)
        me = f"{who(config.environ)} (mcp)"
        with self._gate(reconcile=self._settings.immediate) as gate:
            gate.options = place.options
            if not self._settings.immediate:
                return answers.of_outcome(gate.submit(raw, target=place.target, seal=True, submitter=me).outcome)
            # Staged first, so that what is on record can be asked for while it runs.
            job = gate.submit(raw, target=place.target, seal=True, submitter=me)
            call.job_id = job.outcome.job_id
            if job.state != "staged" or not job.is_new:
                return answers.of_outcome(job.outcome)
            call.may_have_applied = True
            try:
                return answers.of_outcome(job.apply(place.target, approver=_IMMEDIATE))
            except CannotTry as fault:  # nothing was changed, and the job stays staged
                return answers.of_outcome(job.outcome, why=fault.detail)

    def status(self, job_id: str, _call: Call) -> Answer:
        """What is on record of a job for our target, or of a decision in our repository."""
        config = self._settings.config
        with Gate(config.ledger, create=False, reconcile=False) as gate:
            entry = gate.ledger.find(job_id)
            place = self._settings.place
            if entry is not None and place is not None and entry.target == place.target.identity:
                return answers.of_outcome(gate.job(job_id).outcome, asked=True)
        found = self._decision(job_id)
        if found is not None:
            return found
        working = "" if self._working < 2 else " A call is still being worked on; ask again in some seconds."
        raise CannotTry(
            f"no job of this id for this server's target is on record, so nothing was applied for it.{working}"
        )

    def _decision(self, decision_id: str) -> Answer | None:
        if self._settings.repository is None:
            return None
        from endmark.ledger.book import Ledger
        from endmark.ledger.patch_book import PatchBook
        from endmark.ledger.patch_outcomes import outcome_of

        with Ledger.open(self._settings.config.ledger, create=False) as ledger:
            book = PatchBook(ledger)
            entry = book.get(decision_id)
            if entry is None or entry.repository != self._identity(self._settings.repository):
                return None  # another repository's is nobody's business here
            return answers.of_decision(outcome_of(entry, book.reviews(decision_id)), asked=True)

    def _identity(self, repository: Path) -> str:
        """What records call our repository. Raises CannotTry. It starts git, once."""
        if self._repository is None:
            from endmark.effects.git import Git, open_repository

            environ = self._settings.config.environ
            self._repository = os.path.realpath(open_repository(Git(environ), str(repository)).common_dir)
        return self._repository

    def verdict(self, verdict: str, base: str, head: str, reviewer: str | None, _call: Call) -> Answer:
        """Decide by a verdict that was made elsewhere. Nothing is merged."""
        from endmark.core.policy import PolicyRefused
        from endmark.faces.patches import Patches
        from endmark.patch_gate import NoSuchReviewer

        config, repository = self._settings.config, self._settings.repository
        if repository is None:
            raise CannotTry("[mcp] names no repository")
        raw = _bytes(verdict)
        self._make_folder()
        try:
            with Patches(
                config.ledger, repository, policy=self._settings.policy, trusted_keys=config.trusted_keys
            ) as patches:
                return answers.of_decision(
                    patches.decide(raw, base, head, reviewer=reviewer, submitter=f"{who(config.environ)} (mcp)")
                )
        except NoSuchReviewer as fault:
            return answers.not_a_call(f"reviewer: {fault}.")
        except PolicyRefused as refused:
            raise CannotTry(f"{refused.detail}. Nothing was decided") from None
        except Refused as refused:
            return answers.of_refused(refused, "verdict")

    def _gate(self, *, reconcile: bool) -> Gate:
        self._make_folder()
        config = self._settings.config
        return Gate(
            config.ledger,
            reconcile=reconcile,
            trusted_keys=config.trusted_keys,
            stop=lambda: self._stopped,
            target_of=config.target_of,
            outbox=config.outbox,
        )

    def _make_folder(self) -> None:
        from endmark.faces.cli.at_gate import make_state_folder

        if self._settings.config.ledger_is_ours:
            make_state_folder(self._settings.config)


def _bytes(text: str) -> bytes:
    """The UTF-8 of an argument. Half a surrogate pair has none: it stays what it is, for the gate to refuse."""
    return text.encode("utf-8", "surrogatepass")


def say_fault(fault: BaseException) -> None:
    """Our own mistake, for whoever runs this: on standard error."""
    from endmark.faces.terminal import safe, say

    say(f"endmark mcp: {type(fault).__name__}: {safe(str(fault))}. This is a mistake in endmark.")
    if fault.__traceback__ is not None and sys.stderr is not None:
        import traceback

        for line in traceback.format_exception(fault):
            say(safe(line))
