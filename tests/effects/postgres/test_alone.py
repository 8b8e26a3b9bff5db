"""A plan of one statement that runs in no transaction, with its own proof of what became of it."""

import pytest

from endmark.core.refusal import Signal
from endmark.effects.target import Failed

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


ONE_STATEMENT = {
    "CREATE INDEX CONCURRENTLY": ([], MADE, {"users_by_name": True}),
    "UNIQUE": ([], MADE.replace("INDEX", "UNIQUE INDEX"), {"users_by_name": True}),
    "DROP INDEX CONCURRENTLY": ([MADE], GONE, {}),
    "DROP, IF EXISTS": ([], "DROP INDEX CONCURRENTLY IF EXISTS nothing", {}),
    "REINDEX INDEX CONCURRENTLY": ([MADE], "REINDEX INDEX CONCURRENTLY users_by_name", {"users_by_name": True}),
    "REINDEX TABLE CONCURRENTLY": ([MADE], "REINDEX TABLE CONCURRENTLY users", {"users_by_name": True}),
    "REINDEX SCHEMA": ([MADE], "REINDEX SCHEMA mine", {"users_by_name": True}),
    "VACUUM": ([], "VACUUM (ANALYZE) users", {}),
    "VACUUM FULL": ([], "VACUUM FULL users", {}),
    "CLUSTER": ([], "CLUSTER", {}),
    "in a comment's dress": ([], f"/* ; */ {MADE} -- CONCURRENTLY\n;", {"users_by_name": True}),
}


@pytest.mark.parametrize("name", ONE_STATEMENT)
def test_a_statement_of_its_own_is_applied(world, name):
    before, statement, found = ONE_STATEMENT[name]
    world.database.as_gate("CREATE SCHEMA mine")
    for one in before:
        world.database.as_gate(one)
    outcome = world.apply("j1", [statement])
    assert (outcome.state, outcome.statements_run) == ("applied", 1), outcome.detail
    assert "outside-a-transaction" in outcome.evidence
    assert indexes(world.database) == found
    assert unfinished(world.database) == []
    receipt = world.database.receipt("j1")
    assert (receipt.status, receipt.rows_changed, receipt.fingerprint_after) == ("applied", "0", world.fingerprint())
    world.check_books_agree()
    assert world.apply("j2", ["CREATE TABLE a (n int)"]).state == "applied"
    world.check_books_agree()
