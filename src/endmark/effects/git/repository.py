"""The repository that a change lies in: where its parts are. Nothing of it is changed here."""

import os

import msgspec

from endmark.core.diffsha import OID_LENGTH
from endmark.core.refusal import CannotTry, NotThere
from endmark.effects.git.opening import NO_WORK_TREE, QUESTIONS, SMALL, Opening, ask
from endmark.effects.git.program import Answer, Git, Running, failed


class Repository(msgspec.Struct, frozen=True):
    """One repository, as seen from one of its work trees or from itself.

    `git_dir` has the HEAD of this work tree; `common_dir` has the branches; `objects` is the object store.
    """

    git: Git
    git_dir: str
    common_dir: str
    objects: str
    object_format: str
    is_shallow: bool

    @property
    def oid_length(self) -> int:
        return OID_LENGTH[self.object_format]

    def ask(self, *arguments: str, cap: int = SMALL) -> Answer:
        """One git process that reads this repository itself, under its own configuration. Raises CannotTry."""
        with self.start(*arguments, cap=cap) as running:
            return running.finish()

    def start(self, *arguments: str, cap: int = SMALL) -> Running:
        """Start such a process. Raises CannotTry."""
        return self.git.start(*arguments, cwd=self.git_dir, env={"GIT_DIR": self.git_dir} | NO_WORK_TREE, cap=cap)

    def change(self, *arguments: str, network: bool = False, stoppable: bool = True) -> Answer:
        """One git process that changes it, with its hooks. Raises CannotTry, also when the process was lost."""
        env = {"GIT_DIR": self.git_dir}
        with self.git.start(
            *arguments, cwd=self.git_dir, env=env, cap=SMALL, network=network, stoppable=stoppable
        ) as running:
            return running.finish()

    def at_home(self) -> "Repository":
        """The same, as seen from the folder that has the branches, whatever work tree it was opened from."""
        return self if self.git_dir == self.common_dir else msgspec.structs.replace(self, git_dir=self.common_dir)

    def shallow(self) -> frozenset[str]:
        """The commits whose parents are not there, though they have some. Raises CannotTry."""
        try:
            with open(os.path.join(self.common_dir, "shallow"), encoding="ascii") as file:
                text = file.read()
        except FileNotFoundError:
            return frozenset()
        except (OSError, ValueError) as fault:
            raise CannotTry(f"the repository's list of shallow commits cannot be read: {fault}") from None
        return frozenset(text.split())

    def is_partial(self) -> bool:
        """Whether it was cloned with a filter, so that objects may be missing."""
        try:
            return any(name.endswith(".promisor") for name in os.listdir(os.path.join(self.objects, "pack")))
        except OSError:
            return False


def open_repository(git: Git, folder: str | os.PathLike[str]) -> Repository:
    """The repository that `folder` is, or lies in, found as git finds it: work tree, `.git` file, bare, submodule.

    Raises CannotTry when there is none, or git is missing or too old.
    """
    with Opening(git, folder) as opening:
        return opened(git, opening)


def opened(git: Git, opening: Opening) -> Repository:
    """The repository that an opening led to. Raises as `open_repository`."""
    place, answer = opening.place, opening.finish()
    if answer.code != 0:
        raise _no_repository(place, answer)
    said = answer.out.split(b"\n")
    if len(said) != len(QUESTIONS) + 1:  # a path holds a line break: ask for one thing at a time
        said = [_one(git, place, question) for question in QUESTIONS]
    git_dir, common_dir, objects = (_path(place, name) for name in said[:3])
    object_format = said[3].decode("ascii", "replace")
    if object_format not in OID_LENGTH:
        raise CannotTry(f"the repository's object format {object_format!r} is not known: {', '.join(OID_LENGTH)} are")
    return Repository(git, git_dir, common_dir, objects, object_format, said[4] == b"true")


def _one(git: Git, place: str, question: tuple[str, ...]) -> bytes:
    with ask(git, place, question) as running:
        answer = running.finish()
    if answer.code != 0:
        raise _no_repository(place, answer)
    return answer.out.removesuffix(b"\n")


def _path(place: str, name: bytes) -> str:
    path = os.path.join(place, os.fsdecode(name))
    if not os.path.isdir(path):
        raise CannotTry(f"the repository at {place} names {path}, which is no folder")
    return path


def _no_repository(place: str, answer: Answer) -> CannotTry:
    if "not a git repository" in answer.words:
        return NotThere(f"{place} is no git repository, nor within one. Nothing was done; --repo names another folder.")
    return failed(answer, "rev-parse")
