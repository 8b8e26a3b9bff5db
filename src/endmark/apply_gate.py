"""The apply gate: a plan of SQL statements is applied whole, with its receipt, or not at all.

prove -> stage -> (review) -> lock the target -> approved, applying -> back up -> one transaction -> commit -> verify on
a new connection -> settle the ledger. Nothing here reads the clock, the environment or arguments; they are handed in.
"""

import contextlib
import hashlib
import itertools
import math
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from endmark.core import plan, proof
from endmark.core.evidence import UNDONE_BY_DOWNS, Level
from endmark.core.outcome import Outcome
from endmark.core.plan import Plan
from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.core.states import WITHOUT_EFFECT, State
from endmark.effects.target import Failed, InDoubt, Partial, Progress, Ran, Session, Stop, Target, Work
from endmark.intake import Delivery, Intake, still_good_enough
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry, Moved, New, stamp
from endmark.ledger.outcomes import outcome_of
from endmark.settle import (
    BACKING_UP,
    STANDS,
    check_free,
    last_word,
    partial_outcome,
    settle,
    unsettled,
)

__all__ = ["ApplyGate", "Delivery", "Options"]

SELF_APPROVED = "self-approved"
_LEDGER_GONE = "the ledger's file was removed or replaced meanwhile"
_ROWS_KEPT = 256  # statements whose changed rows the ledger repeats; the receipt has them all


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a target is to be treated. Timeouts in seconds; `backups` is a folder, None for no backup."""

    lock_timeout: float = 10.0
    statement_timeout: float = 300.0
    backups: Path | None = None
    min_evidence: Level = Level.BARE
    max_statements: int | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.lock_timeout < math.inf and 0 <= self.statement_timeout < math.inf):
            raise ValueError("timeouts are finite numbers of seconds, zero or more")


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
        self._stop = stop
        self._progress = progress
        self._intake = Intake(ledger, clock)

    # ---- the doings -------------------------------------------------------------------------------------------

    def submit(self, delivery: Delivery, target: Target | None, options: Options) -> tuple[Outcome, Plan | None]:
        """Prove a delivery and stage it, durably. The plan is None where the delivery was refused or is known.

        Raises CannotTry for a target that cannot be read.
        """
        taken = self._intake.take(delivery, _identity(target), options.min_evidence, options.max_statements)
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
        return outcome_of(entry), proven_plan

    def apply(self, delivery: Delivery, target: Target, options: Options, approver: str) -> Outcome:
        """Prove a delivery and apply it at once, approved beforehand by `approver`.

        Raises CannotTry, with nothing recorded, while the target cannot be opened or locked: the same call may be made
        again.
        """
        taken = self._intake.take(delivery, _identity(target), options.min_evidence, options.max_statements)
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
            return self._run_staged(session, target, entry, proven_plan, options, approver, None)

    def _after_its_twin(self, known: Outcome, target: Target, options: Options) -> Outcome:
        """What is stored of a job that came before; where it is staged, perhaps only for a moment by a twin that is
        about to run it, what is stored once the target's lock was free."""
        if known.state != State.STAGED.value or known.attempt_id is None:
            return known
        with contextlib.suppress(CannotTry), target.open() as session:
            session.lock(options.lock_timeout)
            now = self._must_get(known.attempt_id)
            if now.state is not State.STAGED:
                return self._intake.came_before(now)
        return known

    def approve(
        self, attempt_id: str, target: Target, options: Options, approver: str, shown_fingerprint: str | None = None
    ) -> Outcome:
        """Apply a staged job. `shown_fingerprint`: the schema the approver saw; the approval is void once it moved.

        Raises CannotTry while the target cannot be opened or locked; the job stays staged then.
        """
        entry = self._must_get(attempt_id)
        if entry.target not in (None, target.identity):
            return self._intake.for_another_target(entry, target.identity)
        if entry.state not in (State.STAGED, State.APPROVED):
            return outcome_of(entry)
        still_good_enough(entry, options.min_evidence, options.max_statements)
        staged_plan = self.plan_of(entry)
        with target.open() as session:
            session.lock(options.lock_timeout)
            check_free(self._ledger, session, target)
            return self._run_staged(session, target, entry, staged_plan, options, approver, shown_fingerprint)

    def decline(self, attempt_id: str, approver: str, reason: str) -> Outcome:
        """End a staged job without effect. A job in any other state stays as it is."""
        entry = self._must_get(attempt_id)
        if entry.state is not State.STAGED:
            return outcome_of(entry)
        try:
            entry = self._ledger.move(
                attempt_id, State.STAGED, State.DECLINED, self._clock(), approver=approver, data={"reason": reason}
            )
        except Moved as moved:
            entry = moved.entry
        return outcome_of(entry)

    def revert_plan(self, job_id: str, as_job: str | None = None) -> tuple[Plan, Entry]:
        """The plan that undoes an applied job: its downs, last to first. Raises Refused when there is none to run."""
        entry = self._ledger.by_job(job_id)
        if entry is None or entry.state is not State.APPLIED:
            stands = "is not in this ledger" if entry is None else f"is {entry.state}"
            raise Refused(Signal.WRONG_VALUE, 0, None, f"job {job_id} {stands}; only an applied job can be reverted")
        applied = self.plan_of(entry)
        if applied.down is None:
            raise Refused(Signal.MISSING_KEY, 0, None, f"job {job_id} came without down statements")
        if entry.fingerprint_after is None:
            unknown = f"what schema job {job_id} left is not known, for its receipt does not say"
            raise Refused(Signal.STALE_FINGERPRINT, 0, None, unknown)
        undo_id = as_job or self._revert_id(job_id)
        if not plan.ID.fullmatch(undo_id):
            raise Refused(Signal.BAD_ID, 0, None, f"{undo_id[:40]}... is not a job id of 1-128 characters")
        statements = applied.down[::-1]
        undo = Plan(
            job_id=undo_id,
            statements=statements,
            sha256=plan.digest(statements),
            after=[job_id],
            base=entry.fingerprint_after,
        )
        return undo, entry

    def _revert_id(self, job_id: str) -> str:
        """`JOB.revert`, or the next number where the one before ended without effect: nothing was undone by it."""
        for number in itertools.count(1):
            undo_id = f"{job_id}.revert" if number == 1 else f"{job_id}.revert.{number}"
            former = self._ledger.by_job(undo_id)
            if former is None or (former.kind == "revert" and former.state not in WITHOUT_EFFECT):
                return undo_id
        raise AssertionError  # count() does not end

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

    # ---- under the target's lock ------------------------------------------------------------------------------

    def _run_staged(
        self,
        session: Session,
        target: Target,
        entry: Entry,
        staged_plan: Plan,
        options: Options,
        approver: str,
        shown_fingerprint: str | None,
    ) -> Outcome:
        before = session.fingerprint()
        # With one, the job was applied before, whoever recorded it: then nothing is bound to the schema of today.
        receipt = session.receipt(staged_plan.job_id)
        now = self._clock()
        start = entry.state
        try:
            if receipt is None and staged_plan.base is not None and staged_plan.base != before:
                entry = self._ledger.move(
                    entry.attempt_id,
                    start,
                    State.STALE,
                    now,
                    signal=Signal.STALE_FINGERPRINT,
                    detail=f"the plan was made for schema {staged_plan.base[:12]}..., the target has {before[:12]}...",
                    target=target.identity,
                    fingerprint_before=before,
                )
                return outcome_of(entry)
            if receipt is None and shown_fingerprint is not None and shown_fingerprint != before:
                raise CannotTry(
                    "The approval is void: the target's schema changed since it was shown. Nothing was written; "
                    f"look again with 'endmark show {entry.job_id}'."
                )
            onward = (State.APPROVED, State.APPLYING) if start is State.STAGED else (State.APPLYING,)
            entry = self._ledger.move(
                entry.attempt_id,
                start,
                onward,
                now,
                target=target.identity,
                approver=approver,
                approved_fingerprint=before,
                fingerprint_before=before,
                evidence=(SELF_APPROVED,) if approver == entry.submitter else None,
            )
        except Moved as moved:
            return outcome_of(moved.entry)
        if receipt is not None:
            return outcome_of(settle(self._ledger, entry, receipt, self._clock()))
        return self._run(session, target, entry, staged_plan, options)

    def _run(self, session: Session, target: Target, entry: Entry, staged_plan: Plan, options: Options) -> Outcome:
        backup = None
        try:
            if options.backups is not None:
                backup = options.backups / f"{entry.job_id}-{entry.attempt_id}.db"
                self._ledger.note(entry.attempt_id, BACKING_UP, self._clock(), {"to": str(backup)}, durable=False)
                session.backup(backup, self._progress, self._stop)
            ran = session.run(self._work(entry, staged_plan), options.statement_timeout, self._progress, self._stop)
            if not self._ledger.stands():
                session.rollback()
                return unsettled(entry, f"everything was rolled back, for {_LEDGER_GONE}")
            # A row that is no longer `applying` was settled by somebody who took our lock for lost: do not commit.
            if (now := self._must_get(entry.attempt_id)).state is not State.APPLYING:
                return outcome_of(now)
        except Failed as failed:
            return self._failed(entry, failed, backup)
        except Partial as partial:
            return partial_outcome(self._ledger, entry, partial, self._clock())
        except InDoubt as doubt:
            return self._doubtful(entry, doubt.detail)
        except CannotTry as fault:
            return self._failed(entry, Failed(Signal.TARGET_FAULT, fault.detail.rstrip(".")), backup)
        try:
            session.commit()
        except Failed as failed:
            return self._failed(entry, failed, backup)
        except CannotTry as fault:
            return self._verify(target, session, entry, None, backup, fault.detail)
        return self._verify(target, session, entry, ran, backup, None)

    def _work(self, entry: Entry, staged_plan: Plan) -> Work:
        return Work(
            job_id=staged_plan.job_id,
            attempt_id=entry.attempt_id,
            statements=staged_plan.statements,
            sha256=staged_plan.sha256,
            at=stamp(self._clock()),
            after=staged_plan.after,
            retry_of=staged_plan.retry_of,
            reverts=staged_plan.after[0] if entry.kind == "revert" else None,
            down=staged_plan.down,
        )

    def _failed(self, entry: Entry, failed: Failed, backup: Path | None) -> Outcome:
        """Record that everything was rolled back."""
        try:
            entry = self._ledger.move(
                entry.attempt_id,
                State.APPLYING,
                State.FAILED,
                self._clock(),
                signal=failed.signal,
                detail=failed.detail,
                statements_run=failed.statements_run,
                evidence=(UNDONE_BY_DOWNS,) if failed.undone else None,
                backup=None if backup is None or not backup.exists() else str(backup),
                data={"statement": failed.statement},
            )
        except Moved as moved:
            entry = moved.entry
        except CannotTry as fault:
            why = f"{failed.detail}. Everything was rolled back, but the ledger could not be told: {fault.detail}"
            return unsettled(entry, why)
        return outcome_of(entry)

    def _verify(
        self, target: Target, ran_in: Session, entry: Entry, ran: Ran | None, backup: Path | None, doubt: str | None
    ) -> Outcome:
        """Read the receipt on a new connection and settle the ledger by it. Raises nothing: the commit has been said.

        `ran` is None where the outcome of the commit is in doubt, and `doubt` says why. The ledger's row is not flushed
        by itself: should the machine lose it, the job stands as `applying`, and reconciling reads the receipt again.
        """
        said = doubt or "the commit was acknowledged"
        try:
            with target.open() as session:
                receipt, how = session.receipt(entry.job_id or ""), None
                if receipt is None or doubt is not None:
                    ran_in.rollback()
                    session.lock(0)  # without it the look-up could lie
                    ended = last_word(session, entry.job_id or "", self._stop)
                    receipt, how = ended.receipt, ended.how
                moved = session.place != ran_in.place
        except Partial as partial:
            return partial_outcome(self._ledger, entry, partial, self._clock())
        except (CannotTry, InDoubt) as fault:
            return self._doubtful(entry, f"{said}, and the receipt could not be read back: {fault.detail}")
        try:
            if moved:  # not `failed`: what was committed stands in a file that is elsewhere now
                return self._doubtful(entry, f"ALARM: {said}, but another file stands in the target's place now.")
            if receipt is None and doubt is not None:  # under the lock: what was said of the commit was a no
                said = f"{doubt.rstrip('.')}, and the target has no receipt{f'; {how}' if how else ''}"
                return self._failed(entry, Failed(Signal.TARGET_FAULT, said, undone=how is not None), backup)
            if ran is None or receipt is None or (receipt.sha256, receipt.status) != (entry.sha256, "applied"):
                return outcome_of(settle(self._ledger, entry, receipt, self._clock(), how))
            if not self._ledger.stands():
                return unsettled(entry, f"{said} and the receipt stands, but {_LEDGER_GONE}")
            entry = self._ledger.move(
                entry.attempt_id,
                State.APPLYING,
                State.APPLIED,
                self._clock(),
                signal=Signal.COMPLETE,
                statements_run=len(ran.rows_changed),
                statement_rows=ran.rows_changed if len(ran.rows_changed) <= _ROWS_KEPT else None,
                fingerprint_after=ran.fingerprint_after,
                evidence=ran.evidence or None,
                backup=None if backup is None else str(backup),
                durable=False,
            )
        except Moved as faster:
            entry = faster.entry
        except CannotTry as fault:
            return unsettled(entry, f"{said} and the receipt stands, but the ledger could not be told: {fault.detail}")
        return outcome_of(entry)

    def _doubtful(self, entry: Entry, why: str) -> Outcome:
        with contextlib.suppress(CannotTry):
            self._ledger.note(entry.attempt_id, "unverified", self._clock(), {"why": why})
            entry = self._must_get(entry.attempt_id)
        return unsettled(entry, why)

    def _must_get(self, attempt_id: str) -> Entry:
        entry = self._ledger.get(attempt_id)
        if entry is None:
            raise CannotTry(f"attempt {attempt_id} is not in this ledger. Nothing was done.")
        return entry


def _identity(target: Target | None) -> str | None:
    return None if target is None else target.identity
