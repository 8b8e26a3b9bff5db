"""The whole gate before a real server: cuts, errors, lost connections, two gates at once. Afterwards: the world."""

import re
import threading
from contextlib import contextmanager

import psycopg
import pytest
from tests.effects.postgres.plans import ELEVEN
from tests.effects.postgres.relay import Relay
from tests.effects.postgres.world import PostgresWorld
from tests.support.faults import unflushed
from tests.support.servers import within
from tests.support.world import PATIENT, QUICK, plan_bytes, work

from endmark.apply_gate import Delivery
from endmark.core import plan, proof
from endmark.core.refusal import CannotTry
from endmark.effects.postgres import PostgresTarget, channel, session
from endmark.effects.target import Failed

SLOW = ["CREATE TABLE slow (n integer)", "SELECT pg_sleep(60)", "CREATE TABLE after (n integer)"]


def test_the_eleven_are_applied_and_a_second_delivery_changes_nothing(world):
    raw = plan_bytes("billing-1", ELEVEN)
    outcome = world.deliver(raw)
    assert (outcome.state, outcome.statements_run) == ("applied", 11)
    after = world.dump()
    assert world.deliver(raw).state == "applied"
    assert world.dump() == after
    world.check_books_agree()


@pytest.mark.parametrize("form", ["bare", "sealed"])
def test_a_plan_that_was_cut_at_any_byte_leaves_the_database_as_it_was(world, form):
    raw = plan_bytes("billing-1", ELEVEN)
    if form == "sealed":
        proven = proof.prove(raw, len(raw)).value
        assert isinstance(proven, plan.Plan)
        raw = plan.seal(proven)
    before = world.dump()
    with unflushed(), world.gate() as gate:
        for at in range(len(raw)):
            cut = Delivery(raw=raw[:at], submitter="cut")
            assert gate.apply(cut, world.target, QUICK, "ann").state in ("truncated", "rejected")
    assert world.dump() == before
    assert world.deliver(raw).state == "applied"
    world.check_books_agree()


@pytest.mark.parametrize("at", [1, 7, 11])
def test_an_error_in_any_statement_leaves_the_database_as_it_was(world, at):
    before = world.dump()
    broken = [*ELEVEN[: at - 1], "INSERT INTO users VALUES (1, 'ann again')", *ELEVEN[at:]]
    outcome = world.apply("billing-1", broken)
    assert (outcome.state, outcome.signal, outcome.statements_run) == ("failed", "sql-error", at - 1)
    assert outcome.detail.startswith(f"Statement {at}: [23505] ")
    assert "users_pkey" in outcome.detail
    assert world.dump() == before
    assert world.apply("billing-2", ELEVEN).state == "applied"
    world.check_books_agree()


def test_a_constraint_that_is_checked_last_fails_the_job(world):
    before = world.dump()
    keys = [
        "ALTER TABLE users ADD COLUMN boss integer REFERENCES users (id) DEFERRABLE INITIALLY DEFERRED",
        "INSERT INTO users VALUES (3, 'eve', 99)",
    ]
    outcome = world.apply("j1", keys)
    assert (outcome.state, outcome.signal, outcome.statements_run) == ("failed", "check-failed", 2)
    assert "The final checks: [23503]" in outcome.detail
    assert world.dump() == before


def test_a_plan_is_undone_by_its_downs(world):
    before = world.fingerprint()
    seen = world.dump()
    world.apply("j1", ["CREATE TABLE a (n int)", "CREATE TABLE b (n int)"], down=["DROP TABLE a", "DROP TABLE b"])
    with world.gate() as gate:
        staged = gate.stage_revert("j1", world.target, "ann")
    assert world.approve(staged, approver="bob").state == "applied"
    assert world.fingerprint() == before
    ours = ("schema_jobs", "endmark.endmark_receipts")
    assert [line for line in world.dump() if not line.startswith(ours)] == seen
    assert {job: row[2] for job, row in world.receipts().items()} == {"j1": "reverted", "j1.revert": "applied"}


def test_a_plan_for_another_schema_is_stale(world):
    before = world.dump()
    assert world.apply("j1", ["CREATE TABLE a (n int)"], base="0" * 64).state == "stale"
    assert world.dump() == before
    assert world.apply("j2", ["CREATE TABLE a (n int)"], base=world.fingerprint()).state == "applied"


# --- time, and who asks to stop


def test_a_statement_that_runs_too_long_is_ended(world):
    before = world.dump()
    for number, statements in enumerate([SLOW, ["SET statement_timeout = 0", *SLOW]]):
        outcome = world.apply(f"j{number}", statements, options=QUICK_SECOND)
        assert (outcome.state, outcome.signal) == ("failed", "statement-timeout"), outcome.detail
    assert world.dump() == before


QUICK_SECOND = type(QUICK)(lock_timeout=0, statement_timeout=0.3)


def test_work_stops_when_somebody_asks(world):
    before = world.dump()
    asked = iter([None] * 4)
    outcome = world.apply("j1", SLOW, more={"stop": lambda: next(asked, "SIGINT")})
    assert (outcome.state, outcome.signal) == ("failed", "interrupted")
    assert "SIGINT" in outcome.detail
    assert world.dump() == before
    assert world.apply("j2", ["CREATE TABLE slow (n int)"]).state == "applied"


def test_what_was_deferred_runs_as_long_as_a_statement_may(world):
    before = world.dump()
    late = [
        "CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN NULL; END'",
        "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON users INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION t()",
        "INSERT INTO users VALUES (9, 'eve')",
    ]
    outcome = world.apply("j1", late, options=QUICK_SECOND)
    assert (outcome.state, outcome.signal) == ("failed", "statement-timeout"), outcome.detail
    asked = iter([None] * 5)
    outcome = world.apply("j2", late, more={"stop": lambda: next(asked, "SIGTERM")}, options=PATIENT)
    assert (outcome.state, outcome.signal) == ("failed", "interrupted"), outcome.detail
    assert world.dump() == before


def test_rows_without_end_are_stopped_too(world):
    asked = iter([None] * 6)
    endless = "SELECT g FROM generate_series(1, 1000000000000) AS g"
    outcome = world.apply("j1", [endless], more={"stop": lambda: next(asked, "SIGINT")}, options=PATIENT)
    assert (outcome.state, outcome.signal) == ("failed", "interrupted")
    assert world.receipts() == {}


# --- others at the same database


@contextmanager
def at_work(world, *statements):
    """Another session with an open transaction."""
    with psycopg.connect(world.database.url, application_name="nightly") as conn:
        for statement in statements:
            conn.execute(statement)
        yield conn
        conn.rollback()


def test_a_lock_that_a_statement_waits_for_is_named(world, monkeypatch):
    monkeypatch.setattr(session, "_LOCK_LEAST", 0.4)
    before = world.dump()
    with at_work(world, "SELECT * FROM users") as other:
        outcome = world.apply("j1", ["CREATE TABLE a (n int)", "ALTER TABLE users ADD COLUMN more text"])
        assert (outcome.state, outcome.signal) == ("failed", "target-fault")
        assert (
            f"Statement 2 waited too long for a lock, which server process {other.info.backend_pid} (nightly, user "
            in (outcome.detail)
        )
        assert ", since 20" in outcome.detail
    assert world.dump() == before
    world.check_books_agree()


def test_a_lock_that_hides_the_schema_is_named(world, monkeypatch):
    monkeypatch.setattr(session, "_LOCK_LEAST", 0.4)
    with at_work(world, "LOCK TABLE users IN ACCESS EXCLUSIVE MODE") as other:
        before = f"waited too long for a lock, which server process {other.info.backend_pid} (nightly"
        with pytest.raises(CannotTry, match=re.escape(before)):
            world.apply("j1", ["CREATE TABLE a (n int)"])
    assert world.receipts() == {}


def test_one_gate_at_a_time(world):
    before = world.dump()
    with world.target.open() as first:
        first.lock(0)
        with pytest.raises(CannotTry, match=r"is locked by server process \d+ \(endmark, user .*, since 20"):
            world.apply("j1", ["CREATE TABLE a (n int)"])
        with pytest.raises(CannotTry, match="is locked by"):
            world.apply("j1", ["CREATE TABLE a (n int)"], options=type(QUICK)(lock_timeout=0.2))
        assert world.entry("j1") is None
    assert world.dump() == before
    assert world.apply("j1", ["CREATE TABLE a (n int)"]).state == "applied"


def deliver_at_once(world, many):
    raw = plan_bytes("j1", ["CREATE TABLE once (n integer)", "INSERT INTO once VALUES (1)"])
    said, go = [], threading.Barrier(many)

    def one():
        mine = PostgresWorld(world.folder, world.database, PostgresTarget(world.database.url))
        go.wait()
        try:
            said.append(mine.deliver(raw, options=PATIENT).state)
        except CannotTry as fault:
            said.append(fault.detail)

    workers = [threading.Thread(target=one) for _ in range(many)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert set(said) <= {"applied", "applying"}  # the receipt stands, and its gate is about to write it down
    assert "applied" in said
    assert world.database.query("SELECT count(*) FROM once") == [(1,)]
    assert len(world.receipts()) == 1
    world.check_books_agree()


def test_eight_deliveries_of_one_id_have_one_effect(world):
    deliver_at_once(world, 8)


@pytest.mark.soak
def test_fifty_deliveries_of_one_id_have_one_effect(world):
    deliver_at_once(world, 50)


# --- connections that end


def test_a_server_process_that_is_ended_leaves_nothing(world):
    before = world.dump()
    find = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND wait_event = 'PgSleep'"
    )

    def end():
        with within(30) as still:
            while still() and not world.database.cluster_query(find):
                pass

    killer = threading.Thread(target=end)
    killer.start()
    outcome = world.apply("j1", SLOW, options=PATIENT)
    killer.join()
    assert (outcome.state, outcome.signal) == ("failed", "target-fault")
    assert "statement 2" in outcome.detail
    assert "terminating connection" in outcome.detail
    assert world.dump() == before
    world.check_books_agree()


@pytest.mark.parametrize(("passes", "state"), [(True, "applied"), (False, "failed")])
def test_a_connection_lost_at_the_commit_is_settled_by_the_receipt(tmp_path, world, passes, state):
    before = world.dump()
    with Relay(world.database.url, passes=passes) as relay:
        behind = PostgresWorld(tmp_path, world.database, PostgresTarget(relay.url))
        outcome = behind.apply("j1", ELEVEN)
        assert relay.dropped == 1
        assert outcome.state in (state, "applying"), outcome.detail
        settled = behind.reconcile(lock_timeout=30)
        assert settled.left == []
        assert behind.entry("j1").state == state
    assert bool(world.receipts()) == passes
    if not passes:
        assert world.dump() == before
    world.check_books_agree()


def test_a_server_that_answers_nothing_is_given_up(world, monkeypatch):
    before = world.dump()
    monkeypatch.setattr(channel, "_GRACE", 0.1)
    with Relay(world.database.url, swallow=b"endmark.begin_job(") as relay, PostgresTarget(relay.url).open() as found:
        found.lock(0)
        found.fingerprint()
        monkeypatch.setattr(session, "_ANSWER", 0.3)
        with pytest.raises(Failed, match="server did not"):
            found.run(work(["CREATE TABLE a (n int)"]), 1.0, lambda done, total: None, lambda: None)
    assert world.dump() == before


@pytest.mark.parametrize(
    "url", ["postgresql://nobody@127.0.0.1:1/x", "postgresql://nobody@[::1]:1/x?connect_timeout=2"]
)
def test_a_server_that_is_not_there(world, tmp_path, url):
    away = PostgresWorld(tmp_path, world.database, PostgresTarget(url))
    with pytest.raises(CannotTry, match="cannot be reached"):
        away.apply("j1", ["SELECT 1"])
    assert away.entries() == []
