"""Lines that were reached before a file was edited, as lines of the file as it is now."""

import difflib
from typing import NamedTuple


class Block(NamedTuple):
    """Lines `old` to `old_end` became `new` to `new_end`, counted from 0, ends not included; `same` if unchanged."""

    same: bool
    old: int
    old_end: int
    new: int
    new_end: int


def blocks(before: str, after: str) -> list[Block]:
    """How the lines of one text became those of another."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    return [Block(tag == "equal", *where) for tag, *where in matcher.get_opcodes()]


def moved(mask: int, changes: list[Block]) -> int:
    """The reached lines, bit 1 for line 1. New lines count as reached where one beside or under them was."""
    found = 0
    for block in changes:
        length = block.new_end - block.new
        if block.same:
            found |= (mask >> block.old + 1 & _ones(length)) << block.new + 1
        elif mask >> block.old & _ones(block.old_end - block.old + 2):
            found |= _ones(length) << block.new + 1
    return found


def _ones(count: int) -> int:
    return (1 << count) - 1
