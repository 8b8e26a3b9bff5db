"""Whatever is missing, broken or killed: the branch stays where it is."""

import os
import signal
import subprocess
import sys

import pytest
from tests.effects.git.repos import PLAIN, git
from tests.gates.pushes.world import POLICY, PROGRAM, said

from endmark.effects.git import hooks


def _no_keys(world):
    for key in hooks.keys_folder(world.repository()).iterdir():
        key.unlink()


def _a_key_that_is_none(world):
    next(hooks.keys_folder(world.repository()).iterdir()).write_bytes(b"no key\n")


def _a_key_that_others_can_change(world):
    next(hooks.keys_folder(world.repository()).iterdir()).chmod(0o666)


def _a_second_key_that_is_none(world):
    (hooks.keys_folder(world.repository()) / "02-x.pub").write_bytes(b"")


def _no_folder(world):
    _no_keys(world)
    hooks.keys_folder(world.repository()).rmdir()


def _no_python(world):
    _program(world, "/nowhere/python", *PROGRAM[1:])


def _another_python(world):
    """One without endmark."""
    _program(world, sys.executable, "-S", *PROGRAM[1:])


def _python_ends_at_once(world):
    _program(world, "/bin/false")


def _killed(world):
    """In the middle: the list is read, nothing is decided yet."""
    _program(world, sys.executable, "-c", "import os, sys; sys.stdin.read(); os.kill(os.getpid(), 9)")


def _terminated(world):
    _program(world, sys.executable, "-c", "import os, sys; os.kill(os.getpid(), 15)")


def _program(world, *program):
    hooks.install(world.repository(), program, {}, None)


def _policy_gone(world):
    """A link to a policy that is not there."""
    (world.server / "endmark/policy.toml").symlink_to("/nowhere/policy.toml")


def _policy_broken(world):
    (world.server / "endmark/policy.toml").write_bytes(POLICY[:60])


def _policy_empty(world):
    (world.server / "endmark/policy.toml").write_bytes(b"")


BROKEN = {
    "no key": (_no_keys, "holds no key"),
    "no folder of keys": (_no_folder, "holds no key"),
    "a key that is none": (_a_key_that_is_none, "holds no public keys"),
    "a second key that is none": (_a_second_key_that_is_none, "holds no public keys"),
    "a key that others can change": (_a_key_that_others_can_change, "can be changed by others"),
    "no Python": (_no_python, "pre-receive hook declined"),
    "a Python without endmark": (_another_python, "No module named"),
    "a program that says no more": (_python_ends_at_once, "pre-receive hook declined"),
    "killed": (_killed, "pre-receive hook declined"),
    "terminated": (_terminated, "pre-receive hook declined"),
    "a server policy that is gone": (_policy_gone, "cannot be read"),
    "a server policy cut short": (_policy_broken, "policy.toml"),
    "a server policy that is empty": (_policy_empty, "asks for nothing"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_recorded_merge_stays_out(world, case):
    spoil, reason = BROKEN[case]
    spoil(world)
    before = world.refs()
    done = world.push("merged:refs/heads/main", "topic:refs/tags/v1")
    assert done.returncode != 0
    assert reason in said(done)
    assert world.refs() == before
    git(world.server, "fetch", "-q", world.client, "merged:refs/tags/merged")
    done = world.by_hand("update-ref", "refs/heads/main", world.oid("merged"))
    assert done.returncode != 0
    assert world.main() == world.oid("main")


@pytest.mark.parametrize("content", [b"", POLICY[:70], b"\xff", b"[targets.x]\nurl = 'x'\n", b"branches = 1\n"])
def test_a_policy_of_the_base_that_cannot_be_read(plain, content):
    """Nothing is let onto that branch, nor onto another: what is guarded is not known."""
    git(plain.client, "checkout", "-q", "-f", "start")
    (plain.client / "endmark.toml").write_bytes(content)
    git(plain.client, "commit", "-q", "-a", "-m", "broken")
    assert plain.push("+HEAD:refs/heads/main").returncode == 0
    plain.guard()
    before = plain.refs()
    for what in ("+topic:refs/heads/main", "topic:refs/heads/topic", ":refs/heads/main"):
        done = plain.push(what)
        assert done.returncode != 0
        assert "stays where it is: endmark.toml in " in said(done)
    assert plain.refs() == before
    assert plain.push("topic:refs/tags/free").returncode == 0


def test_a_broken_policy_where_head_names_nothing(plain):
    """Nothing says that this branch is free, so it is not."""
    git(plain.server, "fetch", "-q", plain.client, "+policy-broken:refs/heads/main")
    git(plain.server, "symbolic-ref", "HEAD", "refs/heads/unborn")
    plain.guard()
    before = plain.refs()
    for what in ("+topic:refs/heads/main", ":refs/heads/main"):
        assert "stays where it is: endmark.toml in " in said(plain.push(what))
    assert plain.refs() == before


def test_a_base_without_a_policy_is_not_guarded(plain):
    git(plain.server, "fetch", "-q", plain.client, "+policy-gone:refs/heads/main")
    plain.guard()
    assert plain.push("+topic:refs/heads/main").returncode == 0
    assert plain.push("+second:refs/heads/main").returncode != 0  # from here on it has one


def test_an_unguarded_default_branch_takes_no_broken_policy(plain):
    """It would stop every branch, and anybody may push there."""
    git(plain.server, "fetch", "-q", plain.client, "+policy-gone:refs/heads/main")
    plain.guard()
    before = plain.refs()
    done = plain.push("+policy-broken:refs/heads/main")
    assert "it would leave a broken policy" in said(done)
    git(plain.server, "symbolic-ref", "HEAD", "refs/heads/unborn")
    assert "it would leave a broken policy" in said(plain.push("policy-broken:refs/heads/unborn"))
    assert plain.refs() == before


def test_the_object_store_is_damaged(world):
    """The tree that would name the policy is gone: that is no base without a policy."""
    tree = world.tree("main")
    git(world.server, "repack", "-q", "-a", "-d")
    pack = next((world.server / "objects/pack").glob("*.pack"))
    pack.rename(world.folder / "pack")
    for left in (world.server / "objects/pack").iterdir():
        left.unlink()
    with (world.folder / "pack").open("rb") as stream:
        subprocess.run(["git", "unpack-objects", "-q"], cwd=world.server, stdin=stream, env=PLAIN, check=True)
    (world.server / "objects" / tree[:2] / tree[2:]).unlink()
    before = world.refs()
    for command in (["update-ref", "-d", "refs/heads/main"], ["update-ref", "refs/heads/main", world.oid("start")]):
        done = world.by_hand(*command)
        assert done.returncode != 0
        assert "nothing was let through: there is no commit" in said(done)
    assert world.refs() == before


LISTS = [b"", b"\n", b"x", b"0 0 refs/heads/main\n", b"%s %s refs/heads/main", b"%s  %s refs/heads/main\n", b"\0\n"]
LISTS += [b"%s %s refs/heads/main x\n", b"%s %s \n", b"%s %sF refs/heads/main\n", b"ref: %s refs/heads/main\n"]


@pytest.mark.parametrize("raw", LISTS)
@pytest.mark.parametrize("kind", hooks.KINDS)
def test_a_list_in_another_form(shared, raw, kind):
    oid = shared.oid("main").encode()
    raw = raw.replace(b"%s", oid)
    command = [*PROGRAM, kind, *(["prepared"] if kind == hooks.KINDS[1] else [])]
    done = subprocess.run(command, input=raw, cwd=shared.server, capture_output=True, env=PLAIN | {"GIT_DIR": "."})
    assert done.returncode == 1
    assert done.stderr.startswith(b"endmark: nothing was let through: git's list")


def test_a_list_that_ends_within_a_line(shared):
    """As the script itself reads it, before anything else runs."""
    line = f"{'0' * 40} {shared.oid('topic')} refs/tags/v1"
    script = shared.server / "hooks/reference-transaction"
    for raw, code in ((line, 1), (line + "\n", 0), (line + "\n" + line, 1), ("", 0)):
        done = subprocess.run(
            [script, "prepared"], input=raw.encode(), cwd=shared.server, capture_output=True, env=PLAIN
        )
        assert done.returncode == code, raw


def test_killed_while_git_waits(world):
    """The hook's process is killed from outside while it asks git: the push is refused, and nothing is left locked."""
    slow = world.folder / "slow"
    slow.mkdir()
    (slow / "git").write_text(f"#!/bin/sh\ntouch {slow}/asked\nexec sleep 60\n")
    (slow / "git").chmod(0o755)
    wait = "import os, sys; os.environ['PATH'] = sys.argv.pop(); from endmark.faces.guard import hook; hook()"
    script = world.server / "hooks/pre-receive"
    whole = script.read_bytes()
    script.write_text(
        f'#!/bin/sh\n{sys.executable} -I -c "{wait}" pre-receive {slow}:$PATH & echo $! > {slow}/pid\nwait $!\n'
    )
    command = ["git", "push", "origin", "merged:refs/heads/main"]
    with subprocess.Popen(command, cwd=world.client, stderr=subprocess.PIPE, env=PLAIN) as pushing:
        while not (slow / "asked").exists():
            assert pushing.poll() is None
            os.sched_yield()
        os.kill(int((slow / "pid").read_text()), signal.SIGKILL)
        assert b"declined" in pushing.communicate()[1]
    assert pushing.returncode != 0
    assert world.main() == world.oid("main")
    script.write_bytes(whole)
    assert world.push("merged:refs/heads/main").returncode == 0
