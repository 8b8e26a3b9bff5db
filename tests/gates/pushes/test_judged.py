"""Pushes as git hands them to the hook, judged in this process: what one check alone refuses, and what it lets by."""

import os

import pytest
from tests.effects.git.repos import git
from tests.gates.pushes.test_refused import REFUSED
from tests.gates.pushes.world import POLICY

from endmark import push_gate
from endmark.core import policy as policies
from endmark.core.refusal import Refused
from endmark.effects.git import Gate, Git, hooks, open_repository
from endmark.faces import guard
from endmark.steps.recorded_step import Step

RECEIVE, TRANSACTION = hooks.KINDS
NONE = "0" * 40


def judged(world, new, ref="refs/heads/main", kind=RECEIVE):
    """What whoever moves `ref` to the commit `new` is told; nothing if it is let through. The client's objects are
    where git puts those of a push."""
    objects = {"GIT_QUARANTINE_PATH": str(world.client / ".git/objects")} if kind == RECEIVE else {}
    environ = {"PATH": os.environ["PATH"], "GIT_DIR": str(world.server), **objects}
    return "\n".join(guard.run(kind, "prepared", f"{NONE} {new} {ref}\n".encode(), environ))


def stands(world, branch, what):
    """Put what the client calls `what` on the server, past the hooks."""
    git(world.server, "fetch", "-q", world.client, f"+{what}:refs/heads/{branch}")


@pytest.mark.parametrize("case", REFUSED)
def test_pushed_onto_main(shared, case):
    make, reason = REFUSED[case]
    assert reason in judged(shared, make(shared))


@pytest.mark.parametrize("name", ["Main", "ma\u200bin", "\uff4dain"])
def test_names_that_can_be_taken_for_main(shared, name):
    assert "can be taken for main" in judged(shared, shared.oid("start"), f"refs/heads/{name}")


def test_recorded_merges_up_to_the_most(shared, monkeypatch):
    assert judged(shared, shared.oid("merged")) == ""
    monkeypatch.setattr(push_gate, "_MOST_STEPS", 2)
    assert judged(shared, shared.oid("twice")) == ""
    monkeypatch.setattr(push_gate, "_MOST_STEPS", 1)
    assert "more than 1 commits at once" in judged(shared, shared.oid("twice"))


def test_back_to_where_it_was(plain):
    stands(plain, "main", "merged")
    plain.guard()
    assert "does not come after" in judged(plain, plain.oid("main"))


def test_a_commit_that_is_not_there(shared):
    assert "rev-list" in judged(shared, "12" * 20)


def test_a_default_branch_with_a_broken_policy(plain):
    """It stops every branch that moves; no tag, and no branch that stays."""
    stands(plain, "main", "policy-broken")
    plain.guard()
    broken = plain.oid("policy-broken")
    for new, ref in ((plain.oid("topic"), "topic"), (plain.oid("topic"), "main"), (NONE, "main")):
        assert f"endmark.toml in {broken[:12]}" in judged(plain, new, f"refs/heads/{ref}")
    assert judged(plain, plain.oid("topic"), "refs/tags/free") == ""
    assert judged(plain, broken, "refs/heads/main") == ""


def test_a_branch_with_a_broken_policy_of_its_own(plain):
    """May be mended where the default branch has a policy, which does not name it; else nobody says that it is free."""
    stands(plain, "topic", "policy-broken")
    plain.guard()
    assert judged(plain, plain.oid("topic"), "refs/heads/topic") == ""
    git(plain.server, "symbolic-ref", "HEAD", "refs/heads/unborn")
    assert "endmark.toml in" in judged(plain, plain.oid("topic"), "refs/heads/topic")


def test_a_branch_is_guarded_by_its_own_policy_where_there_is_no_other(plain):
    stands(plain, "topic", "topic")
    git(plain.server, "symbolic-ref", "HEAD", "refs/heads/unborn")
    plain.guard()
    assert "parents: 1" in judged(plain, plain.oid("topic"))
    assert judged(plain, plain.oid("second"), "refs/heads/topic") == ""  # its policy names main alone


def test_an_unguarded_default_branch(plain):
    stands(plain, "main", "policy-gone")
    plain.guard()
    assert judged(plain, plain.oid("topic")) == ""
    assert "would leave a broken policy" in judged(plain, plain.oid("policy-broken"))
    assert judged(plain, plain.oid("policy-broken"), "refs/heads/topic") == ""


def test_the_default_branchs_policy_guards_what_is_not_there(plain):
    both = POLICY + POLICY.replace(b"branches.main", b"branches.release").partition(b"[rev")[0]
    (plain.client / "endmark.toml").write_bytes(both)
    git(plain.client, "commit", "-q", "-a", "-m", "both")
    stands(plain, "main", "HEAD")
    plain.guard()
    assert "not made by a push" in judged(plain, plain.oid("topic"), "refs/heads/release")
    assert judged(plain, plain.oid("topic"), "refs/heads/topic") == ""


def test_another_name_of_a_branch_that_is_not_there(plain):
    """A push is judged by what the name leads to; in a transaction git names that on a line of its own."""
    plain.guard(policy=POLICY.replace(b"branches.main", b"branches.release"))
    git(plain.server, "fetch", "-q", plain.client, "topic:refs/x/topic")
    git(plain.server, "symbolic-ref", "refs/heads/alias", "refs/heads/release")
    assert "not made by a push" in judged(plain, plain.oid("topic"), "refs/heads/alias")
    assert judged(plain, plain.oid("topic"), "refs/heads/alias", TRANSACTION) == ""
    assert "not made by a push" in judged(plain, plain.oid("topic"), "refs/heads/release", TRANSACTION)


# --- one step, by a policy on the server


def recorded_by(plain, rules):
    """A merge with the record of the reviewer of POLICY, by the policy `rules`, which guards the server."""
    plain.guard(policy=rules)
    by = plain.folder / "by.toml"
    by.write_bytes(rules)
    message = plain.message(plain.oid("main"), plain.oid("topic"), policy_sha256=policies.read(rules, "").sha256)
    return plain.merge(plain.oid("main"), plain.oid("topic"), message=message)


def test_a_record_without_the_pass_of_everybody(plain):
    style = POLICY[POLICY.index(b"[reviewers.tests]") :].replace(b"reviewers.tests", b"reviewers.style")
    tip = recorded_by(plain, POLICY.replace(b'["tests"]', b'["tests", "style"]') + style)
    assert "the record has no pass of style" in judged(plain, tip)


def test_shared_capacity_alone_opens_nothing(plain):
    assert "shared capacity alone" in judged(plain, recorded_by(plain, POLICY.replace(b'"dedicated"', b'"shared"')))


@pytest.mark.parametrize(("base", "parents"), [("topic", ()), ("main", ("main", "topic", "second"))])
def test_a_step_is_a_merge_of_two_into_where_the_branch_stood(shared, base, parents):
    """Whatever git's list of the way said: a shallow one hides parents."""
    tip = shared.oid("merged")
    if parents:
        main, topic = shared.oid("main"), shared.oid("topic")
        tip = shared.merge(main, topic, parents=[shared.oid(name) for name in parents])
    with Gate(open_repository(Git(os.environ), shared.client)) as gate:
        step = Step(gate, "refs/heads/main", shared.oid(base), tip, None)
        with pytest.raises(Refused, match="is no merge into"):
            step.check(lambda: lambda *_: True)
