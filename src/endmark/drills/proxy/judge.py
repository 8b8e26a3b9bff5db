"""One answer under judgement: what of it may go on as it comes, and at its end whether it was proven whole."""

import zlib
from typing import NamedTuple

from endmark.core.ending import Ending
from endmark.core.refusal import Refused
from endmark.drills import edges
from endmark.drills.edges import Shape
from endmark.drills.proxy import holding
from endmark.seal import read
from endmark.sources import asked, coding
from endmark.sources.asked import Asked
from endmark.sources.capture import DEFAULT_LIMIT, Capture
from endmark.wires import names

_SPACE = b" \t\r\n"
_STEP = 1 << 20
_GZIP = (["gzip"], ["x-gzip"])


class Verdict(NamedTuple):
    """`refused` is None for an answer that was proven whole; `evidence` says by what."""

    refused: Refused | None
    evidence: tuple[str, ...] = ()


class Judge:
    """`wire`: how to read it. `encoding`: its Content-Encoding. `request`: what was asked for.

    `allow_close_delimited`: take an answer that only the close of its connection ended.
    """

    def __init__(self, wire: str, encoding: str, request: Asked, allow_close_delimited: bool) -> None:
        self.wire = wire
        self.received = 0
        self._encoding = encoding
        self._request = request
        self._allow_close = allow_close_delimited
        self._reader = names.reader(
            wire,
            max_output_tokens=request.max_output_tokens,
            stop_sequences=request.stop_sequences,
            allow_close_delimited=allow_close_delimited,
            cap=DEFAULT_LIMIT,
            ended_only=True,
            choices=request.choices,
        )
        self._shape = edges.shape_of_wire(wire)
        self._hold: holding.Hold | None = None  # until the first byte says what it is
        self._codings = coding.codings(encoding)
        self._raw = bytearray()  # of a coded body, which is decoded once more at its end
        self._looking = _Looking(self._shape, wire) if self._codings in _GZIP else None
        self._kept = bytearray()  # of a coded body: what may not go on yet
        self._unread = b""

    @property
    def held(self) -> bytes:
        """What has not gone on."""
        return bytes(self._kept if self._codings else self._hold.held if self._hold else b"")

    def look(self, data: bytes) -> bytes:
        """The next bytes of the body. Returns those that may go on now; after that, `read` is due."""
        self.received += len(data)
        if self._codings:
            return self._look_into(data)
        if self._hold is not None and not self._hold.ending and (to := self._reader.skim(data)):
            return self._hold.let(data, to)
        self._unread = data
        if self._hold is None:
            if not data.strip(_SPACE):
                return data if self._shape in edges.STREAMS else b""
            self._hold = holding.of(_shape(data, self._shape), self.wire)
        return self._hold.feed(data)

    def read(self) -> None:
        """Read what was only looked at, once what may go on has gone on: reading takes longer."""
        if self._unread:
            self._reader.feed(self._unread)
            self._unread = b""

    def verdict(self, ending: Ending) -> Verdict:
        """Whether the answer is whole, were it to end here."""
        try:
            if self._codings:
                captured = self._capture(ending)
                answer = read(captured, self.wire, ended_only=True, choices=self._request.choices)
            else:
                answer = self._reader.finish(ending)
        except Refused as refused:
            return Verdict(refused)
        if asked.UNREAD in self._request.facts:
            return Verdict(None, (*answer.evidence, asked.UNREAD))
        return Verdict(None, answer.evidence)

    def _look_into(self, data: bytes) -> bytes:
        if len(self._raw) <= DEFAULT_LIMIT:
            self._raw += data
        if self._looking is None or self._kept or self._looking.ends_in(data):
            self._kept += data
            return b""
        return data

    def _capture(self, ending: Ending) -> Capture:
        too_long = len(self._raw) > DEFAULT_LIMIT
        return Capture(
            raw=bytes(self._raw[:DEFAULT_LIMIT]),
            ending=Ending.TOO_LONG if too_long else ending,
            content_encoding=self._encoding,
            max_output_tokens=self._request.max_output_tokens,
            stop_sequences=self._request.stop_sequences,
            allow_close_delimited=self._allow_close,
        )


class _Looking:
    """The decoded copy of a gzip body, only to see when the end is declared in it."""

    def __init__(self, shape: Shape, wire: str) -> None:
        self._shape = shape
        self._wire = wire
        self._decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._hold: holding.Hold | None = None
        self._decoded = 0

    def ends_in(self, data: bytes) -> bool:
        """Whether these bytes hold what must wait; so does what cannot be looked into, and the end of the coding."""
        while data:
            try:
                part = self._decoder.decompress(data, _STEP)
            except zlib.error:
                return True
            data = self._decoder.unconsumed_tail
            self._decoded += len(part)
            if self._decoder.eof or self._decoded > DEFAULT_LIMIT or self._declares(part):
                return True
        return False

    def _declares(self, part: bytes) -> bool:
        if self._hold is None:
            if not part.strip(_SPACE):
                return False
            self._hold = holding.of(_shape(part, self._shape), self._wire)
        self._hold.feed(part)
        return self._hold.ending


def _shape(data: bytes, shape: Shape) -> Shape:
    """A7 of spec/wires.md: `{` as the first byte opens one document where events were expected."""
    return Shape.DOCUMENT if shape is Shape.EVENTS and data.lstrip(_SPACE)[:1] == b"{" else shape
