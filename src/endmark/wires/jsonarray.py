"""One JSON array of objects, element by element, from bytes in any portions (spec/wires.md, rules JA1-JA5).

Nothing is decoded here. Brackets and strings say where an element ends; whether it is strict JSON is judged by whoever
reads it. Bytes that hide an end from this scan are not JSON, and are refused there.
"""

import re

from endmark.core.refusal import Signal
from endmark.wires.framing import DEFAULT_CAP, Fault, over_cap

# JA3: what counts in an element. No repeats, so no memory.
_OUTSIDE = re.compile(rb'["\[{\]}]')
_IN_STRING = re.compile(rb'"|\\.?', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*")

CLOSED = b"]"  # the last item of all

_NOTHING: list[bytes] = []


class ArrayStream:
    """Bytes in, elements out, then `CLOSED`. What has arrived so far can be asked at any time; asking changes nothing.

    `received`: all bytes fed. `fault`: set for good once the bytes cannot be an array of objects.
    `at_end`: the array is closed.
    """

    def __init__(self, cap: int = DEFAULT_CAP) -> None:
        self.received = 0
        self.fault: Fault | None = None
        self.at_end = False
        self._cap = cap
        self._due = b"["  # the bytes of which one must come next, outside an element
        self._tail = bytearray()  # of the element that has not ended
        self._depth = 0  # of brackets in it
        self._in_string = False
        self._escaped = False  # the last byte was a backslash

    @property
    def pending(self) -> bool:
        """Whether the array has not closed yet (JA4)."""
        return not self.at_end

    def feed(self, data: bytes) -> list[bytes]:
        """The elements that `data` completes, in order. Never raises for what the bytes hold."""
        self.received += len(data)
        if self.fault is not None:
            return _NOTHING
        if self.received > self._cap:
            self._give_up(over_cap(self._cap))
            return _NOTHING
        items: list[bytes] = []
        at, end = 0, len(data)
        while at < end and self.fault is None:
            at = self._inside(data, at, items) if self._depth else self._between(data, at, items)
        return items

    def _between(self, data: bytes, at: int, items: list[bytes]) -> int:
        """JA1 JA2: white space and one byte of what is due."""
        space = _SPACE.match(data, at)
        at = space.end() if space else at
        if at == len(data):
            return at
        found = data[at : at + 1]
        if not self._due:
            self._give_up(Fault(Signal.BYTES_AFTER_END, "something follows the array"))  # JA5
        elif found not in self._due:
            words = " or ".join(repr(chr(byte)) for byte in self._due)
            came = ascii(found.decode("latin-1"))
            self._give_up(Fault(Signal.NOT_JSON, f"the array is malformed: {words} was expected, {came} came"))
        elif found == b"{":
            self._depth = 1
            self._tail += found
        elif found == CLOSED:
            self._due, self.at_end = b"", True
            items.append(CLOSED)
        else:
            self._due = b"{]" if found == b"[" else b"{"
        return at + 1

    def _inside(self, data: bytes, at: int, items: list[bytes]) -> int:
        """JA3: the rest of an element, or as much of it as there is. Returns where it ends."""
        first = at
        if self._escaped:
            self._escaped = False
            at += 1
        while (token := (_IN_STRING if self._in_string else _OUTSIDE).search(data, at)) is not None:
            at = token.end()
            mark = data[token.start()]
            if mark == 0x22:
                self._in_string = not self._in_string
            elif mark == 0x5C:
                self._escaped = at - token.start() == 1  # the byte that it takes with it has not come
            elif mark in b"[{":
                self._depth += 1
            else:
                self._depth -= 1
                if not self._depth:
                    self._due = b",]"
                    self._tail += data[first:at]
                    items.append(bytes(self._tail))
                    self._tail = bytearray()
                    return at
        self._tail += data[first:]
        return len(data)

    def _give_up(self, fault: Fault) -> None:
        self.fault = fault
        self._tail = bytearray()
