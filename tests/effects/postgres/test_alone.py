"""A plan of one statement that runs in no transaction, with its own proof of what became of it."""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import psycopg
import pytest
from tests.effects.postgres import test_guard
from tests.effects.postgres.relay import Relay
from tests.effects.postgres.world import PostgresWorld
from tests.support.servers import within
from tests.support.world import PATIENT, clock

from endmark.apply_gate import Options
from endmark.core.refusal import CannotTry
from endmark.effects.postgres import PostgresTarget
from endmark.effects.postgres.functions import CALLS
from endmark.effects.target import Failed
from endmark.reconcile import settle_by_hand

MADE = "CREATE INDEX CONCURRENTLY users_by_name ON users (name)"
GONE = "DROP INDEX CONCURRENTLY users_by_name"


def indexes(database):
    """Every index of a plan, and whether it is whole."""
    return dict(
        database.query(
            "SELECT indexrelid::regclass::text, indisvalid AND indisready AND indislive FROM pg_index "
            "WHERE indrelid = 'users'::regclass AND NOT indisprimary"
        )
    )


def unfinished(database):
    return database.query("SELECT job_id, kind FROM endmark.endmark_alone")


ONE_STATEMENT = {
    "CREATE INDEX CONCURRENTLY": ([], MADE, {"users_by_name": True}),
    "UNIQUE": ([], MADE.replace("INDEX", "UNIQUE INDEX"), {"users_by_name": True}),
    "DROP INDEX CONCURRENTLY": ([MADE], GONE, {}),
    "DROP, IF EXISTS": ([], "DROP INDEX CONCURRENTLY IF EXISTS nothing", {}),
    "REINDEX INDEX CONCURRENTLY": ([MADE], "REINDEX INDEX CONCURRENTLY users_by_name", {"users_by_name": True}),
    "REINDEX TABLE CONCURRENTLY": ([MADE], "REINDEX TABLE CONCURRENTLY users", {"users_by_name": True}),
    "REINDEX SCHEMA": ([MADE], "REINDEX SCHEMA mine", {"users_by_name": True}),
    "VACUUM": ([], "VACUUM (ANALYZE) users", {}),
    "VACUUM FULL": ([], "VACUUM FULL users", {}),
    "CLUSTER": ([], "CLUSTER", {}),
    "in a comment's dress": ([], f"/* ; */ {MADE} -- CONCURRENTLY\n;", {"users_by_name": True}),
}


@pytest.mark.parametrize("name", ONE_STATEMENT)
def test_a_statement_of_its_own_is_applied(world, name):
    before, statement, found = ONE_STATEMENT[name]
    world.database.as_gate("CREATE SCHEMA mine")
    for one in before:
        world.database.as_gate(one)
    outcome = world.apply("j1", [statement])
    assert (outcome.state, outcome.statements_run) == ("applied", 1), outcome.detail
    assert "outside-a-transaction" in outcome.evidence
    assert indexes(world.database) == found
    assert unfinished(world.database) == []
    receipt = world.database.receipt("j1")
    assert (receipt.status, receipt.rows_changed, receipt.fingerprint_after) == ("applied", "0", world.fingerprint())
    world.check_books_agree()
    assert world.apply("j2", ["CREATE TABLE a (n int)"]).state == "applied"
    world.check_books_agree()


def test_a_partition_is_detached(world):
    parted(world)
    before = world.fingerprint()
    outcome = world.apply("j1", [DETACH])
    assert outcome.state == "applied", outcome.detail
    assert world.database.query("SELECT count(*) FROM pg_inherits WHERE inhparent = 'readings'::regclass") == [(0,)]
    assert world.fingerprint() != before


def test_it_is_undone_by_its_down(world):
    before = world.fingerprint()
    world.apply("j1", [MADE], down=[GONE])
    with world.gate() as gate:
        staged = gate.stage_revert("j1", world.target, "ann")
    assert world.approve(staged, approver="bob").state == "applied"
    assert world.fingerprint() == before
    assert {job: row[2] for job, row in world.receipts().items()} == {"j1": "reverted", "j1.revert": "applied"}
    world.check_books_agree()


def test_a_value_of_an_enum_needs_no_plan_of_its_own(world):
    world.apply("j1", ["CREATE TYPE mood AS ENUM ('ok')", "CREATE TABLE moods (m mood)"])
    assert world.apply("j2", ["ALTER TYPE mood ADD VALUE 'good'", "SELECT 1"]).state == "applied"
    used = world.apply("j3", ["ALTER TYPE mood ADD VALUE 'bad'", "INSERT INTO moods VALUES ('bad')"])
    assert used.state == "failed"
    assert "has to be committed first, by a plan before this one" in used.detail


# --- longer plans, and what else runs in no transaction


@pytest.mark.parametrize("statements", [["SELECT 1", MADE], [MADE, "SELECT 1"], [MADE, MADE]])
def test_a_longer_plan_with_one_is_refused(world, statements):
    before = world.dump()
    outcome = world.apply("j1", statements)
    assert (outcome.state, outcome.signal) == ("failed", "forbidden-statement")
    assert "send it as a plan of its own" in outcome.detail
    assert world.dump() == before


SINGLE = {
    name: (statements[0], signal)
    for name, (statements, signal, _) in test_guard.PLANS.items()
    if len(statements) == 1 and name not in ("VACUUM", "CREATE INDEX CONCURRENTLY")
}
INNER = {
    "VACUUM in a block": "DO $$ BEGIN INSERT INTO users VALUES (5, 'x'); EXECUTE 'VACUUM'; END $$",
    "VACUUM in a block, caught": "DO $$ BEGIN BEGIN EXECUTE 'VACUUM'; EXCEPTION WHEN OTHERS THEN INSERT INTO users "
    "VALUES (5, 'x'); COMMIT; END; END $$",
    "a block that waits for its time": "DO $$ BEGIN IF EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() "
    "AND locktype = 'transactionid') THEN EXECUTE 'VACUUM'; ELSE INSERT INTO users VALUES (5, 'x'); COMMIT; END IF; "
    "END $$",
    "in a function": "SELECT vacuums()",
    "in a schema": "CREATE SCHEMA s CREATE TABLE t (n int) CREATE INDEX CONCURRENTLY i ON t (n)",
    "an alone job": "SELECT endmark.begin_alone('evil', 'a', repeat('0', 64), 'VACUUM', '', '', NULL)",
    "the end of one": "SELECT endmark.end_alone('j1', 'applied', NULL, NULL)",
    "two": f"VACUUM; {MADE}",
    "another first": "COMMIT; VACUUM",
}


@pytest.mark.parametrize("name", [*SINGLE, *INNER])
def test_a_hostile_plan_of_one_statement_leaves_nothing(lonely, name):
    statement = SINGLE[name][0] if name in SINGLE else INNER[name]
    before = lonely.dump()
    with pytest.raises(Failed) as caught:
        lonely.run([statement], f"evil-{abs(hash(name))}")
    if name in SINGLE:
        signal = SINGLE[name][1]
        assert caught.value.signal in (signal if isinstance(signal, tuple) else (signal,)), caught.value
    assert lonely.dump() == before
    assert unfinished(lonely) == []


@pytest.fixture(scope="module")
def lonely(shared):
    shared.as_gate("CREATE FUNCTION vacuums() RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE ''VACUUM''; END'")
    return shared


FORGED = "endmark.begin_job('forged', 'a', '1', repeat('0', 64), encode(sha256('mine'), 'hex'))"
FINISHED = "endmark.finish('forged', 'mine', NULL)"


@pytest.mark.parametrize("way", ["a function", "a domain's check"])
def test_what_runs_in_it_forges_no_receipt(world, way):
    """The code of an index, made by an earlier job, runs in transactions that nothing was written in."""
    if way == "a function":
        forge = f"BEGIN PERFORM {FORGED}; PERFORM {FINISHED}; RETURN 1; END"
        made = f"CREATE FUNCTION f(integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $f${forge}$f$"
        code = "f(id)"
    else:
        made = f"CREATE DOMAIN d AS integer CHECK ({FORGED} IS NOT NULL AND {FINISHED} IS NULL)"
        code = "id::d"
    assert world.apply("j0", [made]).state == "applied"
    outcome = world.apply("j1", [f"CREATE INDEX CONCURRENTLY i ON users (({code}))"])
    assert "only the gate itself may call this" in outcome.detail
    assert "forged" not in world.receipts()
    check_partial(world, outcome, "the index public.i is not valid", "DROP INDEX CONCURRENTLY public.i")


def test_nobody_but_the_gate_calls_what_writes_receipts(database):
    lock = "SELECT pg_advisory_lock(1701733485, 1634888497)"
    before = database.dump()
    with psycopg.connect(database.url, autocommit=True) as conn:
        conn.execute(lock)
        for call in (
            FORGED,
            "endmark.begin_alone('evil', 'a', repeat('0', 64), 'VACUUM', '', '', NULL)",
            "endmark.end_alone('evil', 'applied', NULL, NULL)",
        ):
            with pytest.raises(psycopg.Error, match="only the gate itself may call this"):
                conn.execute(f"SELECT {call}")
    assert database.dump() == before


def test_a_receipt_is_not_begun_without_the_lock(database):
    call = CALLS["begin_alone"].decode().replace("$", "%").translate({ord(digit): None for digit in "1234567"})
    values = ("evil", "a", "0" * 64, "VACUUM", "", "", None)
    before = database.dump()
    with (
        psycopg.connect(database.url, autocommit=True) as conn,
        pytest.raises(psycopg.Error, match="the target is not locked"),
    ):
        conn.execute(call.replace("%", "%s"), values)
    assert database.dump() == before


# --- what fails


def parted(world):
    for statement in (
        "CREATE TABLE readings (at date, n integer) PARTITION BY RANGE (at)",
        "CREATE TABLE old PARTITION OF readings FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')",
    ):
        world.database.as_gate(statement)


DETACH = "ALTER TABLE readings DETACH PARTITION old CONCURRENTLY"
TWICE = "INSERT INTO users VALUES (3, 'ann')"


def test_an_error_before_anything_stands_leaves_nothing(world):
    before = world.dump()
    outcome = world.apply("j1", ["CREATE INDEX CONCURRENTLY i ON nothing (name)"])
    assert (outcome.state, outcome.signal, outcome.statements_run) == ("failed", "sql-error", 0)
    assert "[42P01]" in outcome.detail
    assert world.dump() == before
    world.check_books_agree()


def check_partial(world, outcome, what, remedy):
    """It says what stands and how to be rid of it, lets no other job in, and a person settles it."""
    assert outcome.state == "partial", outcome.detail
    assert what in outcome.detail
    assert remedy in outcome.detail
    assert world.receipts()["j1"][2] == "partial"
    with pytest.raises(CannotTry, match="j1 stands partly in it, until a person says 'endmark settle"):
        world.apply("j2", ["CREATE TABLE a (n int)"])
    other = type(world)(world.folder / "other", world.database)  # another ledger knows nothing of it
    with pytest.raises(CannotTry, match="j1 stands partly in it, until a person says 'endmark settle j1"):
        other.apply("j2", ["CREATE TABLE a (n int)"])
    world.database.as_gate(remedy)
    with world.book() as ledger:
        entry = ledger.by_job("j1")
        settle_by_hand(ledger, entry, world.target, 0.0, "ann", "removed", clock())
    assert world.entry("j1").state == "settled"
    assert world.receipts()["j1"][2] == "settled"
    assert unfinished(world.database) == []
    assert world.apply("j3", ["CREATE TABLE a (n int)"]).state == "applied"


def test_an_index_that_is_not_valid_is_named(world):
    world.database.as_gate(TWICE)
    outcome = world.apply("j1", [MADE.replace("INDEX", "UNIQUE INDEX")])
    assert "[23505]" in outcome.detail
    assert (outcome.signal, outcome.statements_run) == ("sql-error", 1)
    assert indexes(world.database) == {"users_by_name": False}
    check_partial(world, outcome, "the index public.users_by_name is not valid", MADE_GONE)


MADE_GONE = "DROP INDEX CONCURRENTLY public.users_by_name"


def test_if_not_exists_before_an_index_that_is_not_valid_is_no_success(world):
    world.database.as_gate(TWICE)
    with pytest.raises(psycopg.Error):
        world.database.as_gate(MADE.replace("INDEX", "UNIQUE INDEX"))
    outcome = world.apply("j1", [MADE.replace("CONCURRENTLY", "CONCURRENTLY IF NOT EXISTS")])
    assert (outcome.state, outcome.signal) == ("failed", "check-failed")
    assert f"public.users_by_name is not valid: remove that with {MADE_GONE}" in outcome.detail
    assert world.receipts() == {}
    assert world.apply("j2", [GONE]).state == "applied"
    assert indexes(world.database) == {}
    world.database.as_gate("DELETE FROM users WHERE id = 3")
    again = MADE.replace("CONCURRENTLY", "CONCURRENTLY IF NOT EXISTS")
    assert world.apply("j3", [again]).state == "applied"
    assert world.apply("j4", [again]).state == "applied"  # it is there, and whole
    world.check_books_agree()


@contextmanager
def in_the_way(world, statement="UPDATE users SET name = name"):
    """A transaction that CONCURRENTLY has to wait for."""
    with psycopg.connect(world.database.url, application_name="nightly") as conn:
        conn.execute(statement)
        yield conn
        conn.rollback()


SHORT = Options(lock_timeout=0, statement_timeout=0.5)


def test_an_index_that_waited_too_long_is_named(world):
    with in_the_way(world):
        outcome = world.apply("j1", [MADE], options=SHORT)
    assert outcome.signal == "statement-timeout"
    check_partial(world, outcome, "the index public.users_by_name is not valid", MADE_GONE)


def test_a_partition_that_is_half_detached_is_named(world):
    parted(world)
    with in_the_way(world, "SELECT * FROM readings"):
        outcome = world.apply("j1", [DETACH], options=SHORT)
    remedy = "ALTER TABLE public.readings DETACH PARTITION public.old FINALIZE"
    check_partial(world, outcome, "the partition public.old is half detached", remedy)


def test_an_index_that_is_half_dropped_is_named(world):
    world.apply("j0", [MADE])
    with in_the_way(world, "SELECT * FROM users"):
        outcome = world.apply("j1", [GONE], options=SHORT)
    check_partial(world, outcome, "the index public.users_by_name is not valid", MADE_GONE)


def test_it_stops_when_somebody_asks(world):
    asked = iter([None] * 8)
    with in_the_way(world):
        outcome = world.apply("j1", [MADE], options=PATIENT, more={"stop": lambda: next(asked, "SIGINT")})
    assert outcome.signal == "interrupted"
    assert "SIGINT" in outcome.detail
    check_partial(world, outcome, "the index public.users_by_name is not valid", MADE_GONE)


# --- others, and the death of a gate, a server process, a connection


WAITS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%%INDEX CONCURRENTLY%%' "
WAITS += "AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()"


def until_it_waits(world):
    with within(30) as still:
        while still():
            if found := world.database.cluster_query(WAITS.replace("%%", "%")):
                return found[0][0]
    raise AssertionError("nothing waits")


@contextmanager
def at_the_same_time(action):
    said = []
    worker = threading.Thread(target=lambda: said.append(action()))
    worker.start()
    yield said
    worker.join()


def test_another_gate_that_waits_for_its_turn_is_no_deadlock(world):
    mine = PostgresWorld(world.folder, world.database, PostgresTarget(world.database.url))
    with (
        at_the_same_time(lambda: world.apply("j1", [MADE], options=PATIENT)) as first,
        in_the_way(world) as other,
    ):
        until_it_waits(world)
        with at_the_same_time(lambda: mine.apply("j2", ["CREATE TABLE a (n int)"], options=PATIENT)) as second:
            # One that waits inside of a transaction would be waited for, and one of both ended after a second.
            world.database.query("SELECT pg_sleep(1.5)")
            assert (first, second) == ([], [])
            other.rollback()
    assert [outcome.state for outcome in first + second] == ["applied", "applied"]
    assert indexes(world.database) == {"users_by_name": True}
    world.check_books_agree()


def test_a_server_process_that_is_ended_is_settled_later(world):
    with (
        at_the_same_time(lambda: world.apply("j1", [MADE], options=PATIENT)) as said,
        in_the_way(world),
    ):
        pid = until_it_waits(world)
        world.database.cluster_query(f"SELECT pg_terminate_backend({pid})")
        with within(30) as still:
            while still() and not said:
                pass
    assert said[0].state == "applying"
    assert "what became of it is not known yet" in said[0].detail
    assert world.receipts()["j1"][2] == "applying"
    other = type(world)(world.folder / "other", world.database)
    with pytest.raises(CannotTry, match="job j1 was interrupted here; 'endmark reconcile'"):
        other.apply("j2", ["CREATE TABLE a (n int)"])
    settled = world.reconcile(lock_timeout=30)
    assert settled.left == []
    check_partial(world, settled.settled[0], "the index public.users_by_name is not valid", MADE_GONE)


def killed(world, step, statement=MADE):
    command = [sys.executable, "-m", "tests.effects.postgres.child_alone", world.folder, world.database.url]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([*map(str, command), step, statement], env=environ, check=False, capture_output=True)
    assert done.returncode == -9, done.stderr.decode()
    assert world.entry("j1").state == "applying"


STEPS = {
    "before:1:SELECT endmark.begin_job": "failed",
    "before:1:SELECT endmark.begin_alone": "failed",
    "after:1:SELECT endmark.begin_alone": "failed",
    "after:1:COMMIT": "failed",
    "before:2:CREATE INDEX": "failed",
    "sent:2:CREATE INDEX": "applied",
    "after:2:CREATE INDEX": "applied",
    "before:1:SELECT endmark.end_alone": "applied",
    "after:1:SELECT endmark.end_alone": "applied",
    "after:2:COMMIT": "applied",
}


@pytest.mark.parametrize("step", STEPS)
def test_a_gate_that_is_killed_at_any_step_is_settled_later(world, step):
    before = world.fingerprint()
    killed(world, step)
    assert world.reconcile(lock_timeout=30).left == []
    assert world.entry("j1").state == STEPS[step]
    assert indexes(world.database) == ({"users_by_name": True} if STEPS[step] == "applied" else {})
    assert (world.fingerprint() == before) == (STEPS[step] == "failed")
    assert unfinished(world.database) == []
    world.check_books_agree()
    assert world.apply("j2", ["CREATE TABLE a (n int)"]).state == "applied"


def test_a_statement_that_still_runs_is_waited_for(world):
    with in_the_way(world):
        killed(world, "sent:2:CREATE INDEX")
        until_it_waits(world)
        (left,) = world.reconcile(lock_timeout=0).left
        assert "is locked by server process" in left.why
        assert world.entry("j1").state == "applying"
        with pytest.raises(CannotTry, match="is locked by"):
            world.apply("j2", ["CREATE TABLE a (n int)"])
    assert world.reconcile(lock_timeout=30).left == []
    assert world.entry("j1").state == "applied"
    assert indexes(world.database) == {"users_by_name": True}
    world.check_books_agree()


def test_a_drop_that_nobody_saw_end_is_proven(world):
    world.database.as_gate(MADE)
    killed(world, "after:2:DROP INDEX", GONE)
    assert world.reconcile(lock_timeout=30).left == []
    assert world.entry("j1").state == "applied"
    world.check_books_agree()


def test_what_somebody_else_may_have_done_is_not_called_applied(world):
    killed(world, "after:1:COMMIT")
    world.database.as_gate("CREATE TABLE theirs (n int)")
    (outcome,) = world.reconcile(lock_timeout=30).settled
    assert outcome.state == "partial"
    assert "what changed it cannot be told" in outcome.detail


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize(("commit", "state"), [(1, "failed"), (2, "applied")])
def test_a_connection_lost_at_a_commit_is_settled_later(tmp_path, world, passes, commit, state):
    with Relay(world.database.url, passes=passes, commit=commit) as relay:
        behind = PostgresWorld(tmp_path, world.database, PostgresTarget(relay.url))
        outcome = behind.apply("j1", [MADE])
        assert relay.dropped == 1
        assert outcome.state in (state, "applying"), outcome.detail
        assert behind.reconcile(lock_timeout=30).left == []
        assert behind.entry("j1").state == state
    assert indexes(world.database) == ({"users_by_name": True} if state == "applied" else {})
    assert unfinished(world.database) == []
    world.check_books_agree()
