"""What the world can do to a gate: files beside each other, replaced, or locked at the worst moment."""

import hashlib
import json
import os
import sqlite3
from contextlib import closing

import pytest

from endmark.apply_gate import Options
from endmark.core.evidence import Level
from endmark.core.refusal import CannotTry, Refused
from endmark.faces.api import Gate
from endmark.faces.targets import target_at

ONE = ["CREATE TABLE made (x)"]


def bare(job_id, statements, **more):
    digest = hashlib.sha256("\n".join(statements).encode()).hexdigest()
    document = {"tool": "apply_schema", "job_id": job_id, "stmt_count": len(statements), "sha256": digest}
    return json.dumps({**document, "statements": statements, **more, "trailer": "END_APPLY"}).encode()


def undoable(job_id):
    down = ["DROP TABLE made"]
    return bare(job_id, ONE, down=down, down_sha256=hashlib.sha256(down[0].encode()).hexdigest())


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("CREATE TABLE settled (x)")
        conn.commit()
    return path


@pytest.fixture
def gate(tmp_path):
    with Gate(tmp_path / "ledger.db") as gate:
        yield gate


def dump(path):
    with closing(sqlite3.connect(path)) as conn:
        return list(conn.iterdump())


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_a_target_beside_the_ledger_is_refused(gate, tmp_path, suffix):
    (tmp_path / f"ledger.db{suffix}").touch()
    with pytest.raises(CannotTry, match="keep them apart"):
        gate.apply(bare("j", ONE), f"sqlite:///{tmp_path}/ledger.db{suffix}")
    assert gate.ledger.verify().ok


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_a_ledger_beside_the_target_is_refused(database, suffix):
    with Gate(database.with_name(database.name + suffix)) as gate, pytest.raises(CannotTry, match="keep them apart"):
        gate.apply(bare("j", ONE), f"sqlite:///{database}")
    assert not any("made" in line for line in dump(database))


def test_a_target_beside_another_database_is_refused(gate, database):
    beside = database.with_name("app.db-wal")
    beside.touch()
    with pytest.raises(CannotTry, match="belongs to the database beside it"):
        gate.apply(bare("j", ONE), f"sqlite:///{beside}")
    assert beside.read_bytes() == b""


def test_a_target_with_two_names_is_refused(gate, database):
    os.link(database, database.with_name("other.db"))
    with pytest.raises(CannotTry, match="2 names"):
        gate.apply(bare("j", ONE), f"sqlite:///{database.with_name('other.db')}")


def test_one_sql_function_that_outlasts_its_time_fails(gate, database):
    gate.options = Options(statement_timeout=0.05)
    before = dump(database)
    slow = "SELECT instr(printf('%.*c', 200000, 'a') || 'c', printf('%.*c', 60000, 'a') || 'b')"
    outcome = gate.apply(bare("j", [*ONE, slow]), f"sqlite:///{database}")
    assert (outcome.state, outcome.signal) == ("failed", "statement-timeout")
    assert dump(database) == before


def test_one_value_cannot_take_all_memory(gate, database):
    outcome = gate.apply(bare("j", ["SELECT hex(zeroblob(120000000))"]), f"sqlite:///{database}")
    assert (outcome.state, outcome.signal) == ("failed", "sql-error")


def test_a_target_that_was_replaced_is_not_committed_to(tmp_path, database):
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as conn:
        conn.execute("CREATE TABLE theirs (x)")
        conn.commit()

    def replace(_done, _total):
        os.replace(other, database)

    with Gate(tmp_path / "ledger.db", progress=replace) as gate:
        outcome = gate.apply(bare("j", ONE), f"sqlite:///{database}")
    assert (outcome.state, outcome.signal, outcome.exit_code) == ("failed", "target-fault", 20)
    assert not any("made" in line for line in dump(database))


def test_a_ledger_locked_after_the_commit_is_no_lie(tmp_path, database):
    with Gate(tmp_path / "ledger.db") as gate, closing(sqlite3.connect(tmp_path / "ledger.db")) as other:
        gate.ledger.store.connection.execute("PRAGMA busy_timeout = 0")
        target = target_at(f"sqlite:///{database}")
        opened = target.open

        def locking():
            if any("made" in line for line in dump(database)):  # the commit is through
                other.execute("BEGIN IMMEDIATE")
            return opened()

        target.open = locking  # type: ignore[method-assign]
        outcome = gate.apply(bare("j", ONE), target)
        assert (outcome.state, outcome.exit_code, outcome.job_id) == ("applying", 20, "j")
        assert "the receipt stands, but the ledger could not be told" in outcome.detail
        other.rollback()
        (settled,) = gate.reconcile().settled
        assert settled.state == "applied"


def test_a_job_staged_under_laxer_rules_is_judged_again(gate, database):
    job = gate.submit(bare("j", ONE))
    for options in (Options(min_evidence=Level.SEALED), Options(max_statements=0)):
        gate.options = options
        with pytest.raises(CannotTry, match="Nothing was written"):
            job.apply(f"sqlite:///{database}")
    assert gate.job("j").state == "staged"


def test_a_reverted_job_is_not_called_applied(gate, tmp_path, database):
    url = f"sqlite:///{database}"
    assert gate.apply(undoable("j"), url).exit_code == 0
    assert gate.revert("j", url).apply(url).state == "applied"
    again = gate.apply(undoable("j"), url)
    assert (again.exit_code, "reverted since by j.revert" in again.detail) == (1, True)
    assert gate.job("j").outcome.exit_code == 1
    with Gate(tmp_path / "new.db") as other:  # the first ledger is lost
        found = other.apply(undoable("j"), url)
    assert (found.exit_code, "reverted since" in found.detail) == (1, True)
    assert not any("made" in line for line in dump(database))


def test_a_revert_that_ended_without_effect_can_be_had_again(gate, database):
    url = f"sqlite:///{database}"
    gate.apply(undoable("j"), url)
    gate.revert("j", url).decline()
    second = gate.revert("j", url)
    assert second.outcome.job_id == "j.revert.2"
    assert second.apply(url).state == "applied"
    assert gate.revert("j", url).outcome.job_id == "j.revert.2", "once it has had its effect it stays"


@pytest.mark.parametrize("job_id", ["j.revert", "j.revert.7"])
def test_the_names_of_reverts_are_the_gates_own(gate, job_id):
    with pytest.raises(Refused, match="bad-id"):
        gate.submit(bare(job_id, ONE))


def test_a_garbled_delivery_cannot_take_a_reverts_name(gate, database):
    url = f"sqlite:///{database}"
    gate.apply(undoable("j"), url)
    with pytest.raises(Refused):
        gate.submit(b'{"', job_id="j.revert")
    assert gate.revert("j", url).apply(url).state == "applied"


@pytest.mark.parametrize(
    "url", ["postgresql://h/db?user=u&password=hunter2", "sqlite://u:hunter2@/x", "host=db password=hunter2"]
)
def test_no_password_is_repeated(gate, url):
    with pytest.raises(CannotTry) as caught:
        gate.apply(bare("j", ONE), url)
    assert "hunter2" not in caught.value.detail


def test_a_folder_with_a_hash_sign(gate, tmp_path):
    folder = tmp_path / "c#"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "app.db")):
        (folder / "app.db").touch()
    job = gate.submit(bare("j", ONE), target=f"sqlite:///{folder}/app.db")
    assert job.apply(job.outcome.target).state == "applied"
