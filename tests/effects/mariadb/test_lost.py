"""Connections that are killed in the middle of a plan that runs step by step."""

from contextlib import closing

import pytest
from tests.effects.mariadb.plans import DOWNS, ELEVEN
from tests.support.mariadb import connect

from endmark.core.refusal import CannotTry

FIVE = [0, 2, 4, 5, 6]
STATEMENTS, DOWN = [ELEVEN[n] for n in FIVE], [DOWNS[n] for n in FIVE]


def kill(name, which):
    """End a connection to the database: 0 is the test's own, 1 the gate's, the last one the runner's."""
    with closing(connect(name)) as conn, conn.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s ORDER BY id", (name,))
        numbers = [row[0] for row in cursor.fetchall() if row[0] != conn.thread_id()]
        cursor.execute(f"KILL CONNECTION {numbers[which]}")


def at(step, act):
    return {"progress": lambda done, _total: act() if done == step else None}


@pytest.mark.parametrize("step", [1, 2, 4])
def test_the_runners_connection_is_lost(world, step):
    """What became of the statement at work is asked of the schema, and all is undone on a new connection."""
    before = world.dump()
    outcome = world.apply("j1", STATEMENTS, down=DOWN, more=at(step, lambda: kill(world.name, -1)))
    assert (outcome.state, outcome.signal, outcome.exit_code) == ("failed", "target-fault", 20)
    assert "killed" in outcome.detail or "ost" in outcome.detail
    assert f"{step} of 5 statements had run and were undone" in outcome.detail
    assert world.dump() == before
    assert world.apply("j2", STATEMENTS, down=DOWN).state == "applied"


@pytest.mark.parametrize("step", [1, 3])
def test_the_gates_connection_is_lost(world, step):
    """Then nobody can say more than that it stands open, until the target is asked again."""
    before = world.dump()
    outcome = world.apply("j1", STATEMENTS, down=DOWN, more=at(step, lambda: kill(world.name, 1)))
    assert (outcome.state, outcome.exit_code) == ("applying", 20)
    assert "endmark reconcile" in outcome.detail
    with pytest.raises(CannotTry, match="endmark reconcile"):
        world.apply("j2", ["SELECT 1"])
    (settled,) = world.reconcile(lock_timeout=5).settled
    assert (settled.state, settled.signal) == ("failed", "lost")
    assert "were undone by their downs" in settled.detail
    assert world.dump() == before
    assert world.apply("j3", STATEMENTS, down=DOWN).state == "applied"


@pytest.mark.parametrize("step", [4, 5])
def test_the_gates_connection_is_lost_around_the_last_statement(world, step):
    """Everything ran, and only the receipt was not finished: it is, and nothing is undone."""
    outcome = world.apply("j1", STATEMENTS, down=DOWN, more=at(step, lambda: kill(world.name, 1)))
    if outcome.state == "applying":
        (outcome,) = world.reconcile(lock_timeout=5).settled
    assert (outcome.state, outcome.exit_code) == ("applied", 0)
    assert world.query("SELECT COUNT(*) FROM accounts") == [(2,)]
    world.check_books_agree()
