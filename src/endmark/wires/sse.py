"""Server-sent events, framed as the WHATWG standard says, from bytes in any portions (spec/wires.md, rules E1-E9)."""

from endmark.core.refusal import Signal
from endmark.wires.framing import DEFAULT_CAP, Fault, over_cap

Event = tuple[bytes, bytes]  # the `event` field (b"" where none was sent), and the data

_BOM = b"\xef\xbb\xbf"
_NOTHING: list[Event] = []


class EventStream:
    """Bytes in, events out. What has arrived so far can be asked at any time and asking changes nothing.

    `received`: all bytes fed. `fault`: set for good once the bytes cannot be an event stream.
    """

    def __init__(self, cap: int = DEFAULT_CAP) -> None:
        self.received = 0
        self.fault: Fault | None = None
        self._limit = cap  # bytes received beyond which there is nothing to read any more
        self._tail = bytearray()  # of the line that has not ended; appending to it never copies what is there
        self._skip_lf = False  # the last byte was a CR, so an LF now belongs to it
        self._crlf = False  # the stream has used CRLF
        self._started = False  # the first line has been read
        self._name = b""
        self._data: bytes | None = None  # the first data line of the event that has not ended
        self._more: list[bytes] | None = None  # its data lines, once there are two
        self._event_ended = False  # an event has ended, and since then only comments and empty lines have come

    @property
    def pending(self) -> bool:
        """Whether the bytes stop inside a line, an event or a CRLF (E8)."""
        return bool(self._tail or self._name) or self._data is not None or (self._skip_lf and self._crlf)

    @property
    def at_end(self) -> bool:
        """Whether nothing stands after the last event but whole comments and empty lines, which are no events (A4)."""
        return self._event_ended and not self._tail

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes, in order. Never raises for what the bytes hold."""
        received = self.received = self.received + len(data)
        if received > self._limit:
            if self.fault is None:
                self._give_up(over_cap(self._limit))
            return _NOTHING
        if self._skip_lf and data:
            self._skip_lf = False
            if data[0] == 0x0A:  # E2: the CR ended the line when it came, this LF ends nothing
                self._crlf = True
                data = data[1:]
        if 0x0A in data or 0x0D in data:  # numbers: a bytes needle costs ten times as much
            return self._lines(data)
        self._tail += data
        return _NOTHING

    def under_way(self, more: int) -> bytes | None:
        """The event that has not ended, as one may spell what is known of it; b"" for none, None where it has no such
        spelling, or where `more` bytes are more than is read. For who recognises whole events without their lines."""
        if self._skip_lf or self._more is not None or self.received + more > self._limit:
            return None
        name = b"event: %b\n" % self._name if self._name else b""
        data = b"data: %b\n" % self._data if self._data is not None else b""
        return name + data + self._tail if name or data else bytes(self._tail)

    def ended_elsewhere(self, count: int) -> None:
        """Tells that `count` more bytes ended the event under way, and others, the last of them with its last byte."""
        self.received += count
        self._tail = bytearray()
        self._name, self._data, self._event_ended = b"", None, True

    def _lines(self, data: bytes) -> list[Event]:
        if self._tail:
            self._tail += data
            data = bytes(self._tail)
            self._tail = bytearray()
        lines = data.splitlines()  # of bytes: at LF, CR and CRLF, and at nothing else (E2)
        last = data[-1]
        if last == 0x0D:
            self._skip_lf = True
            self._crlf = self._crlf or b"\r\n" in data
        elif last != 0x0A:
            self._tail += lines.pop()
        if not self._started:
            self._started = True
            if lines[0].startswith(_BOM):  # E1
                lines[0] = lines[0][3:]
        events: list[Event] = []
        name, first, ended = self._name, self._data, self._event_ended
        for line in lines:
            if line[:6] == b"data: ":
                ended = False
                if first is None:
                    first = line[6:]
                else:
                    self._add(first, line[6:])
            elif not line:  # E5: an event ends; one without data is none
                if first is not None:
                    if self._more is not None:  # E7
                        first, self._more = b"\n".join(self._more), None
                    events.append((name, first))
                    first = None
                    ended = True
                name = b""
            else:
                field, _, value = line.partition(b":")
                if value[:1] == b" ":
                    value = value[1:]
                ended = ended and not field  # a comment is nothing, the start of an event is something
                if field == b"data":
                    if first is None:
                        first = value
                    else:
                        self._add(first, value)
                elif field == b"event":
                    name = value
                elif field not in (b"", b"id", b"retry"):  # E3 E4: a comment, or what says nothing of the answer
                    self._give_up(_unknown(field))
                    return events
        self._name, self._data = name, first
        self._event_ended = ended
        return events

    def _add(self, first: bytes, value: bytes) -> None:
        if self._more is None:
            self._more = [first]
        self._more.append(value)

    def _give_up(self, fault: Fault) -> None:
        self.fault, self._limit, self._event_ended = fault, -1, False
        self._tail, self._skip_lf = bytearray(), False
        self._name, self._data, self._more = b"", None, None


def _unknown(field: bytes) -> Fault:
    """E6: the standard skips such a line; here it may be a damaged `data`, or an error put between the events."""
    said = ascii(field[:40].decode("utf-8", "replace"))
    return Fault(Signal.BAD_STOP, f"a line that is no server-sent event field was found: {said}")
