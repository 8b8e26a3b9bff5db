"""What the hooks of a repository call: git's list of updates on standard input, an exit code for an answer.

Nothing but a 0 from here lets an update through. It runs at every push, so it imports little.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from endmark.core.printable import safe
from endmark.core.refusal import CannotTry, Refused
from endmark.effects.git.opening import Opening
from endmark.effects.git.program import Git
from endmark.effects.git.trusted import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.core.dsse import Verify
    from endmark.effects.git.repository import Repository
    from endmark.effects.git.trusted import Files
    from endmark.push_gate import Update

RECEIVE, TRANSACTION = KINDS
_MOST_BYTES = 1 << 24  # of a list of updates
_MOST_SAID = 20


def hook() -> NoReturn:
    """The program that the hooks start. It ends at once when it has answered: nothing is left to be tidied up."""
    # msgspec looks for it, and takes `typing` where it is not installed: it is slower to load than all of ours.
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # so says the import system that there is none
    code = main()
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one hook: its kind, then git's own argument. A third one is a line that was taken from the input already.

    Returns 0 to let through, else 1.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    kind, state, *read = given + [""] * (2 - len(given))
    try:
        before = b"".join(os.fsencode(line) + b"\n" for line in read)
        said = run(kind, state, before + sys.stdin.buffer.read(_MOST_BYTES + 1), os.environ)
    except (Refused, CannotTry) as fault:
        said = [f"nothing was let through: {fault.detail}"]
    except BaseException as fault:  # noqa: BLE001  # whatever it is, it is no permission
        said = [f"nothing was let through, by a mistake in endmark or an interruption: {fault!r}"]
    try:
        for line in said:
            sys.stderr.write(f"endmark: {safe(line)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return 1 if said else 0
    return 1 if said else 0


def run(kind: str, state: str, raw: bytes, environ: Mapping[str, str]) -> list[str]:
    """Why git's list of updates is not let through, a line each; none to let it through. Raises Refused, CannotTry."""
    if kind not in KINDS:
        raise CannotTry(f"there is no hook {kind!r} here, only {' and '.join(KINDS)}")
    if kind == TRANSACTION and state != "prepared":  # in any other state git asks nobody
        return []
    git = Git(environ)
    with Opening(git, environ.get("GIT_DIR", ".")) as opening:
        from endmark.effects.git.gate import Gate  # git is at work meanwhile
        from endmark.effects.git.repository import opened
        from endmark.effects.git.trusted import files
        from endmark.push_gate import Guard

        repository = opened(git, opening)
    updates = _updates(raw, repository.oid_length, environ.get("GIT_NAMESPACE", "") if kind == RECEIVE else "")
    found = files(repository)
    with Gate(repository, environ.get("GIT_QUARANTINE_PATH") if kind == RECEIVE else None) as gate:
        guard = Guard(gate, lambda: _verifier(found, repository), found.policy, in_transaction=kind == TRANSACTION)
        refused = guard.judge(updates)
    said = [f"{update.ref} stays where it is: {detail}" for update, detail in refused[:_MOST_SAID]]
    return said + ([f"... and {len(refused) - _MOST_SAID:,} more"] if len(refused) > _MOST_SAID else [])


def _verifier(found: Files, repository: Repository) -> Verify:
    from endmark.effects.git.trusted import FOLDER, KEYS
    from endmark.sources.keys import verifier

    if not found.keys:
        folder = os.path.join(repository.common_dir, FOLDER, KEYS)
        raise CannotTry(f"{folder} holds no key, so no record counts; install the hooks again")
    return verifier(found.keys)


def _updates(raw: bytes, oid_length: int, namespace: str) -> list[Update]:
    """git's list: old id, new id and name on each line. Raises CannotTry for any other byte."""
    if len(raw) > _MOST_BYTES:
        raise CannotTry(f"more refs move at once than are judged: their list is over {_MOST_BYTES:,} bytes")
    lines = raw.split(b"\n")
    if lines.pop() or not lines:
        raise CannotTry(f"git's list of updates is cut or empty: {len(raw):,} bytes arrived")
    from endmark.push_gate import Update

    prefix = "".join(f"refs/namespaces/{part}/" for part in namespace.split("/") if part)
    updates = []
    for line in lines:
        # A name may hold any bytes but white space and control characters.
        old, new, ref = line.split(b" ") if line.count(b" ") == 2 else (b"", b"", b"")
        at_new, becomes = _value(new, oid_length)
        at_old, _ = _value(old, oid_length)
        if not ref or at_old == "" or at_new == "":
            raise CannotTry(f"git's list of updates is in a form that is not known: {line[:200]!r}")
        updates.append(Update(prefix + os.fsdecode(ref), at_old, at_new, becomes))
    return updates


def _value(raw: bytes, oid_length: int) -> tuple[str | None, str | None]:
    """(object id or None for none, what a symbolic ref leads to): "" in the first place for what is neither."""
    if raw.startswith(b"ref:") and len(raw) > 4:  # since git 2.46
        return None, os.fsdecode(raw[4:])
    text = raw.decode("ascii", "replace")
    if len(text) != oid_length or text.strip("0123456789abcdef"):
        return "", None
    return (text if text.strip("0") else None), None
