"""Who may be a gate's role, what has to stand in a target, and how it gets there."""

from contextlib import contextmanager

import psycopg
import pytest
from tests.effects.postgres.world import make_url

from endmark.core.refusal import CannotTry, Signal
from endmark.effects.postgres import PostgresTarget, setup
from endmark.effects.target import Failed

GOOD = ["CREATE TABLE good (n integer)"]


def standing(database, target=None):
    with (target or database.target).open() as session:
        return session.standing()


def refused(database, part):
    """The gate does nothing here, and says why."""
    before = database.dump()
    fresh = PostgresTarget(database.url)
    with pytest.raises(CannotTry, match=part):
        database.run(GOOD, target=fresh)
    with pytest.raises(CannotTry, match=part), PostgresTarget(database.url).open() as session:
        session.receipt("j1")
    assert database.dump() == before


def test_a_target_that_is_ready(database):
    found = standing(database)
    assert (found.faults, found.powers, found.notes) == ((), (), ())
    assert (found.role, found.schema, found.owner) == (database.cluster.gate, "public", database.cluster.owner)


POWERS = {
    "owner": ("GRANT {owner} TO {gate}", "REVOKE {owner} FROM {gate}", "may become .*owner, which owns the receipts"),
    "owner, not inherited": (
        "ALTER ROLE {gate} NOINHERIT; GRANT {owner} TO {gate}",
        "REVOKE {owner} FROM {gate}; ALTER ROLE {gate} INHERIT",
        "may become .*owner, which owns the receipts",
    ),
    "superuser": ("ALTER ROLE {gate} SUPERUSER", "ALTER ROLE {gate} NOSUPERUSER", "a superuser"),
    "writes all": ("GRANT pg_write_all_data TO {gate}", "REVOKE pg_write_all_data FROM {gate}", "pg_write_all_data"),
    "runs programs": (
        "GRANT pg_execute_server_program TO {gate}",
        "REVOKE pg_execute_server_program FROM {gate}",
        "pg_execute_server_program",
    ),
    "a grant": ("GRANT UPDATE ON schema_jobs TO {gate}", "REVOKE UPDATE ON schema_jobs FROM {gate}", "may write the"),
    "a grant to all": (
        "GRANT INSERT ON endmark.endmark_receipts TO PUBLIC",
        "REVOKE INSERT ON endmark.endmark_receipts FROM PUBLIC",
        "may write the receipts",
    ),
}


def administer(database, statements):
    names = {"owner": database.cluster.owner, "gate": database.cluster.gate}
    for statement in statements.format(**names).split("; "):
        database.query(statement)


@pytest.mark.parametrize("power", POWERS)
def test_a_role_that_could_write_receipts_is_refused_unless_the_target_says_so(database, power):
    give, take, part = POWERS[power]
    administer(database, give)
    try:
        refused(database, part)
        allowed = PostgresTarget(database.url, allow_owner=True)
        assert standing(database, allowed).powers
        before = database.dump()
        with pytest.raises(Failed, match="may not end the transaction"):
            database.run([*GOOD, "COMMIT"], target=allowed)
        assert database.dump() == before
        database.run(GOOD, target=allowed)
        assert database.receipt_as(allowed, "j1").status == "applied"
    finally:
        administer(database, take)


def test_createrole_is_a_power_before_release_16(database):
    version = int(database.query("SHOW server_version_num")[0][0])
    administer(database, "ALTER ROLE {gate} CREATEROLE")
    try:
        assert bool(standing(database).powers) == (version < 160_000)
    finally:
        administer(database, "ALTER ROLE {gate} NOCREATEROLE")


EMPTY = (
    "CREATE OR REPLACE FUNCTION endmark.finish(job text, nonce text, undone text) RETURNS void LANGUAGE plpgsql "
    "SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'BEGIN END'"
)
BROKEN = {
    "the trigger is off": ("ALTER TABLE schema_jobs DISABLE TRIGGER endmark_whole", "the trigger endmark_whole"),
    "not always": ("ALTER TABLE schema_jobs ENABLE TRIGGER endmark_whole", "the trigger endmark_whole"),
    "the trigger is gone": ("DROP TRIGGER endmark_whole ON schema_jobs", "not set up"),
    "another trigger": (
        "CREATE TRIGGER spy AFTER UPDATE ON schema_jobs EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "another trigger stands on schema_jobs: spy",
    ),
    "a rule": ("CREATE RULE r AS ON DELETE TO schema_jobs DO INSTEAD NOTHING", "is not as it was set up"),
    "row security": ("ALTER TABLE schema_jobs ENABLE ROW LEVEL SECURITY", "is not as it was set up"),
    "no key": ("ALTER TABLE schema_jobs DROP CONSTRAINT schema_jobs_pkey", "job_id is not unique"),
    "another function": (
        EMPTY,
        "the functions are not those",
    ),
    "another path": ("ALTER FUNCTION endmark.finish RESET search_path", "do not run as the owner"),
    "another right": ("ALTER FUNCTION endmark.finish SECURITY INVOKER", "do not run as the owner"),
    "another owner": ("ALTER FUNCTION endmark.finish OWNER TO CURRENT_USER", "do not run as the owner"),
    "a function less": ("DROP FUNCTION endmark.count_job", "the functions are not those"),
    "counts gone": ("DROP TABLE endmark.endmark_receipts", "endmark_receipts or endmark.endmark_alone is not as"),
    "the one for those alone gone": ("DROP TABLE endmark.endmark_alone", "endmark_alone is not as"),
    "its owner": ("ALTER TABLE endmark.endmark_alone OWNER TO CURRENT_USER", "endmark_alone is not as"),
    "another table's owner": ("ALTER TABLE endmark.endmark_receipts OWNER TO CURRENT_USER", "endmark_alone is not as"),
    "the schema's owner": ("ALTER SCHEMA endmark OWNER TO CURRENT_USER", "endmark_alone is not as"),
    "all gone": ("DROP SCHEMA endmark CASCADE", "not set up"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_target_that_was_tampered_with_is_refused(database, what):
    statement, part = BROKEN[what]
    database.query(statement)
    refused(database, part)
    assert standing(database).faults


def test_a_target_that_was_not_set_up(cluster):
    with cluster.database("bare", template="template0") as bare:
        refused(bare, "was not set up for endmark.*endmark target setup")


# --- who owns the schema of schema_jobs could drop it, but in no plan

DECOY = (
    "CREATE TABLE public.schema_jobs (job_id text PRIMARY KEY, stmt_count integer, sha256 text, status text)",
    "GRANT ALL ON public.schema_jobs TO PUBLIC",
    "GRANT ALL ON SCHEMA public TO PUBLIC",
)
AS_OWNER = {
    "drop": ["DROP TABLE schema_jobs"],
    "drop cascade": ["DROP TABLE schema_jobs CASCADE"],
    "drop the schema": ["DROP SCHEMA public CASCADE"],
    "drop and a decoy": ["DROP TABLE schema_jobs", *DECOY],
    "rename the schema": ["ALTER SCHEMA public RENAME TO old", "CREATE SCHEMA public", *DECOY],
    "rename and the row": [
        "ALTER SCHEMA public RENAME TO old",
        "CREATE SCHEMA public",
        *DECOY,
        "INSERT INTO public.schema_jobs VALUES ('j1', 8, repeat('0', 64), 'applying')",
        "ALTER TABLE public.schema_jobs RENAME TO hidden",
        "ALTER TABLE public.hidden RENAME TO schema_jobs",
    ],
    "rename and commit": [
        "ALTER SCHEMA public RENAME TO old",
        "CREATE SCHEMA public",
        *DECOY,
        "INSERT INTO public.schema_jobs VALUES ('j1', 8, repeat('0', 64), 'applied')",
        "COMMIT",
    ],
}


@pytest.mark.parametrize("how", AS_OWNER)
def test_the_owner_of_the_database_cannot_lose_a_receipt_in_a_plan(database, how):
    administer(database, f"ALTER DATABASE {database.name} OWNER TO {{gate}}; ALTER SCHEMA public OWNER TO {{gate}}")
    assert any("owns the schema public" in note for note in standing(database).notes)
    database.run(GOOD, "before")
    before = database.dump()
    with pytest.raises(Failed) as caught:
        database.run([*AS_OWNER[how], "SELECT 1"])
    assert caught.value.signal in (Signal.SQL_ERROR, Signal.FORBIDDEN_STATEMENT)
    assert database.dump() == before
    database.run(["DROP TABLE good"], "after")


# --- what earlier plans or administrators left in the role's settings

SETTINGS = {
    "another path": "ALTER ROLE {gate} IN DATABASE {name} SET search_path = evil, pg_catalog",
    "no time at all": "ALTER ROLE {gate} IN DATABASE {name} SET statement_timeout = '1ms'",
    "serializable": "ALTER ROLE {gate} IN DATABASE {name} SET default_transaction_isolation = serializable",
    "read only": "ALTER ROLE {gate} IN DATABASE {name} SET default_transaction_read_only = on",
    "not durable": "ALTER ROLE {gate} IN DATABASE {name} SET synchronous_commit = off",
    "another encoding": "ALTER ROLE {gate} IN DATABASE {name} SET client_encoding = 'LATIN1'",
    "quotes": "ALTER ROLE {gate} IN DATABASE {name} SET quote_all_identifiers = on",
}


@pytest.mark.parametrize("what", SETTINGS)
def test_settings_of_the_role_change_nothing_of_ours(database, what):
    fingerprint = database.fingerprint()
    for statement in (
        "CREATE SCHEMA evil",
        "CREATE FUNCTION evil.nul(integer, integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 1'",
        "CREATE OPERATOR evil./ (LEFTARG = integer, RIGHTARG = integer, FUNCTION = evil.nul)",
        "CREATE FUNCTION evil.yes(text, text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true'",
        "CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.yes)",
    ):
        database.as_gate(statement)
    with_evil = database.fingerprint()
    assert with_evil != fingerprint
    database.query(SETTINGS[what].format(gate=database.cluster.gate, name=database.name))
    assert database.fingerprint() == with_evil
    before = database.dump()
    with pytest.raises(Failed, match="statement 2"):
        database.run(["CREATE TABLE public.a (note text)", "ROLLBACK", "CREATE TABLE public.b (n int)"])
    assert database.dump() == before
    database.run(["CREATE TABLE public.a (note text)", "INSERT INTO public.a VALUES ('žluť')"])
    assert database.query("SELECT note FROM public.a") == [("žluť",)]


# --- set-up


def test_a_second_setup_changes_nothing(database):
    database.run(GOOD)
    before = database.dump()
    with database.admin.transaction():
        for statement in setup.statements(database.cluster.gate, owner=database.cluster.owner):
            database.query(statement)
    assert database.dump() == before


@contextmanager
def bare(cluster, *statements):
    """A database that is not set up, its administrator being no superuser, and that one's URL."""
    boss = f"{cluster.prefix}_boss"
    with cluster.admin() as conn:
        conn.execute(f"CREATE ROLE {boss} LOGIN CREATEROLE PASSWORD 'pässword'")
    with cluster.database("bare", template="template0") as made:
        made.query(f"ALTER DATABASE {made.name} OWNER TO {boss}")
        made.query(f"ALTER SCHEMA public OWNER TO {boss}")
        for statement in statements:
            made.query(statement)
        yield made, make_url(cluster.url, boss, made.name)
    with cluster.admin() as conn:
        conn.execute(f"DROP OWNED BY {boss}")
        conn.execute(f"DROP ROLE {boss}")


def test_an_administrator_who_is_no_superuser_can_set_up(cluster):
    owner = f"{cluster.prefix}_owner_two"
    with bare(cluster) as (database, url):
        script = setup.script(cluster.gate, owner=owner)
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(script)
            conn.execute(f"GRANT CREATE, USAGE ON SCHEMA public TO {cluster.gate}")
        found = standing(database)
        assert (found.faults, found.powers) == ((), ())
        database.run(GOOD)
        assert "is not the one it was set up for" in "".join(standing(database, PostgresTarget(url)).faults)
        members = "SELECT count(*) FROM pg_auth_members WHERE roleid = %s::regrole AND NOT admin_option"
        assert database.query(members, owner) == [(0,)]


FOUR = "CREATE TABLE schema_jobs (job_id text, stmt_count int, sha256 text, status text{})"
TABLES = {
    "no key": (FOUR.format(""), "no unique job_id"),
    "a partial key": (
        FOUR.format("") + "; CREATE UNIQUE INDEX ON schema_jobs (job_id) WHERE status = 'applied'",
        "no unique job_id",
    ),
    "a wider key": (FOUR.format(", PRIMARY KEY (job_id, sha256)"), "no unique job_id"),
    "other columns": (
        "CREATE TABLE schema_jobs (id text PRIMARY KEY, state text)",
        "begins with the columns id, state",
    ),
    "a view": (
        "CREATE VIEW schema_jobs AS SELECT 'x' AS job_id, 1 AS stmt_count, 'y' AS sha256, 'z' AS status",
        "could not be made ready",
    ),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_cannot_hold_receipts_is_refused(cluster, table):
    statements, part = TABLES[table]
    with cluster.database("bare", template="template0") as database:
        for statement in statements.split("; "):
            database.query(statement)
        before = database.dump()
        admin = PostgresTarget(make_url(cluster.url, "postgres", database.name))
        with pytest.raises(CannotTry, match=part):
            admin.set_up(setup.statements(cluster.gate, owner=cluster.owner))
        assert database.dump() == before


def test_a_table_of_another_tool_is_taken_over_with_its_rows(cluster):
    with cluster.database("bare", template="template0") as database:
        database.query(
            "CREATE TABLE schema_jobs (job_id varchar(200) UNIQUE, stmt_count bigint, sha256 varchar(64), status text, "
            "who text DEFAULT 'them')"
        )
        database.query("INSERT INTO schema_jobs VALUES ('old', 2, 'abc', 'applied')")
        database.query(f"GRANT CREATE, USAGE ON SCHEMA public TO {cluster.gate}")
        admin = PostgresTarget(make_url(cluster.url, "postgres", database.name))
        admin.set_up(setup.statements(cluster.gate, owner=cluster.owner))
        database.run(GOOD)
        old = database.receipt("old")
        assert (old.stmt_count, old.sha256, old.status, old.statements_run) == (2, "abc", "applied", None)
        assert database.receipts()["j1"][2:] == ("applied",)
        database.query("INSERT INTO schema_jobs VALUES ('other', 1, 'abc', 'applying')")  # the other tool goes on
        database.query("UPDATE schema_jobs SET status = 'failed' WHERE job_id = 'other'")
        with pytest.raises(Failed, match="23505"):
            database.run(GOOD, "other")


def test_names_that_no_role_can_have():
    for names in (("",), ("a", "b\0"), ("a", "b", "c$endmark$"), ("a", "b", "a")):
        with pytest.raises(ValueError, match="a"):
            setup.statements(*names)
    assert '"a""b"' in setup.script('a"b')
