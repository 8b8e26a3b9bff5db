"""What the guard of a repository costs at a push: both hooks, against the git commands that they run.

The hooks run as git runs them, as programs of their own with the list of updates on standard input; the branch does not
move, so that each turn finds what the first one found.
"""

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from bench.git_reading import noted
from bench.measure import Row, row
from endmark.core import intoto, merge_message
from endmark.effects.git import Gate, Git, hooks, open_repository, read_change
from endmark.faces import guard
from endmark.sources import keys
from endmark.steps.patch_case import Case, change_of, read_place

_FILES = 10_000
_FOLDERS = 100
_POLICY = """\
[branches.main]
policy = "gate-2026-07"
reviewers = ["tests"]

[reviewers.tests]
kind = "command"
command = ["/bin/false"]
capacity = "dedicated"
"""
_PROGRAM = [sys.executable, "-I", "-c", "import gc; gc.disable(); from endmark.faces.guard import hook; hook()"]
_ENVIRONMENT = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}


def _git(folder: Path, *arguments: str, stdin: bytes | None = None) -> str:
    env = _ENVIRONMENT | {f"GIT_{role}_{what}": "a" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, env=env, input=stdin, capture_output=True, check=True).stdout.decode()


def _make(folder: Path, count: int, changed: int) -> tuple[str, str]:
    """A guarded repository, and a recorded merge that main is not at yet. Returns both commits."""
    _git(folder, "init", "-q", "--bare", "-b", "main", ".")
    out = [b"commit refs/heads/main\nmark :1\ncommitter A <a@b> 1 +0000\ndata 0\n\n"]
    files = {f"src/d{at % _FOLDERS}/f{at}.py": f"line {at}\n" * 5 for at in range(count)} | {"endmark.toml": _POLICY}
    out += [f"M 100644 inline {name}\ndata {len(text)}\n{text}\n".encode() for name, text in files.items()]
    for branch, mark, numbers in (("topic", 2, range(changed)), ("other", 3, [count - 1])):
        out.append(f"commit refs/heads/{branch}\nmark :{mark}\ncommitter A <a@b> {mark} +0000\ndata 0\n\n".encode())
        out.append(b"from :1\n")
        out += [f"M 100644 inline src/d{at % _FOLDERS}/f{at}.py\ndata 2\nx\n\n".encode() for at in numbers]
        out.append(b"\n")
    _git(folder, "fast-import", "--quiet", stdin=b"".join(out))
    _git(folder, "update-ref", "refs/heads/main", "refs/heads/other")  # the merge is a true one
    keys.new(folder / "gate.key")
    with Gate(open_repository(Git(os.environ), folder)) as gate:
        place = read_place(gate, base="main", head="topic", ref=None, policy_file=None)
        case = Case(place=place, change=read_change(gate, base="main", head="topic"))
    signed = keys.sign(intoto.dumps(_decision(case)), folder / "gate.key", intoto.PAYLOAD_TYPE)
    message = merge_message.write("Merge it", "dec_" + "0" * 26, signed)
    tree = _git(folder, "merge-tree", "--write-tree", "main", "topic").strip()
    merge = _git(folder, "commit-tree", "-p", "main", "-p", "topic", "-F", "-", tree, stdin=message).strip()
    trusted = {"gate.pub": (folder / "gate.key.pub").read_bytes()}
    hooks.install(open_repository(Git(os.environ), folder), _PROGRAM, trusted, None)
    return _git(folder, "rev-parse", "main").strip(), merge


def _decision(case: Case) -> intoto.Decision:
    sha = "0" * 64
    asked = intoto.Asked(
        attempt_id="one",
        reviewer="tests",
        kind="command",
        model=None,
        wire=None,
        temperature=None,
        max_output_tokens=None,
        capacity="dedicated",
        prompt_sha256=sha,
        shown_sha256=sha,
        verdict_sha256=sha,
        verdict="pass",
        blocking=0,
        advisory=0,
        evidence=(),
    )
    return intoto.Decision(
        decision="pass",
        change=change_of(case),
        policy_version=case.place.branch.policy,
        policy_sha256=case.place.policy.sha256,
        reviews=(asked,),
        evidence=(),
        at="2026-11-30T00:00:00Z",
    )


def _hook(folder: Path, kind: str, update: bytes) -> None:
    command = [str(folder / "hooks" / kind), *(["prepared"] if kind == guard.TRANSACTION else [])]
    subprocess.run(command, cwd=folder, env=_ENVIRONMENT | {"GIT_DIR": "."}, input=update, check=True)


def _commands(folder: Path, kind: str, update: bytes, stack: ExitStack) -> list[dict[str, Any]]:
    """What git is asked, as `subprocess.run` takes it. Each is read to its end while the guard runs."""
    with noted() as commands:
        said = guard.run(kind, "prepared", update, _ENVIRONMENT | {"GIT_DIR": os.fspath(folder)})
    if said:
        raise RuntimeError(f"the recorded merge was refused: {said}")
    gate = stack.enter_context(Gate(open_repository(Git(os.environ), folder)))  # the one of the run is gone
    for one in commands:
        if "GIT_DIR" in one["env"] and "endmark-git-" in one["env"]["GIT_DIR"]:
            one["env"] = one["env"] | {"GIT_DIR": gate.folder}
            one["cwd"] = gate.folder
    return commands


def _replay(commands: list[dict[str, Any]]) -> None:
    """Every command twice, one after another, and Python once without anything."""
    for one in commands * 2:
        subprocess.run(**one, capture_output=True, check=False)
    subprocess.run([sys.executable, "-c", "pass"], check=True)


def measure(quick: bool) -> list[Row]:
    count, turns = (1_000, 9) if quick else (_FILES, 31)
    rows = []
    for changed in (1, count // 2):
        with tempfile.TemporaryDirectory(prefix="bench-hook-") as name, ExitStack() as stack:
            folder = Path(name)
            main, merge = _make(folder, count, changed)
            update = f"{main} {merge} refs/heads/main\n".encode()
            for kind in hooks.KINDS:
                commands = _commands(folder, kind, update, stack)
                title = f"{kind}, {changed:,} of {count:,} files : its {len(commands)} git commands twice + python"
                ours = partial(_hook, folder, kind, update)
                rows.append(row(title, ours, partial(_replay, commands), None if quick else 1.0, turns))
    return rows
