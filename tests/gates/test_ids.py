"""One id, one body, one target, one effect: what a second delivery of an id is answered, and that it does nothing."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from tests.support.child import hear, started
from tests.support.faults import locked
from tests.support.world import FOREVER, MODES, QUICK, World, clock, make_database, plan_bytes, query, witness_bytes

from endmark.apply_gate import ApplyGate, Delivery, Options
from endmark.core import mc1, plan
from endmark.core.decision import Next
from endmark.core.outcome import Outcome
from endmark.effects.sqlite import SqliteTarget

ONE = ["CREATE TABLE a\n(x)", "INSERT INTO a VALUES (1)"]
SHIFTED = ["CREATE TABLE a", "(x)\nINSERT INTO a VALUES (1)"]  # the same digest and count


@pytest.fixture(params=MODES)
def world(request, tmp_path):
    return World(tmp_path, request.param)


def rows(world):
    return query(world.path, "SELECT count(*) FROM a")[0][0]


def again(world, raw, first, **more):
    """Deliver the same bytes: the stored state, and neither target nor entry has changed."""
    before, entry = world.files(), world.entry(first.job_id)
    outcome = world.deliver(raw, **more)
    assert (outcome.attempt_id, outcome.state, outcome.exit_code) == (first.attempt_id, first.state, first.exit_code)
    assert outcome.detail.startswith("Delivered before, nothing was done now.")
    assert world.files() == before
    assert world.entry(first.job_id) == entry
    assert [event.event for event in world.events(first)].count("redelivered") == 1
    return outcome


# --- the same bytes again


def test_an_applied_job_is_not_applied_again(world):
    raw = plan_bytes("j1", ONE)
    first = world.deliver(raw)
    assert again(world, raw, first).exit_code == 0
    assert rows(world) == 1
    world.check_books_agree()


def test_a_failed_job_stays_failed_also_when_it_could_go_through_now(world):
    raw = plan_bytes("j1", ["INSERT INTO later VALUES (1)"])
    first = world.deliver(raw)
    assert (first.state, first.signal, first.exit_code) == ("failed", "sql-error", 1)
    world.apply("j0", ["CREATE TABLE later (x)"])
    again(world, raw, first)


def test_a_staged_job_is_not_applied_by_a_second_delivery(world):
    first = world.stage("j1", ONE)
    assert (first.state, first.exit_code) == ("staged", 16)
    again(world, plan_bytes("j1", ONE), first)
    assert world.approve(first).state == "applied"


def test_a_declined_job_stays_declined(world):
    staged = world.stage("j1", ONE)
    with world.gate() as gate:
        declined = gate.decline(staged.attempt_id, "ann", "not now")
        assert gate.decline(staged.attempt_id, "ann", "really") == declined
    assert (declined.state, declined.exit_code) == ("declined", 1)
    again(world, plan_bytes("j1", ONE), declined)
    assert world.approve(staged).state == "declined"
    assert world.receipts() == {}


def test_a_stale_job_stays_stale(world):
    raw = plan_bytes("j1", ONE, base="0" * 64)
    first = world.deliver(raw)
    assert (first.state, first.signal, first.exit_code) == ("stale", "stale-fingerprint", 14)
    again(world, raw, first)


def test_a_refused_delivery_spends_the_id_it_was_given_with(world):
    whole = plan_bytes("j1", ONE)
    cut = whole[:-20]
    first = world.deliver(cut, job_id="j1")
    assert (first.state, first.exit_code, first.job_id) == ("truncated", 10, "j1")
    again(world, cut, first, job_id="j1")
    for job_id in ("j1", None):
        refused = world.deliver(whole, job_id=job_id)
        assert (refused.state, refused.signal, refused.next) == ("rejected", "id-reused", Next.NONE)
        assert "another body; that job is in state truncated" in refused.detail
    assert world.receipts() == {}
    assert world.apply("j2", ONE).state == "applied"


def test_bytes_that_prove_nothing_take_no_id_from_anybody_else(world):
    """H6"""
    whole = plan_bytes("j1", ONE)
    cut = world.deliver(whole[:-20], job_id="j1", submitter="mallory")
    assert (cut.state, cut.job_id) == ("truncated", "j1")
    own = world.deliver(whole, submitter="mallory")
    assert (own.state, own.signal) == ("rejected", "id-reused")
    assert "another body; that job is in state truncated" in own.detail
    assert world.deliver(whole, job_id="j1", submitter="alice").state == "applied"
    assert world.deliver(whole, submitter="mallory").attempt_id == world.entry("j1").attempt_id
    assert list(world.receipts()) == ["j1"]
    assert rows(world) == 1


def test_a_refused_delivery_without_an_id_spends_none(world):
    whole = plan_bytes("j1", ONE)
    assert world.deliver(whole[:-20]).job_id is None
    assert world.deliver(whole).state == "applied"


def test_cut_bytes_under_an_id_that_is_in_use_are_called_what_they_are(world):
    """What decides comes first in the table; the job that owns the id is not touched."""
    raw = plan_bytes("j1", ONE)
    first = world.deliver(raw)
    before = world.files()
    cut = world.deliver(raw[:-20], job_id="j1")
    assert (cut.state, cut.received_bytes) == ("truncated", len(raw) - 20)
    assert world.entry("j1").attempt_id == first.attempt_id
    assert world.files() == before


def test_another_id_outside_than_in_the_body_is_refused(world):
    refused = world.deliver(plan_bytes("j1", ONE), job_id="j9")
    assert (refused.state, refused.signal, refused.job_id) == ("rejected", "bad-id", "j9")
    assert world.receipts() == {}


# --- other bytes, another target

OTHERS = {
    "other statements": plan_bytes("j1", ["CREATE TABLE b (x)"]),
    "the same, spelled otherwise": plan_bytes("j1", ONE) + b"\n",
    "the same, in an envelope": mc1.seal(plan_bytes("j1", ONE)),
    "the boundaries shifted": plan_bytes("j1", SHIFTED),
    "with a precondition": plan_bytes("j1", ONE, after=["j0"]),
}


def test_shifted_boundaries_have_the_same_digest():
    assert plan.digest(ONE) == plan.digest(SHIFTED)
    assert len(ONE) == len(SHIFTED)


@pytest.mark.parametrize("raw", OTHERS.values(), ids=OTHERS)
def test_an_id_belongs_to_its_first_body(world, raw):
    first = world.apply("j1", ONE)
    before = world.files()
    refused = world.deliver(raw)
    assert (refused.state, refused.signal, refused.exit_code) == ("rejected", "id-reused", 12)
    assert refused.next is Next.NONE  # never "send again"
    assert refused.detail == "This id belongs to another body; that job is in state applied. Nothing was done."
    assert world.files() == before
    assert world.entry("j1").attempt_id == first.attempt_id
    world.check_books_agree()


@pytest.mark.parametrize("how", ["apply", "approve"])
def test_an_id_belongs_to_its_first_target(world, how):
    raw = plan_bytes("j1", ONE)
    other = SqliteTarget(world.folder / "other.db")
    make_database(other.path)
    before = other.path.read_bytes()
    if how == "apply":
        world.deliver(raw)
        refused = world.deliver(raw, target=other)
    else:
        refused = world.approve(world.stage("j1", ONE), target=other)
    assert (refused.state, refused.signal, refused.exit_code) == ("rejected", "id-reused", 12)
    assert "another target" in refused.detail
    assert other.path.read_bytes() == before
    assert world.entry("j1").state == ("applied" if how == "apply" else "staged")


def test_a_job_staged_for_no_target_is_bound_by_its_approval(world):
    with world.gate() as gate:
        staged = gate.submit(Delivery(raw=plan_bytes("j1", ONE)), None, QUICK)[0]
    assert (staged.state, staged.target) == ("staged", None)
    applied = world.approve(staged)
    assert (applied.state, applied.target) == ("applied", world.target.identity)
    world.check_books_agree()


# --- while the first one is at work


def test_while_it_is_applied_elsewhere_the_answer_comes_at_once(world, tmp_path):
    raw = plan_bytes("j1", [*ONE, FOREVER])
    (tmp_path / "plan").write_bytes(raw)
    patient = Options(lock_timeout=300)
    with started("hold", tmp_path, tmp_path / "plan") as holder:
        assert [hear(holder), hear(holder)] == [1, 2]  # it is in the third statement, and stays there
        for same in (world.deliver(raw, options=patient), world.deliver(raw, options=patient, job_id="j1")):
            assert (same.state, same.exit_code, same.next) == ("applying", 20, Next.WAIT)
        other = world.deliver(plan_bytes("j1", ONE), options=patient)
        assert (other.state, other.signal) == ("rejected", "id-reused")
        assert world.reconcile().left[0].job_id == "j1"
        assert world.entry("j1").state == "applying"
        holder.stdin.write("stop\n")
        assert hear(holder) == ["j1", "failed", "interrupted"]
    assert world.entry("j1").state == "failed"
    assert world.deliver(raw).state == "failed"
    assert world.receipts() == {}
    world.check_books_agree()


def test_a_delivery_that_waited_for_the_lock_in_vain_is_told_of_its_twin(world, monkeypatch):
    """Both were looked up before either was recorded; the slower one finds the target locked."""
    raw = plan_bytes("j1", ONE)
    with world.gate() as gate, world.gate() as twin:
        real = SqliteTarget.open

        def open_after_the_twin(target):
            monkeypatch.setattr(SqliteTarget, "open", real)
            first.append(twin.apply(Delivery(raw=raw), world.target, QUICK, "ann"))
            lock.append(locked(world.path))
            lock[0].__enter__()
            return real(target)

        first: list[Outcome] = []
        lock: list[Any] = []
        monkeypatch.setattr(SqliteTarget, "open", open_after_the_twin)
        try:
            outcome = gate.apply(Delivery(raw=raw), world.target, QUICK, "ann")
        finally:
            lock[0].__exit__(None, None, None)
    assert (outcome.attempt_id, outcome.state) == (first[0].attempt_id, "applied")
    assert rows(world) == 1


@pytest.mark.parametrize("how", ["apply", "submit"])
def test_a_delivery_that_is_recorded_a_moment_after_its_twin_is_told_of_it(world, how):
    """Nobody knew the id when it was looked up; the clock is read just before the id is written down."""
    delivery = Delivery(raw=plan_bytes("j1", ONE))
    first: list[Outcome] = []

    def after_the_twin():
        if not first:
            with world.gate() as twin:
                first.append(twin.submit(delivery, world.target, QUICK)[0])
        return clock()

    with world.book() as ledger:
        gate = ApplyGate(ledger, after_the_twin)
        if how == "apply":
            second = gate.apply(delivery, world.target, QUICK, "ann")
        else:
            second, staged_plan = gate.submit(delivery, world.target, QUICK)
            assert staged_plan is None
    assert (second.attempt_id, second.state) == (first[0].attempt_id, "staged")
    assert second.detail.startswith("Delivered before, nothing was done now.")
    assert world.receipts() == {}


def test_a_delivery_that_waited_for_its_twin_is_told_what_became_of_it(world, monkeypatch):
    staged, real = world.stage("j1", ONE), SqliteTarget.open

    def open_after_the_twin(target):
        monkeypatch.setattr(SqliteTarget, "open", real)
        world.approve(staged)
        return real(target)

    monkeypatch.setattr(SqliteTarget, "open", open_after_the_twin)
    outcome = world.apply("j1", ONE)
    assert (outcome.attempt_id, outcome.state, outcome.exit_code) == (staged.attempt_id, "applied", 0)
    assert rows(world) == 1


# --- a receipt that this ledger does not know


def fresh_ledger(world):
    """The same target with a new, empty ledger."""
    other = World(world.folder / "fresh", "rollback")
    other.path, other.target = world.path, world.target
    return other


@pytest.mark.parametrize("with_base", [False, True])
@pytest.mark.parametrize("how", ["apply", "approve", "approve what was shown"])
def test_an_equal_receipt_is_found_and_nothing_runs_again(world, how, with_base):
    """Also when the plan was made for the schema before it: that it moved since is the job's own doing."""
    more = {"base": world.fingerprint()} if with_base else {}
    assert world.apply("j1", ONE, **more).state == "applied"
    before, fresh = world.files(), fresh_ledger(world)
    if how == "apply":
        outcome = fresh.apply("j1", ONE, **more)
    else:
        shown = "0" * 64 if how == "approve what was shown" else None
        outcome = fresh.approve(fresh.stage("j1", ONE, **more), shown=shown)
    assert (outcome.state, outcome.exit_code) == ("applied", 0)
    assert "receipt-found" in outcome.evidence
    assert outcome.statements_run == 2
    assert world.files() == before
    assert rows(world) == 1
    assert fresh.entry("j1").fingerprint_after == world.entry("j1").fingerprint_after
    fresh.check_books_agree()


@pytest.mark.parametrize("how", ["apply", "submit"])
def test_another_receipt_is_refused(world, how):
    world.apply("j1", ONE)
    before, fresh = world.files(), fresh_ledger(world)
    delivery = Delivery(raw=plan_bytes("j1", ["CREATE TABLE b (x)", "INSERT INTO a VALUES ('b')"]))
    with fresh.gate() as gate:
        if how == "apply":
            refused = gate.apply(delivery, fresh.target, QUICK, "ann")
        else:
            refused, staged_plan = gate.submit(delivery, fresh.target, QUICK)
            assert staged_plan is None
    assert (refused.state, refused.signal, refused.exit_code) == ("rejected", "id-reused", 12)
    assert refused.next is Next.NONE
    assert refused.detail.startswith("The target holds a receipt for this id and another body")
    assert world.files() == before


def test_another_receipt_that_appears_after_staging_is_an_alarm(world):
    fresh = fresh_ledger(world)
    staged = fresh.stage("j1", ["CREATE TABLE b (x)"])
    world.apply("j1", ONE)
    before = world.files()
    outcome = fresh.approve(staged)
    assert (outcome.state, outcome.signal) == ("failed", "id-reused")
    assert "ALARM" in outcome.detail
    assert "alarm" in [event.event for event in fresh.events(outcome)]
    assert world.files() == before


@pytest.mark.parametrize("status", ["failed", "applying", "partial", "APPLIED", "", None])
def test_a_receipt_that_does_not_say_applied_is_not_taken_for_one(tmp_path, status):
    table = "CREATE TABLE schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status TEXT)"
    world = World(tmp_path, "rollback", (table,))
    staged = world.stage("staged", ONE)
    with closing(sqlite3.connect(world.path)) as conn:
        for job_id in ("j1", "staged"):
            conn.execute("INSERT INTO schema_jobs VALUES (?, 2, ?, ?)", (job_id, plan.digest(ONE), status))
        conn.commit()
    before = world.files()
    refused = world.apply("j1", ONE)
    assert (refused.state, refused.signal) == ("rejected", "id-reused")
    assert f"this body that says {status!r}" in refused.detail
    outcome = world.approve(staged)
    assert (outcome.state, outcome.signal) == ("failed", "id-reused")
    assert f"says {status!r}" in outcome.detail
    assert world.files() == before


def test_a_reverted_job_was_applied(world):
    world.apply("j1", ONE)
    with closing(sqlite3.connect(world.path)) as conn:
        conn.execute("UPDATE schema_jobs SET status = 'reverted'")
        conn.commit()
    assert fresh_ledger(world).apply("j1", ONE).state == "applied"


# --- what a target may ask for beyond the id


def test_the_witness_form_needs_the_seal(world):
    raw = witness_bytes("j1", ONE)
    refused = world.deliver(raw)
    assert (refused.state, refused.signal, refused.exit_code) == ("rejected", "missing-key", 12)
    assert world.receipts() == {}
    applied = world.deliver(raw, seal=True)
    assert applied.state == "applied"
    assert {"witness", "sealed-here", "trailer-last"} <= set(applied.evidence)
    again(world, raw, applied, seal=True)
    assert world.receipts() == {"j1": (2, plan.digest(ONE), "applied")}


def test_a_job_that_comes_again_for_no_target_is_known(world):
    first = world.stage("j1", ONE)
    with world.gate() as gate:
        again, staged_plan = gate.submit(Delivery(raw=plan_bytes("j1", ONE)), None, QUICK)
    assert (again.attempt_id, again.state, staged_plan) == (first.attempt_id, "staged", None)
