"""Merging: the branch goes from the base that was judged to the merge that was judged, or stays where it is."""

import os
import threading

import msgspec
import pytest
from tests.effects.git.repos import FORMATS, Import, git, make, sample
from tests.support.faults import as_user, file_size_limit, open_folder

from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.effects.git import Git, Merged, Person, Standing, checked_out, read_change, standing, verify_tip
from endmark.effects.git.merge import merge

PERSON = Person("Gate", "gate@example.com")
MESSAGE = "Merge topic\n\nGate-Receipt: žluť ∎\n".encode()


def merged(opened, change, **more):
    return merge(opened, change, **{"message": MESSAGE, "person": PERSON, "at": 1_700_009_999, **more})


def refs(folder):
    return git(folder, "-c", "safe.directory=*", "for-each-ref")


def tip(folder, ref="main"):
    return git(folder, "rev-parse", ref)


@pytest.mark.parametrize("object_format", FORMATS)
@pytest.mark.parametrize("head", ["topic", "lines", "cross", "empty-commit", "octopus-child"])
def test_a_merge(tmp_path, gate, head, object_format):
    folder = sample(tmp_path / "repo.git", object_format, bare=True)
    base, head = ("cross-main", "cross-topic") if head == "cross" else ("main", head)
    opened = gate(folder)
    change = read_change(opened, base=base, head=head)
    done = merged(opened, change)
    assert done == Merged(f"refs/heads/{base}", tip(folder, base), fast_forward=False)
    assert git(folder, "log", "-1", "--format=%P", base).split() == [change.base.oid, change.head.oid]
    assert git(folder, "rev-parse", f"{base}^{{tree}}") == change.merge_tree
    assert git(folder, "log", "-1", "--format=%an %ae %at %cn %ce %ct %ai", base) == (
        "Gate gate@example.com 1700009999 Gate gate@example.com 1700009999 2023-11-15 00:59:59 +0000"
    )
    assert git(folder, "cat-file", "commit", base).encode().partition(b"\n\n")[2] == MESSAGE.removesuffix(b"\n")
    assert "error" not in git(folder, "fsck", "--strict", "--connectivity-only")
    assert verify_tip(opened, change, done.tip, fast_forward=False).message == MESSAGE


def test_the_same_arguments_make_the_same_commit(tmp_path, gate):
    tips = set()
    for name in ("one", "two"):
        folder = sample(tmp_path / name, bare=True)
        opened = gate(folder)
        tips.add(merged(opened, read_change(opened, base="main", head="lines")).tip)
    assert len(tips) == 1


def test_a_fast_forward_only_where_it_may(bare, gate):
    opened = gate(bare)
    side = read_change(opened, base="main", head="lines")
    topic = read_change(opened, base="main", head="topic")
    done = merged(opened, topic, fast_forward=True)
    assert done == Merged("refs/heads/main", topic.head.oid, fast_forward=True)
    assert tip(bare) == topic.head.oid
    with pytest.raises(Refused, match="stale-base"):
        merged(opened, side, fast_forward=True)
    again = read_change(opened, base="main", head="lines")
    assert not merged(opened, again, fast_forward=True).fast_forward


def test_the_reflog_says_what_was_merged(bare, gate):
    git(bare, "config", "core.logAllRefUpdates", "always")
    opened = gate(bare)
    change = read_change(opened, base="main", head="lines")
    merged(opened, change)
    assert git(bare, "reflog", "-1", "main").endswith(f"endmark: merge {change.head.oid}")


def refused(opened, change, signal, **more):
    folder = opened.repository.common_dir
    before = refs(folder)
    with pytest.raises(Refused) as found:
        merged(opened, change, **more)
    assert found.value.signal is signal
    assert refs(folder) == before
    return found.value.detail


def cannot(opened, change, words, **more):
    folder = opened.repository.common_dir
    before = refs(folder)
    with pytest.raises(CannotTry, match=words):
        merged(opened, change, **more)
    assert refs(folder) == before


@pytest.mark.parametrize("moved_to", ["side", "start", "topic", None])
def test_a_base_that_moved_is_stale(bare, gate, moved_to):
    opened = gate(bare)
    change = read_change(opened, base="main", head="lines")
    git(bare, "update-ref", *(["refs/heads/main", moved_to] if moved_to else ["-d", "refs/heads/main"]))
    assert change.base.oid in refused(opened, change, Signal.STALE_BASE) or moved_to is None


def test_a_base_that_became_another_name_is_stale(bare, gate):
    opened = gate(bare)
    change = read_change(opened, base="same", head="lines")
    git(bare, "symbolic-ref", "refs/heads/same", "refs/heads/main")
    refused(opened, change, Signal.STALE_BASE)


def test_a_base_that_becomes_another_name_at_the_last_moment(bare, gate):
    """The one branch that was named is moved, and no other through it."""

    class Late(Git):
        def start(self, *arguments, **more):
            if "update-ref" in arguments:
                git(bare, "symbolic-ref", "refs/heads/main", "refs/heads/same")
            return super().start(*arguments, **more)

    opened = gate(bare, git=Late(os.environ))
    change = read_change(opened, base="main", head="lines")
    done = merged(opened, change)
    assert (tip(bare, "same"), tip(bare, "main")) == (change.base.oid, done.tip)


def test_nothing_to_merge(bare, gate):
    opened = gate(bare)
    for head in ("behind", "same"):
        detail = refused(opened, read_change(opened, base="main", head=head), Signal.STALE_DIFF)
        assert "nothing to merge" in detail


def test_an_octopus_is_no_new_tip(bare, gate):
    opened = gate(bare)
    change = read_change(opened, base="main", head="octopus")
    assert "3 parents" in refused(opened, change, Signal.WRONG_VALUE, fast_forward=True)
    assert not merged(opened, change).fast_forward


def test_a_head_that_was_forced_elsewhere_is_merged_as_it_was_judged(bare, gate):
    opened = gate(bare)
    change = read_change(opened, base="main", head="lines")
    git(bare, "update-ref", "refs/heads/lines", "side")
    assert read_change(opened, base="main", head="lines").diff_sha != change.diff_sha
    done = merged(opened, change)
    assert git(bare, "log", "-1", "--format=%P", done.tip).split()[1] == change.head.oid


def test_a_tree_that_was_not_judged(bare, gate):
    opened = gate(bare)
    change = read_change(opened, base="main", head="lines")
    other = msgspec.structs.replace(change, merge_tree=change.base.tree)
    assert "merges into the tree" in refused(opened, other, Signal.STALE_DIFF)


def test_a_new_tip_is_what_was_judged_and_nothing_else(bare, gate):
    """What a server-side hook asks of a pushed tip."""
    opened = gate(bare)
    change = read_change(opened, base="main", head="lines")
    tree, base, head = change.merge_tree, change.base.oid, change.head.oid
    git(bare, "merge-tree", "--write-tree", "main", "lines")

    def commit(*parents, of=tree):
        return git(bare, "commit-tree", *(word for parent in parents for word in ("-p", parent)), "-m", "x", of)

    good = commit(base, head)
    assert verify_tip(opened, change, good, fast_forward=True).oid == good
    wrong = {
        commit(): Signal.STALE_DIFF,  # an orphan with the right tree
        commit(base): Signal.STALE_DIFF,
        commit(head): Signal.STALE_DIFF,
        commit(head, base): Signal.STALE_DIFF,
        commit(base, head, of=change.base.tree): Signal.STALE_DIFF,
        commit(base, head, tip(bare, "side")): Signal.WRONG_VALUE,
        commit(good): Signal.STALE_DIFF,
        head: Signal.STALE_DIFF,
    }
    for oid, signal in wrong.items():
        for fast_forward in (False, True):
            with pytest.raises(Refused) as found:
                verify_tip(opened, change, oid, fast_forward=fast_forward)
            assert found.value.signal is signal
    ahead = read_change(opened, base="main", head="topic")
    assert verify_tip(opened, ahead, ahead.head.oid, fast_forward=True).oid == ahead.head.oid
    with pytest.raises(Refused):
        verify_tip(opened, ahead, ahead.head.oid, fast_forward=False)
    with pytest.raises(CannotTry):
        verify_tip(opened, change, tree, fast_forward=True)


@pytest.mark.parametrize("message", [b"no line break", b"", b"a\0b\n", b"\xff\n"])
def test_a_message_that_git_would_change(bare, gate, message):
    opened = gate(bare)
    with pytest.raises(ValueError, match="a commit message"):
        merged(opened, read_change(opened, base="main", head="lines"), message=message)


@pytest.mark.parametrize("message", [b"\n\n  x  \n\n\n", b"# no comment\n", b"-----BEGIN\nx\n"])
def test_a_message_is_stored_as_it_is(bare, gate, message):
    opened = gate(bare)
    change = read_change(opened, base="main", head="lines")
    done = merged(opened, change, message=message)
    assert verify_tip(opened, change, done.tip, fast_forward=False).message == message


# --- work trees


def test_a_branch_that_is_checked_out_stays(repo, gate):
    opened = gate(repo)
    cannot(opened, read_change(opened, base="main", head="lines"), "checked out in")
    git(repo, "symbolic-ref", "HEAD", "refs/heads/side")
    merged(opened, read_change(opened, base="main", head="lines"))


def test_checked_out_in_another_work_tree(bare, gate):
    git(bare, "worktree", "add", "-q", "--no-checkout", "../linked\nwith a break", "main")
    opened = gate(bare)
    cannot(opened, read_change(opened, base="main", head="lines"), "checked out in")
    assert checked_out(opened.repository, "refs/heads/side") is None


def test_checked_out_by_another_name(repo, gate):
    git(repo, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    git(repo, "symbolic-ref", "HEAD", "refs/heads/alias")
    opened = gate(repo)
    cannot(opened, read_change(opened, base="main", head="lines"), "checked out in")


def test_a_work_tree_that_calls_itself_bare(repo, gate):
    git(repo, "config", "core.bare", "true")
    opened = gate(repo)
    cannot(opened, read_change(opened, base="main", head="lines"), "checked out in")


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize(
    ("state", "content"),
    [
        ("rebase-merge/head-name", "refs/heads/main\n"),
        ("rebase-apply/head-name", "refs/heads/main\n"),
        ("BISECT_START", "main\n"),
        ("rebase-merge/update-refs", "refs/heads/main\n{oid}\n{oid}\n"),
    ],
)
def test_between_two_states(bare, gate, linked, state, content):
    """In a rebase or a bisection HEAD names no branch, and the branch is somebody's all the same."""
    oid = tip(bare)
    git(bare, "worktree", "add", "-q", "--no-checkout", "--detach", "../linked", "main")
    path = (bare / "worktrees" / "linked" if linked else bare) / state
    path.parent.mkdir(exist_ok=True)
    path.write_text(content.format(oid=oid))
    opened = gate(bare)
    cannot(opened, read_change(opened, base="main", head="lines"), "checked out in")
    merged(opened, read_change(opened, base="same", head="lines"))


def test_in_the_middle_of_a_real_rebase(tmp_path, gate):
    folder = make(tmp_path / "repo")
    new = Import()
    start = new.commit("main", {"a": b"1\n"})
    new.commit("onto", {"a": b"2\n"}, start)
    new.commit("main", {"a": b"3\n"}, start)
    new.commit("topic", {"b": b"b\n"}, start)
    new.into(folder)
    git(folder, "checkout", "-q", "-f", "main")
    git(folder, "rebase", "-q", "onto", check=False)
    assert git(folder, "rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
    opened = gate(folder)
    cannot(opened, read_change(opened, base="main", head="topic"), "checked out in.*rebase-merge")


# --- others at the same branch


@pytest.mark.parametrize("heads", [("topic", "lines"), ("lines", "side"), ("lines", "lines"), ("topic", "topic")])
def test_of_two_that_race_one_wins(bare, gate, heads):
    changes = [(one := gate(bare), read_change(one, base="main", head=head)) for head in heads]
    start, found = threading.Barrier(2), []

    def run(opened, change):
        start.wait()
        try:
            found.append(merged(opened, change, fast_forward=True))
        except Refused as refused:
            found.append(refused)

    threads = [threading.Thread(target=run, args=pair) for pair in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [one for one in found if isinstance(one, Merged)]
    lost = [one for one in found if isinstance(one, Refused)]
    assert (len(won), len(lost)) == (1, 1)
    assert lost[0].signal is Signal.STALE_BASE
    assert tip(bare) == won[0].tip


def test_a_lock_that_another_holds(bare, gate):
    opened = gate(bare)
    change = read_change(opened, base="main", head="lines")
    lock = bare / "refs" / "heads" / "main.lock"
    lock.touch()
    cannot(opened, change, r"lock on refs/heads/main could not be had", lock_timeout=0.05)
    assert lock.exists()
    lock.unlink()
    merged(opened, change)


def test_a_hook_that_says_no(bare, gate):
    hook = bare / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)
    opened = gate(bare)
    cannot(opened, read_change(opened, base="main", head="lines"), "not moved.*not today")


# --- the world


def test_a_store_that_cannot_be_written(gate):
    with open_folder() as folder:
        bare = sample(folder / "repo.git", bare=True)
        opened = gate(bare)
        change = read_change(opened, base="main", head="lines")
        os.chmod(opened.folder, 0o755)
        with as_user():
            cannot(opened, change, r"(?i)permission")


def test_refs_that_cannot_be_written(gate):
    with open_folder() as folder:
        bare = sample(folder / "repo.git", bare=True)
        opened = gate(bare)
        change = read_change(opened, base="main", head="topic")
        os.chmod(opened.folder, 0o755)
        with as_user():
            cannot(opened, change, r"lock on refs/heads/main|(?i:permission)", fast_forward=True)


def test_a_repository_of_somebody_else_is_read(gate):
    """None of what git fears there is run. CI systems check out as another user every day."""
    with open_folder() as folder:
        theirs = sample(folder / "repo", bare=False)
        mine = read_change(gate(theirs), base="main", head="topic")
        with as_user():
            assert read_change(gate(theirs), base="main", head="topic") == mine


def test_a_full_disk(bare, gate):
    opened = gate(bare)
    change = read_change(opened, base="main", head="lines")
    with file_size_limit(10):
        cannot(opened, change, "ended")


def test_a_gate_that_cannot_be_made(sample, gate, monkeypatch, tmp_path):
    monkeypatch.setattr("endmark.effects.git.gate.SHARED", (str(tmp_path / "none"),))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nothing"))
    with pytest.raises(CannotTry, match="gate's own repository cannot be made"):
        gate(sample)


def test_a_shared_repository_stays_shared(bare, gate):
    git(bare, "config", "core.sharedRepository", "group")
    old = os.umask(0o077)
    try:
        opened = gate(bare)
        done = merged(opened, read_change(opened, base="main", head="lines"))
    finally:
        os.umask(old)
    loose = bare / "objects" / done.tip[:2] / done.tip[2:]
    assert loose.stat().st_mode & 0o777 == 0o440  # and not 0o400


def test_where_it_stands(bare, gate):
    opened = gate(bare)
    change = read_change(opened, base="main", head="lines")

    def now(tip, ref="refs/heads/main"):
        return standing(opened, ref, change.base.oid, tip)

    assert now(change.head.oid) is Standing.NOT_MERGED
    done = merged(opened, change)
    assert now(done.tip) is Standing.MERGED
    merged(opened, read_change(opened, base="main", head="side"))
    assert now(done.tip) is Standing.MERGED
    git(bare, "update-ref", "refs/heads/main", "side")
    assert now(done.tip) is Standing.NOT_MERGED
    assert now(done.tip, "refs/heads/none") is Standing.NOT_MERGED
    (bare / "HEAD").write_text("")
    assert now(done.tip) is Standing.UNKNOWN
