"""Base, head, policy or reviewer moved: what was passed is overtaken, or carried where the policy allows just that."""

import pytest
from tests.effects.git.repos import git
from tests.gates.patches.world import SCRIPT, command, policy, shown


@pytest.fixture
def carrying(make_world):
    world = make_world(policy(carry="identical"))
    world.says("pass")
    return world


def commit(world, name, parent, **files):
    """A commit on top of `parent` with these files changed, as a branch."""
    env = {"GIT_INDEX_FILE": str(world.folder / "an-index")}
    git(world.repo, "read-tree", parent, env=env)
    for path, content in files.items():
        blob = git(world.repo, "hash-object", "-w", "--stdin", stdin=content)
        git(world.repo, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path.replace('__', '/')}", env=env)
    tree = git(world.repo, "write-tree", env=env)
    made = git(world.repo, "commit-tree", "-p", parent, "-m", name, tree)
    world.move(name, made)
    return made


def test_the_base_moved(world):
    passed = world.review()
    world.move("main", "onward")
    said = world.merge()
    assert (shown(said), said.decision_id) == (("stale", "stale-base", 14), passed.decision_id)
    assert world.tip() == world.tip("onward")
    again = world.review()
    assert (shown(again), world.asked()) == (("pass", "complete", 0), 2), "asked anew, under a new id"
    assert again.decision_id != passed.decision_id
    assert shown(world.merge())[0] == "merged"


def test_the_head_was_pushed_anew(world):
    world.review()
    world.move("topic", "topic-next")
    said = world.merge()
    assert (said.state, said.exit_code) == ("stale", 14)
    assert world.merges() == []
    assert world.states() == ["pass"], "it is of another head, and stands for that"


def test_the_base_moves_while_it_is_merged(world, monkeypatch):
    """Between the look at the branch and its move: whoever is first wins, the other moves nothing."""
    world.review()
    swap = world.git_program.start

    def start(*arguments, **more):
        if "update-ref" in arguments:
            world.move("main", "onward")
        return swap(*arguments, **more)

    monkeypatch.setattr(world.git_program, "start", start)
    said = world.merge()
    assert shown(said) == ("stale", "stale-base", 14)
    assert world.tip() == world.tip("onward")
    assert world.states() == ["stale"]


def test_an_old_base_named_by_mistake_ends_nothing(world):
    world.review()
    old = world.tip("onward")
    said = world.merge(base=old, ref="main")
    assert (shown(said), world.states()) == (("stale", "stale-base", 14), ["pass"])
    assert "not on" in said.detail
    assert shown(world.merge())[0] == "merged"


def test_the_policy_changed_in_the_base(world):
    world.review()
    commit(world, "main", "start", **{"endmark.toml": policy(retries=1)})
    said = world.merge()
    assert said.exit_code == 14
    assert world.tip() != world.tip("start")
    assert len(world.merges()) == 1, "the change of the policy alone"
    assert world.states() == ["stale"]


def test_a_merge_that_was_taken_back_may_be_made_again(world):
    world.review()
    first = world.merge()
    world.move("main", "start")
    said = world.merge()
    assert (shown(said), world.merges()) == (("stale", "stale-base", 14), [])
    assert "holds no longer" in said.detail
    again = world.review()
    assert (again.state, again.reviews[0].purpose, world.asked()) == ("pass", "carried", 1)
    second = world.merge()
    assert (second.state, second.merged == first.merged) == ("merged", False)
    assert world.merge().decision_id == second.decision_id


def test_an_orphan_with_the_right_tree_is_no_merge(world):
    """Somebody moves main to a commit of the judged tree with other parents: nothing of that is recorded as merged."""
    world.review()
    tree = world.change().merge_tree
    world.move("main", git(world.repo, "commit-tree", "-m", "by hand", tree))
    assert world.settle() == []
    assert shown(world.merge()) == ("incomplete", "merge-conflict", 13), "the histories have nothing in common"
    assert world.states() == ["pass"]


def test_a_merge_by_hand_is_not_the_gates(world):
    """The same parents and tree, without the decision's name: the record must not claim it."""
    world.review()
    world.book.note(world.decisions()[0].decision_id, "merging", world.clock(), {})
    tree = world.change().merge_tree
    made = git(world.repo, "commit-tree", "-p", "main", "-p", "topic", "-m", "by hand", tree)
    world.move("main", made)
    assert world.settle() == []
    assert shown(world.merge())[0] == "stale"


# ---- carried


def test_carried_to_another_base(carrying):
    passed = carrying.review()
    carrying.move("main", "onward")
    assert shown(carrying.merge())[0] == "stale"
    again = carrying.review()
    assert (shown(again), carrying.asked()) == (("pass", "complete", 0), 1)
    (one,) = again.reviews
    assert one.purpose == "carried"
    assert f"carried:{passed.base}" in one.evidence
    assert shown(carrying.merge())[0] == "merged"
    assert carrying.merges()[0] == carrying.tip()


def test_not_carried_unless_allowed(world):
    world.review()
    world.move("main", "onward")
    assert (world.review().reviews[0].purpose, world.asked()) == ("review", 2)


def test_not_carried_to_another_head(carrying):
    carrying.review()
    commit(carrying, "topic", "topic", **{"app.py": b"another\n"})
    assert (carrying.review().reviews[0].purpose, carrying.asked()) == ("review", 2)


def test_not_carried_where_the_base_changed_the_same_file(carrying):
    """The merge result's records differ: line 3 is changed by the head, line 30 by the base."""
    carrying.review()
    app = git(carrying.repo, "show", "main:app.py").replace("app line 30\n", "by main\n") + "\n"
    commit(carrying, "main", "start", **{"app.py": app.encode()})
    assert (carrying.review().reviews[0].purpose, carrying.asked()) == ("review", 2)


@pytest.mark.parametrize("what", ["the script", "the prompt", "the policy"])
def test_not_carried_from_another_reviewer(make_world, what):
    """The base changed what the reviewer is made of: what the former one passed was not seen by this one."""
    named = {"tests": command(prompt="tools/prompt.txt")}
    files = {"tools/prompt.txt": b"Look.\n"}
    world = make_world(policy(named, carry="identical"), files=files)
    world.says("pass", "fail")
    world.review()
    changed = {
        "the script": {"tools__review.py": SCRIPT + b"# stricter\n"},
        "the prompt": {"tools__prompt.txt": b"Look again.\n"},
        "the policy": {"endmark.toml": policy(named, carry="identical", retries=0)},
    }[what]
    commit(world, "main", "start", **changed)
    said = world.review()
    assert (said.state, said.reviews[0].purpose, world.asked()) == ("fail", "review", 2)
    assert world.merge().exit_code == 1


def test_nothing_of_a_failed_change_is_carried(carrying):
    carrying.review()
    carrying.decide(carrying.verdict(verdict="fail"))
    carrying.move("main", "onward")
    said = carrying.review()
    assert (said.reviews[0].purpose, carrying.asked()) == ("review", 2)


def test_a_verdict_by_a_person_is_carried_with_its_bytes(carrying):
    raw = carrying.verdict()
    carrying.decide(raw)
    carrying.move("main", "onward")
    (one,) = carrying.review().reviews
    assert (one.purpose, carrying.book.answer(one.review_id)) == ("carried", raw)
