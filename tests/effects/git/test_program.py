"""Running git: too old, missing, silent, endless, killed; and nothing of it is left behind."""

import os
import signal
import subprocess
import sys
import time

import pytest

from endmark.core.refusal import CannotTry
from endmark.effects.git import Git, open_repository, read_change
from endmark.effects.git.program import Lost, OverCap, cleaned


def impostor(folder, script):
    """A PATH on which git is this script: some of what git may do cannot be had from the real one."""
    folder.mkdir(exist_ok=True)
    program = folder / "git"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("echo git version 2.37.9", r"git 2\.37 is too old: 2\.38 or newer"),
        ("echo git version 1.8.3.1", r"git 1\.8 is too old"),
        ("echo git version 2.x", "does not say a version"),
        ("echo hello", "does not say a version: hello"),
        ("echo broken >&2; exit 1", "does not say a version: broken"),
        ("exit 0", "does not say a version"),
    ],
)
def test_a_git_that_will_not_do(tmp_path, sample, said, words):
    with pytest.raises(CannotTry, match=words):
        open_repository(Git(impostor(tmp_path / "bin", said)), sample)


@pytest.mark.parametrize("said", ["git version 2.38.0", "git version 2.39.5 (Apple Git-154)", "git version 3.0.rc1"])
def test_a_git_that_will(tmp_path, said):
    assert Git(impostor(tmp_path / "bin", f"echo '{said}'")).check_version() >= (2, 38)


def test_no_git(tmp_path, sample):
    with pytest.raises(CannotTry, match="git was not found on the PATH"):
        open_repository(Git({"PATH": str(tmp_path)}), sample)
    (tmp_path / "git").write_text("no program")
    with pytest.raises(CannotTry, match=r"git (could not be started|was not found)"):
        open_repository(Git({"PATH": str(tmp_path)}), sample)


def test_no_repository(tmp_path):
    with pytest.raises(CannotTry, match="is no git repository"):
        open_repository(Git(os.environ), tmp_path)
    with pytest.raises(CannotTry, match="there is no folder"):
        open_repository(Git(os.environ), tmp_path / "none")
    (tmp_path / ".git").write_text("gitdir: /none/such\n")
    with pytest.raises(CannotTry, match="is no git repository"):
        open_repository(Git(os.environ), tmp_path)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") if os.path.exists(f"/proc/{pid}/stat") else open(os.devnull) as stat:
        return stat.read().rpartition(")")[2].split()[:1] != ["Z"]  # ended, and nobody has asked how


def wait_until(done, what):
    """What a process that was killed leaves to the system takes a moment."""
    until = time.monotonic() + 20
    while not done():
        assert time.monotonic() < until, what
        os.sched_yield() if hasattr(os, "sched_yield") else None


SLEEPER = 'sleep 300 & echo $! >"$0.pid"; wait'


def test_a_git_that_does_not_end_is_killed_with_all_it_started(tmp_path):
    environ = impostor(tmp_path / "bin", SLEEPER)
    with pytest.raises(Lost, match=r"'git version' did not end within 0.5 s"):
        Git(environ, timeout=0.5).check_version()
    pid = int((tmp_path / "bin" / "git.pid").read_text())
    wait_until(lambda: not alive(pid), "the sleeper sleeps on")


def test_a_git_that_closes_its_output_and_stays_is_killed(tmp_path):
    environ = impostor(tmp_path / "bin", "exec >&- 2>&-; sleep 300")
    with pytest.raises(Lost, match="did not end"):
        Git(environ, timeout=0.5).check_version()


def test_a_stop_ends_it(tmp_path):
    pid_file = tmp_path / "bin" / "git.pid"
    git = Git(impostor(tmp_path / "bin", SLEEPER), stop=lambda: "SIGTERM" if pid_file.exists() else None)
    began = time.monotonic()
    with pytest.raises(Lost, match="SIGTERM ended 'git version'"):
        git.check_version()
    assert time.monotonic() - began < 60


def test_an_interrupt_ends_it(tmp_path):
    """Ctrl-C reaches us alone, for git has a group of its own; it does not outlive us."""
    environ = impostor(tmp_path / "bin", SLEEPER)
    script = (
        "import sys; from endmark.effects.git import Git\n"
        "say = lambda: print('waiting', flush=True)\n"
        "try: Git({'PATH': sys.argv[1]}, stop=say).check_version()\n"
        "except KeyboardInterrupt: sys.exit(7)"
    )
    command = [sys.executable, "-c", script, environ["PATH"]]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        pid_file = tmp_path / "bin" / "git.pid"
        assert process.stdout
        assert process.stdout.readline() == b"waiting\n"
        wait_until(lambda: pid_file.exists() and pid_file.read_text().strip(), "it never started")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 7
    pid = int(pid_file.read_text())
    wait_until(lambda: not alive(pid), "the sleeper sleeps on")


def test_a_git_that_is_killed(tmp_path):
    with pytest.raises(Lost, match="'git version' was ended by signal 9"):
        Git(impostor(tmp_path / "bin", "kill -9 $$")).check_version()


def test_a_flood_is_no_answer(tmp_path):
    git = Git(impostor(tmp_path / "bin", "yes 1>&2 & yes"), timeout=60)
    with pytest.raises(CannotTry, match="wrote more than 4,096 bytes"):
        git.check_version()
    with git.start("version", cap=10) as running, pytest.raises(OverCap):
        list(running.chunks())


def test_a_flood_of_errors_is_dropped(tmp_path):
    git = Git(impostor(tmp_path / "bin", "head -c 3000000 /dev/zero | tr '\\0' e >&2; exit 3"))
    with git.start("version") as running:
        answer = running.finish()
    assert answer.code == 3
    assert len(answer.words) < 600


def test_input_that_is_not_read(tmp_path):
    git = Git(impostor(tmp_path / "bin", "echo git version 2.40"))
    with git.start("version", stdin=b"x" * 3_000_000) as running:
        assert running.finish().out == b"git version 2.40\n"


def test_input_and_output_at_once(tmp_path):
    """More than both pipes hold, both ways."""
    git = Git(impostor(tmp_path / "bin", "exec cat"))
    payload = bytes(range(256)) * 12_000
    with git.start("version", stdin=payload) as running:
        assert running.finish().out == payload


def test_words_drive_no_terminal():
    said = b"fatal: \x1b]0;owned\x07bad\nerror: \xff\xe2\x80\xaeworse\r\n\n"
    assert cleaned(said) == "\\x1b]0;owned\\x07bad; \\xff\\u202eworse"
    assert cleaned("x" * 900) == "x" * 500 + " ..."


def test_no_descriptor_is_left_open(sample, gate):
    opened = gate(sample)
    folder = next(filter(os.path.isdir, ("/proc/self/fd", "/dev/fd")))
    before = len(os.listdir(folder))
    read_change(opened, base="main", head="side")
    with pytest.raises(CannotTry):
        read_change(opened, base="main", head="none")
    assert len(os.listdir(folder)) == before
