"""The receipts in the target: `schema_jobs`, which others may read too, and `endmark.endmark_receipts` beside it."""

import hashlib

from endmark.effects.postgres.channel import Reply, Step
from endmark.effects.postgres.functions import CALLS
from endmark.effects.target import Receipt, Work


def read(job_id: str) -> Step:
    """Ask for the receipt of a job."""
    return Step(b"SELECT * FROM endmark.receipt($1)", (job_id,))


def found(reply: Reply) -> Receipt | None:
    """The receipt that the reply to `read` holds, or None."""
    if not reply.rows:
        return None
    job_id, count, sha256, status, ran, changed, after = reply.rows[0]
    return Receipt(
        job_id or "",
        int(count or -1),
        sha256 or "",
        status or "",
        None if ran is None else int(ran),
        changed,
        after,
    )


def begin(work: Work, nonce: str) -> Step:
    """Write the receipt as `applying`. The reply holds the transaction's number. Only the nonce's digest is sent."""
    proof = hashlib.sha256(nonce.encode()).hexdigest()
    values = (work.job_id, work.attempt_id, str(len(work.statements)), work.sha256, proof)
    return Step(CALLS["begin_job"], values)


def finish(work: Work, nonce: str) -> Step:
    """Write `applied`, and `reverted` into the receipt of the job that this one undoes."""
    return Step(CALLS["finish"], (work.job_id, nonce, work.reverts))


def count(work: Work, nonce: str, changed: str, ran: int, before: str, after: str) -> Step:
    """Write the counts and the fingerprints beside it."""
    values = (work.job_id, nonce, str(ran), changed, before, after, work.at)
    return Step(CALLS["count_job"], values)
