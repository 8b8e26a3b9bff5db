"""Nothing in the repository, the push or the environment changes what is recorded and what is not."""

import subprocess

import pytest
from tests.effects.git.repos import PLAIN, git
from tests.gates.pushes.world import said


def _grafts(world):
    """To git itself, a plain commit would look like a merge."""
    lie = f"{world.oid('topic')} {world.oid('main')} {world.oid('second')}\n"
    (world.server / "info").mkdir(exist_ok=True)
    (world.server / "info/grafts").write_text(lie)


def _replacements(world):
    """The recorded merge stands in the place of the commit that is pushed."""
    git(world.server, "fetch", "-q", world.client, "merged:refs/tags/merged", "topic:refs/tags/topic")
    git(world.server, "replace", world.oid("topic"), world.oid("merged"))


def _shallow(world):
    """A list that cuts the history below the tip."""
    git(world.server, "fetch", "-q", world.client, "topic:refs/tags/topic")
    (world.server / "shallow").write_text(world.oid("topic") + "\n")


def _settings(world):
    for name, value in _hostile_settings():
        git(world.server, "config", "--add", name, value)


def _hostile_settings():
    yield "merge.default", "ours"
    yield "core.attributesFile", "/dev/null"
    yield "core.commitGraph", "true"
    yield "merge.renames", "false"
    yield "diff.external", "/bin/false"
    yield "alias.rev-list", "!true"
    yield "alias.cat-file", "!true"
    yield "core.quotePath", "false"
    yield "color.ui", "always"
    yield "log.showSignature", "true"
    yield "receive.fsckObjects", "false"
    yield "transfer.hideRefs", "refs/heads/other"
    yield "receive.denyDeletes", "false"
    yield "receive.denyNonFastForwards", "false"
    yield "receive.shallowUpdate", "true"
    yield "core.logAllRefUpdates", "always"
    yield "extensions.worktreeConfig", "true"


WORLDS = {"grafts": _grafts, "replacements": _replacements, "a shallow list": _shallow, "settings": _settings}


@pytest.mark.parametrize("kind", WORLDS)
def test_in_the_repository(plain, kind):
    WORLDS[kind](plain)
    plain.guard()
    before = plain.main()
    unrecorded = plain.merge(before, plain.oid("second"), message=b"x")
    for what in ("+topic:refs/heads/main", ":refs/heads/main", f"+{unrecorded}:refs/heads/main"):
        assert plain.push(what).returncode != 0
    by_hand = plain.by_hand("update-ref", "refs/heads/main", plain.oid("topic"))
    assert by_hand.returncode != 0
    assert git(plain.server, "rev-parse", "refs/heads/main") == before
    if kind == "a shallow list":
        assert "too shallow to tell" in said(plain.push("merged:refs/heads/main"))
        (plain.server / "shallow").unlink()
    done = plain.push("merged:refs/heads/main")
    assert done.returncode == 0, said(done)


def test_attributes_of_the_head_decide_nothing(world):
    (world.server / "info").mkdir(exist_ok=True)
    (world.server / "info/attributes").write_text("* merge=union\n")
    assert world.push("merged:refs/heads/main").returncode == 0


def test_objects_that_are_borrowed(plain):
    """The history lies in another store, as with forks on a forge; what is pushed lies in the quarantine alone."""
    store = plain.folder / "store.git"
    git(plain.folder, "clone", "-q", "--bare", plain.server, store)
    git(plain.folder, "clone", "-q", "--bare", "--shared", store, "fork.git")
    plain.server = plain.folder / "fork.git"
    assert all("pack" not in name for name in plain.objects())
    git(plain.server, "symbolic-ref", "HEAD", "refs/heads/main")
    plain.guard()
    before = plain.objects()
    assert plain.push("+topic:refs/heads/main", to=plain.server).returncode != 0
    assert plain.objects() == before
    done = plain.push("merged:refs/heads/main", to=plain.server)
    assert done.returncode == 0, said(done)


def test_a_push_from_a_shallow_clone(world):
    """It lacks the history below what it sends, and may send it all the same."""
    assert world.push("merged:refs/tags/seen").returncode == 0
    shallow = world.folder / "shallow"
    git(world.folder, "clone", "-q", "--depth=1", "-b", "seen", f"file://{world.server}", shallow)
    git(shallow, "checkout", "-q", "-B", "mine")
    git(shallow, "commit", "-q", "--allow-empty", "-m", "on top")

    def push(what):
        return subprocess.run(["git", "push", "origin", what], cwd=shallow, capture_output=True, env=PLAIN)

    done = push("+mine:refs/heads/main")
    assert done.returncode != 0
    assert "parents: 1" in said(done)
    assert world.main() == world.oid("main")
    done = push("+HEAD~1:refs/heads/main")
    assert done.returncode == 0, said(done)


ENVIRONMENT = {
    "GIT_QUARANTINE_PATH": "/nowhere",
    "GIT_OBJECT_DIRECTORY": "/nowhere",
    "GIT_NAMESPACE": "elsewhere",
    "PYTHONPATH": "/nowhere",
    "PYTHONSTARTUP": "/nowhere",
    "PYTHONHOME": "/nowhere",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.commitGraph",
    "GIT_CONFIG_VALUE_0": "true",
    "GIT_REPLACE_REF_BASE": "refs/tags",
    "GIT_GRAFT_FILE": "/nowhere",
    "ENDMARK_LEDGER": "/nowhere",
    "LC_ALL": "tr_TR.UTF-8",
}


@pytest.mark.parametrize("name", ["PYTHONHOME", "PYTHONPATH", "GIT_REPLACE_REF_BASE", "LC_ALL", "all"])
def test_the_pushers_environment(world, name):
    """A push over a local path runs the hooks in the environment of whoever pushes."""
    apart = ("GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE")
    env = {key: value for key, value in ENVIRONMENT.items() if name in (key, "all") and key not in apart}
    evil = world.folder / "evil"
    evil.mkdir()
    (evil / "endmark.py").write_text("raise SystemExit(0)\n")
    (evil / "sitecustomize.py").write_text("import os\nos._exit(0)\n")
    env |= {"PYTHONPATH": str(evil)} if "PYTHONPATH" in env else {}
    assert world.push("+topic:refs/heads/main", env=env).returncode != 0
    assert world.main() == world.oid("main")
    done = world.push("merged:refs/heads/main", env=env)
    assert done.returncode == 0, said(done)


def test_a_namespace_has_branches_of_its_own(world):
    """What is pushed there moves no branch of the repository itself."""
    env = {"GIT_NAMESPACE": "tenant"}
    done = world.push("topic:refs/heads/main", env=env)
    assert done.returncode == 0, said(done)
    assert world.main() == world.oid("main")
    assert "refs/namespaces/tenant/refs/heads/main" in world.refs()
