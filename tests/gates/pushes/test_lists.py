"""What git hands to the hooks, in every form that its versions have, given to the guard directly."""

import os

import pytest
from tests.effects.git.repos import git
from tests.gates.pushes.world import POLICY

from endmark.effects.git import hooks
from endmark.faces import guard

RECEIVE, TRANSACTION = hooks.KINDS
NONE = "0" * 40


@pytest.fixture(scope="module")
def listed(shared):
    """Names that stand for ids, and the commits in the server's store."""
    git(shared.server, "fetch", "-q", shared.client, "topic:refs/x/topic", "merged:refs/x/merged", "twice:refs/x/twice")
    git(shared.server, "symbolic-ref", "refs/elsewhere/alias", "refs/heads/main")
    names = {name: shared.oid(name) for name in ("main", "topic", "merged", "twice")} | {"none": NONE}

    def run(kind, *lines, state="prepared", **environ):
        raw = "".join(f"{line.format(**names)}\n" for line in lines).encode("utf-8", "surrogateescape")
        environ = {"PATH": os.environ["PATH"], "GIT_DIR": str(shared.server), **environ}
        return "\n".join(guard.run(kind, state, raw, environ))

    yield run
    git(shared.server, "symbolic-ref", "-d", "refs/elsewhere/alias")
    for name in ("topic", "merged", "twice"):
        git(shared.server, "update-ref", "-d", f"refs/x/{name}")


# (line, a part of the reason, or "" to let it through), for both hooks
EITHER = [
    ("{main} {merged} refs/heads/main", ""),
    ("{none} {merged} refs/heads/main", ""),  # a forced update names no old value
    ("{topic} {merged} refs/heads/main", ""),  # what the caller takes for the old value is git's to compare
    ("{none} {topic} refs/heads/main", "parents: 1"),
    ("{topic} {topic} refs/heads/main", "parents: 1"),
    ("{main} {none} refs/heads/main", "not deleted"),
    ("{none} {none} refs/heads/main", "not deleted"),
    ("{none} {topic} refs/heads/new", ""),
    ("{none} {topic} refs/elsewhere/alias", "parents: 1"),
    ("{none} {merged} refs/elsewhere/alias", ""),
    ("{none} {topic} refs/tags/main", ""),
    ("{none} {topic} refs/heads/caf\udce9", ""),
    ("{none} {topic} refs/heads/a\u2028b", ""),
    ("{none} {topic} refs/heads/main\u2028b", ""),
    ("{none} {topic} refs/heads/endmark-canary-0", "of this kind"),
    ("{none} {none} refs/heads/endmark-canary-0", "of this kind"),
]


@pytest.mark.parametrize(("line", "reason"), EITHER)
@pytest.mark.parametrize("kind", hooks.KINDS)
def test_both_hooks(listed, shared, kind, line, reason):
    lock = shared.server / "packed-refs.lock"  # git holds it while it deletes
    lock.touch()
    try:
        said = listed(kind, line)
    finally:
        lock.unlink()
    assert reason in said
    assert bool(reason) == bool(said)


TRANSACTIONS = [
    (["{none} ref:refs/heads/topic refs/heads/main"], "not made another name"),  # since git 2.46
    (["ref:refs/heads/x ref:refs/heads/topic refs/heads/main"], "not made another name"),
    (["{main} ref:refs/heads/main refs/heads/alias"], ""),
    (["ref:refs/heads/main {topic} refs/heads/alias"], ""),
    (["ref:refs/heads/main ref:refs/heads/topic HEAD"], ""),
    (["{none} {topic} HEAD"], ""),  # detached, or with a line for the branch beside it
    (["{none} {topic} HEAD", "{none} {topic} refs/heads/main"], "parents: 1"),
    (["{none} {topic} ORIG_HEAD"], ""),
    (["{none} {main} refs/heads/main"], ""),  # packed
    (["{none} {topic} main-worktree/refs/heads/main"], "parents: 1"),
    (["{none} {topic} worktrees/x/refs/heads/main"], "parents: 1"),
    (["{none} {topic} worktrees/x/HEAD"], ""),
    (["{none} {topic} refs/heads/a", "{none} {topic} refs/heads/main", "{none} {topic} refs/tags/b"], "parents: 1"),
]


@pytest.mark.parametrize(("lines", "reason"), TRANSACTIONS)
def test_transactions(listed, lines, reason):
    said = listed(TRANSACTION, *lines)
    assert reason in said
    assert bool(reason) == bool(said)


@pytest.mark.parametrize("state", ["preparing", "committed", "aborted", "something-new"])
def test_states_in_which_git_asks_nobody(listed, state):
    assert listed(TRANSACTION, "{none} {topic} refs/heads/main", state=state) == ""


def test_a_deletion_and_a_prune_look_alike(listed, shared):
    """git holds the lock on the packed refs while it deletes, and not while it prunes."""
    git(shared.server, "pack-refs", "--all", "--no-prune")
    lock = shared.server / "packed-refs.lock"
    line = "{main} {none} refs/heads/main"
    assert listed(TRANSACTION, line) == ""
    assert "not deleted" in listed(RECEIVE, line)
    lock.touch()
    try:
        assert "not deleted" in listed(TRANSACTION, line)
    finally:
        lock.unlink()
    packed = shared.server / "packed-refs"
    whole = packed.read_bytes()
    packed.write_bytes(whole.replace(shared.oid("main").encode(), shared.oid("topic").encode()))
    try:
        git(shared.server, "update-ref", "refs/x/loose", shared.oid("main"))
        (shared.server / "refs/heads/main").write_text(shared.oid("main") + "\n")
        assert "not deleted" in listed(TRANSACTION, line)  # it would go back to what is packed
    finally:
        packed.write_bytes(whole)
        git(shared.server, "update-ref", "-d", "refs/x/loose")


def test_a_branch_that_is_not_there_is_made_no_alias(listed, shared):
    policy = shared.server / "endmark/policy.toml"
    policy.write_bytes(POLICY.replace(b"branches.main", b"branches.release"))
    try:
        assert "not made another name" in listed(TRANSACTION, "{none} ref:refs/heads/topic refs/heads/release")
        assert "not made by a push" in listed(TRANSACTION, "{none} {topic} refs/heads/release")
        assert listed(TRANSACTION, "{none} {topic} refs/heads/main") == ""
    finally:
        policy.unlink()


def test_namespaces(listed):
    line = "{none} {topic} refs/heads/main"
    assert listed(RECEIVE, line, GIT_NAMESPACE="tenant/inner") == ""
    assert "parents: 1" in listed(RECEIVE, line, GIT_NAMESPACE="")
    assert "parents: 1" in listed(TRANSACTION, line, GIT_NAMESPACE="tenant")


def test_many_refusals_are_cut_short(listed):
    lines = [f"{{none}} {{topic}} refs/heads/endmark-canary-{at}" for at in range(25)]
    said = listed(RECEIVE, *lines).splitlines()
    assert len(said) == 21
    assert said[-1] == "... and 5 more"


def test_terminal_codes_are_not_passed_on(listed, capfd, monkeypatch, shared):
    """A name may hold what drives a terminal; git shows hooks' words as they are."""
    import io
    import sys

    line = f"{NONE} {shared.oid('topic')} refs/heads/endmark-canary-\x9b31m\u202e\n".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line)))
    monkeypatch.setenv("GIT_DIR", str(shared.server))
    assert guard.main([RECEIVE, ""]) == 1
    said = capfd.readouterr().err
    assert "\x9b" not in said
    assert "\u202e" not in said
    assert "\\x9b31m\\u202e" in said
