"""A plan is rehearsed before it is applied: what was found is kept with the job, and ends it where it would fail."""

from datetime import datetime
from typing import Any

from endmark.core import schemadiff
from endmark.core.evidence import FOUND_IN_REHEARSAL
from endmark.core.refusal import CannotTry, Signal
from endmark.core.states import State
from endmark.effects.target import Failed, Rehearsal, Rehearses, Session, Stop, Work
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry, Moved
from endmark.steps.treatment import Options

REHEARSED = "rehearsed"  # the event
BY = "rehearsal"  # who declines what it found
_LOCKS_KEPT = 200
_TABLES_KEPT = 200
_MERGES_KEPT = 20
# Not the plan's fault, and nothing is known of it: the job stays what it is.
_NOT_ITS_FAULT = frozenset({Signal.TARGET_FAULT, Signal.INTERRUPTED})


def rehearse(session: Session, work: Work, options: Options, stop: Stop) -> Rehearsal:
    """Run the plan where nothing stays. Raises Failed for what the plan is to blame for, and CannotTry for the rest."""
    if not isinstance(session, Rehearses):
        raise CannotTry("a plan for this target cannot be rehearsed. Nothing was written.")
    try:
        return session.rehearse(work, options.statement_timeout, stop)
    except Failed as failed:
        if failed.signal in _NOT_ITS_FAULT:
            raise CannotTry(f"the rehearsal did not come to its end: {failed.detail}. Nothing was written.") from None
        raise


def facts(found: Rehearsal) -> dict[str, Any]:
    """What is kept of a rehearsal, and printed for programs."""
    changes = schemadiff.lines(found.changes)
    return {
        "how": found.how,
        "before": found.before,
        "after": found.after,
        "after_downs": found.after_downs,
        "changes": schemadiff.capped(changes),
        "locks": [
            {"statement": lock.statement, "on": lock.on, "mode": lock.mode} for lock in found.locks[:_LOCKS_KEPT]
        ],
        "rows": [{"table": table, "rows": count} for table, count in found.rows[:_TABLES_KEPT]],
        "rows_changed": None if found.rows_changed is None else sum(found.rows_changed),
        "limits": list(found.limits),
        "merges": [
            {"table": one.table, "statements": list(one.numbers), "sql": one.statement, "down": one.down}
            for one in found.merges[:_MERGES_KEPT]
        ],
        "apart": list(found.apart[:_MERGES_KEPT]),
        "seconds": round(found.seconds, 3),
    }


def last(ledger: Ledger, attempt_id: str) -> dict[str, Any] | None:
    """What was kept of the last rehearsal of a job, or None. Raises CannotTry."""
    kept = [event.data for event in ledger.events(attempt_id) if event.event == REHEARSED]
    return kept[-1] if kept else None


def decline(ledger: Ledger, entry: Entry, failed: Failed, fingerprint: str | None, now: datetime) -> Entry:
    """End a job that cannot go through, before anybody is asked about it and before `applying` is written: the target
    was not touched. Returns the entry as it then stands. Raises CannotTry."""
    start = entry.state
    path = (State.DECLINED,) if start is State.STAGED else (State.STAGED, State.DECLINED)
    try:
        return ledger.move(
            entry.attempt_id,
            start,
            path,
            now,
            signal=failed.signal,
            detail=failed.detail,
            approver=BY,
            fingerprint_before=fingerprint,
            evidence=(FOUND_IN_REHEARSAL,),
            data={"reason": "found in rehearsal", "statement": failed.statement},
        )
    except Moved as moved:
        return moved.entry
