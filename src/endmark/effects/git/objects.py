"""Commits and files, read by their ids; a commit's bytes are seen to be those of its id."""

import hashlib
import os
import re
from collections.abc import Sequence

import msgspec

from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.effects.git.gate import Gate
from endmark.effects.git.program import Answer, Running, failed

_COMMIT = re.compile(rb"tree ([0-9a-f]+)\n((?:parent [0-9a-f]+\n)*)author ")
_BLOBS_CAP = 1 << 28  # bytes of a few files, each of them once
_COMMIT_CAP = 1 << 26  # bytes of a few commits, messages and signatures included


class Commit(msgspec.Struct, frozen=True):
    """A commit: its id, its tree and its parents, in order, and its message as it is stored."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    message: bytes


def start_commits(gate: Gate, oids: Sequence[str]) -> Running:
    """Start reading commits; `commits` takes the answer. Tags are peeled."""
    asked = "".join(f"{oid}^{{commit}}\n" for oid in oids)
    return gate.start("cat-file", "--batch", stdin=asked.encode(), cap=_COMMIT_CAP)


def commits(gate: Gate, oids: Sequence[str], answer: Answer) -> list[Commit]:
    """The commits that `start_commits` asked for. Raises CannotTry for what is missing or is no commit."""
    rest, found = answer.out, []
    for oid in oids:
        line, newline, rest = rest.partition(b"\n")
        head = re.fullmatch(rb"([0-9a-f]+) commit (\d{1,12})", line)
        if not newline or head is None:
            raise missing(gate, oid, answer)
        size = int(head[2])
        body, end, rest = rest[:size], rest[size : size + 1], rest[size + 1 :]
        if end != b"\n":
            raise failed(answer, "cat-file")
        found.append(_commit(gate, head[1].decode(), body))
    if answer.code != 0 or rest:
        raise failed(answer, "cat-file")
    return found


def read_commit(gate: Gate, oid: str) -> Commit:
    """One commit. Raises CannotTry."""
    return read_commits(gate, [oid])[0]


def read_commits(gate: Gate, oids: Sequence[str]) -> list[Commit]:
    """Commits, in one process. Raises CannotTry for the first that is missing or is none."""
    with start_commits(gate, oids) as running:
        return commits(gate, oids, running.finish())


def _commit(gate: Gate, oid: str, body: bytes) -> Commit:
    sha = hashlib.new(gate.repository.object_format, b"commit %d\0" % len(body), usedforsecurity=False)
    sha.update(body)
    head = _COMMIT.match(body)
    if sha.hexdigest() != oid or head is None:
        raise _damaged(oid)
    parents = tuple(line.split()[1].decode() for line in head[2].splitlines())
    return Commit(oid, head[1].decode(), parents, body.partition(b"\n\n")[2])


def _damaged(oid: str) -> CannotTry:
    return CannotTry(f"the object store is damaged: what it holds as commit {oid} is another object. Nothing was done.")


def missing(gate: Gate, oid: str, answer: Answer) -> CannotTry:
    """What is raised for a commit that is not there, with the command that mends it."""
    if "mismatch" in answer.words or "corrupt" in answer.words:
        return _damaged(oid)
    if gate.repository.is_shallow:
        return CannotTry(
            f"there is no commit {oid} in this shallow clone. Nothing was done; run 'git fetch --unshallow' first."
        )
    why = f" ({answer.words})" if answer.words else ""
    return CannotTry(f"there is no commit {oid} here{why}. Nothing was done; fetch it first.")


def unreadable(gate: Gate, answer: Answer, verb: str) -> CannotTry:
    """What is raised when git failed on an object."""
    if gate.repository.is_partial():
        return CannotTry(
            f"this partial clone lacks an object that is needed: {answer.words}. Nothing was done; run "
            "'git fetch --refetch --no-filter' first, or use a full clone."
        )
    return failed(answer, verb)


def read_file(gate: Gate, commit: str, path: bytes, cap: int) -> bytes | None:
    """The bytes of the file at `path` in the tree of `commit` (an id), or None if nothing is there.

    Raises Refused (`wrong-type`) for what is no plain file and (`over-cap`) for one over `cap` bytes, CannotTry for
    what cannot be read.
    """
    listed = gate.run("ls-tree", "-z", "-l", "--full-tree", commit, "--", os.fsdecode(path))
    if listed.code != 0:
        raise unreadable(gate, listed, "ls-tree")
    if not listed.out:
        return None
    entry = re.fullmatch(rb"(\d{6}) \w+ ([0-9a-f]+) +(\d+|-)\t(.+)\0", listed.out, re.DOTALL)
    if entry is None or entry[4] != path or entry[1] not in (b"100644", b"100755"):
        raise Refused(Signal.WRONG_TYPE, 0, None, f"{path!r} in {commit} is no plain file")
    size = int(entry[3])
    if size > cap:
        raise Refused(Signal.OVER_CAP, size, cap, f"{path!r} in {commit} has {size:,} bytes, over {cap:,}")
    answer = gate.run("cat-file", "blob", entry[2].decode(), cap=cap)
    if answer.code != 0 or len(answer.out) != size:
        raise unreadable(gate, answer, "cat-file")
    return answer.out


def read_everywhere(gate: Gate, commits: Sequence[str], path: bytes, cap: int) -> dict[str, bytes | Refused | None]:
    """The bytes at `path` in each of `commits` (ids), None where nothing is there: two processes for any number.

    A symbolic link is the name it holds; Refused (`over-cap`) stands for a file over `cap` bytes. Raises CannotTry for
    what cannot be read.
    """
    asked = b"".join(b"%s^{tree}\n%s:%s\n" % (oid.encode(), oid.encode(), path) for oid in commits)
    listed = gate.run("cat-file", "--batch-check", stdin=asked)
    lines = listed.out.splitlines()
    if listed.code != 0 or listed.words or len(lines) != 2 * len(commits):
        raise unreadable(gate, listed, "cat-file")
    blobs: dict[str, str | Refused | None] = {}
    for oid, tree, found in zip(commits, lines[::2], lines[1::2], strict=True):
        if not re.fullmatch(rb"[0-9a-f]+ tree \d+", tree):
            raise missing(gate, oid, listed)
        entry = re.fullmatch(rb"([0-9a-f]+) (\w+) (\d+)", found)
        blobs[oid] = entry[1].decode() if entry is not None and entry[2] == b"blob" else None
        if entry is not None and int(entry[3]) > cap:
            size = int(entry[3])
            blobs[oid] = Refused(Signal.OVER_CAP, size, cap, f"{path!r} in {oid} has {size:,} bytes, over {cap:,}")
    bodies = _blobs(gate, sorted({blob for blob in blobs.values() if isinstance(blob, str)}))
    return {oid: bodies[blob] if isinstance(blob, str) else blob for oid, blob in blobs.items()}


def _blobs(gate: Gate, oids: Sequence[str]) -> dict[str, bytes]:
    if not oids:
        return {}
    answer = gate.run("cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in oids).encode(), cap=_BLOBS_CAP)
    rest, found = answer.out, {}
    for oid in oids:
        line, _, rest = rest.partition(b"\n")
        head = re.fullmatch(rb"%s blob (\d{1,12})" % oid.encode(), line)
        if head is None:
            raise unreadable(gate, answer, "cat-file")
        found[oid], rest = rest[: int(head[1])], rest[int(head[1]) + 1 :]
    if answer.code != 0 or rest:
        raise unreadable(gate, answer, "cat-file")
    return found
