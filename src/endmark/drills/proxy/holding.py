"""What a guard keeps back of an answer until it is judged: from the event that declares the end on, and no more.

Clients stop reading at the terminal event, and programs at the stop reason before it; whatever came after that would
reach nobody. A document's closing bracket is its end.
"""

from typing import Protocol

from endmark.drills import edges
from endmark.drills.edges import Shape


def _key(name: str, *values: str) -> tuple[bytes, ...]:
    """A key with the beginning of its value, as JSON writers spell it. Searching for plain bytes is what is fast."""
    return tuple(f'"{name}":{space}{value}'.encode() for value in values for space in ("", " "))


# What stands in the first event that says how the answer ended, and in none before it. In a string of the answer itself
# the quotes would be escaped, so its text cannot look like this.
_FINISH = (*_key("finish_reason", '"'), b"[DONE]")
_ENDS: dict[str, tuple[bytes, ...]] = {
    "openai-chat": _FINISH,
    "mistral": _FINISH,
    "openai-responses": _key(
        "type", *(f'"response.{end}"' for end in ("completed", "incomplete", "failed", "cancelled"))
    ),
    "anthropic": _key("type", '"message_delta"', '"message_stop"'),
    "gemini": _key("finishReason", '"'),
    "gemini-array": _key("finishReason", '"'),
    "ollama": _key("done", "true"),
    "bedrock": (b"messageStop",),
    "cohere": _key("type", '"message-end"'),
}
_SPACE = b" \t\r\n"
_LONGEST_MARK = 64  # bytes, of a mark that came only in part


class Hold(Protocol):
    """Bytes in, the bytes that may go on out; the rest is in `held`. `ending`: the end is declared, all is kept now."""

    held: bytearray
    ending: bool

    def feed(self, data: bytes) -> bytes: ...

    def let(self, data: bytes, to: int) -> bytes:
        """As `feed`, where it is known that no event up to there declares the end, and that one ends there."""
        ...


class EventHold:
    """For events, lines and frames: whole events pass, until one says that the answer ends."""

    def __init__(self, shape: Shape, wire: str) -> None:
        self.held = bytearray()
        self._shape = shape
        self._marks = _ENDS[wire.partition("+")[0]]
        self.ending = False

    def feed(self, data: bytes) -> bytes:
        if self.ending:
            self.held += data
            return b""
        if self.held:
            ends_none = self._ends_none(data)
            self.held += data
            if ends_none:
                return b""
            data = bytes(self.held)
            self.held.clear()
        to = edges.last_edge(data, self._shape)
        found = [at for mark in self._marks if (at := data.find(mark, 0, to)) >= 0]
        if found:
            self.ending = True
            to = self._edge_before(data, min(found))
        self.held += data[to:]
        return data if to == len(data) else data[:to]

    def let(self, data: bytes, to: int) -> bytes:
        out = b"".join((self.held, data[:to])) if self.held else data[:to]
        self.held = bytearray(data[to:])
        return out

    def _ends_none(self, data: bytes) -> bool:
        """Whether these bytes cannot end the event that is held: a long one in small portions is not read each time."""
        if self._shape is Shape.FRAMES:
            return len(self.held) >= 4 and len(self.held) + len(data) < int.from_bytes(self.held[:4], "big")
        return 0x0A not in data and 0x0D not in data

    def _edge_before(self, data: bytes, at: int) -> int:
        if self._shape is Shape.EVENTS:
            return edges.last_edge(data[:at], self._shape)
        return max(edge for edge in edges.edges(data, self._shape) if edge <= at)


class BracketHold:
    """For one document, and for an array: all passes but what may be the last bracket; of an array, from the last
    element's stop reason on."""

    def __init__(self, wire: str, array: bool) -> None:
        self.held = bytearray()
        self._marks = _ENDS[wire.partition("+")[0]] if array else ()
        self.ending = False

    def feed(self, data: bytes) -> bytes:
        self.held += data
        if self.ending:
            return b""
        if self._marks:
            found = [at for mark in self._marks if (at := self.held.find(mark)) >= 0]
            if found:
                self.ending = True
                return self._let(min(found))
            return self._let(max(0, len(self.held) - _LONGEST_MARK))
        return self._let(max(0, len(self.held.rstrip(_SPACE)) - 1))

    def let(self, data: bytes, to: int) -> bytes:
        """Nothing is known of one document before its end."""
        return self.feed(data)

    def _let(self, to: int) -> bytes:
        out = bytes(self.held[:to])
        del self.held[:to]
        return out


def of(shape: Shape, wire: str) -> Hold:
    """The hold for a body of this shape."""
    if shape in edges.STREAMS:
        return EventHold(shape, wire)
    return BracketHold(wire, array=wire == "gemini-array")
