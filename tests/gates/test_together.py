"""Many at once: processes and threads at one job, at one target, and reconciling beside a job at work."""

from contextlib import ExitStack

import pytest
from tests.support.child import hear, started
from tests.support.world import MODES, World, clock, plan_bytes, query

from endmark.reconcile import reconcile

COUNT = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 2000)"


@pytest.fixture(params=MODES)
def world(request, tmp_path):
    return World(tmp_path, request.param, ("CREATE TABLE counter (n INTEGER)", "INSERT INTO counter VALUES (0)"))


def together(world, threads, *plans):
    """One process for each list of plans, each plan in `threads` threads, all let go at the same moment."""
    with ExitStack() as stack:
        children = [stack.enter_context(started("apply", world.folder, threads, *names)) for names in plans]
        for child in children:
            assert hear(child) == "ready"
        for child in children:
            child.stdin.write("go\n")
        return [said for child in children for said in hear(child)]


def test_fifty_deliveries_of_one_job_have_one_effect(world, tmp_path):
    (tmp_path / "plan").write_bytes(
        plan_bytes("j1", ["UPDATE counter SET n = n + 1", f"SELECT count(*) FROM ({COUNT} SELECT 1 FROM c)"])
    )
    said = together(world, 10, *[[tmp_path / "plan"]] * 5)
    assert len(said) == 50
    answers = {(state, code) for _job, state, code in said}
    assert answers <= {("applied", 0), ("applying", 20), ("staged", 16)}, answers
    assert ("applied", 0) in answers
    assert query(world.path, "SELECT n FROM counter") == [(1,)]
    (entry,) = world.entries()
    events = world.events(entry)
    assert [event.event for event in events].count("redelivered") == 49
    moved = [event.to_state for event in events if event.event == "moved"]
    assert moved == ["staged", "approved", "applying", "applied"]
    world.check_books_agree()


def test_eight_processes_with_different_jobs_all_get_through(world, tmp_path):
    plans = []
    for process in range(8):
        names = []
        for job in range(3):
            path = tmp_path / f"plan-{process}-{job}"
            statements = ["UPDATE counter SET n = n + 1", f"CREATE TABLE t_{process}_{job} (x)"]
            path.write_bytes(plan_bytes(f"j-{process}-{job}", statements))
            names.append(path)
        plans.append(names)
    said = together(world, 1, *plans)
    assert sorted((job, state) for job, state, _code in said) == [
        (f"j-{process}-{job}", "applied") for process in range(8) for job in range(3)
    ]
    assert query(world.path, "SELECT n FROM counter") == [(24,)]
    assert len(query(world.path, "SELECT 1 FROM sqlite_master WHERE name GLOB 't_*'")) == 24
    world.check_books_agree()


def test_two_bodies_for_one_id_have_one_effect(world, tmp_path):
    for n in range(2):
        (tmp_path / f"plan{n}").write_bytes(plan_bytes("j1", [f"UPDATE counter SET n = n + {10**n}"]))
    said = together(world, 5, [tmp_path / "plan0"], [tmp_path / "plan1"])
    assert {state for _job, state, _code in said} <= {"applied", "applying", "staged", "rejected"}
    (n,) = query(world.path, "SELECT n FROM counter")[0]
    assert n in (1, 10)
    owner = world.entry("j1")
    assert owner.state == "applied"
    refused = [entry for entry in world.entries() if entry.state == "rejected"]
    assert len(refused) == 5
    assert all(entry.body_sha256 != owner.body_sha256 for entry in refused)
    world.check_books_agree()


def race(world, tmp_path, jobs):
    """Reconcile again and again, as every start of a gate does, beside a process that applies one job after another."""
    names = []
    for n in range(jobs):
        names.append(tmp_path / f"plan{n}")
        bad = ["INSERT OR ROLLBACK INTO counter (rowid, n) VALUES (1, 5)"] if n % 3 == 2 else []
        names[-1].write_bytes(plan_bytes(f"j{n}", ["UPDATE counter SET n = n + 1", *bad]))
    said, rounds, settled = [], 0, []
    with started("all", world.folder, *names) as child:
        assert hear(child) == "ready"
        done = False
        with world.book() as ledger:
            while not done:
                settled += reconcile(ledger, world.target_of, clock, 0.0).settled
                rounds += 1
                done = ledger.by_job(f"j{jobs - 1}") is not None
        said = [hear(child) for _ in range(jobs)]
    expected = {f"j{n}": "failed" if n % 3 == 2 else "applied" for n in range(jobs)}
    assert dict(said) == expected
    assert {job: world.entry(job).state for job in expected} == expected
    assert {outcome.job_id: outcome.state for outcome in settled}.items() <= expected.items()
    assert query(world.path, "SELECT n FROM counter") == [(sum(state == "applied" for state in expected.values()),)]
    assert rounds > 3
    world.check_books_agree()
    return rounds, len(settled)


def test_reconciling_beside_a_running_job_never_contradicts_it(world, tmp_path):
    race(world, tmp_path, 25)


@pytest.mark.soak
def test_reconciling_beside_many_running_jobs_never_contradicts_them(world, tmp_path):
    print(race(world, tmp_path, 1_000))
