"""A plan that changes the schema runs statement by statement; what ran is undone by its downs, or it is said loudly."""

from contextlib import closing

import pytest
from tests.effects.mariadb.plans import DOWNS, ELEVEN, failing_at
from tests.support.mariadb import connect, query
from tests.support.world import QUICK, plan_bytes

from endmark.apply_gate import Delivery, Options
from endmark.core.refusal import CannotTry
from endmark.effects.mariadb import clone
from endmark.effects.mariadb.clone import PREFIX
from endmark.effects.mariadb.lock import key_of


def schemas(world):
    """The scratch databases of this world's target; others on the same server have their own."""
    return query(None, "SHOW DATABASES LIKE %s", f"{PREFIX}{key_of(world.name)}")


def test_eleven_statements(world):
    outcome = world.apply("j1", ELEVEN, down=list(DOWNS))
    assert (outcome.state, outcome.exit_code, outcome.statements_run) == ("applied", 0, 11)
    assert "journal" in outcome.evidence
    assert "transaction" not in outcome.detail
    assert world.entry("j1").statement_rows == (0, 0, 2, 2, 0, 2, 0, 0, 0, 1, 0)
    assert world.entry("j1").fingerprint_after == world.fingerprint()
    assert [state for _job, _n, state in world.journal()] == ["done"] * 11
    assert world.query("SELECT name FROM accounts ORDER BY id") == [("Žluť ∎",), ("it's",), ("LATE",)]
    world.check_books_agree()


def test_cut_at_every_offset_nothing_is_written(world):
    raw = plan_bytes("j1", ELEVEN[:6], down=list(DOWNS[:6]))
    before = world.dump(ours=True)
    with world.gate() as gate:
        for length in range(len(raw)):
            outcome = gate.apply(Delivery(raw=raw[:length]), world.target, QUICK, "ann")
            assert outcome.state in ("truncated", "rejected"), length
            assert outcome.received_bytes == length
    assert world.dump(ours=True) == before


@pytest.mark.parametrize(("n", "many"), [(1, 2), (7, 11), (4, 3)])
def test_an_error_is_undone_by_the_downs(world, n, many):
    before, fingerprint = world.dump(), world.fingerprint()
    statements, downs = failing_at(n, many)
    outcome = world.apply("j1", statements, down=downs)
    assert (outcome.state, outcome.signal, outcome.exit_code) == ("failed", "sql-error", 1)
    assert f"tatement {n}: Duplicate entry" in outcome.detail
    assert "rolled back" not in outcome.detail or n == 1
    assert ("undone-by-downs" in outcome.evidence) is (n > 1)
    assert world.dump() == before
    assert world.fingerprint() == fingerprint
    assert world.receipts() == {}
    assert world.journal() == []
    assert world.apply("j2", ELEVEN[:2], down=list(DOWNS[:2])).state == "applied"


def test_what_was_applied_can_be_reverted(world):
    before = world.dump()
    assert world.apply("j1", ELEVEN[:5], down=list(DOWNS[:5])).state == "applied"
    with world.gate() as gate:
        staged = gate.stage_revert("j1", world.target, "ann")
    assert world.approve(staged).state == "applied"
    assert world.dump() == before
    assert {job: row[2] for job, row in world.receipts().items()} == {"j1": "reverted", "j1.revert": "applied"}


REFUSED = {
    "no down": (ELEVEN[:2], None, "each one needs its down"),
    "loses a table": (
        ["CREATE TABLE t (x INT)", "DROP TABLE users"],
        ["DROP TABLE t", "CREATE TABLE users (id INT)"],
        "statement 2 loses the rows of a table",
    ),
    "loses a column": (
        ["ALTER TABLE users DROP COLUMN name", "SELECT 1"],
        ["ALTER TABLE users ADD COLUMN name VARCHAR(40)", "SELECT 1"],
        "statement 1 loses the values of a column",
    ),
    "a down that does not undo": (
        ["CREATE TABLE t (x INT)", "CREATE TABLE u (x INT)"],
        ["DROP TABLE t", "CREATE TABLE v (x INT)"],
        "the down of statement 2 did not bring back",
    ),
    "a down of another kind": (
        ["CREATE TABLE t (x INT)", "INSERT INTO users VALUES (3, 'cid')"],
        ["DROP TABLE t", "DROP TABLE t"],
        "the down of statement 2 is of another kind",
    ),
    "a table that is there already": (
        ["CREATE TABLE IF NOT EXISTS users (x INT)", "SELECT 1"],
        ["DROP TABLE users", "SELECT 1"],
        "the down of statement 1 did not bring back",
    ),
    "an error of the schema": (
        ["CREATE TABLE t (x INT)", "ALTER TABLE nobody ADD x INT"],
        ["DROP TABLE t", "ALTER TABLE nobody DROP x"],
        "in the rehearsal statement 2",
    ),
    "an error in a statement about rows": (
        ["CREATE TABLE t (x INT)", "INSERT INTO t (y) VALUES (1)"],
        ["DROP TABLE t", "SELECT 1"],
        "in the rehearsal statement 2",
    ),
    "a hostile down": (
        ["CREATE TABLE t (x INT)", "SELECT 1"],
        ["DROP TABLE schema_jobs", "SELECT 1"],
        "the down of statement 1 names schema_jobs",
    ),
}


@pytest.mark.parametrize(("statements", "down", "why"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_undone_is_not_begun(world, statements, down, why):
    before = world.dump(ours=True)
    outcome = world.apply("j1", statements, **({} if down is None else {"down": down}))
    assert outcome.state == "failed"
    assert why in outcome.detail[:1].lower() + outcome.detail[1:]
    assert PREFIX not in outcome.detail
    assert world.dump(ours=True) == before
    assert schemas(world) == []


ALONE = (
    "ALTER TABLE users ADD COLUMN a INT, ADD INDEX (a)",
    "RENAME TABLE users TO people",
    "TRUNCATE people",
    "DROP TABLE people",
)


def test_one_statement_needs_no_down(world):
    for n, statement in enumerate(ALONE):
        assert world.apply(f"j{n}", [statement]).state == "applied"
    assert world.dump() == []


def test_a_view_that_breaks_is_no_foreign_change(world):
    world.query("CREATE VIEW names AS SELECT name FROM users")
    outcome = world.apply("j1", ["ALTER TABLE users DROP COLUMN name"])
    assert (outcome.state, "unrehearsed" in outcome.evidence) == ("applied", False)
    refused = world.apply(
        "j2", ["CREATE VIEW ids AS SELECT id FROM users", "SELECT 1"], down=["DROP VIEW ids", "SELECT 1"]
    )
    assert (refused.state, "view names cannot be copied" in refused.detail) == ("failed", True)
    outcome = world.apply("j3", ["DROP VIEW names"])
    assert (outcome.state, "unrehearsed" in outcome.evidence) == ("applied", True)


def test_what_a_plan_reaches_is_rehearsed_and_nothing_else(world):
    world.query("CREATE TABLE other (id INT PRIMARY KEY)")
    world.query("CREATE TABLE child (user INT, CONSTRAINT c FOREIGN KEY (user) REFERENCES users (id))")
    world.query("CREATE VIEW v AS SELECT id FROM other")
    with world.target.open() as session:
        part = clone.reach(session._conn, world.name, frozenset({"alter", "table", "users"}))
    assert part.names == {"users", "child"}
    refused = world.apply("j1", ["DROP TABLE users"])
    assert (refused.state, "in the rehearsal" in refused.detail.lower()) == ("failed", True)
    assert world.apply("j2", ["RENAME TABLE users TO people"]).state == "applied"


def test_the_table_of_receipts_in_a_plan_changes_nothing_about_it(world):
    made = "CREATE TABLE IF NOT EXISTS schema_jobs (job_id TEXT, stmt_count INT, sha256 TEXT, status TEXT)"
    outcome = world.apply("j1", [made, "INSERT INTO users VALUES (3, 'cid')"])
    assert (outcome.state, outcome.statements_run) == ("applied", 2)
    assert "journal" not in outcome.evidence


def meddle(world, at, sql):
    """Somebody else changes the schema while the job runs."""
    return {"progress": lambda done, _total: query(world.name, sql) if done == at else None}


def test_partial_blocks_the_target_until_a_person_settles_it(world):
    statements, downs = ELEVEN[:5], list(DOWNS[:5])
    outcome = world.apply("j1", statements, down=downs, more=meddle(world, 1, "ALTER TABLE users ADD COLUMN x INT"))
    assert (outcome.state, outcome.exit_code, outcome.next) == ("partial", 15, "ask-person")
    assert outcome.detail.startswith("PARTIAL: 2 of 5 statements stand")
    assert "endmark settle j1" in outcome.detail
    assert world.receipts()["j1"][2] == "partial"
    for job, plan in (("j2", ["SELECT 1"]), ("j3", ["CREATE TABLE fine (x INT)"])):
        with pytest.raises(CannotTry, match="endmark settle"):
            world.apply(job, plan)
    with world.book() as ledger:  # another ledger knows nothing of it; the target does
        assert ledger.by_job("j2") is None
    staged = world.stage("j4", ["SELECT 1"])
    with pytest.raises(CannotTry, match="endmark settle"):
        world.approve(staged)
    settled = world.settle("j1", "dropped both by hand")
    assert (settled.state, settled.exit_code) == ("settled", 1)
    assert "dropped both by hand" in settled.detail
    assert "ann" in settled.detail
    assert world.receipts()["j1"][2] == "settled"
    assert world.approve(staged).state == "applied"
    assert world.verified().ok


def test_a_partial_job_that_another_ledger_knows_blocks_as_well(world, tmp_path):
    more = meddle(world, 1, "ALTER TABLE users ADD COLUMN x INT")
    assert world.apply("j1", ELEVEN[:5], down=list(DOWNS[:5]), more=more).state == "partial"
    other = type(world)(tmp_path / "other", world.name)
    with pytest.raises(CannotTry, match="job j1 stands partly in it"):
        other.apply("j2", ["SELECT 1"])
    assert other.entries() == []


def test_a_down_that_fails_makes_the_job_partial(world):
    """The down of the first cannot go through: somebody holds the table."""
    statements, downs = failing_at(2, 1)
    with closing(connect(world.name)) as other, other.cursor() as cursor:

        def progress(done, _total):
            if done == 1:
                cursor.execute("LOCK TABLES accounts READ")

        more = {"progress": progress}
        outcome = world.apply("j1", statements, down=downs, more=more, options=Options(statement_timeout=1.0))
    assert (outcome.state, outcome.exit_code) == ("partial", 15)
    assert "1 of 2 statements stand" in outcome.detail
    assert "the down of statement 1" in outcome.detail
    assert world.query("SHOW TABLES LIKE 'accounts'") == [("accounts",)]


def test_a_gone_target_is_given_up_by_a_person(world):
    more = meddle(world, 1, "ALTER TABLE users ADD COLUMN x INT")
    world.apply("j1", ELEVEN[:2], down=list(DOWNS[:2]), more=more)
    with pytest.raises(CannotTry, match="can be reached"):
        world.settle("j1", "it burnt", gone=True)
    world.query(f"DROP DATABASE {world.name}")
    outcome = world.settle("j1", "it burnt", gone=True)
    assert (outcome.state, "target-gone" in outcome.evidence) == ("settled", True)


def test_stopped_between_two_statements(world):
    before, asked = world.dump(), []

    def progress(done, _total):
        if done == 4:
            asked.append("SIGTERM")

    more = {"progress": progress, "stop": lambda: asked[0] if asked else None}
    outcome = world.apply("j1", ELEVEN[:6], down=list(DOWNS[:6]), more=more)
    assert (outcome.state, outcome.signal) == ("failed", "interrupted")
    assert "4 of 6 statements had run and were undone" in outcome.detail
    assert world.dump() == before


def test_no_scratch_database_no_longer_plan(world, name, limited):
    refused = limited.apply("j1", ELEVEN, down=list(DOWNS))
    assert (refused.state, refused.exit_code) == ("failed", 20)
    assert "grant it" in refused.detail
    outcome = limited.apply("j2", ["ALTER TABLE users ADD COLUMN a INT"])
    assert (outcome.state, "unrehearsed" in outcome.evidence) == ("applied", True)
    failed = limited.apply("j3", ["ALTER TABLE users ADD COLUMN a INT"])
    assert (failed.state, failed.signal) == ("failed", "sql-error")
