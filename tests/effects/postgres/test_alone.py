"""A plan of one statement that runs in no transaction, with its own proof of what became of it."""

import psycopg
import pytest
from tests.effects.postgres import test_guard
from tests.effects.postgres.alone import DETACH, GONE, MADE, check_partial, indexes, parted, unfinished

from endmark.effects.postgres.functions import CALLS
from endmark.effects.target import Failed

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
