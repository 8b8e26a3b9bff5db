"""The two hooks that guard a repository: where they stand, what is in them, and whether they are still there.

`pre-receive` says why a push is refused; `reference-transaction` stands behind it for everything that moves a ref. What
another tool put there is never overwritten: where its hooks run what lies in `NAME.d/`, ours goes there.
"""

import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from endmark.core.refusal import CannotTry
from endmark.effects.git.program import failed
from endmark.effects.git.repository import Repository

KINDS = ("pre-receive", "reference-transaction")
FOLDER = "endmark"  # in the repository's own folder: the keys and the policy that the hooks go by
POLICY = "policy.toml"
_KEYS = "keys"
_MARK = "# Written by 'endmark hook git install'."
_MODE = 0o755


class Hook(msgspec.Struct, frozen=True):
    """One hook and where it stands. `beside`: another tool's hook runs it."""

    kind: str
    path: Path
    beside: bool


class Files(msgspec.Struct, frozen=True):
    """What the hooks go by: files of trusted keys, and a policy on this machine or None."""

    keys: tuple[Path, ...]
    policy: Path | None


def place(repository: Repository) -> list[Hook]:
    """Where the hooks go. Raises CannotTry for a place that another tool has taken."""
    folder = _folder(repository)
    hooks = []
    for kind in KINDS:
        beside = folder / f"{kind}.d"
        if beside.is_dir():
            hooks.append(Hook(kind, beside / "endmark", True))
            continue
        path = folder / kind
        if path.exists() and not _is_ours(path):
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
    folder = Path(repository.common_dir, FOLDER)
    try:
        (folder / _KEYS).mkdir(parents=True, exist_ok=True)
        for old in (folder / _KEYS).iterdir():
            if old.name not in keys:
                old.unlink()
        for name, content in keys.items():
            _write(folder / _KEYS / name, content, 0o644)
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
        found.append(f"{Path(repository.common_dir, FOLDER, _KEYS)} holds no key, so every push is refused")
    return found


def files(repository: Repository) -> Files:
    """What the hooks of this repository go by."""
    folder = Path(repository.common_dir, FOLDER)
    keys = sorted(path for path in (folder / _KEYS).glob("*") if path.is_file())
    policy = folder / POLICY
    return Files(tuple(keys), policy if policy.exists() else None)


def _folder(repository: Repository) -> Path:
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
    line = shlex.join([*program, "hook", "git", "run", kind])
    return f'#!/bin/sh\n{_MARK}\n{line} "$@" || exit 1\n'.encode()


def _write(path: Path, content: bytes, mode: int) -> None:
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
