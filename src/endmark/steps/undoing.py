"""The plan that undoes an applied job: its downs, last to first."""

import itertools

from endmark.core import plan
from endmark.core.plan import Plan
from endmark.core.refusal import Refused, Signal
from endmark.core.states import WITHOUT_EFFECT, State
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry


def applied(ledger: Ledger, job_id: str) -> Entry:
    """The job, which must stand as applied. Raises Refused."""
    entry = ledger.by_job(job_id)
    if entry is None or entry.state is not State.APPLIED:
        stands = "is not in this ledger" if entry is None else f"is {entry.state}"
        raise Refused(Signal.WRONG_VALUE, 0, None, f"job {job_id} {stands}; only an applied job can be reverted")
    return entry


def undo_of(ledger: Ledger, entry: Entry, done: Plan, as_job: str | None) -> Plan:
    """The plan that undoes `done`, bound to the schema it left. Raises Refused when there is none to run."""
    job_id = done.job_id
    if done.down is None:
        raise Refused(Signal.MISSING_KEY, 0, None, f"job {job_id} came without down statements")
    if entry.fingerprint_after is None:
        unknown = f"what schema job {job_id} left is not known, for its receipt does not say"
        raise Refused(Signal.STALE_FINGERPRINT, 0, None, unknown)
    undo_id = as_job or _undo_id(ledger, job_id)
    if not plan.ID.fullmatch(undo_id):
        raise Refused(Signal.BAD_ID, 0, None, f"{undo_id[:40]}... is not a job id of 1-128 characters")
    statements = done.down[::-1]
    return Plan(
        job_id=undo_id,
        statements=statements,
        sha256=plan.digest(statements),
        after=[job_id],
        base=entry.fingerprint_after,
    )


def _undo_id(ledger: Ledger, job_id: str) -> str:
    """`JOB.revert`, or the next number where the one before ended without effect: nothing was undone by it."""
    for number in itertools.count(1):
        undo_id = f"{job_id}.revert" if number == 1 else f"{job_id}.revert.{number}"
        former = ledger.by_job(undo_id)
        if former is None or (former.kind == "revert" and former.state not in WITHOUT_EFFECT):
            return undo_id
    raise AssertionError  # count() does not end
