"""Who holds what others wait for, in words."""

from collections.abc import Sequence

from endmark.effects.postgres.channel import Channel, Reply, Step

# The target's own lock: two numbers of ours ("endmark1" in ASCII); the server keeps them apart by database.
KEYS = ("1701733485", "1634888497")

TRY_LOCK = Step(b"SELECT pg_catalog.pg_try_advisory_xact_lock($1::pg_catalog.int4, $2::pg_catalog.int4)::text", KEYS)
# The same beyond the end of a transaction, for a statement that runs outside of one.
HOLD = Step(b"SELECT pg_catalog.pg_try_advisory_lock($1::pg_catalog.int4, $2::pg_catalog.int4)::text", KEYS)
# Whose it is; asked under it.
PID = Step(b"SELECT pg_catalog.pg_backend_pid()::text")
LET_GO = Step(b"SELECT pg_catalog.pg_advisory_unlock($1::pg_catalog.int4, $2::pg_catalog.int4)", KEYS)

# Asked with search_path = pg_catalog. What a role may not see of another's session is NULL.
_WHO = b"""SELECT a.pid::text, a.application_name, a.usename,
to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') FROM pg_stat_activity AS a WHERE a.pid IN ("""
_HELD_BY = b"""SELECT (count(*) > 0)::text FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
AND mode = 'ExclusiveLock' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND classid::text = $1 AND objid::text = $2 AND pid::text = $3"""
OF_TARGET = Step(
    _WHO
    + b"""SELECT l.pid FROM pg_locks AS l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND l.classid::text = $1 AND l.objid::text = $2) ORDER BY a.pid LIMIT 3""",
    KEYS,
)


def is_held_by(pid: str) -> Step:
    """Whether the server process `pid` holds the target's lock here."""
    return Step(_HELD_BY, (*KEYS, pid))


def blocking(pid: int) -> Step:
    """Who keeps the server process `pid` waiting."""
    return Step(_WHO + b"SELECT unnest(pg_blocking_pids($1::int))) ORDER BY a.pid LIMIT 3", (str(pid),))


def in_the_way(beside: Channel, pid: int, around: tuple[Sequence[Step], Sequence[Step]], silence: float) -> str:
    """Who keeps the server process `pid` waiting, in words. `around`: what is said before and after the question, on
    `beside`, which is closed. Raises as `Channel.talk` does."""
    before, after = around
    try:
        return words(beside.ask(*before, blocking(pid), *after, silence=silence)[len(before)])
    finally:
        beside.close()


def words(reply: Reply) -> str:
    """One clause; empty where nobody was found."""
    return "; ".join(_one(*row) for row in reply.rows)


def _one(pid: str | None, application: str | None, user: str | None, since: str | None) -> str:
    of = ", ".join(part for part in (application, user and f"user {user}", since and f"since {since}") if part)
    return f"server process {pid}" + (f" ({of})" if of else "")
