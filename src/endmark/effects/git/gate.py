"""The gate's own bare repository: an empty configuration, no attributes, no hooks; objects are borrowed."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from endmark.core.refusal import CannotTry
from endmark.effects.git.program import DEFAULT_CAP, Answer, Running
from endmark.effects.git.quoting import quoted
from endmark.effects.git.repository import Repository

# `commitGraph`: a cache in the borrowed store that says what is a commit's tree and parents is not believed.
_CONFIG = """\
[core]
	repositoryformatversion = {version}
	bare = true
	commitGraph = false
	logAllRefUpdates = false
[gc]
	auto = 0
[maintenance]
	auto = false
"""
_TEMPORARY = ("TMPDIR", "TEMP", "TMP")

SHARED = ("/tmp", "/var/tmp")  # noqa: S108  # nobody else can read or write in a folder of ours in there
"""Where temporary files go on a machine that names no other place."""

_SHA256 = "[extensions]\n\tobjectFormat = sha256\n"


class Gate:
    """A bare repository in a private folder (mode 0700) that lives as long as the `with` block.

    What it computes depends on objects alone: no configuration, attribute, hook, graft, replacement or index of
    `repository` is read. `quarantine` is the store of what a push brings, before `pre-receive` has judged it.
    """

    def __init__(self, repository: Repository, quarantine: str | None = None) -> None:
        self.repository = repository
        borrowed = [repository.objects] if quarantine is None else [repository.objects, quarantine]
        # Quoted, so that no character of a path ends it. git opens these, and what they borrow themselves.
        self._borrows = os.fsdecode(b":".join(quoted(os.fsencode(path)) for path in borrowed))
        self.shallow: frozenset[str] = frozenset()
        self.folder = ""

    def __enter__(self) -> Self:
        try:
            self.folder = _new_folder(self.repository.git.environ)
            self._write()
        except (OSError, ValueError) as fault:
            self._remove()
            raise CannotTry(f"the gate's own repository cannot be made: {fault}. Nothing was done.") from None
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def start(self, *arguments: str, stdin: bytes = b"", cap: int = DEFAULT_CAP) -> Running:
        """Start a process that reads what is borrowed and writes to the gate's own store. Raises CannotTry."""
        env = {"GIT_DIR": self.folder, "GIT_ALTERNATE_OBJECT_DIRECTORIES": self._borrows}
        return self.repository.git.start(*arguments, cwd=self.folder, env=env, stdin=stdin, cap=cap)

    def run(self, *arguments: str, stdin: bytes = b"", cap: int = DEFAULT_CAP) -> Answer:
        """One such process, to its end. Raises CannotTry."""
        with self.start(*arguments, stdin=stdin, cap=cap) as running:
            return running.finish()

    def write(self, *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> Answer:
        """One process whose new objects go to the real object store, flushed to the disk. Raises CannotTry."""
        to = {"GIT_DIR": self.folder, "GIT_OBJECT_DIRECTORY": self.repository.objects}
        flushed = ("-c", "core.fsync=all", *self._shared())
        with self.repository.git.start(
            *flushed, *arguments, cwd=self.folder, env=to | (env or {}), stdin=stdin
        ) as running:
            return running.finish()

    def _shared(self) -> Sequence[str]:
        """Who may read and write what is new in the store, where the repository says so."""
        answer = self.repository.ask("config", "--get", "core.sharedRepository")
        said = answer.out.decode("ascii", "replace").strip()
        return ("-c", f"core.sharedRepository={said}") if answer.code == 0 and said.isalnum() else ()

    def _write(self) -> None:
        is_sha256 = self.repository.object_format == "sha256"
        os.mkdir(f"{self.folder}/objects")
        os.mkdir(f"{self.folder}/refs")
        self._put("HEAD", "ref: refs/heads/none\n")
        self._put("config", _CONFIG.format(version=int(is_sha256)) + (_SHA256 if is_sha256 else ""))
        if self.repository.is_shallow:
            self.shallow = self.repository.shallow()
            self._put("shallow", "".join(f"{oid}\n" for oid in sorted(self.shallow)))

    def _put(self, name: str, text: str) -> None:
        with open(f"{self.folder}/{name}", "x", encoding="ascii") as file:
            file.write(text)

    def _remove(self) -> None:
        if self.folder:
            _remove(self.folder)


def _new_folder(environ: Mapping[str, str]) -> str:
    """A private folder among the temporary ones. Raises OSError.

    `tempfile` asks the same of the system, and takes longer to load than the answer.
    """
    missed = OSError("no place for temporary files")
    for place in (*(environ[name] for name in _TEMPORARY if environ.get(name)), *SHARED):
        path = os.path.join(os.path.abspath(place), f"endmark-git-{os.urandom(12).hex()}")
        try:
            os.mkdir(path, 0o700)  # fails for what is there already, a link too
        except OSError as fault:
            missed = fault
        else:
            return path
    raise missed


def _remove(folder: str) -> None:
    """Take away a folder of ours with all that is in it, as far as that can be; no link is followed."""
    for place, folders, files in os.walk(folder, topdown=False):
        for remove, names in ((os.unlink, files), (os.rmdir, folders)):
            for name in names:
                with suppress(OSError):
                    remove(os.path.join(place, name))
    with suppress(OSError):
        os.rmdir(folder)
