"""AWS event streams: binary frames, two checksums each, from bytes in any portions (spec/wires.md, rules ES1-ES7)."""

from struct import Struct
from typing import NamedTuple
from zlib import crc32

from endmark.core.refusal import Signal
from endmark.wires.framing import DEFAULT_CAP, Fault, over_cap

MAX_HEADERS = 128 * 1024
MAX_PAYLOAD = 24 * 1024 * 1024

# ES1: the frame
_PRELUDE = Struct(">III")  # length of the frame, length of its headers, CRC of these eight bytes
_CRC = Struct(">I")
_LEAST = _PRELUDE.size + _CRC.size
# ES5: header value types. The fixed ones by their size; bytes and strings say theirs in two bytes.
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_BYTES, _STRING = 6, 7
_NAMED_BY = {"event": ":event-type", "exception": ":exception-type", "error": ":error-code"}


class Message(NamedTuple):
    """One frame: what it is (`event`, `exception`, `error`), which one, and its payload."""

    kind: str
    name: str
    payload: bytes


_NOTHING: list[Message] = []


class FrameStream:
    """Bytes in, messages out. What has arrived so far can be asked at any time and asking changes nothing.

    `received`: all bytes fed. `fault`: set for good once the bytes cannot be an event stream.
    """

    def __init__(self, cap: int = DEFAULT_CAP) -> None:
        self.received = 0
        self.fault: Fault | None = None
        self._cap = cap
        self._tail = bytearray()  # of the frame that has not ended; appending to it never copies what is there
        self._need = _PRELUDE.size  # nothing can be said before this many bytes of it are here

    @property
    def pending(self) -> bool:
        """Whether the bytes stop inside a frame (ES7)."""
        return bool(self._tail)

    @property
    def at_end(self) -> bool:
        """Whether nothing stands after the last whole frame: nothing can stand between frames."""
        return not self._tail

    def feed(self, data: bytes) -> list[Message]:
        """The messages that `data` completes, in order. Never raises for what the bytes hold."""
        self.received += len(data)
        if self.fault is not None:
            return _NOTHING
        if self.received > self._cap:
            self._give_up(over_cap(self._cap))
            return _NOTHING
        if len(self._tail) + len(data) < self._need:
            self._tail += data
            return _NOTHING
        return self._frames(data)

    def _frames(self, data: bytes) -> list[Message]:
        if self._tail:
            self._tail += data
            data = bytes(self._tail)
            self._tail = bytearray()
        view = memoryview(data)
        messages: list[Message] = []
        at, end = 0, len(data)
        self._need = _PRELUDE.size
        while end - at >= _PRELUDE.size:
            total, headers, declared = _PRELUDE.unpack_from(view, at)
            fault = _prelude_fault(view[at : at + 8], total, headers, declared)
            if fault is None and end - at < total:
                self._need = total
                break
            if fault is None and crc32(view[at : at + total - 4]) != _CRC.unpack_from(view, at + total - 4)[0]:  # ES4
                fault = _checksum("frame", total)
            if fault is None:
                first = at + _PRELUDE.size
                payload = bytes(view[first + headers : at + total - 4])
                found = _message(bytes(view[first : first + headers]), payload)
                if isinstance(found, Message):
                    messages.append(found)
                else:
                    fault = found
            if fault is not None:
                self._give_up(fault)
                return messages
            at += total
        self._tail += view[at:]
        return messages

    def _give_up(self, fault: Fault) -> None:
        self.fault = fault
        self._tail = bytearray()


def _prelude_fault(lengths: memoryview, total: int, headers: int, declared: int) -> Fault | None:
    if crc32(lengths) != declared:  # ES2, before either length is believed
        return _checksum("prelude", 8)
    if total < _LEAST + headers:  # ES3
        return Fault(Signal.BAD_HEADER, f"a frame of {total:,} bytes cannot hold {headers:,} bytes of headers")
    if headers > MAX_HEADERS or total - headers - _LEAST > MAX_PAYLOAD:  # ES3
        return Fault(Signal.OVER_CAP, f"a frame declares {total:,} bytes, {headers:,} of them headers: too long")
    return None


def _checksum(part: str, length: int) -> Fault:
    return Fault(Signal.ENVELOPE_DIGEST, f"the checksum of a {part} of {length:,} bytes does not match")


def _message(block: bytes, payload: bytes) -> Message | Fault:
    """ES6: what the headers say the frame is. An error that does not say which is an error all the same."""
    headers = _headers(block)
    if headers is None:
        return Fault(Signal.BAD_HEADER, "the headers of a frame are malformed")
    kind = headers.get(":message-type") or ""
    name = headers.get(_NAMED_BY.get(kind, ""))
    if name is None and kind in ("exception", "error"):
        name = "unnamed"
    if name is None:
        return Fault(Signal.BAD_HEADER, "a frame does not say what it is: no known message type, or no name")
    return Message(kind, name, payload)


def _headers(block: bytes) -> dict[str, str | None] | None:
    """ES5: the string headers by name, others as None; None for a block that is not headers to its last byte."""
    found: dict[str, str | None] = {}
    at, end = 0, len(block)
    try:
        while at < end:
            name, at = _take(block, at + 1, block[at])
            kind, at = block[at], at + 1
            text: str | None = None
            if kind in (_BYTES, _STRING):
                value, at = _take(block, at + 2, block[at] << 8 | block[at + 1])
                text = value.decode() if kind == _STRING else None
            else:
                at += _SIZES[kind]
            key = name.decode()
            if not key or key in found:
                return None
            found[key] = text
    except (IndexError, KeyError, UnicodeDecodeError):
        return None
    return found if at == end else None


def _take(block: bytes, at: int, length: int) -> tuple[bytes, int]:
    return block[at : at + length], at + length
