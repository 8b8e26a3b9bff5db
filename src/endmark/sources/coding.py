"""Content codings undone completely, or refused: to the very end, with nothing after it, within a cap (CA4).

Clients undo them as bytes pass and do not look at the end: requests and httpx accept a gzip body whose footer, and so
whose checksum and length, never came. Here a body counts only when its decoder says that it has ended.
"""

import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

from endmark.core.refusal import Refused, Signal

MOST_CODINGS = 3  # one on top of another; more than one is already rare
_STEP = 1 << 20  # bytes asked of a decoder at a time: a bomb is seen long before the cap is passed by much
_SLICE = 256  # bytes given at a time to a decoder that cannot be told how much to return
_MEMBERS = 1024  # gzip members or zstd frames in one body; millions of empty ones would only take time


class _Broken(Exception):
    """The bytes are not what the coding says. Becomes `Refused` where their number is known."""

    def __init__(self, signal: Signal, why: str) -> None:
        super().__init__(why)
        self.signal = signal
        self.why = why


_Decode = Callable[[bytes, int], bytes]


def codings(content_encoding: str) -> list[str]:
    """The names in a Content-Encoding header, in the order in which they were applied; `identity` says nothing."""
    names = [name.strip().lower() for name in content_encoding.split(",")]
    return [name for name in names if name not in ("", "identity")]


def decode(raw: bytes, content_encoding: str, cap: int) -> bytes:
    """`raw` without its content codings. `cap`: the largest result accepted, in bytes.

    Raises Refused for a body that ends early, that goes on after its end, that is damaged or grows over the cap, and
    for a coding that nothing here can undo.
    """
    body = raw
    names = codings(content_encoding)
    if len(names) > MOST_CODINGS:
        raise Refused(Signal.WRONG_VALUE, len(raw), None, f"{len(names)} content codings stand one on top of another")
    for name in reversed(names):
        undo = _DECODERS.get(name)
        if undo is None:
            raise Refused(Signal.WRONG_VALUE, len(raw), None, f"nothing here undoes the content coding {name[:40]!a}")
        try:
            body = undo(body, cap)
        except _Broken as broken:
            raise Refused(broken.signal, len(raw), None, f"the {name} coded body {broken.why}") from None
    return body


def _early() -> _Broken:
    return _Broken(Signal.BODY_CUT, "ends early: its decoder had not reached the end")


def _after(count: int) -> _Broken:
    return _Broken(Signal.BYTES_AFTER_END, f"has {count:,} byte{'' if count == 1 else 's'} after its end")


def _damaged(fault: Exception) -> _Broken:
    return _Broken(Signal.BODY_CUT, f"is damaged: {ascii(str(fault))[1:-1][:100]}")


def _over(cap: int) -> _Broken:
    return _Broken(Signal.OVER_CAP, f"grows over the cap of {cap:,} bytes")


def _too_many() -> _Broken:
    return _Broken(Signal.OVER_CAP, f"is made of more than {_MEMBERS:,} parts")


class _Grown:
    """What has come out so far, held under the cap."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._left = cap
        self._parts: list[bytes] = []

    def add(self, part: bytes) -> None:
        self._left -= len(part)
        if self._left < 0:
            raise _over(self._cap)
        self._parts.append(part)

    def whole(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


def _inflate(decoder: Any, data: bytes, grown: _Grown) -> bytes:
    """Run one zlib decoder to the end of its stream; what stands after it."""
    while not decoder.eof:
        try:
            part = decoder.decompress(data, _STEP)
        except zlib.error as fault:
            raise _damaged(fault) from None
        grown.add(part)
        data = decoder.unconsumed_tail
        if not data and not part and not decoder.eof:
            raise _early()
    return decoder.unused_data  # type: ignore[no-any-return]  # bytes: zlib's own attribute


def _gzip(data: bytes, cap: int) -> bytes:
    """One member or several (RFC 1952), each to its checksum and length; zlib checks both."""
    grown = _Grown(cap)
    if not data:
        raise _early()
    for member in range(_MEMBERS):
        if not data:
            return grown.whole()
        if member and data[:2] != b"\x1f\x8b"[: len(data)]:
            raise _after(len(data))
        data = _inflate(zlib.decompressobj(zlib.MAX_WBITS | 16), data, grown)
    raise _too_many()


def _deflate(data: bytes, cap: int) -> bytes:
    """The zlib format, as RFC 9110 says, or the bare stream that some servers send under the same name."""
    wrapped = len(data) >= 2 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
    grown = _Grown(cap)
    rest = _inflate(zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS), data, grown)
    if rest:
        raise _after(len(rest))
    return grown.whole()


def _first(*names: str) -> Any:
    """The first of these modules that is installed. A client that asks for a coding has one of them."""
    for name in names:
        try:
            return import_module(name)
        except ImportError:
            continue
    raise _Broken(Signal.WRONG_VALUE, f"cannot be decoded: none of {', '.join(names)} is installed")


def _brotli(data: bytes, cap: int) -> bytes:
    """A Brotli decoder fails on a byte after the end, and says itself when the end is reached."""
    brotli = _first("brotli", "brotlicffi")
    decoder = brotli.Decompressor()
    grown = _Grown(cap)
    try:
        part = decoder.process(data, output_buffer_limit=_STEP)
        while part:
            grown.add(part)
            part = decoder.process(b"", output_buffer_limit=_STEP) if not decoder.is_finished() else b""
    except TypeError:  # without the limit a few bytes may fill the memory
        raise _Broken(Signal.WRONG_VALUE, "cannot be decoded: brotli 1.2 or newer is needed") from None
    except brotli.error as fault:
        raise _damaged(fault) from None
    if not decoder.is_finished():
        raise _early()
    return grown.whole()


def _zstd(data: bytes, cap: int) -> bytes:
    """One frame or several (RFC 8878), each to its last block."""
    library = _first("compression.zstd", "backports.zstd", "zstandard")
    grown = _Grown(cap)
    if not data:
        raise _early()
    bounded = hasattr(library, "ZstdDecompressor") and hasattr(library.ZstdDecompressor, "needs_input")
    fault_type = library.ZstdError
    for _ in range(_MEMBERS):
        if not data:
            return grown.whole()
        try:
            data = _zstd_frame(library, data, grown) if bounded else _zstandard_frame(library, data, grown)
        except fault_type as fault:
            raise _damaged(fault) from None
    raise _too_many()


def _zstd_frame(library: Any, data: bytes, grown: _Grown) -> bytes:
    decoder = library.ZstdDecompressor()
    grown.add(decoder.decompress(data, _STEP))
    while not decoder.eof:
        if decoder.needs_input:
            raise _early()
        grown.add(decoder.decompress(b"", _STEP))
    return decoder.unused_data  # type: ignore[no-any-return]  # bytes: the module's own attribute


def _zstandard_frame(library: Any, data: bytes, grown: _Grown) -> bytes:
    decoder = library.ZstdDecompressor().decompressobj()
    for at in range(0, len(data), _SLICE):
        grown.add(decoder.decompress(data[at : at + _SLICE]))
        if decoder.eof:
            return decoder.unused_data + data[at + _SLICE :]  # type: ignore[no-any-return]  # bytes
    raise _early()


_DECODERS: dict[str, _Decode] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
