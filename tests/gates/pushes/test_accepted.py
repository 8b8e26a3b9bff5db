"""Real pushes of recorded merges, and of all that no policy speaks of: accepted, and standing there afterwards."""

import pytest
from tests.effects.git.repos import FORMATS, git
from tests.gates.pushes.world import World, said


@pytest.fixture(scope="session", params=FORMATS)
def of_format(request, made, tmp_path_factory):
    return made if request.param == "sha1" else World(tmp_path_factory.mktemp("sha256"), request.param).build()


def test_recorded_merges_one_by_one_and_together(of_format, tmp_path):
    world = of_format.copy(tmp_path / "world")
    world.guard()
    one, both = world.oid("merged"), world.oid("twice")
    done = world.push(f"{world.commit(world.oid('main'), tree=world.tree('main'))}:refs/heads/main")
    assert done.returncode != 0
    assert world.main() == world.oid("main")
    done = world.push(f"{one}:refs/heads/main")
    assert done.returncode == 0, said(done)
    assert world.main() == one
    git(world.server, "update-ref", "-d", "refs/heads/none")
    done = world.push(f"{both}:refs/heads/main")
    assert done.returncode == 0, said(done)
    assert world.main() == both
    git(world.server, "fsck", "--strict", "--connectivity-only")


def test_several_recorded_merges_in_one_push(world):
    done = world.push("twice:refs/heads/main", "topic:refs/heads/topic", options=("--atomic",))
    assert done.returncode == 0, said(done)
    assert world.main() == world.oid("twice")


def test_the_second_of_two_is_not_recorded(world):
    bad = world.merge(world.oid("merged"), world.oid("second"), message=b"Merge second\n")
    done = world.push(f"{bad}:refs/heads/main")
    assert done.returncode != 0
    assert f"{bad[:12]}: the commit's message holds no record" in said(done)
    assert world.main() == world.oid("main")


def test_a_head_that_is_ahead(world):
    """Where a fast-forward would do, the merge commit is made all the same: it carries the record."""
    base = world.oid("merged")
    assert world.push("merged:refs/heads/main").returncode == 0
    head = world.commit(base, tree=world.tree("twice"))
    done = world.push(f"{head}:refs/heads/main")
    assert "parents: 1" in said(done)
    done = world.push(f"{world.merge(base, head)}:refs/heads/main")
    assert done.returncode == 0, said(done)


def test_a_person_looked_at_the_policy(world):
    base, head = world.oid("main"), world.oid("policy-edit")
    good = world.merge(base, head, evidence=("approved-by:Ada",))
    done = world.push(f"{good}:refs/heads/main")
    assert done.returncode == 0, said(done)
    # From here on the edited policy counts: a record by the former one opens nothing.
    with_old = world.folder / "old.toml"
    with_old.write_text(git(world.client, "show", "main:endmark.toml") + "\n")
    by_old = world.message(good, world.oid("topic"), policy=with_old)
    tip = world.merge(good, world.oid("topic"), message=by_old)
    assert "another policy than the one in force" in said(world.push(f"{tip}:refs/heads/main"))
    assert world.main() == good
    tip = world.merge(good, world.oid("topic"))
    assert world.push(f"{tip}:refs/heads/main").returncode == 0


def test_a_policy_taken_away_by_a_person_guards_no_more(world):
    good = world.merge(world.oid("main"), world.oid("policy-gone"), evidence=("approved-by:Ada",))
    assert world.push(f"{good}:refs/heads/main").returncode == 0
    assert world.push("+topic:refs/heads/main").returncode == 0


FREE = {
    "a new branch": (["topic:refs/heads/topic"], []),
    "a branch forced elsewhere": (["+second:refs/heads/topic"], ["topic:refs/heads/topic"]),
    "a branch deleted": ([":refs/heads/topic"], ["topic:refs/heads/topic"]),
    "tags and notes": (["topic:refs/tags/v1", "topic:refs/notes/x", "topic:refs/for/main"], []),
    "spaces of other languages": (["topic:refs/heads/a\u2028b\x85c", "topic:refs/heads/žluť"], []),
    "a branch with a broken policy, mended": (
        ["+topic:refs/heads/policy-broken"],
        ["policy-broken:refs/heads/policy-broken"],
    ),
    "a policy without a word about its branch": (["+topic:refs/heads/x"], ["policy-edit:refs/heads/x"]),
}


@pytest.mark.parametrize("case", FREE)
def test_what_no_policy_names(world, case):
    what, before = FREE[case]
    if before:
        assert world.push(*before).returncode == 0
    done = world.push(*what)
    assert done.returncode == 0, said(done)
    assert world.main() == world.oid("main")


def test_names_that_are_no_text(world):
    name = b"refs/heads/caf\xe9"
    assert world.push(b"topic:" + name).returncode == 0
    done = world.push(b"+second:" + name)
    assert done.returncode == 0, said(done)
    assert world.push(b":" + name).returncode == 0


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_thousands_of_refs(world, count):
    """In one push that holds a canary, and in one that does not."""
    tip = world.oid("topic")
    for kind in ("heads/many", "tags"):
        lines = "".join(f"create refs/{kind}/{at:05} {tip}\n" for at in range(count // 2))
        git(world.client, "update-ref", "--stdin", stdin=lines.encode())
    many = ("refs/heads/many/*:refs/heads/many/*", "refs/tags/*:refs/tags/*")
    done = world.push(*many, "topic:refs/heads/endmark-canary-1", options=("--atomic",))
    assert done.returncode != 0
    assert world.refs().count("\n") == 0
    done = world.push(*many, options=("--atomic", "--quiet"))
    assert done.returncode == 0, said(done)
    assert world.refs().count("\n") == count
    done = world.push(*many, "topic:refs/heads/main", options=("--atomic", "--quiet"))
    assert "parents: 1" in said(done)
    assert world.main() == world.oid("main")
