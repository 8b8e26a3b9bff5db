"""Who said a verdict: only a reviewer's own key speaks for it."""

import pytest
from tests.gates.patches.world import command, policy, shown

from endmark.sources import keys


@pytest.fixture
def signers(tmp_path):
    """Private keys by their reviewers' names, and the ids of their keys."""
    made = {name: keys.new(tmp_path / f"{name}.key") for name in ("tests", "style", "stranger")}
    return {name: private for name, (private, _, _) in made.items()}, {name: found[2] for name, found in made.items()}


@pytest.fixture
def named(make_world, signers):
    """A branch with two reviewers, each with its key; every key but the stranger's is trusted."""
    privates, ids = signers
    world = make_world(policy({name: command(name, signed_by=ids[name]) for name in ("tests", "style")}))
    verify = keys.verifier([f"{privates[name]}.pub" for name in ("tests", "style")])

    def bring(reviewer, signer, **changes):
        raw = world.verdict(**changes)
        raw = raw if signer is None else keys.sign(raw, privates[signer])
        gate, place = world.at()
        with gate:
            return world.patches(gate, verify=verify).decide(gate, place, raw, "tester", reviewer=reviewer)

    return world, bring


@pytest.mark.parametrize("signer", [None, "style", "stranger"])
def test_another_ones_signature_is_refused(named, signer):
    world, bring = named
    before = world.tip()
    assert bring("style", "style").state == "pending"
    done = bring("tests", signer)
    assert (done.state, done.signal) == ("pending", "complete") or done.state == "incomplete"
    refused = [one for entry in world.decisions() for one in world.book.reviews(entry.decision_id)]
    assert [(one.state.value, one.signal.value) for one in refused if one.reviewer == "tests"] == [
        ("incomplete", "weak-evidence")
    ]
    assert world.merge().state != "merged"
    assert world.tip() == before


def test_each_ones_own_signature_counts(named, signers):
    world, bring = named
    assert bring("tests", "tests").state == "pending"
    done = bring("style", "style")
    assert shown(done) == ("pass", "complete", 0)
    for one in done.reviews:
        assert f"key:{signers[1][one.reviewer]}" in one.evidence
    assert world.merge().state == "merged"


def test_a_strangers_fail_fails_nothing(named):
    world, bring = named
    finding = {"severity": "blocking", "path": "app.py", "message": "no"}
    assert bring("tests", "style", verdict="fail", findings=[finding]).state != "fail"
    assert bring("tests", "tests").state == "pending"
    assert bring("style", "style").state == "pass"
    assert bring("tests", "tests", verdict="fail", findings=[finding]).state == "fail"  # its own does
    assert world.merge().state != "merged"


def test_a_command_that_signs_nothing_is_incomplete(named):
    world, _ = named
    for name in ("tests", "style"):
        world.says("pass", name=name)
    assert shown(world.review())[:2] == ("incomplete", "weak-evidence")
    assert world.merge().state != "merged"
