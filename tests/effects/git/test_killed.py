"""kill -9, of ours and of git, anywhere in a merge: the branch is where it was, or where it was to go."""

import os
import subprocess
import sys

import pytest
from tests.effects.git.repos import PLAIN, git
from tests.effects.git.test_merge import merged

from endmark.core.refusal import CannotTry
from endmark.effects.git import Git, Merged, OutcomeUnknown, Standing, read_change, standing
from endmark.effects.git.program import Lost


def run(folder, at, when):
    # Who is killed removes nothing: its folders go where pytest removes them.
    environ = PLAIN | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(folder.parent)}
    command = [sys.executable, "-m", "tests.effects.git.killed", str(folder), str(at), when]
    return subprocess.run(command, env=environ, capture_output=True, text=True)


def test_at_every_step(bare, gate):
    """Each is killed, then the next takes up what is left, and the one that nobody kills merges."""
    opened = gate(bare)
    base, head = read_change(opened, base="main", head="lines").base.oid, "lines"
    places = []
    for at in range(1, 99):
        for when in ("before", "after"):
            done = run(bare, at, when)
            if done.returncode == 0:
                break
            assert done.returncode == -9, done.stderr
            now = git(bare, "rev-parse", "main")
            places.append(now == base)
            if now != base:
                assert git(bare, "log", "-1", "--format=%P").split() == [base, git(bare, "rev-parse", head)]
                assert standing(opened, "refs/heads/main", base, now) is Standing.MERGED
                git(bare, "update-ref", "refs/heads/main", base)
        else:
            continue
        break
    assert done.stdout.startswith("merged ")
    assert len(places) == 2 * int(done.stdout.split()[-1]) >= 16
    assert True in places
    assert False in places


def hook(bare, script):
    path = bare / "hooks" / "reference-transaction"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("state", ["prepared", "committed"])
def test_git_is_killed_while_it_moves_the_branch(bare, gate, state):
    hook(bare, f'[ "$1" = {state} ] && kill -9 $PPID; exit 0')
    opened = gate(bare)
    change = read_change(opened, base="main", head="lines")
    if state == "committed":
        done = merged(opened, change)
        assert git(bare, "rev-parse", "main") == done.tip
    else:
        with pytest.raises(CannotTry, match="ended by signal 9; refs/heads/main was not moved"):
            merged(opened, change)
        assert git(bare, "rev-parse", "main") == change.base.oid
        hook(bare, "exit 0")
        with pytest.raises(CannotTry, match="lock on refs/heads/main"):  # what the dead one left
            merged(opened, change, lock_timeout=0.05)


def test_somebody_moves_it_away_at_once(bare, gate):
    """git says that it moved the branch, and it stands elsewhere: no one may call that merged, or not merged."""
    side = git(bare, "rev-parse", "side")
    hook(bare, f'[ "$1" = committed ] && [ -z "$AGAIN" ] && AGAIN=1 git update-ref refs/heads/main {side}; exit 0')
    opened = gate(bare)
    with pytest.raises(OutcomeUnknown, match=f"was moved to .* and stands at {side} now"):
        merged(opened, read_change(opened, base="main", head="lines"))


class Hasty(Git):
    """Has no patience while the branch is being moved."""

    def start(self, *arguments, **more):
        self.timeout = 1 if "update-ref" in arguments else 120
        return super().start(*arguments, **more)


@pytest.mark.parametrize("state", ["prepared", "committed"])
def test_git_does_not_end_while_it_moves_the_branch(bare, gate, state):
    hook(bare, f'[ "$1" = {state} ] && sleep 300; exit 0')
    opened = gate(bare, git=Hasty(os.environ))
    change = read_change(opened, base="main", head="lines")
    if state == "committed":
        assert isinstance(merged(opened, change), Merged)
    else:
        with pytest.raises(CannotTry, match="did not end within 1 s; refs/heads/main was not moved"):
            merged(opened, change)
        assert git(bare, "rev-parse", "main") == change.base.oid


class Blind(Git):
    """Real git, until the branch has been told to move: from then on none can be started."""

    blind = False

    def start(self, *arguments, **more):
        if self.blind:
            raise CannotTry("git could not be started: no more processes")
        self.blind = "update-ref" in arguments
        return super().start(*arguments, **more)


def test_nobody_can_see_where_it_stands(bare, gate):
    opened = gate(bare, git=Blind(os.environ))
    change = read_change(opened, base="main", head="lines")
    with pytest.raises(OutcomeUnknown) as unknown:
        merged(opened, change)
    assert standing(opened, change.target_ref, change.base.oid, unknown.value.tip) is Standing.UNKNOWN
    opened.repository.git.blind = False
    assert standing(opened, change.target_ref, change.base.oid, unknown.value.tip) is Standing.MERGED


def test_a_stop_comes_before_or_after_but_not_between(bare, gate):
    """Who wants it to end is not asked while the branch is being moved."""
    asked = []

    class Watched(Git):
        def start(self, *arguments, **more):
            asked.append("update-ref" in arguments)
            return super().start(*arguments, **more)

    git_at_work = Watched(os.environ, stop=lambda: "SIGTERM" if asked[-1:] == [True] else None)
    opened = gate(bare, git=git_at_work)
    assert merged(opened, read_change(opened, base="main", head="lines"))
    git_at_work.stop = lambda: "SIGTERM"
    with pytest.raises(Lost, match="SIGTERM"):
        read_change(opened, base="main", head="side")
