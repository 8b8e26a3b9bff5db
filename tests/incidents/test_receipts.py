"""What is recorded as applied is applied: no record without its effect, no effect that the next look misses."""

import contextlib
import shlex
import shutil
import sqlite3
import subprocess

import pytest
from tests.incidents import payloads
from tests.incidents.rows import agrees
from tests.incidents.world import deliver, deliver_command, environment, settle_all

from endmark.core.states import State
from endmark.faces.api import Gate

VIEW = "CREATE VIEW open_runs AS SELECT what FROM runs"

FAULTS = {
    "no such table": "INSERT INTO missing VALUES (1)",
    "constraint": payloads.write_file("README", "again"),
    "syntax": "CREATE TABEL t (x)",
    "commit": "COMMIT",
    "hidden commit": "/* all fine */ COMMIT",
    "end": "END",
    "rollback": "ROLLBACK",
    "two in one": "INSERT INTO runs VALUES ('1'); COMMIT",
    "writes the receipt": "INSERT INTO schema_jobs VALUES ('JOB', 3, 'x', 'applied')",
    "overwrites the receipt": "UPDATE schema_jobs SET status = 'applied'",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_inc_131_no_statement_fails_and_is_recorded_all_the_same(world, fault):
    good = ["CREATE TABLE one (x)", "CREATE TABLE two (x)", "INSERT INTO runs VALUES ('three')"]
    for at in range(3):
        statements = [*good[:at], FAULTS[fault], *good[at + 1 :]]
        said = world.fails(payloads.witness(f"JOB-{at}", statements))
        assert agrees("INC-131", said.state)
        assert said.statements_run == at
        assert f"tatement {at + 1}" in said.detail
        entry = world.gate.ledger.by_job(f"JOB-{at}")
        assert entry is not None
        assert entry.state is State.FAILED
    assert not {"schema_jobs", "one", "two"} & world.tables()


def test_inc_132_a_job_after_one_whose_receipt_is_gone_does_not_run(world):
    """The book says applied; the target was put back from an older copy and knows nothing of it."""
    older = world.folder / "older.db"
    shutil.copy(world.path, older)
    assert world.apply(payloads.witness("view", [VIEW])).state == "applied"
    shutil.copy(older, world.path)
    said = world.fails(payloads.witness("next", ["INSERT INTO runs VALUES ('x')"], after=["view"]))
    assert agrees("INC-132", said.state)
    assert said.signal == "check-failed"
    assert "no receipt" in said.detail


def test_inc_132_the_book_takes_no_word_for_it(world):
    """A failed job cannot be marked as applied, by hand or by another program; a forced mark is found."""
    world.fails(payloads.witness("view", [VIEW.replace("runs", "runs, missing"), "SELECT * FROM open_runs"]))
    mark = "UPDATE attempts SET state = 'applied', signal = 'complete'"
    with contextlib.closing(sqlite3.connect(world.ledger_path, isolation_level=None)) as conn:
        with pytest.raises(sqlite3.IntegrityError):
            conn.execute(mark)
        for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            conn.execute(f"DROP TRIGGER {name}")
        assert world.gate.ledger.verify().ok is False, "its rules are gone"
        conn.execute(mark)
    report = world.gate.ledger.verify()
    assert report.ok is False
    assert any("state" in problem or "applied" in problem for problem in report.problems), report.problems


def test_inc_132_an_intent_without_an_effect_is_settled_as_failed(world):
    """The row is there, `applying`, and the process is gone before its first statement."""
    assert deliver(world, payloads.witness("view", [VIEW]), "run") == -9
    (settled,) = settle_all(world)
    assert agrees("INC-132", settled.state)
    assert settled.signal == "lost"
    assert world.ask("SELECT name FROM sqlite_master WHERE type = 'view'") == []


def test_inc_133_effects_that_an_empty_book_does_not_know(world):
    """49 tables were made, then the book is lost. The receipts stand in the target: nothing is done a second time."""
    jobs = [payloads.bare(f"table-{n}", [f"CREATE TABLE t{n} (x)", "INSERT INTO runs VALUES ('t')"]) for n in range(49)]
    for raw in jobs[:48]:
        assert world.apply(raw).state == "applied"
    before = world.dump()
    with Gate(world.folder / "another-ledger.db") as gate:
        for raw in jobs[:48]:
            said = gate.submit(raw, target=world.url).apply(world.url)
            assert agrees("INC-133", said.state)
            assert (said.state, said.statements_run) == ("applied", 2)
            assert "receipt-found" in said.evidence
        assert world.dump() == before
        assert gate.submit(jobs[48], target=world.url).apply(world.url).state == "applied"
        assert len(gate.ledger.in_state(State.APPLIED)) == 49
    assert world.runs() == ["t"] * 49


def test_inc_133_a_receipt_of_another_body_stops_the_job(world):
    assert world.apply(payloads.bare("table", ["CREATE TABLE t (x)"])).state == "applied"
    world.close()
    world.ledger_path = world.folder / "another-ledger.db"
    world.gate = Gate(world.ledger_path)
    assert world.refuses(payloads.bare("table", ["CREATE TABLE u (x)"])).signal == "id-reused"
    assert world.refuses(payloads.bare("table", ["CREATE TABLE t (x)", "SELECT 1"])).signal == "id-reused"
    assert "u" not in world.tables()


def test_inc_133_objects_without_any_receipt(world):
    world.write("CREATE TABLE t48 (x)")
    said = world.fails(payloads.bare("table-48", ["CREATE TABLE t47 (x)", "CREATE TABLE t48 (x)"]))
    assert agrees("INC-133", said.state)
    assert "already exists" in said.detail


def test_inc_135_four_workers_that_failed_are_four_failures(world):
    """127 is a program that is not there; here each worker's statement calls a function that is not."""
    outcomes = [world.fails(payloads.witness(f"w-{n}", [f"SELECT exit_{n}(127)"])) for n in range(4)]
    assert {outcome.exit_code for outcome in outcomes} == {1}
    assert all(agrees("INC-135", outcome.state) for outcome in outcomes)
    assert [len(world.gate.ledger.in_state(state)) for state in (State.FAILED, State.APPLIED)] == [4, 0]
    assert deliver(world, payloads.witness("w-5", ["SELECT exit_5(127)"])) == 1, "and so says a process"


def test_inc_138_a_worker_lost_in_a_shell_pipe(world):
    """`sh` forgets the worker's status. The gate reads to the end, finds a part, says so and keeps it on record."""
    whole = payloads.witness("JOB", ["INSERT INTO runs VALUES ('piped')"])
    (world.folder / "payload").write_bytes(whole)
    payload = shlex.quote(str(world.folder / "payload"))
    gate = shlex.join(deliver_command(world))
    workers = {
        "false": 10,
        f"{{ head -c {len(whole) - 30} {payload}; exit 1; }}": 10,
        f"{{ cat {payload}; exit 1; }}": 0,  # the worker's failure came after the last byte: what arrived is whole
    }
    for worker, code in workers.items():
        before = world.runs()
        done = subprocess.run(["sh", "-c", f"{worker} | {gate}"], env=environment(), capture_output=True, timeout=60)
        assert done.returncode == code, done.stderr
        assert (world.runs() == before) == (code != 0)
    book = world.gate.ledger.page(10)
    assert [(entry.state, entry.received_bytes) for entry in reversed(book)] == [
        ("truncated", 0),
        ("truncated", len(whole) - 30),
        ("applied", len(whole)),
    ]
    assert agrees("INC-138", book[-1].state)
