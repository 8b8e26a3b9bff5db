"""A staged job under its target's lock: rehearsed where that is wanted, approved, backed up, run, verified."""

import contextlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from endmark.core.evidence import REHEARSED, UNDONE_BY_DOWNS
from endmark.core.outcome import Outcome
from endmark.core.plan import Plan
from endmark.core.refusal import CannotTry, Signal
from endmark.core.states import State
from endmark.effects.target import (
    Failed,
    InDoubt,
    Partial,
    Progress,
    Ran,
    Receipt,
    Rehearsal,
    Session,
    Stop,
    Target,
    Watched,
    Work,
)
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry, Moved, stamp
from endmark.ledger.outcomes import outcome_of
from endmark.steps import approving, backing, rehearsing
from endmark.steps.approving import SELF_APPROVED
from endmark.steps.settle import check_free, last_word, partial_outcome, settle, unsettled
from endmark.steps.treatment import Options

_LEDGER_GONE = "the ledger's file was removed or replaced meanwhile"
_ROWS_KEPT = 256  # statements whose changed rows the ledger repeats; the receipt has them all


class Applying:
    """What happens to a staged job once its target's lock is held."""

    def __init__(self, ledger: Ledger, clock: Callable[[], datetime], stop: Stop, progress: Progress) -> None:
        self._ledger = ledger
        self._clock = clock
        self._stop = stop
        self._progress = progress

    def run_staged(
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
                raise void(entry)
            if start is State.APPROVED and (why := approving.void(self._ledger, entry, before, options, now)):
                entry = self._ledger.move(entry.attempt_id, start, State.STAGED, now, data={"void": why})
                waits = outcome_of(entry)
                return msgspec.structs.replace(waits, detail=f"The approval is void: {why}. {waits.detail}")
            found: Rehearsal | None = None
            if receipt is None and options.rehearse:
                tried = self.rehearse(session, entry, staged_plan, options, before)
                if isinstance(tried, Entry):
                    return outcome_of(tried)
                found = tried
                self._hold_still(session, target, entry, options, before)
            entry = self._approved(entry, target, before, approver, found is not None)
        except Moved as moved:
            return outcome_of(moved.entry)
        if receipt is not None:
            return outcome_of(settle(self._ledger, entry, receipt, self._clock()))
        return self._run(session, target, entry, staged_plan, options, found)

    def _approved(self, entry: Entry, target: Target, before: str, approver: str, is_rehearsed: bool) -> Entry:
        """Move a job to `applying`, by way of its approval where it has none yet. Raises Moved, CannotTry."""
        evidence: tuple[str, ...] = (REHEARSED,) if is_rehearsed else ()
        is_new = entry.state is State.STAGED  # else the approval that it carries holds
        if is_new and approver == entry.submitter:
            evidence += (SELF_APPROVED,)
        return self._ledger.move(
            entry.attempt_id,
            entry.state,
            (State.APPROVED, State.APPLYING) if is_new else State.APPLYING,
            self._clock(),
            target=target.identity,
            approver=approver if is_new else None,
            approved_fingerprint=before if is_new else None,
            fingerprint_before=before,
            evidence=evidence or None,
        )

    def rehearse(
        self, session: Session, entry: Entry, staged_plan: Plan, options: Options, before: str
    ) -> Rehearsal | Entry:
        """What the plan does, kept with the job; or the job, declined by what was found. Raises CannotTry."""
        try:
            found = rehearsing.rehearse(session, self._work(entry, staged_plan), options, self._stop)
        except Failed as failed:
            return rehearsing.decline(self._ledger, entry, failed, before, self._clock())
        if found.before != before:
            raise CannotTry("The target's schema changed while the plan was rehearsed. Nothing was written.")
        facts = rehearsing.facts(found)
        self._ledger.note(entry.attempt_id, rehearsing.REHEARSED, self._clock(), facts, durable=False)
        return found

    def _hold_still(self, session: Session, target: Target, entry: Entry, options: Options, before: str) -> None:
        """Take the lock again where the rehearsal let it go, and see that nothing happened. Raises CannotTry."""
        if getattr(session, "keeps_lock", True):
            return
        session.lock(options.lock_timeout)
        check_free(self._ledger, session, target)
        if session.fingerprint() != before or session.receipt(entry.job_id or "") is not None:
            raise CannotTry("The target changed while the plan was rehearsed. Nothing was written; try again.")

    def _run(
        self,
        session: Session,
        target: Target,
        entry: Entry,
        staged_plan: Plan,
        options: Options,
        found: Rehearsal | None,
    ) -> Outcome:
        backup = None
        try:
            backup = backing.back_up(
                self._ledger, self._clock, entry, session, target, options, self._progress, self._stop
            )
            ran = session.run(self._work(entry, staged_plan), options.statement_timeout, self._progress, self._stop)
            if found is not None and ran.can_roll_back and ran.fingerprint_after != found.after:
                session.rollback()
                said = "the plan left another schema than when it was rehearsed"
                return self._failed(entry, Failed(Signal.CHECK_FAILED, said, None, len(ran.rows_changed)), backup)
            if not self._ledger.stands():
                session.rollback()
                return unsettled(entry, f"everything was rolled back, for {_LEDGER_GONE}")
            # A row that is no longer `applying` was settled by somebody who took our lock for lost: do not commit.
            if (now := must_get(self._ledger, entry.attempt_id)).state is not State.APPLYING:
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
            session, receipt, how = self._read_back(target, ran_in, entry.job_id or "", doubt is None)
            with session:
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

    def _read_back(
        self, target: Target, ran_in: Session, job_id: str, is_said: bool
    ) -> tuple[Session, Receipt | None, None]:
        """Another session than the one that committed, and the receipt as it sees it. Raises CannotTry.

        One that was opened meanwhile will do where the commit `is_said` to have been made; should it fail, or see no
        receipt, a new one.
        """
        beside = ran_in.beside() if is_said and isinstance(ran_in, Watched) else None
        if beside is not None:
            with contextlib.ExitStack() as stack:
                stack.enter_context(beside)
                with contextlib.suppress(CannotTry):
                    if (receipt := beside.receipt(job_id)) is not None:
                        stack.pop_all()
                        return beside, receipt, None
        session = target.open()
        try:
            return session, session.receipt(job_id), None
        except BaseException:
            session.__exit__(None, None, None)
            raise

    def _doubtful(self, entry: Entry, why: str) -> Outcome:
        with contextlib.suppress(CannotTry):
            self._ledger.note(entry.attempt_id, "unverified", self._clock(), {"why": why})
            entry = must_get(self._ledger, entry.attempt_id)
        return unsettled(entry, why)


def must_get(ledger: Ledger, attempt_id: str) -> Entry:
    """The attempt of this id. Raises CannotTry."""
    entry = ledger.get(attempt_id)
    if entry is None:
        raise CannotTry(f"attempt {attempt_id} is not in this ledger. Nothing was done.")
    return entry


def void(entry: Entry) -> CannotTry:
    """Why an approval does not hold any more."""
    return CannotTry(
        "The approval is void: the target's schema changed since it was shown. Nothing was written; "
        f"look again with 'endmark show {entry.job_id}'."
    )
