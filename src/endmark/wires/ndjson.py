"""Lines of JSON, one document each, from bytes in any portions (spec/wires.md, rules NL1-NL3)."""

from endmark.wires.framing import DEFAULT_CAP, Fault, over_cap

_NOTHING: list[bytes] = []


class LineStream:
    """Bytes in, lines out. What has arrived so far can be asked at any time and asking changes nothing.

    `received`: all bytes fed. `fault`: set for good once the cap is passed.
    """

    def __init__(self, cap: int = DEFAULT_CAP) -> None:
        self.received = 0
        self.fault: Fault | None = None
        self._limit = cap  # bytes received beyond which there is nothing to read any more
        self._tail = bytearray()  # of the line that has not ended; appending to it never copies what is there
        self._line_ended = False  # the last line that ended was not blank

    @property
    def pending(self) -> bool:
        """Whether the bytes stop inside a line (NL3)."""
        return bool(self._tail)

    @property
    def at_end(self) -> bool:
        """Whether the last byte received ended a line that is not blank, so that nothing stands after that line."""
        return self._line_ended and not self._tail

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, without their ends and without blank ones (NL1, NL2). Never raises."""
        received = self.received = self.received + len(data)
        if received > self._limit:
            if self.fault is None:
                self.fault, self._limit = over_cap(self._limit), -1
                self._tail = bytearray()
            return _NOTHING
        if 0x0A not in data:
            self._tail += data
            return _NOTHING
        if self._tail:
            self._tail += data
            data = bytes(self._tail)
            self._tail = bytearray()
        lines = data.split(b"\n")
        self._tail += lines.pop()
        found = [line for line in lines if line.strip(b" \t\r")]
        self._line_ended = bool(found) and lines[-1] is found[-1]
        return found
