"""A file or standard input, read to its end before anybody looks at a byte."""

import sys
from io import BufferedIOBase
from typing import cast

STDIN = "-"
_CHUNK = 1 << 20


class Unreadable(Exception):
    """The bytes could not be had. One clause says why; `name` is what the caller called them."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


def read(name: str, limit: int) -> bytes:
    """All bytes of the file `name`, or of standard input for `-`, but no more than `limit`.

    Who passes a limit above the largest acceptable input loses nothing: what is longer is refused anyway, and need not
    be read to its end. Raises `Unreadable`.
    """
    try:
        if name == STDIN:
            if sys.stdin is None:
                raise Unreadable("standard input", "it is closed")
            return _drain(cast(BufferedIOBase, sys.stdin.buffer), limit)
        with open(name, "rb") as file:
            return _drain(file, limit)
    except IsADirectoryError:
        raise Unreadable(name, "it is a folder, a file was expected") from None
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)
        raise Unreadable("standard input" if name == STDIN else name, why) from None


def _drain(stream: BufferedIOBase, limit: int) -> bytes:
    """Read until the end or the limit, one system call at a time: a terminal says its end only once."""
    chunks: list[bytes] = []
    while limit > 0 and (chunk := stream.read1(min(limit, _CHUNK))):
        chunks.append(chunk)
        limit -= len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
