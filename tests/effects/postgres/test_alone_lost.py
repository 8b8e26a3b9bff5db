"""A statement that runs in no transaction and fails, or whose gate, server process or connection is lost."""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import psycopg
import pytest
from tests.effects.postgres.alone import (
    DETACH,
    GONE,
    MADE,
    MADE_GONE,
    TWICE,
    check_partial,
    in_the_way,
    indexes,
    parted,
    unfinished,
)
from tests.effects.postgres.relay import Relay
from tests.effects.postgres.world import PostgresWorld
from tests.support.servers import within
from tests.support.world import PATIENT

from endmark.apply_gate import Options
from endmark.core.refusal import CannotTry
from endmark.effects.postgres import PostgresTarget, session

# --- what fails


def test_an_error_before_anything_stands_leaves_nothing(world):
    before = world.dump()
    outcome = world.apply("j1", ["CREATE INDEX CONCURRENTLY i ON nothing (name)"])
    assert (outcome.state, outcome.signal, outcome.statements_run) == ("failed", "sql-error", 0)
    assert "[42P01]" in outcome.detail
    assert world.dump() == before
    world.check_books_agree()


def test_an_index_that_is_not_valid_is_named(world):
    world.database.as_gate(TWICE)
    outcome = world.apply("j1", [MADE.replace("INDEX", "UNIQUE INDEX")])
    assert "[23505]" in outcome.detail
    assert (outcome.signal, outcome.statements_run) == ("sql-error", 1)
    assert indexes(world.database) == {"users_by_name": False}
    check_partial(world, outcome, "the index public.users_by_name is not valid", MADE_GONE)


def test_if_not_exists_before_an_index_that_is_not_valid_is_no_success(world):
    world.database.as_gate(TWICE)
    with pytest.raises(psycopg.Error):
        world.database.as_gate(MADE.replace("INDEX", "UNIQUE INDEX"))
    outcome = world.apply("j1", [MADE.replace("CONCURRENTLY", "CONCURRENTLY IF NOT EXISTS")])
    assert (outcome.state, outcome.signal) == ("failed", "check-failed")
    assert f"public.users_by_name is not valid: remove that with {MADE_GONE}" in outcome.detail
    assert world.receipts() == {}
    assert world.apply("j2", [GONE]).state == "applied"
    assert indexes(world.database) == {}
    world.database.as_gate("DELETE FROM users WHERE id = 3")
    again = MADE.replace("CONCURRENTLY", "CONCURRENTLY IF NOT EXISTS")
    assert world.apply("j3", [again]).state == "applied"
    assert world.apply("j4", [again]).state == "applied"  # it is there, and whole
    world.check_books_agree()


SHORT = Options(lock_timeout=0, statement_timeout=0.5)


def test_an_index_that_waited_too_long_is_named(world):
    with in_the_way(world):
        outcome = world.apply("j1", [MADE], options=SHORT)
    assert outcome.signal == "statement-timeout"
    check_partial(world, outcome, "the index public.users_by_name is not valid", MADE_GONE)


def test_a_partition_that_is_half_detached_is_named(world):
    parted(world)
    with in_the_way(world, "SELECT * FROM readings"):
        outcome = world.apply("j1", [DETACH], options=SHORT)
    remedy = "ALTER TABLE public.readings DETACH PARTITION public.old FINALIZE"
    check_partial(world, outcome, "the partition public.old is half detached", remedy)


def test_an_index_that_is_half_dropped_is_named(world):
    world.apply("j0", [MADE])
    with in_the_way(world, "SELECT * FROM users"):
        outcome = world.apply("j1", [GONE], options=SHORT)
    check_partial(world, outcome, "the index public.users_by_name is not valid", MADE_GONE)


def test_it_stops_when_somebody_asks(world):
    asked = iter([None] * 8)
    with in_the_way(world):
        outcome = world.apply("j1", [MADE], options=PATIENT, more={"stop": lambda: next(asked, "SIGINT")})
    assert outcome.signal == "interrupted"
    assert "SIGINT" in outcome.detail
    check_partial(world, outcome, "the index public.users_by_name is not valid", MADE_GONE)


# --- others, and the death of a gate, a server process, a connection


WAITS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%%INDEX CONCURRENTLY%%' "
WAITS += "AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()"


def until_it_waits(world):
    with within(30) as still:
        while still():
            if found := world.database.cluster_query(WAITS.replace("%%", "%")):
                return found[0][0]
    raise AssertionError("nothing waits")


@contextmanager
def at_the_same_time(action):
    said = []
    worker = threading.Thread(target=lambda: said.append(action()))
    worker.start()
    yield said
    worker.join()


def test_another_gate_that_waits_for_its_turn_is_no_deadlock(world):
    mine = PostgresWorld(world.folder, world.database, PostgresTarget(world.database.url))
    with (
        at_the_same_time(lambda: world.apply("j1", [MADE], options=PATIENT)) as first,
        in_the_way(world) as other,
    ):
        until_it_waits(world)
        with at_the_same_time(lambda: mine.apply("j2", ["CREATE TABLE a (n int)"], options=PATIENT)) as second:
            # One that waits inside of a transaction would be waited for, and one of both ended after a second.
            world.database.query("SELECT pg_sleep(1.5)")
            assert (first, second) == ([], [])
            other.rollback()
    assert [outcome.state for outcome in first + second] == ["applied", "applied"]
    assert indexes(world.database) == {"users_by_name": True}
    world.check_books_agree()


def test_what_runs_concurrently_waits_longer_than_for_a_lock(world, monkeypatch):
    monkeypatch.setattr(session, "_LOCK_LEAST", 0.2)
    unhurried = Options(lock_timeout=0, statement_timeout=60)
    with (
        at_the_same_time(lambda: world.apply("j1", [MADE], options=unhurried)) as said,
        in_the_way(world),
    ):
        until_it_waits(world)
        world.database.query("SELECT pg_sleep(0.6)")
        assert said == []
    assert said[0].state == "applied", said[0].detail


def test_a_server_process_that_is_ended_is_settled_later(world):
    with (
        at_the_same_time(lambda: world.apply("j1", [MADE], options=PATIENT)) as said,
        in_the_way(world),
    ):
        pid = until_it_waits(world)
        world.database.cluster_query(f"SELECT pg_terminate_backend({pid})")
        with within(30) as still:
            while still() and not said:
                pass
    assert said[0].state == "applying"
    assert "what became of it is not known yet" in said[0].detail
    assert world.receipts()["j1"][2] == "applying"
    other = type(world)(world.folder / "other", world.database)
    with pytest.raises(CannotTry, match="job j1 was interrupted here; 'endmark reconcile'"):
        other.apply("j2", ["CREATE TABLE a (n int)"])
    settled = world.reconcile(lock_timeout=30)
    assert settled.left == []
    check_partial(world, settled.settled[0], "the index public.users_by_name is not valid", MADE_GONE)


def killed(world, step, statement=MADE):
    command = [sys.executable, "-m", "tests.effects.postgres.child_alone", world.folder, world.database.url]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([*map(str, command), step, statement], env=environ, check=False, capture_output=True)
    assert done.returncode == -9, done.stderr.decode()
    assert world.entry("j1").state == "applying"


STEPS = {
    "before:1:SELECT endmark.begin_job": "failed",
    "before:1:SELECT endmark.begin_alone": "failed",
    "after:1:SELECT endmark.begin_alone": "failed",
    "after:1:COMMIT": "failed",
    "before:2:CREATE INDEX": "failed",
    "sent:2:CREATE INDEX": "applied",
    "after:2:CREATE INDEX": "applied",
    "before:1:SELECT endmark.end_alone": "applied",
    "after:1:SELECT endmark.end_alone": "applied",
    "after:2:COMMIT": "applied",
}


@pytest.mark.parametrize("step", STEPS)
def test_a_gate_that_is_killed_at_any_step_is_settled_later(world, step):
    before = world.fingerprint()
    killed(world, step)
    assert world.reconcile(lock_timeout=30).left == []
    assert world.entry("j1").state == STEPS[step]
    assert indexes(world.database) == ({"users_by_name": True} if STEPS[step] == "applied" else {})
    assert (world.fingerprint() == before) == (STEPS[step] == "failed")
    assert unfinished(world.database) == []
    world.check_books_agree()
    assert world.apply("j2", ["CREATE TABLE a (n int)"]).state == "applied"


def test_a_statement_that_still_runs_is_waited_for(world):
    with in_the_way(world):
        killed(world, "sent:2:CREATE INDEX")
        until_it_waits(world)
        (left,) = world.reconcile(lock_timeout=0).left
        assert "is locked by server process" in left.why
        assert world.entry("j1").state == "applying"
        with pytest.raises(CannotTry, match="is locked by"):
            world.apply("j2", ["CREATE TABLE a (n int)"])
    assert world.reconcile(lock_timeout=30).left == []
    assert world.entry("j1").state == "applied"
    assert indexes(world.database) == {"users_by_name": True}
    world.check_books_agree()


def test_a_drop_that_nobody_saw_end_is_proven(world):
    world.database.as_gate(MADE)
    killed(world, "after:2:DROP INDEX", GONE)
    assert world.reconcile(lock_timeout=30).left == []
    assert world.entry("j1").state == "applied"
    world.check_books_agree()


def test_what_somebody_else_may_have_done_is_not_called_applied(world):
    killed(world, "after:1:COMMIT")
    world.database.as_gate("CREATE TABLE theirs (n int)")
    (outcome,) = world.reconcile(lock_timeout=30).settled
    assert outcome.state == "partial"
    assert "what changed it cannot be told" in outcome.detail


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize(("commit", "state"), [(1, "failed"), (2, "applied")])
def test_a_connection_lost_at_a_commit_is_settled_later(tmp_path, world, passes, commit, state):
    with Relay(world.database.url, passes=passes, commit=commit) as relay:
        behind = PostgresWorld(tmp_path, world.database, PostgresTarget(relay.url))
        outcome = behind.apply("j1", [MADE])
        assert relay.dropped == 1
        assert outcome.state in (state, "applying"), outcome.detail
        assert behind.reconcile(lock_timeout=30).left == []
        assert behind.entry("j1").state == state
    assert indexes(world.database) == ({"users_by_name": True} if state == "applied" else {})
    assert unfinished(world.database) == []
    world.check_books_agree()
