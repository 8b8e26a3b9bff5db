"""kill -9 of the gate at any of its queries: after reconcile a job is applied or undone, and never silently partial."""

import json
import os
import random
import subprocess
import sys
from contextlib import contextmanager, suppress

import pymysql
import pytest
from tests.effects.mariadb.plans import DOWNS, ELEVEN
from tests.support import mariadb
from tests.support.child import hear
from tests.support.world import plan_bytes

FIVE = [0, 2, 4, 5, 6]  # a table, rows in it, two changes of another, and its rows in between
STATEMENTS = [ELEVEN[n] for n in FIVE]
DOWN = [DOWNS[n] for n in FIVE]
ROWS = ["INSERT INTO users VALUES (3, 'cid')", "UPDATE users SET name = 'x' WHERE id = 1"]
BACK = (*reversed(DOWN), "UPDATE users SET name = 'ann' WHERE id = 1", "DELETE FROM users WHERE id = 3")


class Killer:
    """The plan under a new id each time, in a process that kills itself at a query."""

    def __init__(self, world, process, statements, **more):
        self.world, self.process = world, process
        self.statements, self.more = statements, more
        self.jobs = 0

    def ask(self, plan, at, when):
        self.process.stdin.write(json.dumps({"plan": plan, "at": at, "when": when}) + "\n")
        return hear(self.process)

    def deliver(self, at, when):
        self.jobs += 1
        job_id = f"j{self.jobs}"
        path = self.world.folder / "plan"
        path.write_bytes(plan_bytes(job_id, self.statements, **self.more))
        return job_id, self.ask(str(path), at, when)


@contextmanager
def killer(world, statements, **more):
    command = [sys.executable, "-m", "tests.support.mariadb_child", str(world.folder), world.name]
    environ = {**os.environ, **mariadb.environ(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environ
    ) as process:
        try:
            assert hear(process) == "ready"
            yield Killer(world, process, statements, **more)
        finally:
            process.kill()


def check_settled(world, job_id, before, after):
    """All or nothing of it, and the books agree. Afterwards the database is as it was before."""
    entry = world.entry(job_id)
    state = None if entry is None else entry.state
    assert state in (None, "staged", "failed", "applied"), (state, entry and entry.detail)
    if state == "applied":
        assert world.dump() == after
        undo(world)
        world.query("DELETE FROM schema_jobs")
    assert world.dump() == before
    assert job_id not in world.receipts()
    return state


def undo(world):
    for statement in BACK:
        with suppress(pymysql.err.MySQLError):  # of the other plan's
            world.query(statement)


def strikes(killer, chance, many):
    """Where to kill: `many` queries by chance from the one that writes the receipt to the last, or all of them."""
    _job, calm = killer.deliver(0, "before")
    assert calm["code"] == 0
    last = calm["queries"] + 9  # it says every tenth
    span = range(calm["begun"], last)
    return (
        [(at, when) for at in span for when in ("before", "after")]
        if many is None
        else [(at, chance.choice(("before", "after"))) for at in sorted(chance.sample(span, many))]
    )


def kill_and_settle(world, statements, many, seed, **more):
    chance, found = random.Random(seed), []
    before = world.dump()
    with killer(world, statements, **more) as other:
        _job, calm = other.deliver(0, "before")  # the first makes the receipts' tables, and asks other questions
        assert calm["code"] == 0
        undo(world)
        world.query("DELETE FROM schema_jobs")
        struck = strikes(other, chance, many)
        after = world.dump()
        undo(world)
        world.query("DELETE FROM schema_jobs")
        assert world.dump() == before
        for at, when in struck:
            job_id, ended = other.deliver(at, when)
            if ended["code"] == -9 and chance.random() < 0.5:  # and whoever settles it is killed as well
                other.ask(None, chance.randrange(8, 60), chance.choice(("before", "after")))
            world.reconcile(lock_timeout=20)
            found.append((ended["code"], check_settled(world, job_id, before, after)))
    return found


def test_kills_of_a_plan_that_runs_step_by_step(world):
    found = kill_and_settle(world, STATEMENTS, 5, "steps", down=DOWN)
    assert sum(code == -9 for code, _state in found) >= 3
    assert "failed" in {state for _code, state in found}


def test_kills_of_a_plan_of_rows(world):
    found = kill_and_settle(world, ROWS, 5, "rows")
    assert sum(code == -9 for code, _state in found) >= 2


@pytest.mark.soak
def test_a_kill_at_every_query_of_a_plan_that_runs_step_by_step(world, record_property):
    found = kill_and_settle(world, STATEMENTS, None, "every step", down=DOWN)
    record_property("kills", sum(code == -9 for code, _state in found))
    assert {"applied", "failed"} <= {state for _code, state in found}


@pytest.mark.soak
def test_a_kill_at_every_query_of_a_plan_of_rows(world, record_property):
    found = kill_and_settle(world, ROWS, None, "every row")
    record_property("kills", sum(code == -9 for code, _state in found))
    assert {"applied", "failed"} <= {state for _code, state in found}


def test_a_kill_around_one_statement(world):
    """One statement needs no down, and still it is known afterwards whether it ran."""
    before = world.dump()
    with killer(world, [ELEVEN[4]]) as other:
        job, calm = other.deliver(0, "before")
        assert world.entry(job).state == "applied"
        after = world.dump()
        world.query(DOWNS[4])
        world.query("DELETE FROM schema_jobs")
        for at in range(calm["begun"] + 2, calm["begun"] + 8, 2):
            job_id, ended = other.deliver(at, "after")
            assert ended["code"] == -9
            world.reconcile(lock_timeout=20)
            state = world.entry(job_id).state
            assert state in ("failed", "applied")
            assert world.dump() == (after if state == "applied" else before)
            if state == "applied":
                world.query(DOWNS[4])
                world.query("DELETE FROM schema_jobs")
