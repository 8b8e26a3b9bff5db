"""The target has the last word on a job: the steps that applying and reconciling share."""

from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from endmark.core.evidence import RECEIPT_FOUND, REVERTED, UNDONE_BY_DOWNS
from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry, Signal
from endmark.core.states import State
from endmark.effects.target import Ended, Partial, Receipt, Session, Stepwise, Stop, Target
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry, Moved
from endmark.ledger.outcomes import outcome_of

STANDS = frozenset({"applied", "reverted"})  # what the receipt of a job says that had its effect
BACKED_UP = "backed-up"  # the event after a backup: where it is and what its bytes are, or what the command said
BACKING_UP = "backing-up"  # the event before a backup is begun; it says where to


def remove_half_a_backup(ledger: Ledger, entry: Entry) -> None:
    """Remove what a killed process left of a backup: it is no backup, and holds the target's data. Raises CannotTry."""
    for event in ledger.events(entry.attempt_id):
        if event.event == BACKING_UP and isinstance(event.data.get("to"), str):
            with suppress(OSError):
                Path(f"{event.data['to']}.part").unlink(missing_ok=True)


def check_free(ledger: Ledger, session: Session, target: Target) -> None:
    """A target in which a job stands half done takes no other. Under its lock. Raises CannotTry."""
    partly = ledger.in_state(State.PARTIAL, target.identity)
    why = f"job {partly[0].job_id} stands partly in it, until a person says 'endmark settle'" if partly else None
    if why is None and isinstance(session, Stepwise):
        why = session.unsettled()
    if why is not None:
        raise CannotTry(f"the target {target.identity} takes no job now: {why}. Nothing was written.")


def unsettled(entry: Entry, why: str) -> Outcome:
    """A job that the ledger still calls `applying`, with what is known of it."""
    detail = f"{why[:1].upper()}{why[1:].rstrip('.')}. 'endmark reconcile' settles it."
    return msgspec.structs.replace(outcome_of(entry), detail=detail)


def last_word(session: Session, job_id: str, stop: Stop) -> Ended:
    """What the target says of an interrupted job, under its lock; where DDL cannot roll back, the job is ended first.

    Raises Partial, InDoubt and CannotTry.
    """
    if isinstance(session, Stepwise):
        return session.recover(job_id, stop)
    return Ended(session.receipt(job_id))


def settle_partial(ledger: Ledger, entry: Entry, partial: Partial, now: datetime) -> Entry:
    """Move an `applying` job to `partial`. Returns the entry as it then stands. Raises CannotTry."""
    try:
        return ledger.move(
            entry.attempt_id,
            State.APPLYING,
            State.PARTIAL,
            now,
            signal=partial.signal,
            detail=partial.detail,
            statements_run=partial.statements_run,
        )
    except Moved as moved:
        return moved.entry


def partial_outcome(ledger: Ledger, entry: Entry, partial: Partial, now: datetime) -> Outcome:
    """Record that some of a job stands and could not be undone. Raises nothing: a ledger that fails is said."""
    try:
        return outcome_of(settle_partial(ledger, entry, partial, now))
    except CannotTry as fault:
        return unsettled(entry, f"PARTIAL: {partial.detail}, and the ledger could not be told: {fault.detail}")


def settle(ledger: Ledger, entry: Entry, receipt: Receipt | None, now: datetime, how: str | None = None) -> Entry:
    """Move an `applying` job to what its receipt, read under the target's lock, proves.

    Equal digest and count: `applied`. None: `failed`, for nothing was committed. Another, or one that says something
    else than that the job was applied: `failed`, with an alarm.
    `how` says how a job without a receipt was undone, where it was.
    Returns the entry as it then stands, also when another process was faster. Raises CannotTry.
    """
    try:
        if receipt is None and how is not None:
            return ledger.move(
                entry.attempt_id,
                State.APPLYING,
                State.FAILED,
                now,
                signal=Signal.LOST,
                detail=f"it was interrupted; {how}",
                evidence=(UNDONE_BY_DOWNS,),
            )
        if receipt is None:
            return ledger.move(
                entry.attempt_id,
                State.APPLYING,
                State.FAILED,
                now,
                signal=Signal.LOST,
                detail="it was interrupted, and the target has no receipt: nothing was committed",
            )
        same = (receipt.sha256, receipt.stmt_count) == (entry.sha256, entry.stmt_count)
        if same and receipt.status in STANDS:
            return ledger.move(
                entry.attempt_id,
                State.APPLYING,
                State.APPLIED,
                now,
                signal=Signal.COMPLETE,
                evidence=(RECEIPT_FOUND,) if receipt.status == "applied" else (RECEIPT_FOUND, REVERTED),
                statements_run=receipt.statements_run,
                fingerprint_after=receipt.fingerprint_after,
            )
        ledger.note(
            entry.attempt_id,
            "alarm",
            now,
            {"receipt_sha256": receipt.sha256, "receipt_count": receipt.stmt_count, "receipt_status": receipt.status},
        )
        return ledger.move(
            entry.attempt_id,
            State.APPLYING,
            State.FAILED,
            now,
            signal=Signal.ID_REUSED,
            detail="ALARM: the target's receipt for this id "
            + (f"says {receipt.status!r}" if same else "is for another body")
            + "; ask who wrote it",
        )
    except Moved as moved:
        return moved.entry
