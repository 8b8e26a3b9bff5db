"""Killed, failed or committed behind our back in the middle: on SQLite nothing of a plan stays."""

import contextlib
import sqlite3

import pytest
from tests.incidents import payloads
from tests.incidents.rows import agrees
from tests.incidents.world import deliver, settle_all

NINE = [f"CREATE TABLE t{n} (x)" for n in range(1, 8)] + ["ALTER TABLE t1 ADD COLUMN y", "DROP TABLE files"]
FIVE = ["CREATE TABLE a (x)", "INSERT INTO a VALUES (1)", "DROP TABLE files", "ALTER TABLE runs RENAME TO rounds"]
FIVE += ["CREATE INDEX i ON a (x)"]


def kill_then_settle(world, row_id, statements, points):
    """SIGKILL at each point; after each, a restart settles the job as failed and the database reads as before."""
    before = world.dump()
    for point in points:
        job = f"{row_id}-{point}"
        assert deliver(world, payloads.envelope(job, statements), str(point)) == -9
        (settled,) = settle_all(world)
        assert (settled.job_id, settled.signal, settled.exit_code) == (job, "lost", 1)
        assert agrees(row_id, settled.state)
        assert world.dump() == before
        again = world.apply(payloads.envelope(job, statements))
        assert again.state == "failed", "a finished state never moves"
    retry = world.apply(payloads.envelope(f"{row_id}-retry", statements, retry_of=f"{row_id}-{points[-1]}"))
    assert (retry.state, retry.statements_run) == ("applied", len(statements))
    assert world.gate.ledger.verify().ok


def test_inc_129_killed_between_the_fourth_and_the_fifth_of_nine(world):
    kill_then_settle(world, "INC-129", NINE, [4])


def test_inc_139_killed_after_any_statement_it_is_never_dirty(world):
    kill_then_settle(world, "INC-139", FIVE, ["run", 1, 2, 3, 4, 5, "ran"])


def test_inc_140_a_restart_in_the_middle_with_readers_and_a_log(world):
    """A target in WAL mode, with rows enough that some were written to the file before the kill."""
    world.write("PRAGMA journal_mode = WAL")
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) "
    rows += "INSERT INTO runs SELECT printf('%0200d', i) FROM n"
    kill_then_settle(world, "INC-140", ["CREATE TABLE a (x)", rows, "CREATE TABLE b (x)"], [2])


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_inc_145_killed_between_statements_nothing_is_applied_or_corrupt(world, mode):
    world.write(f"PRAGMA journal_mode = {mode}")
    kill_then_settle(world, "INC-145", FIVE, [1, 3])
    assert world.ask("PRAGMA integrity_check") == [("ok",)]


# --- plans that failed half way on an engine whose statements commit by themselves


@pytest.mark.parametrize("form", ["witness", "plan", "proof-first", "envelope"])
def test_inc_125_the_first_table_goes_with_the_second_error(world, form):
    statements = ["CREATE TABLE a (x)", "ALTER TABLE missing ADD COLUMN c TEXT"]
    said = world.fails(payloads.forms("JOB", statements)[form])
    assert agrees("INC-125", said.state)
    assert "missing" in said.detail, "and the next try shows the same error, not another"
    assert world.fails(payloads.forms("JOB-2", statements)[form]).detail == said.detail


def test_inc_127_a_begin_of_the_plan_s_own_is_refused(world):
    script = ["BEGIN", "CREATE TABLE a (x)", "CREATE TABEL b (x)", "COMMIT"]
    plans = [[";\n".join(script)], script, script[1:], [*script[:2], script[3]], script[:2]]
    plans += [[f"{word} IMMEDIATE" if word == "BEGIN" else word] for word in script if " " not in word]
    plans += [["CREATE TABLE a (x)", way] for way in ("COMMIT TRANSACTION", "END", "SAVEPOINT s", "ROLLBACK")]
    for number, plan in enumerate(plans):
        said = world.fails(payloads.witness(f"JOB-{number}", plan))
        assert agrees("INC-127", said.state)
    assert "a" not in world.tables()


def test_inc_128_a_dropped_table_comes_back(world):
    said = world.fails(payloads.witness("JOB", ["DROP TABLE files", "ALTER TABLE missing ADD COLUMN c TEXT"]))
    assert agrees("INC-128", said.state)
    assert (said.statements_run, said.stmt_count) == (1, 2)
    assert world.file("README") == "as it was"
    mended = payloads.witness("JOB-2", ["DROP TABLE files", "ALTER TABLE runs ADD COLUMN c TEXT"], retry_of="JOB")
    assert world.apply(mended).state == "applied", "the retry meets the database that the plan was made for"


# --- what Python's sqlite3 does by itself, and the gate must not


def test_inc_142_a_failing_script_leaves_nothing(world):
    """First what `executescript` does with it, then the gate."""
    insert, create, bad = "INSERT INTO runs VALUES ('first')", "CREATE TABLE b (x)", "CREATE TABEL c (x)"
    with contextlib.closing(sqlite3.connect(world.path)) as conn:
        conn.execute(insert)
        with pytest.raises(sqlite3.OperationalError):
            conn.executescript(f"{create}; {bad};")
        conn.rollback()
    assert world.runs() == ["first"], "it stays: that is the report"
    assert "b" in world.tables()
    world.write("DELETE FROM runs", "DROP TABLE b")

    for number, plan in enumerate(([insert, create, bad], [insert, f"{create}; {bad};"], [f"{insert}; {create}"])):
        said = world.fails(payloads.witness(f"JOB-{number}", plan))
        assert agrees("INC-142", said.state)
    assert world.runs() == []


def test_inc_143_a_select_at_the_end_commits_nothing(world):
    """A DROP, any statement that a script runner would have committed with, then an error: the table is back."""
    for number, harmless in enumerate(("SELECT 1", "SELECT 1; ", "EXPLAIN SELECT 1", "PRAGMA user_version", "ANALYZE")):
        plan = ["DROP TABLE files", harmless, "SELECT * FROM files"]
        said = world.fails(payloads.witness(f"JOB-{number}", plan))
        assert agrees("INC-143", said.state)
        assert said.statements_run == 2, harmless
    two = world.fails(payloads.witness("JOB-two", ["DROP TABLE files", "SELECT 1; SELECT 2"]))
    assert two.signal == "forbidden-statement", "two statements in a string are refused, never split"
    assert world.file("README") == "as it was"
