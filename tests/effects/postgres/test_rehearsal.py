"""A rehearsal before a real PostgreSQL server: in the target, rolled back, and on a clone in a scratch database."""

import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from tests.effects.postgres.plans import ELEVEN
from tests.support.world import work

from endmark.core import schemadiff
from endmark.core.refusal import CannotTry, Signal
from endmark.effects.postgres import PostgresTarget, clone, listing
from endmark.effects.postgres.clone import Scratch
from endmark.effects.postgres.rehearsal import CloneSession
from endmark.effects.target import Failed, Lock, Rehearses

UP = (
    "CREATE TABLE invoices (id integer PRIMARY KEY, who integer REFERENCES users)",
    "ALTER TABLE users ADD COLUMN email text DEFAULT 'none'",
    "CREATE INDEX by_name ON users (name)",
    "UPDATE users SET name = upper(name)",
)
DOWN = ("DROP TABLE invoices", "ALTER TABLE users DROP COLUMN email", "DROP INDEX by_name", "SELECT 1")
MODES = ("rolled back", "clone")


@pytest.fixture(scope="module")
def cloned(shared):
    """One clone for all that is tried on one."""
    with clone.cloned(scratch_of(shared), shared.target, "public", lambda: None) as channel:
        yield channel


class OnClone:
    """The target, rehearsed on the clone that is there already."""

    in_target = False

    def __init__(self, database, channel):
        self.database, self.channel = database, channel

    def open(self):
        return CloneSession(self.database.target, clone.connect(self.channel.parameters))


@pytest.fixture(params=MODES)
def target(request, shared):
    if request.param == "clone":
        return OnClone(shared, request.getfixturevalue("cloned"))
    return shared.target


def scratch_of(database):
    return Scratch(database.cluster.url, {"PATH": os.environ["PATH"]})


def target_of(database, mode):
    return PostgresTarget(database.url, scratch=scratch_of(database) if mode == "clone" else None)


def rehearse(target, statements, *, timeout=10.0, stop=lambda: None, **more):
    with target.open() as session:
        session.lock(0)
        assert isinstance(session, Rehearses)
        return session.rehearse(work(statements, **more), timeout, stop)


def scratch_databases(database):
    """Those of this target alone: other tests have theirs."""
    return database.query(f"SELECT datname FROM pg_database WHERE datname = '{clone.name_of(database.target)}'")


@contextmanager
def unchanged(database):
    before, scratch = database.dump(), scratch_databases(database)
    yield
    assert database.dump() == before
    assert scratch_databases(database) == scratch


def test_it_says_what_would_become_of_the_schema_and_changes_nothing(shared, target):
    with unchanged(shared):
        found = rehearse(target, UP, down=DOWN)
    assert schemadiff.lines(found.changes) == [
        "+ column public.users.email",
        "    + text DEFAULT 'none'::text [3]",
        "+ constraint public.invoices.invoices_pkey",
        "    + PRIMARY KEY (id)",
        "+ constraint public.invoices.invoices_who_fkey",
        "    + FOREIGN KEY (who) REFERENCES public.users(id)",
        "+ index by_name",
        "    + CREATE INDEX by_name ON public.users USING btree (name)",
        "+ index invoices_pkey",
        "    + CREATE UNIQUE INDEX invoices_pkey ON public.invoices USING btree (id)",
        "+ table public.invoices",
        "    + id integer NOT NULL [1]",
        "    + who integer [2]",
    ]
    assert found.after_downs == found.before != found.after
    assert found.locks == (
        Lock(1, "public.users", "ShareRowExclusiveLock"),
        Lock(2, "public.users", "AccessExclusiveLock"),
    )
    assert [name for name, _count in found.rows] == ["public.users"]
    assert found.rows_changed == ((0, 0, 0, 2) if target is shared.target else (0, 0, 0, 0))


BAD = {
    "an error in the seventh": ([*("SELECT 1",) * 6, "INSERT INTO nowhere VALUES (1)"], Signal.SQL_ERROR, 7),
    "a column that is missing": (["UPDATE users SET city = 'x'"], Signal.SQL_ERROR, 1),
    "a commit": (["CREATE TABLE a (b integer)", "COMMIT"], Signal.FORBIDDEN_STATEMENT, 2),
    "a commit that chains": (["CREATE TABLE a2 (b integer)", "COMMIT AND CHAIN"], Signal.FORBIDDEN_STATEMENT, 2),
    "a rollback": (["ROLLBACK"], Signal.FORBIDDEN_STATEMENT, 1),
    "a prepared transaction": (["CREATE TABLE a3 (b integer)", "PREPARE TRANSACTION 'p'"], None, 2),
    "a DO that commits": (["DO $$ BEGIN CREATE TABLE a (b integer); COMMIT; END $$"], None, 1),
    "two statements": (["SELECT 1; SELECT 2"], Signal.FORBIDDEN_STATEMENT, 1),
    "nothing at all": (["SELECT 1", "-- nothing"], Signal.FORBIDDEN_STATEMENT, 2),
    "a NUL": (["SELECT '\0'"], Signal.FORBIDDEN_STATEMENT, 1),
    "rows from the client": (["COPY users FROM STDIN"], Signal.FORBIDDEN_STATEMENT, 1),
    "an index beside": (["SELECT 1", "CREATE INDEX CONCURRENTLY i ON users (name)"], Signal.FORBIDDEN_STATEMENT, 2),
    "a statement without end": (["SELECT 1", "SELECT pg_sleep(60)"], Signal.STATEMENT_TIMEOUT, 2),
}


@pytest.mark.parametrize(("statements", "signal", "at"), BAD.values(), ids=BAD)
def test_what_would_fail_is_found_with_its_number(shared, target, statements, signal, at):
    with unchanged(shared), pytest.raises(Failed) as caught:
        rehearse(target, statements, timeout=0.4)
    assert caught.value.statement == at
    assert signal in (None, caught.value.signal)
    assert f"statement {at}" in caught.value.detail


def test_a_write_to_the_receipts_is_refused(shared, target):
    forged = ("SELECT endmark.finish('j1', 'x', NULL)", "CREATE VIEW v AS TABLE schema_jobs")
    for statement in ("DELETE FROM schema_jobs", *(forged if target is shared.target else ())):
        with unchanged(shared), pytest.raises(Failed):
            rehearse(target, ["CREATE TABLE a (b integer)", statement])


DOWNS = {
    "one that does not bring it back": (
        (*DOWN[:2], "SELECT 1", "SELECT 1"),
        Signal.CHECK_FAILED,
        None,
        "index by_name",
    ),
    "one that fails": (
        (*DOWN[:1], "ALTER TABLE users DROP COLUMN phone", *DOWN[2:]),
        Signal.SQL_ERROR,
        2,
        "down of statement 2",
    ),
    "one that commits": ((*DOWN[:3], "COMMIT"), Signal.FORBIDDEN_STATEMENT, 4, "the down of statement 4"),
}


@pytest.mark.parametrize(("down", "signal", "at", "part"), DOWNS.values(), ids=DOWNS)
def test_downs_have_to_lead_back(shared, target, down, signal, at, part):
    with unchanged(shared), pytest.raises(Failed, match=part) as caught:
        rehearse(target, UP, down=down)
    assert (caught.value.signal, caught.value.statement) == (signal, at)


def test_a_deferred_constraint_is_checked_and_the_downs_still_run(shared, target):
    late = ("CREATE TABLE p (id int PRIMARY KEY)", "CREATE TABLE c (p int REFERENCES p DEFERRABLE INITIALLY DEFERRED)")
    down = ("DROP TABLE p", "DROP TABLE c", "DELETE FROM c")
    with unchanged(shared):
        with pytest.raises(Failed, match="c_p_fkey"):
            rehearse(target, [*late, "INSERT INTO c VALUES (1)"], down=down)
        found = rehearse(target, [*late, "INSERT INTO c VALUES (NULL)"], down=down)
    assert found.after_downs == found.before


def test_the_jobs_it_comes_after_must_stand(database):
    for mode in MODES:
        with unchanged(database), pytest.raises(Failed, match="comes after job other"):
            rehearse(target_of(database, mode), UP, after=("other",))


@pytest.mark.parametrize("asked", [3, 10])
def test_an_interruption_ends_it(database, asked):
    for mode in MODES:
        left = iter([None] * asked)
        with unchanged(database), pytest.raises(Failed) as caught:
            rehearse(
                target_of(database, mode),
                ["SELECT pg_sleep(60)"],
                timeout=60,
                stop=lambda left=left: next(left, "SIGINT"),
            )
        assert caught.value.signal is Signal.INTERRUPTED


def test_what_a_rehearsal_foresees_is_what_the_real_run_leaves(database):
    for mode in MODES:
        found = rehearse(target_of(database, mode), ELEVEN)
        assert found.after_downs is None
    assert database.run(ELEVEN).fingerprint_after == found.after
    with database.target.open() as session:
        assert session.fingerprint() == found.after


def test_every_kind_of_object_survives_the_clone(database):
    database.query("CREATE EXTENSION pg_trgm")
    for statement in KINDS:
        database.as_gate(statement)
    found = [rehearse(target_of(database, mode), ["DROP VIEW v", *UP]) for mode in MODES]
    assert found[0].before == found[1].before
    assert found[0].changes == found[1].changes
    assert found[0].locks == found[1].locks


KINDS = (
    "CREATE TYPE mood AS ENUM ('sad', 'it''s \"ok\"')",
    "CREATE DOMAIN posint AS int CHECK (VALUE > 0)",
    "CREATE TABLE parts (id bigint GENERATED ALWAYS AS IDENTITY, at date NOT NULL, n posint) PARTITION BY RANGE (at)",
    "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
    "CREATE INDEX parts_at ON parts (at)",
    "CREATE SEQUENCE numbers START 7",
    "CREATE VIEW v AS SELECT id, name FROM users WHERE name <> 'x,\"y\\z'",
    "CREATE MATERIALIZED VIEW mv AS SELECT count(*) FROM users",
    "CREATE FUNCTION f(a int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN a; END $$",
    "CREATE FUNCTION tf() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
    "CREATE TRIGGER tr BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION tf()",
    "CREATE TABLE mood_log (m mood)",
    "CREATE RULE r AS ON DELETE TO mood_log DO ALSO NOTHING",
    "ALTER TABLE mood_log ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY p ON mood_log USING (m = 'sad')",
    "CREATE STATISTICS st ON at, n FROM parts_1",
    'CREATE SCHEMA "Odd, name"',
    'CREATE TABLE "Odd, name"."a ""b"" c" ("x y" text COLLATE "C")',
)


def test_rows_with_every_odd_sign_are_read():
    line = '(column,"a ""b"" c",,"x,y","back\\\\slash",t)'
    assert listing.fields(line) == ["column", 'a "b" c', "", "x,y", "back\\slash", "t"]


def test_numbers_that_were_taken_are_named(database):
    database.as_gate("CREATE TABLE s (id serial, x int)")
    found = rehearse(database.target, ["INSERT INTO s (x) VALUES (1)"])
    assert found.limits == ("the numbers that were taken from public.s_id_seq are gone: no rollback gives them back",)
    assert database.query("SELECT count(*) FROM s") == [(0,)]


def test_a_statement_that_runs_in_no_transaction_is_tried_on_a_clone_alone(database):
    plan, down = ["CREATE INDEX CONCURRENTLY i ON users (name)"], ["DROP INDEX CONCURRENTLY i"]
    with unchanged(database), pytest.raises(CannotTry, match="rehearse_in"):
        rehearse(target_of(database, "rolled back"), plan)
    with unchanged(database):
        found = rehearse(target_of(database, "clone"), plan, down=down)
        with pytest.raises(Failed, match="did not bring back"):
            rehearse(target_of(database, "clone"), plan, down=["SELECT 1"])
        with pytest.raises(Failed, match="statement 1"):
            rehearse(target_of(database, "clone"), ["CREATE INDEX CONCURRENTLY i ON users (city)"])
    assert [(change.what.value, change.kind, change.name) for change in found.changes] == [("+", "index", "i")]
    assert found.after_downs == found.before
    assert database.run(plan).fingerprint_after == found.after


# --- the scratch database


def test_without_a_program_or_a_role_nothing_is_touched(database):
    for scratch, part in (
        (Scratch(database.cluster.url, {"PATH": "/nowhere"}), "pg_dump is not on the PATH"),
        (Scratch(database.url, {"PATH": os.environ["PATH"]}), "permission denied to create database"),
        (Scratch("postgresql://nobody@127.0.0.1:1/x", {"PATH": os.environ["PATH"]}), "cannot be reached"),
    ):
        target = PostgresTarget(database.url, scratch=scratch)
        with unchanged(database), pytest.raises(CannotTry, match=part):
            rehearse(target, UP)


def test_two_rehearsals_do_not_take_one_scratch_database(shared, cloned):
    assert cloned.is_open
    with unchanged(shared), pytest.raises(CannotTry, match="another rehearsal"):
        rehearse(target_of(shared, "clone"), UP)


_KILLED = """
import os, signal, sys
from tests.support.world import work
from endmark.effects.postgres import PostgresTarget
from endmark.effects.postgres.clone import Scratch
target = PostgresTarget(sys.argv[1], scratch=Scratch(sys.argv[2], {"PATH": os.environ["PATH"]}))
with target.open() as session:
    session.lock(0)
    seen = iter(range(int(sys.argv[3])))
    def stop():
        if next(seen, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
    session.rehearse(work(["CREATE TABLE a (b integer)", "SELECT pg_sleep(60)"]), 60, stop)
"""


@pytest.mark.parametrize("after", [1, 60])
def test_what_a_killed_rehearsal_left_is_removed_by_the_next(database, after):
    environ = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    command = [sys.executable, "-c", _KILLED, database.url, database.cluster.url, str(after)]
    before = database.dump()
    assert subprocess.run(command, env=environ, check=False, timeout=60).returncode == -9
    assert len(scratch_databases(database)) == 1
    target = target_of(database, "clone")
    for _try in range(100):  # the server finds out by itself that the killed one is gone
        with target.open() as session, suppress(CannotTry):
            session.lock(1)
            assert session.rehearse(work(UP), 10, lambda: None).changes
            break
    assert scratch_databases(database) == []
    assert database.dump() == before


# --- a plan that behaves otherwise when it is rehearsed


def test_a_plan_that_counts_how_often_it_runs_is_seen_by_its_fingerprint(database):
    database.as_gate("CREATE SEQUENCE times")
    trick = "DO $$ BEGIN IF nextval('times') > 1 THEN CREATE TABLE surprise (x int); END IF; END $$"
    found = rehearse(database.target, [trick])
    assert found.changes == ()
    assert database.run([trick]).fingerprint_after != found.after  # what the gate compares before it commits


def test_a_clone_leaves_the_target_free(shared, cloned):
    assert cloned.is_open
    with psycopg.connect(shared.url) as conn:
        conn.execute("SET lock_timeout = '1s'")
        conn.execute("ALTER TABLE users ADD COLUMN x int")
        conn.rollback()
