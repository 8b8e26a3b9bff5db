"""What every wire does alike: framing, one JSON document, endings and caps (spec/wires.md, rules A1-A13)."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from endmark.core import strictjson
from endmark.core.ending import WHOLE, Ending
from endmark.core.refusal import Refused, Signal
from endmark.wires.answer import Answer, ToolCall, Usage
from endmark.wires.framing import Broken, Fault, Framing, Options, over_cap

Item = TypeVar("Item")

_SPACE = b" \t\r\n"
_MARKS = b"[{}\n"  # what opens or closes a part of a document, or ends a line
_NOT_JSON = Signal.NOT_JSON  # looked up once: it is asked for at every byte
_NOTHING: list[Any] = []

# A3: what an ending says that is not whole, whatever the bytes. By its value: a member's own hash is slow.
_ENDED: dict[str, Fault | None] = {ending.value: None for ending in WHOLE} | {
    Ending.CLOSED.value: Fault(
        Signal.WEAK_EVIDENCE, "only the close of the connection ended the body, which is what a cut looks like too"
    ),
    Ending.SHORT.value: Fault(Signal.BODY_CUT, "the connection closed before the declared length or the final chunk"),
    Ending.RESET.value: Fault(Signal.RESET, "the connection was reset"),
    Ending.IDLE.value: Fault(Signal.IDLE, "nothing came for longer than the idle limit"),
    Ending.TOO_LONG.value: Fault(Signal.OVER_CAP, "more arrived than is read of one answer"),
    Ending.BAD_ENCODING.value: Fault(Signal.BODY_CUT, "the content encoding did not decode to its end"),
}
_ENDED_OR_CLOSED = _ENDED | {Ending.CLOSED.value: None}
_EMPTY = Fault(Signal.EMPTY, "nothing arrived")
_SAYS_NOTHING = Fault(Signal.EMPTY, "the answer holds no text and no tool call")
NO_TERMINAL = Fault(Signal.NO_TERMINAL, "the stream stopped before its terminal event")
CUT = Fault(Signal.NO_TERMINAL, "the stream stopped inside an event or a line")
AFTER_END = Fault(Signal.BYTES_AFTER_END, "something follows the terminal event")


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """What a wire found once its own rules are met; `evidence` are its own words, the rest is added for all alike."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    stop_reason: str
    usage: Usage
    evidence: tuple[str, ...] = ()


def accept(draft: Draft, ending: Ending, options: Options, received: int) -> Answer:
    """The answer that a wire's draft is, or Refused where it says nothing (A5 A13) or reached the token cap (A6)."""
    if not draft.text and not draft.tool_calls and not options.ended_only:
        raise Refused(_SAYS_NOTHING.signal, received, None, _SAYS_NOTHING.detail)
    cap, spent = options.max_output_tokens, draft.usage.output_tokens
    if cap is not None and spent is not None and spent >= cap:
        raise Refused(
            Signal.TOKEN_CAP, received, None, lambda: f"{spent:,} output tokens reached the requested cap of {cap:,}"
        )
    return Answer(
        text=draft.text,
        tool_calls=draft.tool_calls,
        stop_reason=draft.stop_reason,
        usage=draft.usage,
        evidence=(
            *draft.evidence,
            f"stop-reason:{draft.stop_reason}",
            "usage:none" if spent is None else "usage",
            f"transport:{ending.value}",
        ),
        received_bytes=received,
    )


class _Growing:
    """One JSON document on its way, asked at any time whether it is whole.

    `is_cut`: asked, it was none yet, and stays none until a byte comes that may open or close something.
    """

    __slots__ = ("_closed", "_first", "_opened", "_unended", "is_cut", "raw")

    def __init__(self) -> None:
        self.raw = bytearray()
        self.is_cut = False
        self._first = 0  # the first byte that is no white space
        self._opened = 0  # brackets, in strings or not
        self._closed = 0  # where the last } ends, in a string or not
        self._unended = 0  # up to such an end, what came was no JSON

    def add(self, data: bytes) -> None:
        self.is_cut = False
        if not self._first:
            self._first = (data.lstrip(_SPACE) or b"\0")[0]
        if 0x5B in data or 0x7B in data:
            self._opened += data.count(0x5B) + data.count(0x7B)
        if 0x7D in data:
            self._closed = len(self.raw) + data.rindex(0x7D) + 1
        self.raw += data

    def taken(self) -> bytes:
        """What came; nothing of it is kept."""
        taken, self.raw = self.raw, bytearray()  # not cleared: a refusal may yet explain itself with it
        self.is_cut = False
        return bytes(taken)

    def document(self) -> dict[str, Any]:
        """What `strictjson.loads` returns or raises for the bytes so far.

        Bytes that open an object end it with a }, so those after the last one need no reading: as long as what came
        up to there is no JSON, all of it is none. That is found out once for each }, so that one may ask at every byte.
        """
        closed, received = self._closed, len(self.raw)
        if closed < received and self._first == 0x7B and self._opened <= strictjson.MAX_DEPTH:
            if self._unended < closed and _signal(bytes(self.raw[:closed])) is Signal.NOT_JSON:
                self._unended = closed
            if self._unended == closed:
                self.is_cut = True
                raise cut(self.raw, received)
        return strictjson.loads(bytes(self.raw))


def cut(raw: bytearray, received: int) -> Refused:
    """The refusal of what `raw` holds by now, which is no JSON. Why, which takes long to find out, is asked later."""
    return Refused(_NOT_JSON, received, None, lambda: _detail(bytes(raw[:received])))


def _signal(raw: bytes) -> Signal | None:
    """Why these bytes are no strict JSON object; None where they are one."""
    try:
        strictjson.loads(raw)
    except Refused as refused:
        return refused.signal
    return None


def _detail(raw: bytes) -> str:
    """The same in words."""
    try:
        strictjson.loads(raw)
    except Refused as refused:
        return refused.detail
    return ""


class StreamReader(Generic[Item]):
    """A wire over some framing, or over the one JSON document that the same route answers without streaming.

    A wire says `_take`, `_draft` and `_document`; these may `refuse`. It may say how a document is told from a stream,
    `_is_document`.
    """

    def __init__(self, options: Options, frames: Framing[Item]) -> None:
        self._options = options
        self._endings = _ENDED_OR_CLOSED if options.allow_close_delimited else _ENDED
        self._frames = frames
        self._json = strictjson.Documents()
        self._fault: Fault | None = None
        self._ended = False  # the terminal event has come; nothing may follow it (A4)
        self._streams = False  # it is known that the bytes are a stream
        self._whole = _Growing()  # they are one document, or it is not known yet
        self._whole_received = 0
        self._sink = self._open

    def feed(self, data: bytes) -> None:
        """Take the next bytes, in whatever portions they come. Never raises for what they hold."""
        items = self._sink(data)
        if items and self._fault is None:
            self._read(items)

    def skim(self, data: bytes) -> int:
        """See `Reader.skim`; a wire says here what it can recognise without reading."""
        return 0

    def finish(self, ending: Ending) -> Answer:
        """The answer, were the body to end here in this way. Changes nothing (A12)."""
        if not self._streams:
            return self._finish_document(ending)
        frames = self._frames
        received = frames.received
        fault = self._fault or frames.fault or self._endings[ending._value_]  # A11: in this order
        if fault is None:
            if not self._ended:
                fault = self._unended()
            elif not frames.at_end:  # A4
                fault = AFTER_END
            if fault is None and frames.pending:
                fault = CUT
        if fault is not None:
            signal, detail = fault
            raise Refused(signal, received, None, detail)
        return self._accept(self._draft, ending, received)

    # what a wire says

    def _take(self, item: Item) -> None:
        """One item before the terminal one. Sets `_ended` when it is that one."""
        raise NotImplementedError

    def _after(self, item: Item) -> None:
        """One item after the terminal one (A4)."""
        raise Broken(AFTER_END)

    def _unended(self) -> Fault | None:
        """What is missing while the terminal item has not come; None only where a profile does without one. Cheap."""
        return NO_TERMINAL

    def _draft(self) -> Draft:
        """The answer, once the terminal item has come and nothing stands after it. Changes nothing."""
        raise NotImplementedError

    def _document(self, document: dict[str, Any]) -> Draft:
        """The answer that one JSON document is."""
        raise NotImplementedError

    def _is_document(self, data: bytes) -> bool | None:
        """A7: `{` as the first byte that is no white space opens one document, anything else a stream.

        `data` is what came last; all before it left the question open. None leaves it open still: were the bytes to
        end here, they would be read as a document.
        """
        start = data.lstrip(_SPACE)
        return start[0] == 0x7B if start else None

    # the rest

    def _load(self, data: bytes) -> dict[str, Any]:
        """The strict JSON object of one item (A2)."""
        try:
            return self._json.loads(data)
        except Refused as refused:
            fault = refused
        raise Broken(Fault(fault.signal, lambda: f"the data of an event is not one strict JSON object: {fault.detail}"))

    def _read(self, items: list[Item]) -> None:
        try:
            for item in items:
                if self._ended:
                    self._after(item)
                else:
                    self._take(item)
        except Broken as broken:
            self._fault = broken.fault

    def _open(self, data: bytes) -> list[Item]:
        growing, received = self._whole, self._whole_received
        if growing.is_cut and len(data) == 1 and data not in _MARKS and received < self._options.cap:
            growing.raw += data
            self._whole_received = received + 1
            return _NOTHING
        self._keep(data)
        whole = self._is_document(data)
        if whole is None:
            return _NOTHING
        if whole or self._fault is not None:
            self._sink = self._keep
            return _NOTHING
        self._streams, self._sink, head = True, self._frames.feed, self._whole.taken()
        return self._frames.feed(head)

    def _keep(self, data: bytes) -> list[Item]:
        received = self._whole_received = self._whole_received + len(data)
        if self._fault is None:
            self._whole.add(data)
            if received > self._options.cap:
                self._fault = over_cap(self._options.cap)
                self._whole.taken()
        return _NOTHING

    def _finish_document(self, ending: Ending) -> Answer:
        received = self._whole_received
        fault = self._fault or (self._endings[ending._value_] if received else _EMPTY)  # A1 A3
        if fault is not None:
            signal, detail = fault
            raise Refused(signal, received, None, detail)
        whole = self._whole
        if whole.is_cut:
            raise cut(whole.raw, received)
        document = whole.document()
        return self._accept(lambda: self._document(document), ending, received)

    def _accept(self, draft: Callable[[], Draft], ending: Ending, received: int) -> Answer:
        try:
            drafted = draft()
        except Broken as broken:
            signal, detail = broken.fault
            raise Refused(signal, received, None, detail) from None
        return accept(drafted, ending, self._options, received)
