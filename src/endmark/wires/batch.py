"""Many events of one shape in one read: recognised together, where `stencil` recognises each by itself.

Where the values stand is guessed by counting bytes over what must be equal. Then the block is spelled anew from the
shape and these values, and compared: only a block that is its own spelling, byte for byte, is one.
"""

import re
from collections.abc import Collection

from endmark.wires import stencil
from endmark.wires.stencil import Path

_SIMPLE = (
    b'[^"]*+'  # the inside of a string, where the block holds no backslash; what else it must not hold is asked of all
)
_NO_TEXT = bytes(0 if byte < 0x20 else 1 for byte in range(256))  # 0 for what stands in no string as it is

Columns = list[list[bytes]]


class Batch:
    """The shape of one event, `event: NAME` and `data: DOCUMENT`, with other values at the places in `groups`.

    `groups`: the place of each path's values in what `columns` returns.
    """

    def __init__(self, fixed: list[bytes], texts: list[bool], groups: dict[Path, int]) -> None:
        self.groups = groups
        self.misses = 0
        """How often in a row a block was none of it; for whoever asks to count."""
        self._fixed = fixed  # before, between and after the values
        self._between = fixed[-1] + fixed[0]
        self._texts = [at for at, text in enumerate(texts) if text]
        # What does not fit is taken to its end at once, so that nothing is looked at twice.
        self._simple = re.compile(self._jumps(texts, _SIMPLE) + b"|.+", re.DOTALL)
        self._escaped = re.compile(self._jumps(texts, stencil.TEXT.encode()) + b"|.+", re.DOTALL)

    def _jumps(self, texts: list[bool], text: bytes) -> bytes:
        whole = stencil.WHOLE.encode()
        holes = [b"(%b)" % (text if is_text else whole) for is_text in texts] + [b""]
        return b"".join(b".{%d}%b" % (len(fixed), hole) for fixed, hole in zip(self._fixed, holes, strict=True))

    def columns(self, block: bytes) -> Columns | None:
        """The values at each place, as they are spelled, of all events in `block`; None where it is anything else."""
        escaped = 0x5C in block
        rows = (self._escaped if escaped else self._simple).findall(block)
        if not rows or isinstance(rows[0], bytes):
            columns = [rows]
        else:
            columns = [list(column) for column in zip(*rows, strict=True)]
        if self._spelled(columns) != block:
            return None
        for at in self._texts:
            if not escaped and 0 in b"".join(columns[at]).translate(_NO_TEXT):
                return None
            if not _is_utf8(columns[at]):
                return None
        return columns

    def _spelled(self, columns: Columns) -> bytes:
        fixed, count = self._fixed, len(columns[0])
        if len(columns) == 1:
            return fixed[0] + self._between.join(columns[0]) + fixed[1]
        width = 2 * len(columns)
        parts = [self._between] * (width * count + 1)
        for at, column in enumerate(columns):
            parts[2 * at + 1 :: width] = column
            if at:
                parts[2 * at : -1 : width] = [fixed[at]] * count
        parts[0], parts[-1] = fixed[0], fixed[-1]
        return b"".join(parts)


def of(name: bytes, document: str, free: Collection[Path]) -> Batch | None:
    """The shape of an event with other values at the paths in `free`; see `stencil.cut`. None where there are none."""
    made = stencil.cut(document, free)
    if made is None or "\n" in document or "\r" in document:
        return None
    match = made[0].fullmatch(document)
    if match is None:  # half a pair of escapes stands in it, which is read at length
        return None
    spans = [match.span(number) for number in range(1, len(made[1]) + 1)]
    head = b"event: %b\ndata: " % name if name else b"data: "
    edges = [0, *(edge for span in spans for edge in span), len(document)]
    fixed = [document[a:b].encode() for a, b in zip(edges[::2], edges[1::2], strict=True)]
    fixed[0], fixed[-1] = head + fixed[0], fixed[-1] + b"\n\n"
    texts = [document[start - 1] == '"' for start, _ in spans]
    return Batch(fixed, texts, {path: number - 1 for path, number in made[1].items()})


def _is_utf8(values: list[bytes]) -> bool:
    """Each for itself: half a character in one and half in the next is none."""
    joined = b",".join(values)
    try:
        joined.decode()
    except UnicodeDecodeError:
        return False
    return True
