"""Approving, declining, reverting, and what a plan may say about its place among the others."""

import hashlib
import sqlite3
from contextlib import closing

import pytest
from tests.support.faults import locked
from tests.support.world import MODES, QUICK, World, clock, dump, make_database, plain_dump, plan_bytes, query

from endmark.apply_gate import Delivery, Options
from endmark.core import mc1, plan
from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.core.states import State
from endmark.effects.sqlite import SqliteTarget

UP = [
    "CREATE TABLE a (x INTEGER)",
    "INSERT INTO a VALUES (1), (2)",
    "ALTER TABLE users ADD COLUMN age INTEGER",
    "UPDATE users SET age = 7",
]
DOWN = [
    "DROP TABLE a",
    "DELETE FROM a WHERE x IN (1, 2)",
    "ALTER TABLE users DROP COLUMN age",
    "UPDATE users SET age = NULL",
]


@pytest.fixture(params=MODES)
def world(request, tmp_path):
    return World(tmp_path, request.param)


def change(world, statement):
    """Somebody else at the target."""
    with closing(sqlite3.connect(world.path, isolation_level=None)) as conn:
        conn.execute(statement)


# --- approving


def test_a_staged_job_writes_nothing_until_it_is_approved(world):
    before = world.files()
    staged = world.stage("j1", UP)
    assert (staged.state, staged.exit_code) == ("staged", 16)
    assert world.files() == before
    applied = world.approve(staged, shown=world.fingerprint())
    assert (applied.state, applied.exit_code, applied.statements_run) == ("applied", 0, 4)
    entry = world.entry("j1")
    assert (entry.approver, entry.submitter) == ("ann", "bob")
    assert entry.approved_fingerprint == entry.fingerprint_before != entry.fingerprint_after == world.fingerprint()
    assert [e for e in entry.evidence if e == "self-approved"] == []
    moves = [event.to_state for event in world.events(applied) if event.event == "moved"]
    assert moves == ["staged", "approved", "applying", "applied"]
    world.check_books_agree()


def test_approving_ones_own_job_is_recorded_as_that(world):
    assert "self-approved" in world.approve(world.stage("j1", UP), approver="bob").evidence


def test_an_approval_of_another_schema_is_void(world):
    staged, shown = world.stage("j1", UP), world.fingerprint()
    change(world, "CREATE TABLE meanwhile (x)")
    before = world.files()
    with pytest.raises(CannotTry, match="approval is void"):
        world.approve(staged, shown=shown)
    assert world.files() == before
    assert world.entry("j1").state == "staged"
    assert world.approve(staged, shown=world.fingerprint()).state == "applied"


def test_an_approval_stands_while_only_rows_move(world):
    staged, shown = world.stage("j1", UP), world.fingerprint()
    change(world, "INSERT INTO users (name) VALUES ('eve')")
    assert world.approve(staged, shown=shown).state == "applied"


def test_a_job_is_approved_once(world):
    staged = world.stage("j1", UP)
    first = world.approve(staged)
    before = world.dump()
    assert world.approve(staged) == first
    assert world.dump() == before


def test_a_job_stays_staged_while_its_target_is_locked(world):
    staged = world.stage("j1", UP)
    with locked(world.path), pytest.raises(CannotTry, match="locked"):
        world.approve(staged)
    assert world.entry("j1").state == "staged"
    assert world.approve(staged).state == "applied"


def test_a_job_stays_staged_while_no_receipt_can_be_trusted(world):
    """Found before it is said to be applying: nothing would ever settle that."""
    staged = world.stage("j1", UP)
    change(world, "CREATE TABLE schema_jobs (job_id TEXT, stmt_count INT, sha256 TEXT, status TEXT)")
    with pytest.raises(CannotTry, match="no unique job_id"):
        world.approve(staged)
    assert world.entry("j1").state == "staged"
    change(world, "CREATE UNIQUE INDEX u ON schema_jobs (job_id)")
    assert world.approve(staged).state == "applied"


def test_bytes_that_changed_in_the_ledger_are_not_applied(world):
    staged = world.stage("j1", UP)
    with closing(sqlite3.connect(world.ledger, isolation_level=None)) as conn:
        conn.execute("DROP TRIGGER bodies_never_change")
        conn.execute("UPDATE bodies SET body = ?", (plan_bytes("j1", ["CREATE TABLE evil (x)"]),))
    with pytest.raises(CannotTry, match="missing or changed"):
        world.approve(staged)
    assert world.receipts() == {}


OTHER_BYTES = {
    "gone": None,
    "no plan": b"{}",
    "whole, and no plan": mc1.seal(b'{"any":"body"}'),
    "another plan": plan_bytes("j1", ["CREATE TABLE evil (x)"]),
}


@pytest.mark.parametrize("raw", OTHER_BYTES.values(), ids=OTHER_BYTES)
def test_other_bytes_in_the_ledger_with_their_own_digest_are_not_applied(world, raw):
    staged = world.stage("j1", UP)
    with closing(sqlite3.connect(world.ledger, isolation_level=None)) as conn:
        for (rule,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            conn.execute(f"DROP TRIGGER {rule}")
        if raw is None:
            conn.execute("DELETE FROM bodies")
        else:
            conn.execute("UPDATE bodies SET body = ?", (raw,))
            conn.execute("UPDATE attempts SET body_sha256 = ?", (hashlib.sha256(raw).hexdigest(),))
    before = world.files()
    with pytest.raises(CannotTry, match="the ledger's bytes of job j1 are"):
        world.approve(staged)
    assert world.files() == before


@pytest.mark.parametrize("how", ["apply", "approve"])
def test_a_target_in_which_a_job_stands_half_done_takes_no_other(world, how):
    half, staged = world.stage("half", ["CREATE TABLE half (x)"]), world.stage("j1", UP)
    with world.book() as ledger:
        ledger.move(half.attempt_id, State.STAGED, (State.APPROVED, State.APPLYING), clock(), approver="ann")
        ledger.move(half.attempt_id, State.APPLYING, State.PARTIAL, clock(), statements_run=1)
    before = world.files()
    with pytest.raises(CannotTry, match="job half stands partly in it"):
        world.approve(staged) if how == "approve" else world.apply("j2", UP)
    assert world.files() == before
    assert world.entry("j1").state == "staged"


def let_pass(world, staged, *, target=None, options=QUICK, shown=None):
    with world.gate() as gate:
        return gate.let_pass(staged.attempt_id, target or world.target, options, "ann", shown)


def test_a_job_is_approved_for_later_only_as_it_was_shown_and_for_its_own_target(world):
    staged, shown = world.stage("j1", UP), world.fingerprint()
    other = SqliteTarget(world.folder / "other.db")
    make_database(other.path)
    refused = let_pass(world, staged, target=other)
    assert (refused.state, refused.signal, refused.exit_code) == ("rejected", "id-reused", 12)
    with pytest.raises(CannotTry, match="approval is void"):
        let_pass(world, staged, shown="0" * 64)
    with pytest.raises(CannotTry, match="takes at most 1"):
        let_pass(world, staged, options=Options(max_statements=1))
    assert world.entry("j1").state == "staged"
    assert let_pass(world, staged, shown=shown).state == "approved"
    assert world.entry("j1").approved_fingerprint == shown


def test_a_job_that_has_ended_is_not_approved_for_later(world):
    """Whatever its target looks like by now."""
    staged = world.stage("j1", UP)
    with world.gate() as gate:
        declined = gate.decline(staged.attempt_id, "ann", "not now")
    assert let_pass(world, staged, shown="0" * 64) == declined


def test_nobody_knows_whether_the_approver_of_a_job_without_a_submitter_is_another_person(world):
    with world.gate() as gate:
        staged = gate.submit(Delivery(raw=plan_bytes("j1", UP)), world.target, QUICK)[0]
    with pytest.raises(CannotTry, match="nobody knows who submitted it"):
        world.approve(staged, options=Options(other_approver=True))
    assert world.entry("j1").state == "staged"


def test_an_attempt_that_is_not_there_cannot_be_approved(world):
    with world.gate() as gate:
        for act in (gate.approve, gate.decline):
            more = (world.target, Options(), "ann") if act == gate.approve else ("ann", "no")
            with pytest.raises(CannotTry, match="not in this ledger"):
                act("att_00000000000000000000000000", *more)


# --- base, after, retry_of


def test_a_base_that_stands_lets_the_job_run(world):
    assert world.apply("j1", UP, base=world.fingerprint()).state == "applied"
    assert world.apply("j2", ["CREATE TABLE b (x)"], base=world.entry("j1").fingerprint_after).state == "applied"


@pytest.mark.parametrize("how", ["apply", "approve"])
def test_a_base_that_moved_makes_the_job_stale(world, how):
    base = world.fingerprint()
    staged = world.stage("j1", UP, base=base) if how == "approve" else None
    change(world, "CREATE INDEX i ON users (name)")
    before = world.files()
    outcome = world.approve(staged) if staged else world.apply("j1", UP, base=base)
    assert (outcome.state, outcome.signal, outcome.exit_code) == ("stale", "stale-fingerprint", 14)
    assert base[:12] in outcome.detail
    assert world.files() == before
    assert world.entry("j1").fingerprint_before == world.fingerprint() != base


def test_after_needs_its_receipts_in_the_target(world):
    before = world.files()
    outcome = world.apply("j2", UP, after=["j1"])
    assert (outcome.state, outcome.signal, outcome.statements_run) == ("failed", "check-failed", 0)
    assert "comes after job j1, which has no receipt here" in outcome.detail
    assert world.files() == before
    world.apply("j1", ["CREATE TABLE b (x)"])
    assert world.apply("j3", UP, after=["j1"]).state == "applied"
    world.check_books_agree()


def test_a_retry_needs_that_the_first_ended_without_effect(world):
    failed = world.apply("j1", ["CREATE TABLE a (x)", "oops"])
    assert failed.state == "failed"
    assert world.apply("j2", UP, retry_of="j1").state == "applied"
    before = world.files()
    refused = world.apply("j3", ["CREATE TABLE c (x)"], retry_of="j2")
    assert (refused.state, refused.signal, refused.exit_code) == ("rejected", "retry-of-live-job", 12)
    assert "job j2, which is applied" in refused.detail
    assert world.entry("j3").state == "rejected"
    assert world.files() == before


@pytest.mark.parametrize("former", ["staged", "declined"])
def test_a_retry_of_a_job_in_review_has_to_wait_for_its_end(world, former):
    staged = world.stage("j1", UP)
    if former == "declined":
        with world.gate() as gate:
            gate.decline(staged.attempt_id, "ann", "try again")
    assert world.apply("j2", UP, retry_of="j1").state == ("applied" if former == "declined" else "rejected")


def test_a_retry_of_a_job_that_only_the_target_knows_is_refused(world):
    world.apply("j1", UP)
    fresh = World(world.folder / "fresh", "rollback")
    fresh.path, fresh.target = world.path, world.target
    outcome = fresh.apply("j2", ["CREATE TABLE c (x)"], retry_of="j1")
    assert (outcome.state, outcome.signal) == ("failed", "check-failed")
    assert "it had its effect" in outcome.detail
    assert world.apply("j3", ["CREATE TABLE c (x)"], retry_of="unknown").state == "applied"


# --- the backup


def test_a_backup_is_made_before_the_first_write_and_named_in_the_record(world):
    before = world.dump()
    folder = world.folder / "backups"
    outcome = world.apply("j1", UP, options=Options(backups=folder))
    entry = world.entry("j1")
    assert [str(path) for path in folder.iterdir()] == [entry.backup]
    assert outcome.attempt_id in entry.backup
    assert dump(folder / entry.backup) == before


def test_a_failed_job_keeps_its_backup(world):
    folder = world.folder / "backups"
    world.apply("j1", ["oops"], options=Options(backups=folder))
    assert [str(path) for path in folder.iterdir()] == [world.entry("j1").backup]


def test_no_backup_no_job(world):
    before = world.files()
    (world.folder / "file").touch()
    outcome = world.apply("j1", UP, options=Options(backups=world.folder / "file"))
    assert (outcome.state, outcome.signal, outcome.exit_code) == ("failed", "target-fault", 20)
    assert outcome.detail.startswith("No backup could be made")
    assert world.files() == before
    assert world.entry("j1").backup is None


def test_stopping_during_the_backup_writes_nothing(world):
    before = world.files()
    folder = world.folder / "backups"
    outcome = world.apply("j1", UP, options=Options(backups=folder), more={"stop": lambda: "SIGTERM"})
    assert (outcome.state, outcome.signal) == ("failed", "interrupted")
    assert "SIGTERM during the backup" in outcome.detail
    assert world.files() == before
    assert list(folder.iterdir()) == []


# --- reverting


def revert(world, job_id="j1", **more):
    with world.gate() as gate:
        return gate.stage_revert(job_id, world.target, "bob", **more)


def test_the_downs_run_last_to_first_and_once(world):
    before, schema = plain_dump(world.path), world.fingerprint()
    world.apply("j1", UP, down=DOWN)
    staged = revert(world)
    assert (staged.state, staged.job_id, staged.stmt_count) == ("staged", "j1.revert", 4)
    assert "down-of:j1" in staged.evidence
    undone = world.approve(staged)
    assert (undone.state, undone.statements_run) == ("applied", 4)
    assert world.fingerprint() == schema
    assert plain_dump(world.path) == before
    digest = plan.digest(DOWN[::-1])
    assert world.receipts() == {"j1": (4, plan.digest(UP), "reverted"), "j1.revert": (4, digest, "applied")}
    assert query(world.path, "SELECT rows_changed FROM endmark_receipts WHERE job_id = 'j1.revert'") == [("2 0 2 0",)]
    world.check_books_agree()

    unchanged = world.files()
    again = revert(world)
    assert (again.attempt_id, again.state) == (undone.attempt_id, "applied")
    assert world.approve(again) == undone
    failed = world.approve(revert(world, as_job="once-more"))
    assert (failed.state, failed.signal) in {("stale", "stale-fingerprint"), ("failed", "check-failed")}
    assert world.files() == unchanged
    assert world.apply("j2", ["CREATE TABLE c (x)"], after=["j1"]).signal == "check-failed"
    assert world.apply("j3", ["CREATE TABLE c (x)"], after=["j1.revert"]).state == "applied"


def test_it_runs_once_also_where_the_schema_would_let_it_run_again(world):
    """The job changed rows only, so its own fingerprint stands for ever; its receipt says that it is undone."""
    world.apply("j1", ["INSERT INTO users VALUES (9, 'nine')"], down=["UPDATE users SET name = name || '!'"])
    assert world.approve(revert(world)).state == "applied"
    before = world.files()
    failed = world.approve(revert(world, as_job="once-more"))
    assert (failed.state, failed.signal) == ("failed", "check-failed")
    assert "j1, which is reverted here" in failed.detail
    assert world.files() == before


def test_it_runs_only_on_the_schema_that_the_job_left(world):
    world.apply("j1", UP, down=DOWN)
    staged = revert(world)
    change(world, "CREATE TABLE later (x)")
    before = world.files()
    outcome = world.approve(staged)
    assert (outcome.state, outcome.signal) == ("stale", "stale-fingerprint")
    assert world.files() == before
    assert world.receipts()["j1"][2] == "applied"


def test_a_down_that_fails_undoes_nothing(world):
    world.apply("j1", UP, down=["DROP TABLE a", "SELECT 1", "oops", "UPDATE users SET age = 0"])
    before = world.files()
    outcome = world.approve(revert(world))
    assert (outcome.state, outcome.signal, outcome.statements_run) == ("failed", "sql-error", 1)
    assert world.files() == before
    assert world.receipts()["j1"][2] == "applied"
    world.check_books_agree()


def test_what_cannot_be_reverted_is_refused(world):
    world.apply("j1", UP)
    world.apply("failed", ["oops"], down=["oops"])
    world.apply("long" * 32, ["CREATE TABLE c (x)"], down=["DROP TABLE c"])
    for job_id, signal, part in (
        ("j1", Signal.MISSING_KEY, "without down statements"),
        ("failed", Signal.WRONG_VALUE, "is failed"),
        ("unknown", Signal.WRONG_VALUE, "not in this ledger"),
        ("long" * 32, Signal.BAD_ID, "not a job id"),
    ):
        with pytest.raises(Refused, match=part) as caught:
            revert(world, job_id)
        assert caught.value.signal is signal
    assert revert(world, "long" * 32, as_job="short").state == "staged"


def test_a_job_whose_schema_is_not_known_is_not_reverted(tmp_path):
    """Another tool wrote its receipt: it does not say what schema the job left."""
    table = "CREATE TABLE schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status TEXT)"
    row = f"INSERT INTO schema_jobs VALUES ('j1', 1, '{plan.digest(['CREATE TABLE c (x)'])}', 'applied')"
    world = World(tmp_path, "rollback", (table, row, "CREATE TABLE c (x)"))
    found = world.apply("j1", ["CREATE TABLE c (x)"], down=["DROP TABLE c"])
    assert (found.state, found.statements_run) == ("applied", None)
    with pytest.raises(Refused, match="not known"):
        revert(world)


def test_a_job_is_reverted_where_it_was_applied(world):
    world.apply("j1", UP, down=DOWN)
    other = World(world.folder / "other", "rollback")
    with world.gate() as gate, pytest.raises(CannotTry, match="was applied to"):
        gate.stage_revert("j1", other.target, "bob")
