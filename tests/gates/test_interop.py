"""A bare plan as it is published elsewhere works unchanged, and so does an envelope; others can read the receipt."""

import hashlib
import json
import sqlite3
from contextlib import closing
from itertools import permutations

import pytest
from tests.support.world import MODES, World, query

from endmark.core import mc1, plan
from endmark.core.proof import Form, prove

STATEMENTS = [
    "CREATE TABLE IF NOT EXISTS schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status TEXT)",
    "CREATE TABLE customers (id INTEGER PRIMARY KEY, email TEXT)",
    "CREATE INDEX customers_email ON customers (email)",
]
PUBLISHED = {  # written here without a line of ours
    "tool": "apply_schema",
    "job_id": "job_20_7",
    "stmt_count": 3,
    "sha256": hashlib.sha256("\n".join(STATEMENTS).encode()).hexdigest(),
    "statements": STATEMENTS,
    "trailer": "END_APPLY",
}


@pytest.fixture(params=MODES)
def world(request, tmp_path):
    return World(tmp_path, request.param)


def spelled(keys):
    return json.dumps({key: PUBLISHED[key] for key in keys}).encode()


def status(path, job_id="job_20_7"):
    with closing(sqlite3.connect(path)) as conn:
        return conn.execute("SELECT status FROM schema_jobs WHERE job_id = ?", (job_id,)).fetchone()


def test_keys_in_any_order_are_the_same_plan():
    orders = list(permutations(plan.REQUIRED))
    proven = [prove(spelled(keys)) for keys in orders]
    assert len(proven) == 720
    assert {one.form for one in proven} == {Form.PLAN}
    assert all(one.value == proven[0].value for one in proven)


@pytest.mark.parametrize(
    "keys",
    [plan.REQUIRED, plan.REQUIRED[::-1], ("trailer", "statements", "tool", "sha256", "job_id", "stmt_count")],
    ids=["as published", "backwards", "mixed"],
)
def test_a_published_plan_ends_with_a_receipt_that_reads_applied(world, keys):
    outcome = world.deliver(spelled(keys))
    assert (outcome.state, outcome.exit_code) == ("applied", 0)
    assert status(world.path) == ("applied",)
    assert query(world.path, "SELECT * FROM schema_jobs") == [("job_20_7", 3, plan.digest(STATEMENTS), "applied")]
    assert query(world.path, "SELECT name FROM sqlite_master WHERE tbl_name = 'customers' ORDER BY 1") == [
        ("customers",),
        ("customers_email",),
    ]
    assert [e for e in outcome.evidence if e.startswith("digest-does-not-cover")] != []
    world.check_books_agree()


def test_a_published_envelope_is_read_and_applied_unchanged(world):
    body = spelled(plan.REQUIRED) + b"\nEND\n"

    raw = b"MC1 %d %s\n%s" % (len(body), hashlib.sha256(body).hexdigest().encode(), body)
    assert raw == mc1.seal(spelled(plan.REQUIRED))
    outcome = world.deliver(raw)
    assert (outcome.state, outcome.received_bytes, outcome.expected_bytes) == ("applied", len(raw), len(raw))
    assert "sealed" in outcome.evidence
    assert status(world.path) == ("applied",)


def test_a_tool_that_writes_whole_rows_goes_on_working(world):
    """Four columns and no more: `INSERT INTO schema_jobs VALUES (?, ?, ?, ?)` of another tool still fits."""
    world.deliver(spelled(plan.REQUIRED))
    with closing(sqlite3.connect(world.path)) as conn:
        conn.execute("INSERT INTO schema_jobs VALUES (?, ?, ?, ?)", ("theirs", 1, "0" * 64, "applied"))
        conn.commit()
    assert world.apply("next", ["CREATE TABLE a (x)"], after=["theirs"]).state == "applied"
