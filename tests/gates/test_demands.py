"""What a target asks of a plan beyond its proof, and what is looked at before any ledger: less is refused."""

import pytest
from tests.support.world import MODES, QUICK, World, plan_bytes, query, witness_bytes

from endmark.apply_gate import Delivery, Options, look
from endmark.core import mc1
from endmark.core.evidence import Level
from endmark.core.refusal import Refused, Signal

ONE = ["CREATE TABLE a\n(x)", "INSERT INTO a VALUES (1)"]


@pytest.fixture(params=MODES)
def world(request, tmp_path):
    return World(tmp_path, request.param)


def rows(world):
    return query(world.path, "SELECT count(*) FROM a")[0][0]


KINDS = {
    "bare": (plan_bytes("j1", ONE), Level.BARE),
    "witness": (witness_bytes("j1", ONE), Level.WITNESS),
    "sealed": (mc1.seal(plan_bytes("j1", ONE)), Level.SEALED),
}


@pytest.mark.parametrize("demanded", list(Level))
@pytest.mark.parametrize(("raw", "level"), KINDS.values(), ids=KINDS)
def test_weaker_evidence_than_the_target_demands_is_incomplete(tmp_path, raw, level, demanded):
    world = World(tmp_path, "rollback")
    before = world.files()
    outcome = world.deliver(raw, seal=True, options=Options(min_evidence=demanded))
    if level >= demanded:
        assert (outcome.state, rows(world)) == ("applied", 1)
    else:
        assert (outcome.state, outcome.signal, outcome.exit_code) == ("incomplete", "weak-evidence", 13)
        assert f"demands the evidence {demanded.word}, the plan is {level.word}" in outcome.detail
        assert world.files() == before


@pytest.mark.parametrize("most", [1, 2, 3])
def test_more_statements_than_the_target_takes_are_refused(world, most):
    outcome = world.apply("j1", ONE, options=Options(max_statements=most))
    if most >= 2:
        assert outcome.state == "applied"
    else:
        assert (outcome.state, outcome.signal) == ("rejected", "wrong-count")
        assert world.receipts() == {}


@pytest.mark.parametrize(
    "asks", [Options(min_evidence=Level.SEALED), Options(max_statements=1)], ids=["level", "count"]
)
def test_a_whole_plan_that_asks_too_much_of_its_target_has_spent_its_id(world, asks):
    first = world.apply("j1", ONE, options=asks)
    again = world.apply("j1", ONE)
    assert (again.state, again.attempt_id) == (first.state, first.attempt_id)
    assert again.detail.startswith("Delivered before, nothing was done now.")
    other = world.apply("j1", ["CREATE TABLE other (x)"])
    assert (other.state, other.signal) == ("rejected", "id-reused")
    assert world.receipts() == {}


def test_what_was_looked_at_and_is_no_plan_is_recorded_as_refused(world):
    delivery = Delivery(raw=plan_bytes("j1", ONE)[:-1])
    with world.gate() as gate:
        outcome, is_new = gate.admit(look(delivery, world.target.identity, QUICK))
    assert (outcome.state, outcome.exit_code, is_new) == ("truncated", 10, False)
    assert [entry.state for entry in world.entries()] == ["truncated"]


def test_what_cannot_be_looked_at_is_the_callers_mistake(world):
    whole = plan_bytes("j1", ONE)
    with pytest.raises(TypeError, match="bytes were expected, not str"):
        look(Delivery(raw=whole.decode()), None, QUICK)
    with pytest.raises(ValueError, match="the job id given outside"):
        look(Delivery(raw=whole, job_id="j 1"), None, QUICK)
    assert world.entries() == []


def test_a_capture_that_was_not_sealed_is_refused_whatever_its_bytes_are(world):
    refused = Refused(Signal.NO_TERMINAL, 5, None, "the stream ended")
    found = look(Delivery(raw=plan_bytes("j1", ONE), refused=refused), None, QUICK)
    assert (found.refused, found.plan, found.new) == (refused, None, None)


def test_an_applied_job_stays_that_for_a_target_that_asks_more_by_now(world):
    first = world.apply("j1", ONE)
    outcome = world.apply("j1", ONE, options=Options(max_statements=1))
    assert (outcome.state, outcome.attempt_id) == ("applied", first.attempt_id)
    assert outcome.detail.startswith("Delivered before, nothing was done now.")


def test_only_a_plan_is_applied(world):
    before = world.files()
    for raw in (mc1.seal(b'{"any":"body"}'), b"", b"{}", b"MC1 5", b"null"):
        assert world.deliver(raw).state in {"rejected", "truncated"}
    assert world.files() == before
    assert len(world.entries()) == 5
