"""What a reviewer is shown: the patch text of every changed path, whole or not at all."""

from collections.abc import Iterator

import msgspec

from endmark.core.diffsha import Record
from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.effects.git.change import Change
from endmark.effects.git.gate import Gate
from endmark.effects.git.objects import unreadable
from endmark.effects.git.program import OverCap
from endmark.effects.git.quoting import spelled

DEFAULT_CAP = 1 << 20  # bytes of all patches together

# Every option that has a default which a later git could change is named.
_PATCH = (
    "-c", "core.quotePath=true", "diff-tree", "-r", "-p", "--full-index", "--no-renames", "--no-color", "--no-ext-diff",
    "--no-textconv", "--unified=3", "--inter-hunk-context=0", "--diff-algorithm=histogram",
    "--indent-heuristic", "--no-function-context", "--src-prefix=a/", "--dst-prefix=b/", "--no-relative",
    "--submodule=short", "--ignore-submodules=none", "--no-color-moved",
)  # fmt: skip
_TYPE = 0o170000
_HEADER = b"diff --git "


class Block(msgspec.Struct, frozen=True):
    """The patch of one path. `is_binary`: git takes one side for no text, and the patch says only that it differs."""

    record: Record
    patch: bytes
    is_binary: bool


def read_blocks(gate: Gate, change: Change, cap: int = DEFAULT_CAP) -> tuple[Block, ...]:
    """The patches from the base's tree to the merge's tree, one for each of the change's records, in git's order.

    `gate` is the one that `change` was read in. `cap`: bytes of all patches. At most about that
    much is held in memory. Raises Refused (`diff-over-cap`) for more, CannotTry for what cannot be read.
    """
    records = change.records
    if not records:
        return ()
    with gate.start(*_PATCH, change.base.tree, change.merge_tree, cap=cap) as running:
        try:
            text = b"".join(running.chunks())
        except OverCap as over:
            raise Refused(
                Signal.DIFF_OVER_CAP, over.seen, None, f"the diff has more than the {cap:,} bytes that may be shown"
            ) from None
        if running.code() != 0:
            raise unreadable(gate, running.answer(), "diff-tree")
    parts = _split(text)
    blocks = tuple([_block(record, parts) for record in records])
    if next(parts, None) is not None:
        raise _unknown()
    return blocks


def _split(text: bytes) -> Iterator[bytes]:
    """The patches: each begins with its header, and no line of a patch's body can look like one."""
    start = 0
    while start < len(text):
        at = text.find(b"\n" + _HEADER, start)
        end = len(text) if at < 0 else at + 1
        yield text[start:end]
        start = end


def _block(record: Record, parts: Iterator[bytes]) -> Block:
    header = _HEADER + spelled(b"a/" + record.path) + b" " + spelled(b"b/" + record.path) + b"\n"
    patch = b""
    for _ in range(2 if _changes_type(record) else 1):
        part = next(parts, b"")
        if not part.startswith(header):
            raise _unknown()
        patch += part
    is_binary = any(line.startswith(b"Binary files ") for line in patch.split(b"\n") if line.endswith(b" differ"))
    return Block(record, patch, is_binary)


def _changes_type(record: Record) -> bool:
    """Whether a file became a symbolic link, or the like: git shows one going and the other coming."""
    old, new = int(record.old_mode, 8), int(record.new_mode, 8)
    return bool(old and new and (old ^ new) & _TYPE)


def _unknown() -> CannotTry:
    return CannotTry("'git diff-tree -p' answered in a form that is not known. Nothing was shown.")
