"""What a crash left `applying` is settled by the receipt in the target, under the target's own lock."""

import sqlite3
from contextlib import closing
from typing import Any

import msgspec
import pytest
from tests.support.faults import injected, locked
from tests.support.world import MODES, World, clock, plan_bytes, work

from endmark import Gate
from endmark.core import plan
from endmark.core.evidence import UNDONE_BY_DOWNS
from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.effects.target import Ended, Receipt
from endmark.ledger.outcomes import outcome_of
from endmark.reconcile import reconcile
from endmark.steps import rehearsing
from endmark.steps import settle as settling
from endmark.steps.treatment import Options

ONE = ["CREATE TABLE a (x)", "INSERT INTO a VALUES (1)"]
TABLE = "CREATE TABLE schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status TEXT)"


@pytest.fixture(params=MODES)
def world(request, tmp_path):
    return World(tmp_path, request.param)


class Crash(BaseException):
    pass


class CrashAround:
    """Ends all at one statement for the target, before it or after it."""

    def __init__(self, sql, when):
        self.sql, self.when = sql, when

    def around(self, name, sql, do):
        strike = name == "target" and sql.startswith(self.sql)
        if strike and self.when == "before":
            raise Crash
        result = do()
        if strike:
            raise Crash
        return result


def crash(world, sql="COMMIT", when="before", job_id="j1"):
    with injected(CrashAround(sql, when), target="target.db"), pytest.raises(Crash):
        world.apply(job_id, ONE)
    assert world.entry(job_id).state == "applying"


CRASHES = {
    "before the receipt": ("INSERT OR ABORT INTO main.schema_jobs", "before", "failed"),
    "after the receipt": ("INSERT OR ABORT INTO main.schema_jobs", "after", "failed"),
    "in the plan": ("INSERT INTO a", "before", "failed"),
    "after the plan": ("INSERT INTO main.endmark_receipts", "before", "failed"),
    "before the commit": ("COMMIT", "before", "failed"),
    "after the commit": ("COMMIT", "after", "applied"),
}


@pytest.mark.parametrize(("sql", "when", "state"), CRASHES.values(), ids=CRASHES)
def test_the_receipt_has_the_last_word(world, sql, when, state):
    crash(world, sql, when)
    done = world.reconcile()
    assert done.left == []
    (outcome,) = done.settled
    assert (outcome.state, outcome.job_id) == (state, "j1")
    if state == "applied":
        assert "receipt-found" in outcome.evidence
        assert outcome.statements_run == 2
        assert world.entry("j1").fingerprint_after == world.fingerprint()
    else:
        assert (outcome.signal, outcome.exit_code) == ("lost", 1)
        assert "no receipt: nothing was committed" in outcome.detail
    world.check_books_agree()
    again = world.reconcile()
    assert (again.settled, again.left) == ([], [])


@pytest.mark.parametrize("state", ["failed", "applied"])
def test_opening_a_gate_settles_it(world, state):
    crash(world, when="after" if state == "applied" else "before")
    with Gate(world.ledger) as gate:
        assert gate.reconciled is not None
        assert [outcome.state for outcome in gate.reconciled.settled] == [state]
        assert gate.job("j1").state == state
    with Gate(world.ledger) as gate:
        assert gate.reconciled is not None
        assert (gate.reconciled.settled, gate.reconciled.left) == ([], [])


@pytest.mark.parametrize("how", ["IMMEDIATE", "EXCLUSIVE"])
def test_while_the_target_is_locked_it_stays_applying(world, how):
    crash(world, when="after")
    with locked(world.path, how):
        done = world.reconcile()
    assert done.settled == []
    (left,) = done.left
    assert (left.job_id, left.target, "locked" in left.why) == ("j1", world.target.identity, True)
    outcome = outcome_of(world.entry("j1"))
    assert (outcome.state, outcome.exit_code, outcome.next) == ("applying", 20, "wait")
    assert [entry.state for entry in [world.entry("j1")]] == ["applying"]
    assert world.reconcile().settled[0].state == "applied"


def test_a_target_that_is_gone_leaves_it_applying(world):
    crash(world, when="after")
    away = world.path.rename(world.folder / "away")
    done = world.reconcile(lock_timeout=1)
    assert done.settled == []
    assert done.left[0].why.startswith(f"the target {world.path} does not exist")
    assert outcome_of(world.entry("j1")).exit_code == 20
    away.rename(world.path)
    assert world.reconcile().settled[0].state == "applied"
    world.check_books_agree()


def test_a_receipt_table_that_cannot_be_trusted_leaves_it_applying(world):
    crash(world)
    change(world, "CREATE TABLE schema_jobs (job_id TEXT, stmt_count INT, sha256 TEXT, status TEXT)")
    done = world.reconcile()
    assert (done.settled, "no unique job_id" in done.left[0].why) == ([], True)
    change(world, "DROP TABLE schema_jobs")
    assert world.reconcile().settled[0].state == "failed"


OTHERS = {
    "another digest": (2, "0" * 64, "applied"),
    "another count": (3, plan.digest(ONE), "applied"),
    "another status": (2, plan.digest(ONE), "applying"),
    "a failure": (2, plan.digest(ONE), "failed"),
}


@pytest.mark.parametrize("receipt", OTHERS.values(), ids=OTHERS)
def test_a_receipt_of_something_else_is_a_failure_and_an_alarm(world, receipt):
    crash(world)
    change(world, TABLE)
    change(world, "INSERT INTO schema_jobs VALUES ('j1', ?, ?, ?)", *receipt)
    (outcome,) = world.reconcile().settled
    assert (outcome.state, outcome.signal) == ("failed", "id-reused")
    assert "ALARM" in outcome.detail
    (alarm,) = [event.data for event in world.events(outcome) if event.event == "alarm"]
    assert (alarm["receipt_count"], alarm["receipt_sha256"], alarm["receipt_status"]) == receipt
    assert world.verified().ok


def test_a_commit_in_doubt_is_not_judged_without_the_lock(world):
    """The answer to COMMIT was lost, and somebody else has the target: what stands there now is no proof."""

    class LostAnswer:
        holder: Any = None

        def around(self, name, sql, do):
            if (name, sql) != ("target", "COMMIT"):
                return do()
            do()
            self.holder = locked(world.path)
            self.holder.__enter__()
            raise sqlite3.OperationalError("disk I/O error")

    lost = LostAnswer()
    with injected(lost, target="target.db"):
        outcome = world.apply("j1", ONE)
    assert (outcome.state, outcome.exit_code) == ("applying", 20)
    assert "outcome is unknown" in outcome.detail
    assert world.reconcile().left[0].job_id == "j1"
    lost.holder.__exit__(None, None, None)
    assert world.reconcile().settled[0].state == "applied"
    world.check_books_agree()


def test_every_job_is_settled_by_itself(world):
    """One that cannot be settled does not stand in the way of the others."""
    crash(world, job_id="j1")
    crash(world, job_id="j2", when="after")
    other = World(world.folder / "other", "rollback")
    with world.book() as ledger:
        with other.gate():
            pass
        target, world.target = world.target, other.target
        crash(world, job_id="j3")
        world.target = target
        other.path.unlink()

        def target_of(identity):
            if identity == "sqlite:///nowhere":
                raise CannotTry("no such target")
            return {target.identity: target, other.target.identity: other.target}[identity]

        done = reconcile(ledger, target_of, clock, 0.0)
    assert {outcome.job_id: outcome.state for outcome in done.settled} == {"j1": "failed", "j2": "applied"}
    assert [left.job_id for left in done.left] == ["j3"]


def test_a_job_whose_gate_only_finishes_is_left_alone(world):
    """Between the list and the lock the gate was faster."""
    crash(world, when="after")
    with world.book() as ledger:

        def settle_first(identity):
            (entry,) = ledger.in_state(State.APPLYING)
            ledger.move(entry.attempt_id, State.APPLYING, State.APPLIED, clock())
            return world.target_of(identity)

        done = reconcile(ledger, settle_first, clock, 0.0)
    assert (done.settled, done.left) == ([], [])
    assert "receipt-found" not in world.entry("j1").evidence
    world.check_books_agree()


def test_the_answer_to_the_same_delivery_follows_the_settlement(world):
    raw = plan_bytes("j1", ONE)
    crash(world, when="after")
    assert world.deliver(raw).state == "applying"
    world.reconcile()
    assert world.deliver(raw).state == "applied"


def change(world, statement, *values):
    with closing(sqlite3.connect(world.path, isolation_level=None)) as conn:
        conn.execute(statement, values)


# --- what one check alone tells apart


class Stepper:
    """The session of an engine whose DDL commits by itself, as far as it is asked."""

    def unsettled(self):
        return None

    def settle(self, job_id):
        raise AssertionError(job_id)

    def recover(self, job_id, _stop):
        return Ended(None, f"the downs of {job_id} were run")


def test_an_engine_without_transactions_brings_a_job_to_its_end_itself():
    session: Any = Stepper()
    assert settling.last_word(session, "j1", lambda: None) == Ended(None, "the downs of j1 were run")
    with pytest.raises(CannotTry, match="cannot be rehearsed"):
        rehearsing.rehearse(session, work(ONE), Options(), lambda: None)


@pytest.mark.parametrize("has_receipt", [False, True])
def test_a_job_that_was_undone_has_no_receipt(world, has_receipt):
    crash(world)
    entry = world.entry("j1")
    receipt = Receipt("j1", entry.stmt_count, entry.sha256, "applied", 2, "0 1", "f" * 64) if has_receipt else None
    with world.book() as ledger:
        now = settling.settle(ledger, entry, receipt, clock(), "its downs were run")
    if has_receipt:
        assert (now.state, "receipt-found" in now.evidence) == ("applied", True)
    else:
        assert (now.state, now.evidence[-1]) == ("failed", UNDONE_BY_DOWNS)
        assert "its downs were run" in now.detail


@pytest.mark.parametrize("name", ["lock_timeout", "statement_timeout", "backup_timeout", "approval_expires"])
def test_a_wait_is_a_finite_number_of_seconds(name):
    for seconds in (-1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="finite numbers of seconds"):
            msgspec.structs.replace(Options(), **{name: seconds})
