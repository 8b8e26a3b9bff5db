"""Many gates at one database: one at a time, and one id has one effect."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.effects.mariadb.plans import DOWNS, ELEVEN
from tests.support.world import PATIENT, plan_bytes

from endmark.core.refusal import CannotTry
from endmark.effects.mariadb import lock


def test_eight_deliveries_of_one_id_have_one_effect(world):
    raw = plan_bytes("j1", ELEVEN[:4], down=list(DOWNS[:4]))
    with ThreadPoolExecutor(8) as pool:
        states = list(pool.map(lambda _n: world.deliver(raw, options=PATIENT).state, range(8)))
    assert set(states) <= {"applied", "applying", "staged"}  # what it stood in when the others looked
    assert "applied" in states
    assert world.query("SELECT COUNT(*) FROM accounts") == [(2,)]
    assert len(world.receipts()) == 1
    world.check_books_agree()


def test_eight_plans_run_one_at_a_time(world):
    """Each reads a number and writes the next: two at once would lose one."""
    world.query("CREATE TABLE counter (n INT)")
    world.query("INSERT INTO counter VALUES (0)")
    step = ["SELECT n INTO @n FROM counter", "SELECT SLEEP(0.02)", "UPDATE counter SET n = @n + 1"]
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda n: world.apply(f"j{n}", step, options=PATIENT), range(8)))
    assert [outcome.state for outcome in outcomes] == ["applied"] * 8
    assert world.query("SELECT n FROM counter") == [(8,)]
    world.check_books_agree()


def test_a_statement_of_a_dead_gate_still_holds_others_up(world):
    """Its own connection is gone; the runner's is not, so nobody may look at the receipts yet."""
    session = world.target.open()
    lock.get(session._conn, lock.runner_name(world.name), 0)
    with session, pytest.raises(CannotTry, match="locked by another gate"):
        world.apply("j1", ["SELECT 1"])
    assert world.apply("j1", ["SELECT 1"]).state == "applied"
