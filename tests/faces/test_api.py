"""`import endmark`: the same things for programs."""

import subprocess
import sys

import pytest
from tests.faces.shell import HERE, SLOW, STATEMENTS
from tests.support.world import dump, make_database, plan_bytes, witness_bytes

import endmark
from endmark.apply_gate import Options
from endmark.core.evidence import Level
from endmark.core.plan import Plan
from endmark.faces import targets

PLAN = plan_bytes("job-1", STATEMENTS, down=["DROP TABLE invoices", "DELETE FROM invoices"])


@pytest.fixture
def gate(shell):
    with endmark.Gate("ledger.db") as gate:
        yield gate


def test_every_name_is_there():
    assert [name for name in endmark.__all__ if getattr(endmark, name) is None] == []
    with pytest.raises(AttributeError, match="no attribute 'conjure'"):
        _ = endmark.conjure


def test_the_import_costs_nothing():
    script = "import sys; before = set(sys.modules); import endmark; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {name.partition(".")[0] for name in done.stdout.split()} & {"msgspec", "click", "json", "sqlite3"} == set()
    assert [name for name in done.stdout.split() if name.startswith("endmark")] == ["endmark"]


def test_the_command_line_loads_fast_and_hides_no_module_from_others():
    script = (
        "import sys\nfrom endmark.faces import start\nstart._load_fast()\nassert 'msgspec' in sys.modules\n"
        "assert 'typing_extensions' not in sys.modules\nimport gc, typing_extensions\nassert gc.isenabled()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_check_and_seal():
    proven = endmark.check(endmark.seal(PLAN))
    assert isinstance(proven.value, Plan)
    assert (proven.level, proven.received_bytes) == (Level.SEALED, len(endmark.seal(PLAN)))
    for raw in (PLAN[:-1], b"", b"MC1 "):
        with pytest.raises(endmark.Refused) as caught:
            endmark.check(raw)
        assert caught.value.received_bytes == len(raw)
    with pytest.raises(endmark.Refused, match="over the cap"):
        endmark.check(PLAN, cap=10)


def test_submit_then_apply(shell, gate):
    job = gate.submit(PLAN)
    assert (job.state, job.is_new, job.plan.statements) == ("staged", True, list(STATEMENTS))
    before = shell.dump()
    outcome = job.apply(HERE)
    assert (outcome.state, outcome.exit_code, job.outcome) == ("applied", 0, outcome)
    assert shell.dump() != before
    again = gate.submit(PLAN)
    assert (again.state, again.is_new) == ("applied", False)
    assert gate.job("job-1").outcome.attempt_id == outcome.attempt_id


def test_apply_at_once(shell, gate):
    outcome = gate.apply(witness_bytes("job-1", STATEMENTS), HERE, seal=True, submitter="ann", approver="ann")
    assert (outcome.state, outcome.statements_run) == ("applied", 2)
    assert {"witness", "sealed-here", "self-approved"} <= set(outcome.evidence)


def test_a_refusal_carries_its_record(gate):
    for call in (lambda raw: gate.submit(raw), lambda raw: gate.apply(raw, HERE)):
        with pytest.raises(endmark.Refused) as caught:
            call(PLAN[:40])
        outcome = caught.value.outcome
        assert isinstance(outcome, endmark.Outcome)
        assert (outcome.state, outcome.received_bytes) == ("truncated", 40)
        assert gate.job(outcome.attempt_id).state == "truncated"


def test_sql_that_fails_is_no_exception(shell, gate):
    before = shell.dump()
    outcome = gate.submit(plan_bytes("bad", ["CREATE TABLE users (x)"])).apply(HERE)
    assert (outcome.state, outcome.exit_code) == ("failed", 1)
    assert shell.dump() == before


def test_decline(gate):
    job = gate.submit(PLAN, target=HERE)
    assert job.decline(approver="ann", reason="no").state == "declined"
    assert job.apply(HERE).state == "declined"


def test_revert(shell, gate):
    before = [line for line in shell.dump() if "invoices" in line]
    gate.apply(PLAN, HERE)
    undo = gate.revert("job-1", HERE)
    assert (undo.state, undo.outcome.job_id) == ("staged", "job-1.revert")
    assert undo.apply(HERE).state == "applied"
    assert [line for line in shell.dump() if "invoices" in line] == before
    with pytest.raises(endmark.Refused, match="only an applied job"):
        gate.revert("nobody", HERE)


def test_a_job_belongs_to_its_target(shell, gate):
    make_database(shell.folder / "two.db")
    job = gate.submit(PLAN, target=HERE)
    with pytest.raises(endmark.Refused, match="another target"):
        job.apply("sqlite:///two.db")
    assert gate.job("job-1").state == "staged"


def test_an_approval_binds_the_schema_that_was_shown(shell, gate):
    job = gate.submit(PLAN, target=HERE)
    before = shell.dump()
    with pytest.raises(endmark.CannotTry, match="approval is void"):
        job.apply(HERE, shown_fingerprint="0" * 64)
    assert (gate.job("job-1").state, shell.dump()) == ("staged", before)


def test_options_reach_the_gate(shell):
    options = Options(min_evidence=Level.SEALED, backups=shell.folder / "kept")
    with endmark.Gate("ledger.db", options=options) as gate:
        with pytest.raises(endmark.Refused, match="demands the evidence sealed"):
            gate.submit(PLAN)
        gate.apply(endmark.seal(plan_bytes("job-2", STATEMENTS)), HERE)
    assert len(list((shell.folder / "kept").iterdir())) == 1


def test_what_cannot_be_tried(shell, gate):
    for target in ("sqlite:///gone.db", "postgres://h/d", "app.db", "sqlite:///app.db?mode=ro", "sqlite:///ledger.db"):
        with pytest.raises(endmark.CannotTry):
            gate.submit(PLAN).apply(target)
    with pytest.raises(endmark.CannotTry, match="there is no job"):
        gate.job("nobody")
    assert gate.job("job-1").state == "staged"


def test_a_ledger_that_is_not_to_be_made(shell):
    with pytest.raises(endmark.CannotTry):
        endmark.Gate("none.db", create=False)
    with pytest.raises(endmark.CannotTry, match="not a ledger"):
        endmark.Gate("mysql://h/d")
    assert not (shell.folder / "none.db").exists()


def test_urls_keep_passwords_to_themselves():
    with pytest.raises(endmark.CannotTry) as caught:
        targets.target_at("oracle://u:secret@h/d")
    assert "secret" not in caught.value.detail


def test_opening_settles_what_a_crash_left(shell):
    before = dump(shell.app)
    with shell.start("apply", shell.plan("lost", (SLOW,)), "--to", HERE, "--yes") as process:
        shell.wait_until_applying("lost")
        process.kill()
        process.communicate()
    with endmark.Gate("ledger.db") as gate:
        assert gate.reconciled is not None
        assert [outcome.job_id for outcome in gate.reconciled.settled] == ["lost"]
        assert gate.job("lost").state == "failed"
    with endmark.Gate("ledger.db", reconcile=False) as gate:
        assert gate.reconciled is None
    assert dump(shell.app) == before
