"""The machine stops after any call of the gate: what stands is the old or the new, and the books agree with it."""

import pytest
from tests.reliability.crashing import VERBS, Scene, sweep, timed
from tests.support.world import MODES

EVERY = {"rows": 9, "first": 25, "fails": 16, "settles": 8, "settles again": 8}  # call, in the short run
EVERY_SOAK = {"spilled": 13}
# What must have been seen of each, or the sweep has not been where it matters.
SEEN = {
    "rows": {"applied", "failed", "not recorded"},
    "first": {"applied", "failed", "no ledger yet"},
    "fails": {"failed", "not recorded"},
    "settles": {"failed"},
    "settles again": {"applied"},
    "spilled": {"applied", "failed"},
}


def swept(folder, record, verb, mode, every):
    scene = Scene(folder, verb, mode)
    points, replays, found = sweep(scene, 0, every)
    record("crash points", points)
    record("of them different and replayed", replays)
    assert set(found) >= SEEN[verb]
    return points


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("verb", EVERY)
def test_a_crash_after_any_call_leaves_all_or_nothing(tmp_path, record_property, verb, mode):
    assert swept(tmp_path, record_property, verb, mode, EVERY[verb]) >= 20


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_crash_after_every_call_leaves_all_or_nothing(tmp_path, record_property, verb, mode):
    assert swept(tmp_path, record_property, verb, mode, EVERY_SOAK.get(verb, 1)) >= 150


# The removal of a journal is not sure before its folder is flushed, which FULL does not do.
@pytest.mark.parametrize(("mode", "synchronous"), [("rollback", "FULL"), ("wal", "OFF")])
def test_a_gate_that_flushes_less_is_caught(tmp_path, mode, synchronous):
    with pytest.raises(AssertionError, match=r"rows, point \d+ of \d+"):
        sweep(Scene(tmp_path, "rows", mode, synchronous), 0, 4)


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
def test_a_replay_costs_little_more_than_sqlite_alone(tmp_path, record_property, mode):
    ours, bare = timed(Scene(tmp_path, "rows", mode), 0)
    record_property(f"of_bare_{mode}", round(ours / bare, 2))
    assert ours / bare > 0.4
