"""Where a branch is checked out: moving it there would make somebody's files look like a change they never made."""

import os
from collections.abc import Iterator
from pathlib import Path

from endmark.core.refusal import CannotTry
from endmark.effects.git.program import failed
from endmark.effects.git.repository import Repository

_CAP = 1 << 24
# What git keeps while a work tree is between two states: the branch that it will go back to stands in these files.
_BETWEEN = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START", "rebase-merge/update-refs")
_LARGEST = 1 << 20  # bytes of such a file


def checked_out(repository: Repository, ref: str) -> str | None:
    """Where the branch `ref` (a full name) is checked out, or being rebased or bisected; None if nowhere.

    Raises CannotTry when that cannot be told.
    """
    answer = repository.ask("worktree", "list", "--porcelain", "-z", cap=_CAP)
    if answer.code != 0:
        raise failed(answer, "worktree list")
    for place in answer.out.split(b"\0\0"):
        lines = place.split(b"\0")
        if b"branch " + ref.encode() in lines:
            return _named(lines)
    git_dirs = list(_git_dirs(repository))
    # A repository that calls itself bare, though there is an index: its HEAD is somebody's work tree all the same.
    if os.path.exists(Path(repository.common_dir, "index")) and _first_line(Path(repository.common_dir, "HEAD")) == (
        f"ref: {ref}"
    ):
        return repository.common_dir
    short = ref.removeprefix("refs/heads/")
    for git_dir in git_dirs:
        for name in _BETWEEN:
            if not {ref, short}.isdisjoint(_lines(git_dir / name)):
                return f"{git_dir} ({name.partition('/')[0]})"
    return None


def _named(lines: list[bytes]) -> str:
    return os.fsdecode(lines[0].removeprefix(b"worktree "))


def _git_dirs(repository: Repository) -> Iterator[Path]:
    """The git folder of the main work tree and of every linked one."""
    common = Path(repository.common_dir)
    yield common
    try:
        yield from sorted((common / "worktrees").iterdir())
    except FileNotFoundError:
        return
    except OSError as fault:
        raise CannotTry(f"the work trees of {common} cannot be listed: {fault.strerror}") from None


def _lines(path: Path) -> set[str]:
    try:
        with path.open("rb") as file:
            return set(file.read(_LARGEST).decode("utf-8", "replace").splitlines())
    except (FileNotFoundError, NotADirectoryError):
        return set()
    except OSError as fault:
        raise CannotTry(f"{path} cannot be read: {fault.strerror}") from None


def _first_line(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").partition("\n")[0]
    except OSError:
        return ""
