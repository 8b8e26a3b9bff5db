"""A plan of one statement that the server runs in no transaction: `CREATE INDEX CONCURRENTLY` and its like.

The target's lock is held by the session from before the first try until the end. The receipt is written as `applying`
and committed; the statement runs, alone; what became of it is read from the catalogs, and the receipt says so. Whoever
dies in between leaves a receipt that lets no other job in, until the same question has been answered under the lock.
"""

from typing import TYPE_CHECKING, NamedTuple

from endmark.core.evidence import ALONE
from endmark.core.refusal import CannotTry, Signal
from endmark.effects.postgres import blame, guard, outcome, receipts
from endmark.effects.postgres.channel import Fault, Late, Lost, Reply, Step, Stopped
from endmark.effects.postgres.functions import CALLS
from endmark.effects.postgres.outcome import Became
from endmark.effects.target import Ended, Failed, InDoubt, Partial, Progress, Ran, Receipt, Stop, Work

if TYPE_CHECKING:
    from endmark.effects.postgres.running import Running
    from endmark.effects.postgres.session import PostgresSession

FIND = Step(b"SELECT * FROM endmark.unfinished()")
_LOST = "nobody heard how its statement ended"


class Unfinished(NamedTuple):
    """A job whose statement ran outside of a transaction, and which is not at its end. `status` is its receipt's."""

    job_id: str
    status: str
    kind: str
    before: outcome.Before


def unfinished(reply: Reply) -> Unfinished | None:
    """What the reply to `FIND` says. Raises CannotTry for a record that nobody of us wrote."""
    if not reply.rows:
        return None
    job_id, status, kind, seen, before = (part or "" for part in reply.rows[0])
    try:
        return Unfinished(job_id, status, kind, outcome.read(seen, before))
    except ValueError:
        raise CannotTry(f"what the target says of job {job_id} cannot be read. Nothing was written.") from None


def blocks(found: Unfinished) -> str:
    """Why no other job may run."""
    if found.status == "applying":
        return f"job {found.job_id} was interrupted here; 'endmark reconcile' with the ledger it is in settles it"
    return f"job {found.job_id} stands partly in it, until a person says 'endmark settle {found.job_id} --reason TEXT'"


def run(session: "PostgresSession", work: Work, kind: str, running: "Running", progress: Progress, stop: Stop) -> Ran:
    """Run the statement. Needs the lock, held by the session. The receipt's last word is not committed yet.

    Raises Failed when nothing of it stands, Partial when something does, InDoubt when nobody can know yet.
    """
    was = _begin(session, work, kind)
    failed: Failed | None = None
    try:
        # What runs CONCURRENTLY holds up nobody while it waits for others, and leaves something broken when it is
        # broken off: only its own time bounds it.
        lock_ms = 0 if "CONCURRENTLY" in kind else session.lock_ms
        running.next()
        reply = session.say(work.statements[0], running.timeout, lock_ms, stop)
        if (why := guard.forbidden(reply)) is not None:
            failed = Failed(Signal.FORBIDDEN_STATEMENT, f"statement 1 {why}", 1)
    except (Fault, Late, Lost, Stopped) as fault:
        signal, detail = blame.of(fault, running, stop(), session.blocked_by)
        failed = Failed(signal, detail, 1)
    if not session.channel.is_open:
        said = failed.detail if failed else "the connection is gone"
        raise InDoubt(f"{said}, and what became of it is not known yet")
    try:
        return _end(session, work, was, failed, progress)
    except (Fault, Late, Lost, Stopped, CannotTry) as fault:
        said = failed.detail if failed else "the statement was run"
        raise InDoubt(f"{said}, and how it ended could not be looked at: {blame.words(fault)}") from None


def _begin(session: "PostgresSession", work: Work, kind: str) -> Unfinished:
    """Write the receipt as `applying`, for good. Raises Failed, InDoubt, and as `talk` does before the commit."""
    session.begin()
    now = outcome.seen(session.ask(*outcome.ASK))
    if now.fingerprint != session.seen:
        raise Failed(Signal.CHECK_FAILED, "somebody else changed the schema meanwhile")
    kept = outcome.write(now)
    values = (work.job_id, work.attempt_id, work.sha256, kind, kept, now.fingerprint, work.reverts)
    session.ask(Step(CALLS["begin_alone"], values))
    session.commit_for_good()
    return Unfinished(work.job_id, "applying", kind, outcome.read(kept, now.fingerprint))


def _end(session: "PostgresSession", work: Work, was: Unfinished, failed: Failed | None, progress: Progress) -> Ran:
    session.begin()
    now = outcome.seen(session.ask(*outcome.ASK))
    if failed is not None:
        became = outcome.after_failure(was.before, now)
    else:
        became = outcome.after_success(was.kind, was.before, now)
    if became is Became.WHOLE:
        found = _write(session, work.job_id, became, now.fingerprint, work.at)
        if found != Receipt(work.job_id, 1, work.sha256, "applied", 1, "0", now.fingerprint):
            raise CannotTry("the receipt does not read back as it was written")
        progress(1, 1)
        return Ran((0,), now.fingerprint, (ALONE,), can_roll_back=False)
    if failed is None:
        broken = outcome.words(outcome.Before("", "", frozenset(), frozenset()), now)
        why = f"the statement left things as they were, and {broken}" if became is Became.NOTHING else "it ran"
        failed = Failed(Signal.CHECK_FAILED, why, 1)
    _write(session, work.job_id, became, now.fingerprint, work.at)
    session.commit_for_good()
    if became is Became.PARTLY:
        raise Partial(failed.signal, f"{failed.detail}; {outcome.words(was.before, now)}", 1, 1)
    raise failed


def recover(session: "PostgresSession", found: Unfinished) -> Ended:
    """Bring a job that nobody is at work on to its end, under the lock. Raises Partial, and as `talk` does."""
    now = outcome.seen(session.ask(*outcome.ASK))
    if found.status == "partial":
        raise Partial(Signal.LOST, f"{_LOST}; {outcome.words(found.before, now)}", 1, 1)
    became = outcome.after_silence(found.kind, found.before, now)
    session.hold()
    receipt = _write(session, found.job_id, became, now.fingerprint, None)
    session.commit_for_good()
    if became is Became.PARTLY:
        raise Partial(Signal.LOST, f"{_LOST}; {outcome.words(found.before, now)}", 1, 1)
    return Ended(receipt)


def settle(session: "PostgresSession", job_id: str) -> None:
    """A person takes charge of what the job left. Raises as `talk` does, and InDoubt."""
    session.hold()
    session.ask(Step(CALLS["end_alone"], (job_id, "settled", None, None)))
    session.commit_for_good()


def _write(session: "PostgresSession", job_id: str, became: Became, after: str, at: str | None) -> Receipt | None:
    end = Step(CALLS["end_alone"], (job_id, became.value, after, at))
    return receipts.found(session.ask(end, receipts.read(job_id))[1])
