"""The gate rehearses where the target says so: on SQLite, PostgreSQL and MariaDB, in one table of cases."""

import os
import sqlite3
from contextlib import ExitStack, closing
from datetime import timedelta

import msgspec
import pytest
from tests.effects.postgres.world import Cluster, PostgresWorld
from tests.support import mariadb
from tests.support.faults import locked, unflushed
from tests.support.mariadb import MariaWorld
from tests.support.servers import postgres
from tests.support.world import QUICK, World, clock, plan_bytes

from endmark.apply_gate import ApplyGate, Delivery
from endmark.core.plan import Plan
from endmark.core.refusal import CannotTry, Refused
from endmark.core.states import State
from endmark.effects.postgres import PostgresTarget, Scratch
from endmark.effects.sqlite import rehearsal
from endmark.effects.sqlite.target import SqliteSession
from endmark.faces.api import rehearse
from endmark.ledger.outcomes import outcome_of

ENGINES = ("sqlite", "postgres", "mariadb")
ALWAYS = msgspec.structs.replace(QUICK, rehearse=True)
UP = ["CREATE TABLE a (x INTEGER)", "ALTER TABLE users ADD COLUMN city VARCHAR(20)"]
DOWN = ["DROP TABLE a", "ALTER TABLE users DROP COLUMN city"]
SEVENTH = [
    "CREATE TABLE a (x INTEGER)",
    "CREATE TABLE b (x INTEGER)",
    "CREATE TABLE c (x INTEGER)",
    "CREATE TABLE d (x INTEGER)",
    "CREATE TABLE e (x INTEGER)",
    "CREATE TABLE f (x INTEGER)",
    "INSERT INTO missing VALUES (1)",
    "CREATE TABLE g (x INTEGER)",
]
SEVENTH_DOWN = [*(f"DROP TABLE {name}" for name in "abcdef"), "DELETE FROM missing", "DROP TABLE g"]


@pytest.fixture(scope="module")
def cluster():
    found = Cluster(postgres().url, f"endmark_test_gates_{os.getpid()}")
    found.make()
    yield found
    found.remove()


@pytest.fixture(params=ENGINES)
def world(request, tmp_path):
    with ExitStack() as stack:
        if request.param == "sqlite":
            yield World(tmp_path, "rollback")
        elif request.param == "postgres":
            cluster = request.getfixturevalue("cluster")
            yield PostgresWorld(tmp_path, stack.enter_context(cluster.database(1)))
        else:
            mariadb.needed()
            stack.enter_context(unflushed())
            yield MariaWorld(tmp_path, stack.enter_context(mariadb.database()))


@pytest.fixture
def sqlite(tmp_path):
    return World(tmp_path, "rollback")


def rehearsals(world, outcome):
    return [event.data for event in world.events(outcome) if event.event == "rehearsed"]


def everything(world):
    return world.dump(ours=True) if isinstance(world, MariaWorld) else world.dump()


def test_it_is_rehearsed_then_applied_and_the_record_says_both(world):
    outcome = world.apply("j1", UP, down=DOWN, options=ALWAYS)
    assert (outcome.state, "rehearsed" in outcome.evidence) == ("applied", True)
    (found,) = rehearsals(world, outcome)
    entry = world.entry("j1")
    assert (found["before"], found["after"]) == (entry.fingerprint_before, entry.fingerprint_after)
    assert found["after_downs"] == found["before"]
    assert any(line.startswith("+ column") and line.endswith("users.city") for line in found["changes"])
    assert [row["table"].rpartition(".")[2] for row in found["rows"]] == ["users"]
    world.check_books_agree()


def test_an_error_in_statement_seven_is_found_before_the_target_is_touched(world):
    before = everything(world)
    outcome = world.apply("j1", SEVENTH, down=SEVENTH_DOWN, options=ALWAYS)
    assert (outcome.state, outcome.signal, outcome.exit_code) == ("declined", "sql-error", 1)
    assert outcome.next == "resend-new-job-id"
    assert "statement 7" in outcome.detail
    assert "The target was not touched" in outcome.detail
    assert everything(world) == before
    moves = [(event.from_state, event.to_state) for event in world.events(outcome) if event.to_state]
    assert "applying" not in {state for move in moves for state in move}
    assert world.verified().ok
    assert world.deliver(plan_bytes("j1", SEVENTH, down=SEVENTH_DOWN), options=ALWAYS).state == "declined"
    assert world.apply("j2", UP, down=DOWN, retry_of="j1", options=ALWAYS).state == "applied"


def test_a_job_that_assumes_a_missing_column_is_refused(world):
    before = everything(world)
    outcome = world.apply("j1", ["UPDATE users SET city = 'x'"], options=ALWAYS)
    assert (outcome.state, "statement 1" in outcome.detail) == ("declined", True)
    assert everything(world) == before


def test_downs_that_do_not_lead_back_end_it(world):
    before = everything(world)
    outcome = world.apply("j1", UP, down=[DOWN[0], "ALTER TABLE users ADD COLUMN more VARCHAR(20)"], options=ALWAYS)
    assert outcome.state == "declined"
    assert "down" in outcome.detail
    assert everything(world) == before


def test_a_waiting_job_shows_what_it_would_do_and_one_that_fails_does_not_wait(world):
    before = everything(world)
    with world.gate() as gate:
        for job, statements, state in (("j1", UP, "staged"), ("j2", [UP[0], "DROP TABLE nothing"], "declined")):
            raw = plan_bytes(job, statements, down=DOWN)
            outcome, plan = gate.submit(Delivery(raw=raw, submitter="bob"), world.target, ALWAYS)
            assert (outcome.state, plan is not None) == (state, True)
            assert len(rehearsals(world, outcome)) == (1 if state == "staged" else 0)
    assert everything(world) == before
    assert world.approve(world_outcome(world, "j1"), options=ALWAYS).state == "applied"
    assert len(rehearsals(world, world_outcome(world, "j1"))) == 2


def world_outcome(world, job):
    return outcome_of(world.entry(job))


def test_base_and_after_hold_on_every_engine(world):
    base = world.fingerprint()
    for options in (QUICK, ALWAYS):
        tag = "r" if options.rehearse else "n"
        stale = world.apply(f"{tag}0", ["SELECT 1"], base="0" * 64, options=options)
        assert (stale.state, stale.exit_code) == ("stale", 14)
        missing = world.apply(f"{tag}1", ["SELECT 1"], after=["nobody"], options=options)
        assert missing.state in ("failed", "declined")
        assert "comes after job nobody" in missing.detail
    first = world.apply("a1", [UP[0]], down=[DOWN[0]], base=base, options=ALWAYS)
    assert first.state == "applied"
    assert world.apply("a2", ["SELECT 1"], after=["a1"], options=ALWAYS).state == "applied"
    assert world.apply("a3", ["SELECT 1"], base=base, options=ALWAYS).state == "stale"
    with world.gate() as gate:
        undo = gate.stage_revert("a1", world.target, "ann")
    assert world.approve(undo, options=ALWAYS).state == "applied"
    assert world.apply("a4", ["SELECT 1"], after=["a1"], options=ALWAYS).state == "declined"


def test_a_revert_end_to_end(world):
    before = world.fingerprint()
    assert world.apply("j1", UP, down=DOWN).state == "applied"
    left = world.fingerprint()
    assert left != before
    with world.gate() as gate:
        undo = gate.stage_revert("j1", world.target, "ann")
    done = world.approve(undo)
    assert (done.state, done.job_id) == ("applied", "j1.revert")
    assert world.fingerprint() == before
    assert world.receipts()["j1"][2] == "reverted"
    again = world.deliver(plan_bytes("j1", UP, down=DOWN))
    assert (again.state, again.exit_code, "reverted-by:j1.revert" in again.evidence) == ("applied", 1, True)
    world.check_books_agree()


def test_a_revert_runs_only_on_the_schema_that_the_job_left(world):
    assert world.apply("j1", UP, down=DOWN).state == "applied"
    assert world.apply("j2", ["CREATE TABLE later (x INTEGER)"]).state == "applied"
    with world.gate() as gate:
        undo = gate.stage_revert("j1", world.target, "ann")
    before = everything(world)
    assert world.approve(undo).state == "stale"
    assert everything(world) == before


def test_an_interruption_leaves_the_job_staged(world):
    before = everything(world)
    with pytest.raises(CannotTry, match="did not come to its end"):
        world.apply("j1", UP, down=DOWN, options=ALWAYS, more={"stop": lambda: "SIGINT"})
    assert world.entry("j1").state is State.STAGED
    assert everything(world) == before
    assert world.approve(world_outcome(world, "j1"), options=ALWAYS).state == "applied"


# --- a plan that is otherwise when it is rehearsed


def test_a_plan_that_does_otherwise_in_earnest_is_rolled_back(sqlite, monkeypatch):
    """No statement of SQLite's can tell the copy from the target, so what the rehearsal said is changed here."""
    run = rehearsal.run

    def otherwise(*arguments):
        return msgspec.structs.replace(run(*arguments), after="0" * 64)

    monkeypatch.setattr(rehearsal, "run", otherwise)
    before = sqlite.dump()
    outcome = sqlite.apply("j1", UP, options=ALWAYS)
    assert (outcome.state, outcome.signal) == ("failed", "check-failed")
    assert "another schema than when it was rehearsed" in outcome.detail
    assert sqlite.dump() == before


@pytest.mark.parametrize(("lasts", "state"), [(False, "failed"), (True, "applied")])
def test_a_plan_that_lasts_before_its_commit_is_not_called_rolled_back(sqlite, monkeypatch, lasts, state):
    """As on a server whose DDL commits by itself: what it left stands, whatever the rehearsal said."""
    run = SqliteSession.run

    def otherwise(session, *arguments):
        ran = run(session, *arguments)
        return (
            ran
            if is_copy(session)
            else msgspec.structs.replace(ran, can_roll_back=not lasts, fingerprint_after="0" * 64)
        )

    def is_copy(session):
        return not session.connection.execute("PRAGMA database_list").fetchone()[2]

    monkeypatch.setattr(SqliteSession, "run", otherwise)
    assert sqlite.apply("j1", UP, options=ALWAYS).state == state


def declared_partial(sqlite):
    with sqlite.book() as ledger:
        half = ledger.by_job("half").attempt_id
        ledger.move(half, State.STAGED, (State.APPROVED, State.APPLYING), clock(), approver="ann")
        ledger.move(half, State.APPLYING, State.PARTIAL, clock(), statements_run=1)


def applied_by_another_ledger(sqlite):
    other = World(sqlite.folder / "other", "rollback")
    other.path, other.target = sqlite.path, sqlite.target
    assert other.apply("j1", ["INSERT INTO users VALUES (3, 'eve')"]).state == "applied"


MEANWHILE = {
    "another schema": (lambda sqlite: sqlite_run(sqlite, "CREATE TABLE meanwhile (x)"), "target changed while"),
    "the job's receipt": (applied_by_another_ledger, "target changed while"),
    "a job half done": (declared_partial, "job half stands partly in it"),
}


def sqlite_run(sqlite, statement):
    with closing(sqlite3.connect(sqlite.path)) as conn, conn:
        conn.execute(statement)


def let_go(sqlite, monkeypatch, meanwhile):
    """As on a server where a rehearsal needs the lock's connection: it lets the lock go, and others come by."""
    real = SqliteSession.rehearse

    def rehearsed(session, *arguments):
        monkeypatch.setattr(SqliteSession, "rehearse", real)
        try:
            return real(session, *arguments)
        finally:
            session.rollback()
            monkeypatch.setattr(SqliteSession, "keeps_lock", True)
            meanwhile(sqlite)
            monkeypatch.setattr(SqliteSession, "keeps_lock", False)

    monkeypatch.setattr(SqliteSession, "rehearse", rehearsed)


@pytest.mark.parametrize(("meanwhile", "said"), MEANWHILE.values(), ids=MEANWHILE)
def test_what_happens_while_a_rehearsal_lets_the_lock_go_is_seen(sqlite, monkeypatch, meanwhile, said):
    sqlite.stage("half", ["CREATE TABLE half (x)"])
    after = {}

    def others(world):
        meanwhile(world)
        after.update(world.files())

    let_go(sqlite, monkeypatch, others)
    with pytest.raises(CannotTry, match=said):
        sqlite.apply("j1", ["UPDATE users SET name = 'x'"], options=ALWAYS)
    assert sqlite.files() == after
    assert sqlite.entry("j1").state is State.STAGED


def test_what_a_rehearsal_found_ends_the_job_without_another_look_at_the_target(sqlite, monkeypatch):
    with ExitStack() as others:
        let_go(sqlite, monkeypatch, lambda world: others.enter_context(locked(world.path)))
        outcome = sqlite.apply("j1", SEVENTH, options=ALWAYS)
    assert (outcome.state, outcome.signal) == ("declined", "sql-error")


def test_a_schema_that_moves_before_the_copy_is_made_shows_no_rehearsal(sqlite, monkeypatch):
    real = SqliteSession.rehearse

    def too_late(session, *arguments):
        sqlite_run(sqlite, "CREATE TABLE meanwhile (x)")
        return real(session, *arguments)

    monkeypatch.setattr(SqliteSession, "rehearse", too_late)
    with sqlite.gate() as gate:
        staged = gate.submit(Delivery(raw=plan_bytes("j1", UP)), sqlite.target, ALWAYS)[0]
    assert (staged.state, rehearsals(sqlite, staged)) == ("staged", [])


def test_a_plan_that_counts_its_runs_is_rolled_back_on_postgres(tmp_path, cluster):
    with cluster.database(2) as database:
        world = PostgresWorld(tmp_path, database)
        database.as_gate("CREATE SEQUENCE times")
        trick = "DO $$ BEGIN IF nextval('times') > 1 THEN CREATE TABLE surprise (x int); END IF; END $$"
        before = world.dump()
        outcome = world.apply("j1", [trick], options=ALWAYS)
        assert (outcome.state, outcome.signal) == ("failed", "check-failed")
        assert world.dump() == before
        world.check_books_agree()


def test_what_runs_in_no_transaction_is_rehearsed_on_a_clone_or_not_applied(tmp_path, cluster):
    plan, down = ["CREATE INDEX CONCURRENTLY i ON users (name)"], ["DROP INDEX CONCURRENTLY i"]
    with cluster.database(3) as database:
        world = PostgresWorld(tmp_path, database)
        before = world.dump()
        with pytest.raises(CannotTry, match="rehearse_in"):
            world.apply("j1", plan, down=down, options=ALWAYS)
        assert world.dump() == before
        assert world.entry("j1").state is State.STAGED
        world.target = PostgresTarget(database.url, scratch=Scratch(cluster.url, {"PATH": os.environ["PATH"]}))
        outcome = world.approve(world_outcome(world, "j1"), options=ALWAYS)
        assert (outcome.state, "rehearsed" in outcome.evidence) == ("applied", True)
        (found,) = rehearsals(world, outcome)
        assert found["after"] == world.fingerprint()
        world.check_books_agree()


# --- what else a target may ask for


def test_a_target_that_wants_downs_takes_no_plan_without(sqlite):
    wants = msgspec.structs.replace(QUICK, down_required=True)
    refused = sqlite.apply("j1", UP, options=wants)
    assert (refused.state, refused.signal) == ("rejected", "missing-key")
    assert sqlite.apply("j2", UP, down=DOWN, options=wants).state == "applied"
    with sqlite.gate() as gate:  # a revert has none, and needs none
        undo = gate.stage_revert("j2", sqlite.target, "ann")
    assert sqlite.approve(undo, options=wants).state == "applied"
    staged = sqlite.stage("j3", UP)
    with pytest.raises(CannotTry, match="no down statements"):
        sqlite.approve(staged, options=wants)


@pytest.mark.parametrize("approver", ["bob", "bob (CLAUDECODE)", "BOB"])
def test_another_approver_is_another_person(sqlite, approver):
    two = msgspec.structs.replace(QUICK, other_approver=True)
    staged = sqlite.stage("j1", UP)  # bob's
    before = sqlite.dump()
    with pytest.raises(CannotTry, match="another approver"):
        sqlite.approve(staged, options=two, approver=approver)
    with sqlite.gate() as gate, pytest.raises(CannotTry, match="another approver"):
        gate.let_pass(staged.attempt_id, sqlite.target, two, approver)
    with sqlite.gate() as gate, pytest.raises(CannotTry, match="another approver"):
        gate.apply(Delivery(raw=plan_bytes("j2", UP), submitter="bob"), sqlite.target, two, approver)
    assert sqlite.dump() == before
    assert sqlite.entry("j1").state is State.STAGED
    assert sqlite.approve(staged, options=two, approver="ann").state == "applied"


def let_pass(world, outcome, options=QUICK):
    with world.gate() as gate:
        return gate.let_pass(outcome.attempt_id, world.target, options, "ann")


def approve_at(world, outcome, options, later):
    with world.book() as ledger:
        gate = ApplyGate(ledger, lambda: clock() + later)
        return gate.approve(outcome.attempt_id, world.target, options, "worker")


def test_an_approval_waits_and_is_used(sqlite):
    staged = sqlite.stage("j1", UP)
    waiting = let_pass(sqlite, staged)
    assert (waiting.state, waiting.exit_code) == ("approved", 16)
    assert "Approved by ann" in waiting.detail
    assert approve_at(sqlite, staged, QUICK, timedelta(days=400)).state == "applied"
    assert sqlite.entry("j1").approver == "ann"
    sqlite.check_books_agree()


@pytest.mark.parametrize(
    ("later", "state"), [(0, "applied"), (86_399, "applied"), (86_400, "applied"), (86_401, "staged"), (-1, "staged")]
)
def test_an_approval_expires(sqlite, later, state):
    expires = msgspec.structs.replace(QUICK, approval_expires=86_400.0)
    staged = sqlite.stage("j1", UP)
    let_pass(sqlite, staged)
    outcome = approve_at(sqlite, staged, expires, timedelta(seconds=later))
    assert (outcome.state, outcome.exit_code) == (state, 0 if state == "applied" else 16)
    if state == "staged":
        assert sqlite.entry("j1").approver is None
        assert "expired" in sqlite.events(staged)[-1].data["void"]
        assert sqlite.approve(staged).state == "applied"


def test_an_approval_is_void_once_the_schema_moved(sqlite):
    staged = sqlite.stage("j1", UP)
    let_pass(sqlite, staged)
    assert sqlite.apply("j2", ["CREATE TABLE meanwhile (x INTEGER)"]).state == "applied"
    outcome = approve_at(sqlite, staged, QUICK, timedelta(seconds=1))
    assert outcome.state == "staged"
    assert "schema changed" in sqlite.events(staged)[-1].data["void"]


def test_a_rehearsal_of_the_python_face_spends_no_id(sqlite):
    raw = plan_bytes("j1", UP, down=DOWN)
    proven, found = rehearse(raw, sqlite.target)
    assert isinstance(proven.value, Plan)
    assert (proven.value.job_id, found.after_downs) == ("j1", found.before)
    assert sqlite.entry("j1") is None
    assert sqlite.deliver(raw).state == "applied"
    with pytest.raises(Refused, match="holds a receipt"):
        rehearse(raw, sqlite.target)
    with pytest.raises(Refused):
        rehearse(raw[:-20], sqlite.target)
    with pytest.raises(Refused, match="made for schema"):
        rehearse(plan_bytes("j2", ["SELECT 1"], base="0" * 64), sqlite.target)


def test_an_approval_does_not_hold_where_another_approver_or_another_schema_is_wanted(sqlite):
    """What the plan is bound to by itself comes first; a target that has become stricter is obeyed."""
    raw = plan_bytes("j1", UP, base=sqlite.fingerprint())
    with sqlite.gate() as gate:
        staged = gate.submit(Delivery(raw=raw, submitter="ann"), sqlite.target, QUICK)[0]
    assert let_pass(sqlite, staged).state == "approved"
    two = msgspec.structs.replace(QUICK, other_approver=True)
    with pytest.raises(CannotTry, match="another approver"):
        approve_at(sqlite, staged, two, timedelta(seconds=1))
    assert sqlite.entry("j1").state == "approved"
    assert sqlite.apply("j2", ["CREATE TABLE meanwhile (x INTEGER)"]).state == "applied"
    before = sqlite.files()
    assert approve_at(sqlite, staged, QUICK, timedelta(seconds=1)).state == "stale"
    assert sqlite.files() == before
    sqlite.check_books_agree()
