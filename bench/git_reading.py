"""Reading a change from git, against the one `git diff-tree` that lists the same records and proves nothing."""

import os
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from bench.measure import Row, row
from endmark.effects.git import Gate, Git, open_repository, read_blocks, read_change

_FILES = 50_000
_CHANGED = 2_000
_FOLDERS = 500
_ENVIRONMENT = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}


def _git(folder: Path, *arguments: str, stdin: bytes | None = None) -> bytes:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, env=_ENVIRONMENT, input=stdin, capture_output=True, check=True).stdout


def _commit(mark: int, ref: str, files: list[int], text: str, *parents: str) -> bytes:
    lines = [f"commit refs/heads/{ref}\nmark :{mark}\ncommitter A <a@example.com> {mark} +0000\ndata 2\nx\n\n"]
    lines += [f"from {parent}\n" for parent in parents]
    for at in files:
        content = f"line {at}\n" * 5 + text
        lines.append(f"M 100644 inline src/d{at % _FOLDERS}/f{at}.py\ndata {len(content)}\n{content}\n")
    return "".join(lines).encode() + b"\n"


def _make(folder: Path, count: int, changed: int) -> None:
    """`head` is ahead of `base` by changes in every folder; `aside` parted from it and changes other files."""
    _git(folder, "init", "-q", "--bare", ".")
    step = max(1, count // changed)
    some = [at for at in range(count) if (at // _FOLDERS) % step == 0]
    other = [at for at in range(count) if (at // _FOLDERS) % step == 1][:20]
    stream = _commit(1, "base", list(range(count)), "") + _commit(2, "head", some, "changed\n", ":1")
    _git(folder, "fast-import", "--quiet", stdin=stream + _commit(3, "aside", other, "aside\n", ":1"))


def _bare(folder: Path, base: str, head: str) -> None:
    _git(folder, "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", base, head)


def _ours(git: Git, folder: Path, base: str, head: str) -> None:
    with Gate(open_repository(git, folder)) as gate:
        read_change(gate, base=base, head=head)


def _shown(git: Git, folder: Path) -> None:
    with Gate(open_repository(git, folder)) as gate:
        read_blocks(gate, read_change(gate, base="base", head="head"), 1 << 30)


def measure(quick: bool) -> list[Row]:
    count, changed, turns = (5_000, 200, 9) if quick else (_FILES, _CHANGED, 41)
    with tempfile.TemporaryDirectory(prefix="bench-git-") as name:
        folder = Path(name)
        _make(folder, count, changed)
        git = Git(os.environ)
        git.check_version()
        size = f"{changed:,} of {count:,} files in {_FOLDERS} folders"
        asked = ("diff-tree", "-p", "base", "head")
        return [
            row(
                f"diff_sha, {size} : git diff-tree (records only)",
                partial(_ours, git, folder, "base", "head"),
                partial(_bare, folder, "base", "head"),
                None if quick else 1.4,
                turns,
            ),
            row(
                f"diff_sha of a merge, {size} : git diff-tree (records only)",
                partial(_ours, git, folder, "aside", "head"),
                partial(_bare, folder, "aside", "head"),
                None,
                turns,
            ),
            row(
                f"diff_sha and patches, {size} : git diff-tree -p",
                partial(_shown, git, folder),
                partial(_git, folder, *asked),
                None,
                turns,
            ),
        ]
