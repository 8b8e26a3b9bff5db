"""The apply gate: a plan of SQL statements is applied whole, with its receipt, or not at all.

prove -> stage -> (review) -> lock the target -> approved, applying -> back up -> one transaction -> commit -> verify on
a new connection -> settle the ledger. Nothing here reads the clock, the environment or arguments; they are handed in.
"""

import contextlib
import hashlib
from collections.abc import Callable
from datetime import datetime

import msgspec

from endmark.core import plan, proof
from endmark.core.evidence import Level
from endmark.core.outcome import Outcome
from endmark.core.plan import Plan
from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.core.states import State
from endmark.effects.target import Progress, Session, Stop, Target
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry, Moved, New
from endmark.ledger.outcomes import outcome_of
from endmark.steps import approving, undoing
from endmark.steps.applying import Applying, must_get, void
from endmark.steps.approving import SELF_APPROVED
from endmark.steps.intake import Delivery, Intake, Looked, look, still_good_enough
from endmark.steps.settle import STANDS, check_free
from endmark.steps.treatment import Options

__all__ = ["ApplyGate", "Delivery", "Looked", "Options", "look"]


class ApplyGate:
    """The gate over one ledger. `clock` gives the time in UTC; `stop` and `progress` are asked and told during work."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Callable[[], datetime],
        *,
        stop: Stop = lambda: None,
        progress: Progress = lambda done, total: None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._applying = Applying(ledger, clock, stop, progress)
        self._intake = Intake(ledger, clock)

    # ---- the doings -------------------------------------------------------------------------------------------

    def submit(self, delivery: Delivery, target: Target | None, options: Options) -> tuple[Outcome, Plan | None]:
        """Prove a delivery and stage it, durably. The plan is None where the delivery was refused or is known.

        Raises CannotTry for a target that cannot be read.
        """
        taken = self._intake.take(delivery, _identity(target), options)
        if isinstance(taken, Outcome):
            return taken, None
        proven_plan, new = taken
        if target is not None:
            with target.open() as session:
                refused = self._refuse_foreign_receipt(session, proven_plan, new)
                if refused is not None:
                    return refused, None
        entry, created = self._ledger.record(new, self._clock(), body=delivery.raw)
        if not created:
            return self._intake.known(entry, new), None
        if target is not None and options.rehearse:
            entry = self._show_what_it_does(target, entry, proven_plan, options)
        return outcome_of(entry), proven_plan

    def admit(self, found: Looked) -> tuple[Outcome, bool]:
        """Stage a delivery that was looked at, without a look at its target; whether it is new.

        What stands in the target under the same id is found when the job is applied. Raises CannotTry.
        """
        taken = self._intake.admit(found)
        if isinstance(taken, Outcome):
            return taken, False
        new = taken[1]
        entry, created = self._ledger.record(new, self._clock(), body=found.delivery.raw)
        return (outcome_of(entry), True) if created else (self._intake.known(entry, new), False)

    def show_what_it_does(self, attempt_id: str, target: Target, options: Options) -> None:
        """Rehearse a staged job for whoever is to approve it; where that cannot be done now, it waits without."""
        entry = must_get(self._ledger, attempt_id)
        if entry.state is State.STAGED:
            self._show_what_it_does(target, entry, self.plan_of(entry), options)

    def _show_what_it_does(self, target: Target, entry: Entry, staged_plan: Plan, options: Options) -> Entry:
        """Rehearse a job that will wait for a person, who then sees what it does. Where that cannot be done now, it
        waits without: it is rehearsed before it is applied in any case."""
        with contextlib.suppress(CannotTry), target.open() as session:
            if getattr(session, "needs_lock", True):
                session.lock(options.lock_timeout)
            before = session.fingerprint()
            if staged_plan.base in (None, before):
                found = self._applying.rehearse(session, entry, staged_plan, options, before)
                return found if isinstance(found, Entry) else entry
        return entry

    def apply(self, delivery: Delivery, target: Target, options: Options, approver: str) -> Outcome:
        """Prove a delivery and apply it at once, approved beforehand by `approver`.

        Raises CannotTry, with nothing recorded, while the target cannot be opened or locked: the same call may be made
        again.
        """
        approving.check_person(options, delivery.submitter, approver)
        taken = self._intake.take(delivery, _identity(target), options)
        if isinstance(taken, Outcome):
            return self._after_its_twin(taken, target, options)
        proven_plan, new = taken
        with target.open() as session:
            try:
                session.lock(options.lock_timeout)
            except CannotTry:
                owner = self._ledger.by_job(proven_plan.job_id)
                if owner is None:
                    raise
                return self._intake.known(owner, new)  # the same job came twice, and the other one is at work
            check_free(self._ledger, session, target)
            refused = self._refuse_foreign_receipt(session, proven_plan, new)
            if refused is not None:
                return refused
            # Not flushed by itself: the flush of `applying`, before the target's first write, covers it.
            entry, created = self._ledger.record(new, self._clock(), body=delivery.raw, durable=False)
            if not created:
                return self._intake.known(entry, new)
            return self._applying.run_staged(session, target, entry, proven_plan, options, approver, None)

    def _after_its_twin(self, known: Outcome, target: Target, options: Options) -> Outcome:
        """What is stored of a job that came before; where it is staged, perhaps only for a moment by a twin that is
        about to run it, what is stored once the target's lock was free."""
        if known.state != State.STAGED.value or known.attempt_id is None:
            return known
        with contextlib.suppress(CannotTry), target.open() as session:
            session.lock(options.lock_timeout)
            now = must_get(self._ledger, known.attempt_id)
            if now.state is not State.STAGED:
                return self._intake.came_before(now)
        return known

    def approve(
        self, attempt_id: str, target: Target, options: Options, approver: str, shown_fingerprint: str | None = None
    ) -> Outcome:
        """Apply a staged job. `shown_fingerprint`: the schema the approver saw; the approval is void once it moved.

        Raises CannotTry while the target cannot be opened or locked; the job stays staged then.
        """
        entry = must_get(self._ledger, attempt_id)
        if entry.target not in (None, target.identity):
            return self._intake.for_another_target(entry, target.identity)
        if entry.state not in (State.STAGED, State.APPROVED):
            return outcome_of(entry)
        staged_plan = self.plan_of(entry)
        still_good_enough(entry, staged_plan, options)
        approving.check_person(
            options, entry.submitter, approver if entry.state is State.STAGED else entry.approver or ""
        )
        with target.open() as session:
            session.lock(options.lock_timeout)
            check_free(self._ledger, session, target)
            return self._applying.run_staged(session, target, entry, staged_plan, options, approver, shown_fingerprint)

    def let_pass(
        self, attempt_id: str, target: Target, options: Options, approver: str, shown_fingerprint: str | None = None
    ) -> Outcome:
        """Approve a staged job, for `approve` to apply later. It holds for the target's schema of now, and for as long
        as `options.approval_expires` says. Raises CannotTry."""
        entry = must_get(self._ledger, attempt_id)
        if entry.target not in (None, target.identity):
            return self._intake.for_another_target(entry, target.identity)
        if entry.state is not State.STAGED:
            return outcome_of(entry)
        still_good_enough(entry, self.plan_of(entry), options)
        approving.check_person(options, entry.submitter, approver)
        with target.open() as session:
            before = session.fingerprint()
        if shown_fingerprint is not None and shown_fingerprint != before:
            raise void(entry)
        try:
            entry = self._ledger.move(
                attempt_id,
                State.STAGED,
                State.APPROVED,
                self._clock(),
                approver=approver,
                approved_fingerprint=before,
                target=target.identity,
                evidence=(SELF_APPROVED,) if approver == entry.submitter else None,
            )
        except Moved as moved:
            entry = moved.entry
        return outcome_of(entry)

    def decline(self, attempt_id: str, approver: str, reason: str) -> Outcome:
        """End a staged job, or one whose approval waits to be used, without effect. Any other stays as it is."""
        entry = must_get(self._ledger, attempt_id)
        if entry.state not in (State.STAGED, State.APPROVED):
            return outcome_of(entry)
        path = (State.DECLINED,) if entry.state is State.STAGED else (State.STAGED, State.DECLINED)
        try:
            entry = self._ledger.move(
                attempt_id, entry.state, path, self._clock(), approver=approver, data={"reason": reason}
            )
        except Moved as moved:
            entry = moved.entry
        return outcome_of(entry)

    def revert_plan(self, job_id: str, as_job: str | None = None) -> tuple[Plan, Entry]:
        """The plan that undoes an applied job: its downs, last to first. Raises Refused when there is none to run."""
        entry = undoing.applied(self._ledger, job_id)
        return undoing.undo_of(self._ledger, entry, self.plan_of(entry), as_job), entry

    def stage_revert(self, job_id: str, target: Target, submitter: str, as_job: str | None = None) -> Outcome:
        """Stage the job that undoes `job_id`. It runs only on the schema that job left, and once."""
        undo, entry = self.revert_plan(job_id, as_job)
        raw = plan.seal(undo)
        new = New(
            job_id=undo.job_id,
            kind="revert",
            state=State.STAGED,
            signal=Signal.COMPLETE,
            received_bytes=len(raw),
            expected_bytes=len(raw),
            body_sha256=hashlib.sha256(raw).hexdigest(),
            sha256=undo.sha256,
            stmt_count=undo.stmt_count,
            target=entry.target,
            level=Level.SEALED.word,
            evidence=(Level.SEALED.word, f"down-of:{job_id}"),
            submitter=submitter,
        )
        if entry.target != target.identity:
            raise CannotTry(f"job {job_id} was applied to {entry.target}. Nothing was written.")
        staged, created = self._ledger.record(new, self._clock(), body=raw)
        return outcome_of(staged) if created else self._intake.known(staged, new)

    def plan_of(self, entry: Entry) -> Plan:
        """The plan of a staged or later job, proven anew from the bytes kept. Raises CannotTry when they are gone."""
        raw = self._ledger.body(entry.attempt_id)
        if raw is None or hashlib.sha256(raw).hexdigest() != entry.body_sha256:
            raise CannotTry(f"the ledger's bytes of job {entry.job_id} are missing or changed. Nothing was written.")
        try:
            # A signature was checked when the job was staged; the digest above says that these are those bytes.
            value = proof.prove(raw, max(len(raw), 1), lambda _keyid, _signature, _message: True).value
        except Refused as refused:
            raise CannotTry(f"the ledger's bytes of job {entry.job_id} are no plan: {refused.detail}.") from None
        if not isinstance(value, Plan) or value.sha256 != entry.sha256:
            raise CannotTry(f"the ledger's bytes of job {entry.job_id} are not its plan. Nothing was written.")
        return value

    def _refuse_foreign_receipt(self, session: Session, proven_plan: Plan, new: New) -> Outcome | None:
        """Refuse an id whose receipt in the target is for something else. An equal one is settled under the lock."""
        receipt = session.receipt(proven_plan.job_id)
        if receipt is None:
            return None
        same = (receipt.sha256, receipt.stmt_count) == (proven_plan.sha256, proven_plan.stmt_count)
        if same and receipt.status in STANDS:
            return None
        entry, created = self._ledger.record(
            msgspec.structs.replace(
                new,
                state=State.REJECTED,
                signal=Signal.ID_REUSED,
                detail=f"the target holds a receipt for this id and {'this' if same else 'another'} body "
                f"that says {receipt.status!r}",
            ),
            self._clock(),
            body=None,
        )
        return outcome_of(entry) if created else self._intake.known(entry, new)


def _identity(target: Target | None) -> str | None:
    return None if target is None else target.identity
