"""Reading a change from git, against the one `git diff-tree` that lists the same records and proves nothing."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.measure import Row, row
from endmark.effects.git import Gate, Git, open_repository, read_blocks, read_change
from endmark.effects.git.program import Running

_FILES = 50_000
_CHANGED = 2_000
_FOLDERS = 500
_ENVIRONMENT = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}


def run_git(folder: Path, *arguments: str, stdin: bytes | None = None) -> bytes:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, env=_ENVIRONMENT, input=stdin, capture_output=True, check=True).stdout


@contextmanager
def noted() -> Iterator[list[dict[str, Any]]]:
    """Notes what git is asked while the block runs, as `subprocess.run` takes it. When the block has ended, the list
    holds the commands whose answers were read; one that was begun for nothing is no floor to stand on."""
    begun: list[tuple[Running, dict[str, Any]]] = []
    found: list[dict[str, Any]] = []
    read: list[Running] = []
    begin, code = Running.__init__, Running.code

    def beginning(
        self: Running, command: list[str], verb: str, cwd: str | None, env: Any, stdin: bytes, *more: Any
    ) -> None:
        begin(self, command, verb, cwd, env, stdin, *more)
        begun.append((self, {"args": command, "cwd": cwd, "env": env, "input": stdin}))

    def reading(self: Running) -> int:
        read.append(self)
        return code(self)

    methods: Any = Running
    methods.__init__, methods.code = beginning, reading
    try:
        yield found
    finally:
        methods.__init__, methods.code = begin, code
        found += [how for running, how in begun if any(running is one for one in read)]


def _commit(mark: int, ref: str, files: list[int], text: str, *parents: str) -> bytes:
    lines = [f"commit refs/heads/{ref}\nmark :{mark}\ncommitter A <a@example.com> {mark} +0000\ndata 2\nx\n\n"]
    lines += [f"from {parent}\n" for parent in parents]
    for at in files:
        content = f"line {at}\n" * 5 + text
        lines.append(f"M 100644 inline src/d{at % _FOLDERS}/f{at}.py\ndata {len(content)}\n{content}\n")
    return "".join(lines).encode() + b"\n"


def make(folder: Path, count: int, changed: int) -> None:
    """`head` is ahead of `base` by changes in every folder; `aside` parted from it and changes other files."""
    run_git(folder, "init", "-q", "--bare", ".")
    step = max(1, count // changed)
    some = [at for at in range(count) if (at // _FOLDERS) % step == 0]
    other = [at for at in range(count) if (at // _FOLDERS) % step == 1][:20]
    stream = _commit(1, "base", list(range(count)), "") + _commit(2, "head", some, "changed\n", ":1")
    run_git(folder, "fast-import", "--quiet", stdin=stream + _commit(3, "aside", other, "aside\n", ":1"))


def _bare(folder: Path, base: str, head: str) -> None:
    run_git(folder, "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", base, head)


def _merge(folder: Path) -> None:
    """What git itself needs for the records of a merge: two processes."""
    tree = run_git(folder, "merge-tree", "--write-tree", "aside", "head").decode().strip()
    _bare(folder, "aside", tree)


def _ours(gate: Gate, base: str, head: str) -> None:
    read_change(gate, base=base, head=head)


def _from_nothing(git: Git, folder: Path) -> None:
    with Gate(open_repository(git, folder)) as gate:
        read_change(gate, base="base", head="head")


def _shown(gate: Gate) -> None:
    read_blocks(gate, read_change(gate, base="base", head="head"), 1 << 30)


def measure(quick: bool) -> list[Row]:
    count, changed, turns = (5_000, 200, 9) if quick else (_FILES, _CHANGED, 41)
    with tempfile.TemporaryDirectory(prefix="bench-git-") as name:
        folder = Path(name)
        make(folder, count, changed)
        git = Git(os.environ)
        size = f"{changed:,} of {count:,} files in {_FOLDERS} folders"
        records = partial(_bare, folder, "base", "head")
        patches = partial(run_git, folder, "diff-tree", "-p", "base", "head")
        limit = None if quick else 1.4
        with Gate(open_repository(git, folder)) as gate:
            ours, merged = partial(_ours, gate, "base", "head"), partial(_ours, gate, "aside", "head")
            alone = partial(_from_nothing, git, folder)
            both = partial(_merge, folder)
            return [
                row(f"diff_sha, {size} : git diff-tree (records only)", ours, records, limit, turns),
                row("the same, gate opened and closed for it", alone, records, None, turns),
                row("diff_sha of a merge : git merge-tree, git diff-tree", merged, both, None, turns),
                row("diff_sha and patches : git diff-tree -p", partial(_shown, gate), patches, None, turns),
            ]
