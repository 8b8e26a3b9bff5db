"""The first question to git, where a repository is: asked early, so that it is answered by the time it is read."""

import os
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from endmark.effects.git.program import Answer, Git, Running

SMALL = 1 << 16
"""Bytes that one answer about a repository may have."""

# Only the folder's owner may switch git's check for foreign folders off, by a file that we do not read. None of the
# programs that the check is there for is run by what we ask.
ANY_OWNER = ("-c", "safe.directory=*", "-c", "safe.bareRepository=all")

NO_WORK_TREE = {"GIT_WORK_TREE": "/"}
"""Read in place of `core.worktree`, which may name a folder that is not there. No file of a work tree is looked at."""

QUESTIONS = (
    ("--absolute-git-dir",),
    ("--path-format=absolute", "--git-common-dir"),
    ("--path-format=absolute", "--git-path", "objects"),
    ("--show-object-format=storage",),
    ("--is-shallow-repository",),
)


def ask(git: Git, place: str, words: tuple[str, ...]) -> Running:
    """Start asking where the repository at `place` has its parts. Raises CannotTry."""
    return git.start(*ANY_OWNER, "rev-parse", *words, cwd=place, env=NO_WORK_TREE, cap=SMALL)


class Opening:
    """A repository that git was asked for, and git's version; `repository.opened` reads the answers.

    Both processes run from the start of the `with` block, which none of them outlives. Raises CannotTry.
    """

    def __init__(self, git: Git, folder: str | os.PathLike[str]) -> None:
        self.place = os.path.abspath(folder)
        self._git = git
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            words = tuple(word for question in QUESTIONS for word in question)
            self._asked = stack.enter_context(ask(self._git, self.place, words))
            self._versioned = self._git.start_version()
            if self._versioned is not None:
                stack.enter_context(self._versioned)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def finish(self) -> Answer:
        """What git said. Raises CannotTry, also for a git that is too old."""
        if self._versioned is not None:
            self._git.note_version(self._versioned.finish())
        return self._asked.finish()
