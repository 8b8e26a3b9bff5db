"""The whole apply gate, drilled on a copy of a database: nothing broken applies, and the copy is looked at."""

from types import SimpleNamespace

import pytest
from tests.core import payloads
from tests.drills.sweeping import counts, drill, holes
from tests.support.faults import unflushed
from tests.support.world import dump, files, make_database

from endmark.core import mc1
from endmark.core.refusal import CannotTry
from endmark.drills.targets import applied
from endmark.drills.targets.applied import ApplyTarget
from endmark.drills.targets.inprocess import GateTarget

RAW = mc1.seal(payloads.dump(payloads.document(["CREATE TABLE made (x)", "INSERT INTO made VALUES (1)"])))


@pytest.fixture(autouse=True)
def _unflushed():
    with unflushed():
        yield


@pytest.fixture(params=["rollback", "wal"])
def database(request, tmp_path):
    path = tmp_path / "app.db"
    make_database(path, request.param)
    return path


def test_no_fault_applies_and_the_database_itself_is_only_read(database):
    before = files(database)
    swept = drill(ApplyTarget(path=str(database)), RAW, "tokens,keys,sentinel", batch=512)
    assert (swept.control, holes(swept), swept.exit_code) == ("accepted", [], 0)
    assert set(counts(swept)) == {"REFUSED"}
    assert swept.tried > 50
    assert files(database)["app.db"] == before["app.db"]


def test_a_known_job_hides_no_hole(database):
    """Of a bare plan the ids may change unseen: with a ledger the same faults are holes as without one."""
    raw = payloads.dump(payloads.document(["CREATE TABLE made (x)"]))
    at = raw.index(b"job_1") + 4
    for fault in (f"flip:{at}.0", f"flip:{at}.1", f"flip:{at}.7"):
        found = [
            drill(target, raw, only=fault) for target in (ApplyTarget(path=str(database)), GateTarget(gate="plan"))
        ]
        assert [swept.control for swept in found] == ["accepted"] * 2
        assert counts(found[0]) == counts(found[1]) == {"REFUSED" if fault.endswith("7") else "ACCEPTED": 1}, fault
    assert "made" not in "".join(dump(database))


class Writes:
    """A gate that refuses and writes."""

    def __init__(self, ledger, clock):
        pass

    def apply(self, delivery, target, options, approver):
        if delivery.raw == RAW:
            return SimpleNamespace(state="applied")
        with target.path.open("ab") as stream:
            stream.write(b"x")
        raise CannotTry("no")


def test_a_refusal_that_wrote_is_a_hole(database, monkeypatch):
    monkeypatch.setattr(applied, "ApplyGate", Writes)
    swept = drill(ApplyTarget(path=str(database)), RAW, only="cut:20")
    assert counts(swept) == {"EFFECT": 1}
    assert swept.exit_code == 1


def test_what_cannot_be_copied_is_not_drilled(tmp_path):
    with pytest.raises(CannotTry, match="cannot be copied"):
        ApplyTarget(path=str(tmp_path / "none.db")).open(0)
    assert list(tmp_path.iterdir()) == []
