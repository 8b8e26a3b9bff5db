"""Statements that run in no transaction, what they leave, and who is in their way."""

from contextlib import contextmanager

import psycopg
import pytest
from tests.support.world import clock

from endmark.core.refusal import CannotTry
from endmark.reconcile import settle_by_hand

MADE = "CREATE INDEX CONCURRENTLY users_by_name ON users (name)"
GONE = "DROP INDEX CONCURRENTLY users_by_name"


def indexes(database):
    """Every index of a plan, and whether it is whole."""
    return dict(
        database.query(
            "SELECT indexrelid::regclass::text, indisvalid AND indisready AND indislive FROM pg_index "
            "WHERE indrelid = 'users'::regclass AND NOT indisprimary"
        )
    )


def unfinished(database):
    return database.query("SELECT job_id, kind FROM endmark.endmark_alone")


MADE_GONE = "DROP INDEX CONCURRENTLY public.users_by_name"


def parted(world):
    for statement in (
        "CREATE TABLE readings (at date, n integer) PARTITION BY RANGE (at)",
        "CREATE TABLE old PARTITION OF readings FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')",
    ):
        world.database.as_gate(statement)


DETACH = "ALTER TABLE readings DETACH PARTITION old CONCURRENTLY"
TWICE = "INSERT INTO users VALUES (3, 'ann')"


def check_partial(world, outcome, what, remedy):
    """It says what stands and how to be rid of it, lets no other job in, and a person settles it."""
    assert outcome.state == "partial", outcome.detail
    assert what in outcome.detail
    assert remedy in outcome.detail
    assert world.receipts()["j1"][2] == "partial"
    with pytest.raises(CannotTry, match="j1 stands partly in it, until a person says 'endmark settle"):
        world.apply("j2", ["CREATE TABLE a (n int)"])
    other = type(world)(world.folder / "other", world.database)  # another ledger knows nothing of it
    with pytest.raises(CannotTry, match="j1 stands partly in it, until a person says 'endmark settle j1"):
        other.apply("j2", ["CREATE TABLE a (n int)"])
    world.database.as_gate(remedy)
    with world.book() as ledger:
        entry = ledger.by_job("j1")
        settle_by_hand(ledger, entry, world.target, 0.0, "ann", "removed", clock())
    assert world.entry("j1").state == "settled"
    assert world.receipts()["j1"][2] == "settled"
    assert unfinished(world.database) == []
    assert world.apply("j3", ["CREATE TABLE a (n int)"]).state == "applied"


@contextmanager
def in_the_way(world, statement="UPDATE users SET name = name"):
    """A transaction that CONCURRENTLY has to wait for."""
    with psycopg.connect(world.database.url, application_name="nightly") as conn:
        conn.execute(statement)
        yield conn
        conn.rollback()
