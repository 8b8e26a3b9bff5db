"""The two hooks that guard a repository: where they stand, what is in them, and whether they are still there.

`pre-receive` says why a push is refused; `reference-transaction` stands behind it for everything that moves a ref. What
another tool put there is never overwritten: where its hooks run what lies in `NAME.d/`, ours goes there.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from endmark.core.refusal import CannotTry
from endmark.effects.git.program import failed
from endmark.effects.git.repository import Repository
from endmark.effects.git.trusted import FOLDER, KEYS, POLICY, files
from endmark.effects.git.trusted import KINDS as KINDS

NAME = "endmark"  # of our hook in a folder of another tool's
_MARK = "# Written by 'endmark hook git install'."
_MODE = 0o755


class Hook(msgspec.Struct, frozen=True):
    """One hook and where it stands. `beside`: another tool's hook runs it."""

    kind: str
    path: Path
    beside: bool


def place(repository: Repository) -> list[Hook]:
    """Where the hooks go. Raises CannotTry for a place that another tool has taken."""
    folder = folder_of(repository)
    hooks = []
    for kind in KINDS:
        beside = folder / f"{kind}.d"
        if beside.is_dir():
            path = beside / NAME
            if os.path.lexists(path) and not _is_ours(path):
                raise CannotTry(f"{path} is not ours, though it has our name. Nothing was written.")
            hooks.append(Hook(kind, path, True))
            continue
        path = folder / kind
        if os.path.lexists(path) and not _is_ours(path):
            raise CannotTry(
                f"{path} is another tool's hook. Nothing was written. Make the folder {beside}, have that hook run "
                "what lies in it, and install again."
            )
        hooks.append(Hook(kind, path, False))
    return hooks


def install(
    repository: Repository, program: Sequence[str], keys: Mapping[str, bytes], policy: bytes | None
) -> list[Hook]:
    """Write both hooks, and copies of the trusted keys and the policy beside the repository. Raises CannotTry.

    `program`: how endmark is called. Each file is whole under its name or is not there; installing again renews it.
    """
    hooks = place(repository)
    folder, trusted = Path(repository.common_dir, FOLDER), keys_folder(repository)
    try:
        for one in (folder, trusted):
            one.mkdir(exist_ok=True)
            one.chmod(_MODE)  # whatever the umask: a stranger's key in there would open every branch
        for name, content in keys.items():
            _write(trusted / name, content, 0o644)
        for old in trusted.iterdir():  # after the new ones are there, so that no push meets an empty folder
            if old.name not in keys:
                old.unlink()
        if policy is not None:
            _write(folder / POLICY, policy, 0o644)
        else:
            (folder / POLICY).unlink(missing_ok=True)
        for hook in hooks:
            hook.path.parent.mkdir(parents=True, exist_ok=True)
            _write(hook.path, _script(hook.kind, program), _MODE)
    except OSError as fault:
        raise CannotTry(f"the hooks could not be written: {fault.strerror or fault} ({fault.filename}).") from None
    return hooks


def uninstall(repository: Repository) -> list[Path]:
    """Take away both hooks, the keys and the policy; nothing of another tool's. Returns what was. Raises CannotTry."""
    folder = folder_of(repository)
    candidates = [folder / kind for kind in KINDS] + [folder / f"{kind}.d" / NAME for kind in KINDS]
    own = Path(repository.common_dir, FOLDER)
    gone = []
    try:
        for path in candidates:
            if _is_ours(path):
                path.unlink()
                gone.append(path)
        for path in (*sorted(keys_folder(repository).glob("*")), own / POLICY):
            path.unlink(missing_ok=True)
        for one in (keys_folder(repository), own):
            with suppress(FileNotFoundError):
                one.rmdir()
                gone.append(one)
    except OSError as fault:
        raise CannotTry(f"the hooks could not be removed: {fault.strerror or fault} ({fault.filename}).") from None
    return gone


def guards(repository: Repository) -> bool:
    """Whether our hook stands where git looks for it. Raises CannotTry."""
    try:
        return any(_is_ours(hook.path) for hook in place(repository))
    except CannotTry:
        return False


def problems(repository: Repository, program: Sequence[str]) -> list[str]:
    """What is wrong with the hooks as they stand, one sentence each; none for nothing."""
    try:
        hooks = place(repository)
    except CannotTry as fault:
        return [fault.detail]
    found = []
    for hook in hooks:
        try:
            content = hook.path.read_bytes()
        except OSError as fault:
            found.append(f"{hook.path}: {fault.strerror or fault}")
            continue
        if content != _script(hook.kind, program):
            found.append(f"{hook.path} is not as it was installed; install again")
        if not os.access(hook.path, os.X_OK):
            found.append(f"{hook.path} may not be run, so git skips it")
    if not files(repository).keys:
        found.append(f"{keys_folder(repository)} holds no key, so every merge is refused")
    for path in (Path(repository.common_dir, FOLDER), keys_folder(repository), *(hook.path.parent for hook in hooks)):
        with suppress(OSError):
            if path.stat().st_mode & 0o002:
                found.append(f"{path} can be changed by everybody on this machine; `chmod o-w` it")
    return found


def keys_folder(repository: Repository) -> Path:
    """Where the trusted keys of this repository stand."""
    return Path(repository.common_dir, FOLDER, KEYS)


def folder_of(repository: Repository) -> Path:
    """Where git looks for hooks: `core.hooksPath`, else the repository's own folder."""
    answer = repository.ask("rev-parse", "--path-format=absolute", "--git-path", "hooks")
    if answer.code != 0:
        raise failed(answer, "rev-parse")
    return Path(os.fsdecode(answer.out.rstrip(b"\n")))


def _is_ours(path: Path) -> bool:
    try:
        return _MARK.encode() in path.read_bytes()[:200]
    except OSError:
        return False


def _script(kind: str, program: Sequence[str]) -> bytes:
    """A refusal by anything that goes wrong: a hook that cannot run must not let through."""
    line = shlex.join([*program, kind])
    if kind == "pre-receive":
        return f'#!/bin/sh\n{_MARK}\n{line} "$@" || exit 1\n'.encode()
    return _TRANSACTION.format(mark=_MARK, line=line).encode()


# git runs this one for every ref by itself and in every state. In all but `prepared` its answer means nothing, and an
# update that names no branch moves none (git names all that it writes, also what a symbolic ref leads to).
_TRANSACTION = """\
#!/bin/sh
{mark}
[ "$1" = prepared ] || exit 0
LC_ALL=C
while IFS= read -r update; do
    case $update in *refs/heads/*)
        {line} "$1" "$update" || exit 1
        exit 0
    esac
done
[ -z "$update" ] || exit 1
exit 0
"""


def _write(path: Path, content: bytes, mode: int) -> None:
    import tempfile  # not where a hook runs

    handle, name = tempfile.mkstemp(prefix=".endmark-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
