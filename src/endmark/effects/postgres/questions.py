"""What the gate says around a plan: its transactions, its settings, its limits."""

from endmark.effects.postgres.channel import Step

_MS_MAX = 2_000_000_000

# From here on nothing that a plan or the role's settings made is in the way: names are looked up in pg_catalog alone.
# The last few say how the catalogs are printed; a commit is durable before it is acknowledged, whatever the plan set.
_OWN = b"""SELECT pg_catalog.set_config('role', 'none', true),
pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true), pg_catalog.set_config('jit', 'off', true),
pg_catalog.set_config('statement_timeout', '60s', true), pg_catalog.set_config('lock_timeout', $1, true),
pg_catalog.set_config('synchronous_commit', CASE pg_catalog.current_setting('synchronous_commit')
WHEN 'off' THEN 'on' WHEN 'local' THEN 'on' ELSE pg_catalog.current_setting('synchronous_commit') END, true),
pg_catalog.set_config('quote_all_identifiers', 'off', true), pg_catalog.set_config('datestyle', 'ISO, YMD', true),
pg_catalog.set_config('intervalstyle', 'postgres', true), pg_catalog.set_config('timezone', 'UTC', true),
pg_catalog.set_config('bytea_output', 'hex', true), pg_catalog.set_config('extra_float_digits', '1', true)"""
BEGIN = Step(b"BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE, NOT DEFERRABLE")
READ = Step(b"BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY, NOT DEFERRABLE")
ROLLBACK = Step(b"ROLLBACK")
COMMIT = Step(b"COMMIT")
# Back to what the role, the database and the URL set, for the plan.
ITS_OWN = (Step(b"RESET ROLE"), Step(b"RESET ALL"))
ONESELF = Step(b"SET SESSION AUTHORIZATION DEFAULT")
NOTHING = Step(b"")
IMMEDIATE = Step(b"SET CONSTRAINTS ALL IMMEDIATE")


def own(lock_ms: int) -> Step:
    """What goes before every question of ours; one waits at most `lock_ms` for a lock of somebody else."""
    return Step(_OWN, (str(lock_ms),))


def limits(timeout: float, lock_ms: int) -> Step:
    """The timeouts of a statement of a plan; no limit to its waiting for locks where `lock_ms` is 0."""
    values = (str(ms(timeout)), str(lock_ms))
    return Step(
        b"SELECT pg_catalog.set_config('statement_timeout', $1, false), "
        b"pg_catalog.set_config('lock_timeout', $2, false)",
        values,
    )


def ms(seconds: float) -> int:
    """Whole milliseconds; never 0, which would be no limit at all."""
    return max(1, min(int(seconds * 1_000), _MS_MAX))
