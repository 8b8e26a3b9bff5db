"""Real pushes that no record allows: refused with a reason, and nothing in the repository is other than before."""

import pytest
from tests.effects.git.repos import git
from tests.gates.pushes.world import POLICY, said

from endmark.core import merge_message


def _unrecorded(world):
    return world.merge(world.oid("main"), world.oid("topic"), message=b"Merge topic\n")


def _another_key(world):
    return world.merge(world.oid("main"), world.oid("topic"), key=world.other_key)


def _another_change(world):
    """The record of one change on the merge of another."""
    message = world.message(world.oid("main"), world.oid("topic"))
    return world.merge(world.oid("main"), world.oid("second"), message=message)


def _another_base(world):
    """Recorded for the branch as it was, merged into it as a stranger would like it to be."""
    base = world.merge(world.oid("main"), world.oid("second"), message=b"not reviewed\n")
    message = world.message(world.oid("main"), world.oid("topic"))
    return world.merge(base, world.oid("topic"), message=message)


def _another_ref(world):
    return world.merge(world.oid("main"), world.oid("topic"), ref="refs/heads/other")


def _another_policy(world):
    return world.merge(world.oid("main"), world.oid("topic"), policy_sha256="cd" * 32)


def _another_policy_version(world):
    return world.merge(world.oid("main"), world.oid("topic"), policy_version="gate-2026-08")


def _amended(world):
    """The recorded merge, with a file more."""
    return world.merge(world.oid("main"), world.oid("topic"), tree=world.tree("twice"))


def _three_parents(world):
    base, head = world.oid("main"), world.oid("topic")
    return world.merge(base, head, parents=(base, head, world.oid("second")))


def _swapped(world):
    base, head = world.oid("main"), world.oid("topic")
    return world.merge(base, head, parents=(head, base))


def _with_a_commit_on_top(world):
    return world.commit(world.oid("merged"), tree=world.tree("merged"))


def _with_a_commit_below(world):
    below = world.commit(world.oid("main"), tree=world.tree("main"))
    return world.merge(below, world.oid("topic"))


def _moved_onto_a_plain_commit(world):
    message = world.message(world.oid("main"), world.oid("topic"))
    return world.commit(world.oid("main"), message=message, tree=world.tree("topic"))


def _orphan(world):
    return world.commit(tree=world.tree("merged"), message=world.message(world.oid("main"), world.oid("topic")))


def _record_cut(world):
    message = world.message(world.oid("main"), world.oid("topic"))
    return world.merge(world.oid("main"), world.oid("topic"), message=message[:-60])


def _two_records(world):
    base, head = world.oid("main"), world.oid("topic")
    message = world.message(base, head)
    return world.merge(base, head, message=message + message[message.index(merge_message.BEGIN) :])


def _edited_policy(world):
    return world.merge(world.oid("main"), world.oid("policy-edit"))


def _broken_policy(world):
    return world.merge(world.oid("main"), world.oid("policy-broken"), evidence=("approved-by:Ada",))


REFUSED = {
    "an unrecorded merge": (_unrecorded, "holds no record"),
    "a record of another key": (_another_key, "no trusted key"),
    "a record of another change": (_another_change, "of another change"),
    "an unreviewed base": (_another_base, "holds no record"),
    "a record for another branch": (_another_ref, "of another change"),
    "a record by another policy": (_another_policy, "another policy"),
    "a record by another version": (_another_policy_version, "gate-2026-08"),
    "an amended merge": (_amended, "not the"),
    "three parents": (_three_parents, "parents: 3"),
    "parents the wrong way round": (_swapped, "parents: 1"),
    "a commit on top": (_with_a_commit_on_top, "parents: 1"),
    "a commit below": (_with_a_commit_below, "parents: 1"),
    "a record moved to a plain commit": (_moved_onto_a_plain_commit, "parents: 1"),
    "an orphan with the right tree": (_orphan, "parents: 0"),
    "a record cut short": (_record_cut, "does not end where the message does"),
    "two records": (_two_records, "more than one record"),
    "a policy edited by the head": (_edited_policy, "names no person"),
    "a policy broken by the head": (_broken_policy, "broken policy"),
    "a feature branch": (lambda world: world.oid("topic"), "parents: 1"),
    "the branch as it was before": (lambda world: world.commit(tree=world.tree("main")), "parents: 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_pushed_onto_main(shared, case):
    make, reason = REFUSED[case]
    tip = make(shared)
    before = shared.refs(), shared.objects()
    done = shared.push(f"+{tip}:refs/heads/main")
    assert done.returncode != 0
    assert "refs/heads/main stays where it is" in said(done)
    assert reason in said(done)
    assert (shared.refs(), shared.objects()) == before


WHOLE = {
    "deleted": ([":refs/heads/main"], "is not deleted"),
    "renamed": ([":refs/heads/main", "refs/heads/start:refs/heads/old"], "is not deleted"),
    "forced back and forth": (["+topic:refs/heads/main"], "parents: 1"),
    "a good one with a bad one": (
        ["merged:refs/heads/main", "topic:refs/heads/topic", "start:refs/heads/endmark-canary-1"],
        "of this kind",
    ),
    "in a letter's other case": (["start:refs/heads/Main"], "can be taken for main"),
    "with a letter that nobody sees": (["start:refs/heads/ma\u200bin"], "can be taken for main"),
    "in letters of full width": (["start:refs/heads/\uff4dain"], "can be taken for main"),
}


@pytest.mark.parametrize("case", WHOLE)
def test_all_or_nothing(shared, case):
    what, reason = WHOLE[case]
    before = shared.refs(), shared.objects()
    done = shared.push(*what, options=("--atomic",) if len(what) > 1 else ())
    assert done.returncode != 0
    assert reason in said(done)
    assert (shared.refs(), shared.objects()) == before


def test_a_mirror(world):
    """Everything of a clone, and nothing else, has to stand here afterwards."""
    world.branch("main", world.oid("topic"))
    before = world.refs()
    done = world.push(options=("--mirror",))
    assert done.returncode != 0
    assert "refs/heads/main stays where it is" in said(done)
    assert world.refs() == before


def test_the_policy_says_who(plain):
    """A record must have a pass of every reviewer of the base's policy; one for a person's paths names the person."""
    two = POLICY.replace(b'["tests"]', b'["tests", "style"]').replace(b"[reviewers.tests]", b"[reviewers.style]")
    two += POLICY[POLICY.index(b"[reviewers.tests]") :]
    plain.guard(policy=two)
    policy = plain.folder / "two.toml"
    policy.write_bytes(two)
    done = plain.push(f"{plain.merge(plain.oid('main'), plain.oid('topic'), policy=policy)}:refs/heads/main")
    assert "the record has no pass of style" in said(done)
    assert plain.main() == plain.oid("main")


def test_shared_capacity_alone_opens_nothing(plain):
    shared = POLICY.replace(b'"dedicated"', b'"shared"')
    policy = plain.folder / "shared.toml"
    plain.guard(policy=shared)
    policy.write_bytes(POLICY)
    done = plain.push(f"{plain.merge(plain.oid('main'), plain.oid('topic'), policy=policy)}:refs/heads/main")
    assert "shared capacity alone" in said(done)
    assert plain.main() == plain.oid("main")


def test_a_server_policy_guards_what_is_not_there(plain):
    plain.guard(policy=POLICY.replace(b"branches.main", b'branches."release"'))
    done = plain.push("start:refs/heads/release")
    assert "release is a guarded branch, and is not made by a push" in said(done)
    assert "release" not in plain.refs()
    assert plain.push("+topic:refs/heads/main").returncode == 0  # that policy does not name it


def test_the_default_branchs_policy_guards_what_is_not_there(plain):
    git(plain.client, "checkout", "-q", "-f", "start")
    (plain.client / "endmark.toml").write_bytes(
        POLICY + POLICY.replace(b"branches.main", b'branches."release"').partition(b"[rev")[0]
    )
    git(plain.client, "commit", "-q", "-a", "-m", "both")
    git(plain.client, "push", "-q", "origin", "+HEAD:refs/heads/main")
    plain.guard()
    assert "not made by a push" in said(plain.push("topic:refs/heads/release"))
    assert plain.push("topic:refs/heads/topic").returncode == 0
    assert plain.refs().count("\n") == 1
