"""What a plan's statement may not do inside our transaction, and how the server itself is asked after each one."""

from endmark.effects.postgres.channel import Fault, Reply, Step
from endmark.effects.postgres.functions import CALLS, COUNTS, JOBS, NOT_OURS, NOT_STILL, NOT_WHOLE, RECEIPTS, WHOLE

# Errors, and so makes the server skip whatever is in the pipeline behind it, once the transaction is no longer the one
# that begin_job opened. Nothing in it can be shadowed, whatever the plan made or set. It also sets the timeouts anew.
_STILL = b"""SELECT pg_catalog.set_config('statement_timeout', $2, true),
pg_catalog.set_config('lock_timeout', $3, true),
1 OPERATOR(pg_catalog./) CASE WHEN pg_catalog.current_setting('client_encoding') OPERATOR(pg_catalog.=) 'UTF8'
AND (pg_catalog.pg_current_xact_id_if_assigned())::pg_catalog.text OPERATOR(pg_catalog.=) $1 THEN 1 ELSE 0 END"""

_DIVISION = "22012"
_LOCK_TIMEOUT = "55P03"
_CANCELED = "57014"
_ACTIVE = "25001"

# Command tags of statements that begin, end or partly undo a transaction. None can commit here; none may try.
TAGS = frozenset(
    {
        "BEGIN",
        "COMMIT",
        "COMMIT PREPARED",
        "PREPARE TRANSACTION",
        "RELEASE",
        "ROLLBACK",
        "ROLLBACK PREPARED",
        "SAVEPOINT",
        "START TRANSACTION",
    }
)
# What changes rows, by the first word of its tag; the last word is how many.
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "COPY"})


def still(xact: str, statement_ms: int, lock_ms: int, *, spelled_out: bool) -> Step:
    """The guard that follows every statement: by the target's function, or spelled out where the gate's role could make
    that function anew."""
    return Step(_STILL if spelled_out else CALLS["still"], (xact, str(statement_ms), str(lock_ms)))


def forbidden(reply: Reply) -> str | None:
    """What a statement that the server took may nevertheless not do, or None."""
    if not reply.tag:
        return "holds no SQL at all"
    if reply.tag in TAGS:
        return f"may not say {reply.tag}"
    return None


def ended(fault: Fault) -> bool:
    """Whether the guard itself raised this."""
    return fault.sqlstate in (_DIVISION, NOT_STILL)


def is_commit(fault: Fault) -> bool:
    """Whether our trigger stopped a commit, or what would have made it look at the receipt too early."""
    return fault.sqlstate == NOT_WHOLE


def is_forgery(fault: Fault) -> bool:
    """Whether one of our functions was called by somebody who is not the gate."""
    return fault.sqlstate == NOT_OURS


def lock_timed_out(fault: Fault) -> bool:
    return fault.sqlstate == _LOCK_TIMEOUT


def canceled(fault: Fault) -> bool:
    return fault.sqlstate == _CANCELED


def in_transaction_only(fault: Fault) -> bool:
    """Whether the server itself says that this statement cannot run inside a transaction. (A plan can raise the same
    SQLSTATE, but not from there.)"""
    return fault.sqlstate == _ACTIVE and fault.raised_in == "PreventInTransactionBlock"


# What can be proven outside of a transaction, by the name that the server itself gives it there. The rest of what it
# runs only there leaves the database (CREATE DATABASE, ALTER SYSTEM), or is none of a plan's business.
ALONE = (
    "CREATE INDEX CONCURRENTLY",
    "DROP INDEX CONCURRENTLY",
    "REINDEX CONCURRENTLY",
    "REINDEX SCHEMA",
    "REINDEX DATABASE",
    "ALTER TABLE ... DETACH CONCURRENTLY",
    "CLUSTER",
    "VACUUM",
)


def runs_alone(fault: Fault) -> str | None:
    """The kind of a statement that may be the only one of a plan, outside of a transaction; else None.

    The server has parsed it and says so, in whatever language. Where a function led there, the fault has a context: a
    DO block with such a statement inside could do other things, too.
    """
    if not in_transaction_only(fault) or fault.context:
        return None
    return next((kind for kind in ALONE if kind in fault.message), None)


def rows_changed(reply: Reply) -> int:
    """The rows that a statement changed, by its command tag. CREATE TABLE AS has SELECT's tag, and no columns."""
    words = reply.tag.split()
    if words and words[-1].isdigit() and (words[0] in _CHANGES or (words[0] == "SELECT" and reply.columns < 0)):
        return int(words[-1])
    return 0


# Objects that name our tables or bear their names, other than ours: (kind, name). Asked with search_path = pg_catalog.
NAMING = Step(
    f"""
WITH ours AS (SELECT c.oid FROM pg_class AS c WHERE c.oid IN (SELECT t.tgrelid FROM pg_trigger AS t
        WHERE t.tgfoid IN {WHOLE}) OR c.oid IN {COUNTS})
SELECT 'relation', c.oid::regclass::text FROM pg_class AS c
    WHERE c.relname IN ('{JOBS}', '{RECEIPTS}') AND c.oid NOT IN (SELECT oid FROM ours)
UNION ALL
SELECT 'object', pg_describe_object(d.classid, d.objid, d.objsubid) FROM pg_depend AS d
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid IN (SELECT oid FROM ours) AND d.deptype = 'n'
ORDER BY 1, 2
""".encode()
)
