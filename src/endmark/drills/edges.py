"""Where the events of a body begin and end, byte for byte: what a fault at an event's edge needs, and a guard too."""

import re
import struct
from enum import Enum
from itertools import pairwise

from endmark.wires import names

_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r)(?:\r\n|\n|\r(?!\n))")
_PRELUDE = struct.Struct(">I")
_SPACE = b" \t\r\n"


class Shape(Enum):
    """How a body is made of parts."""

    EVENTS = "server-sent events"
    LINES = "lines of JSON"
    FRAMES = "event-stream frames"
    DOCUMENT = "one JSON document"
    BYTES = "bytes"


_OF_WIRE = {"ollama": Shape.LINES, "bedrock": Shape.FRAMES, "gemini-array": Shape.DOCUMENT}
_OF_TYPE = {
    "text/event-stream": Shape.EVENTS,
    "application/x-ndjson": Shape.LINES,
    "application/jsonl": Shape.LINES,
    "application/x-jsonl": Shape.LINES,
    "application/stream+json": Shape.LINES,
    "application/vnd.amazon.eventstream": Shape.FRAMES,
    "application/json": Shape.DOCUMENT,
}
TYPES = {shape: kind for kind, shape in reversed(_OF_TYPE.items())}  # the usual Content-Type of each shape
STREAMS = frozenset({Shape.EVENTS, Shape.LINES, Shape.FRAMES})


def shape_of_type(content_type: str) -> Shape:
    """What a Content-Type promises."""
    return _OF_TYPE.get(content_type.partition(";")[0].strip().lower(), Shape.BYTES)


def shape_of_wire(wire: str) -> Shape:
    """How a wire streams. Raises ValueError for a wire that does not exist."""
    names.reader(wire)
    return _OF_WIRE.get(wire.partition("+")[0], Shape.EVENTS)


def shape_of(body: bytes, content_type: str, wire: str | None) -> Shape:
    """What a whole body is: by its first byte, then by its wire, then by its type."""
    shape = shape_of_wire(wire) if wire is not None else shape_of_type(content_type)
    starts = body.lstrip(_SPACE)[:1]
    if shape in (Shape.EVENTS, Shape.FRAMES) and starts == b"{":  # no frame is so long that it starts like this
        return Shape.DOCUMENT
    if shape is Shape.LINES and b"\n" not in body:
        return Shape.DOCUMENT
    return shape


def last_edge(data: bytes | bytearray, shape: Shape) -> int:
    """The number of bytes up to the end of the last event that is whole in `data`; 0 for none."""
    if shape is Shape.LINES:
        return data.rfind(b"\n") + 1
    if shape is Shape.FRAMES:
        return edges(data, shape)[-1]
    if shape is not Shape.EVENTS:
        return 0
    if 0x0D not in data:
        at = data.rfind(b"\n\n")
        return at + 2 if at >= 0 else 0
    last = 0
    for found in _BLANK_LINE.finditer(data):
        last = found.end()
    return last


def edges(data: bytes | bytearray, shape: Shape) -> list[int]:
    """0, and where each whole event ends, in order. What follows the last edge is no whole event."""
    found = [0]
    if shape is Shape.EVENTS:
        found += [match.end() for match in _BLANK_LINE.finditer(data)]
    elif shape is Shape.LINES:
        found += [match.end() for match in re.finditer(rb"\n", data)]
    elif shape is Shape.FRAMES:
        while len(data) - found[-1] >= _PRELUDE.size:
            (length,) = _PRELUDE.unpack_from(data, found[-1])
            if length < 16 or found[-1] + length > len(data):
                break
            found.append(found[-1] + length)
    return found


def events(body: bytes, shape: Shape) -> list[bytes]:
    """The whole events, and at the end what is left, if anything is."""
    cuts = edges(body, shape)
    parts = [body[a:b] for a, b in pairwise(cuts)]
    return [*parts, body[cuts[-1] :]] if cuts[-1] < len(body) else parts
