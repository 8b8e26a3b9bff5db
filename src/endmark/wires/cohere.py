"""Cohere's chat, version 2, streamed or as one document (spec/wires.md, rules CO1-CO11)."""

from typing import Any

from endmark.core.refusal import Signal
from endmark.core.strictjson import short
from endmark.wires.answer import ToolCall, Usage
from endmark.wires.events import EventReader, failed, named
from endmark.wires.fragments import Fragments
from endmark.wires.framing import Options, refuse
from endmark.wires.reading import AFTER_END, Draft
from endmark.wires.shapes import a_list, a_string, an_object
from endmark.wires.sse import Event
from endmark.wires.stencil import Path

DONE = b"[DONE]"
NORMAL = ("COMPLETE", "TOOL_CALL")  # CO7

_CONTENT, _CALL = "content block", "tool call"
_TEXT: Path = ("delta", "message", "content", "text")
_ARGUMENTS: Path = ("delta", "message", "tool_calls", "function", "arguments")
_FREE: tuple[Path, ...] = ()


class _Block:
    """One content block or tool call under way."""

    __slots__ = ("id", "name", "open", "pieces")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self.pieces = Fragments()
        self.open = True


class Cohere(EventReader):
    """Reads one message."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._started = False
        self._blocks: dict[tuple[str, int], _Block] = {}
        self._reason = ""
        self._usage = Usage()
        self._done = False  # [DONE] has come as well

    # --- a stream

    def _take(self, item: Event) -> None:
        name, data = item
        if data == DONE:
            refuse(Signal.NO_TERMINAL, "[DONE] came before message-end")
        event = self._load(data)
        if name == b"error" or event.get("error") is not None:  # A8
            failed(event.get("error", event))
        match named(name, event):
            case "content-delta":
                self._extend(_CONTENT, event, item)
            case "tool-call-delta":
                self._extend(_CALL, event, item)
            case "content-start":
                self._start(_CONTENT, event)
            case "tool-call-start":
                self._start(_CALL, event)
            case "content-end":
                self._block(_CONTENT, event).open = False
            case "tool-call-end":
                self._block(_CALL, event).open = False
            case "message-start":
                if self._started:  # CO1
                    refuse(Signal.CONTRADICTION, "a second message starts")
                self._started = True
            case "message-end":
                self._end(event)
            case _:
                self._idle()  # CO2: tool plans, citations, debugging, and what later versions add

    def _after(self, item: Event) -> None:
        """CO8: the API goes on to send `[DONE]`, once; its documentation ends with `message-end`."""
        if item[1] != DONE or self._done:
            refuse(AFTER_END.signal, AFTER_END.detail)
        self._done = True

    def _start(self, kind: str, event: dict[str, Any]) -> None:
        """CO3: a block that has not begun, with the first of its text where there is some."""
        key = self._key(kind, event)
        if key in self._blocks:
            refuse(Signal.CONTRADICTION, f"{kind} {key[1]} starts a second time")
        self._blocks[key] = block = _Block()
        if kind == _CALL:
            call = _piece(event, "tool_calls")
            block.id = a_string(call.get("id"), "the id of a tool call") or None
            block.name = _name(call)
        block.pieces.add(_said(kind, event))

    def _extend(self, kind: str, event: dict[str, Any], item: Event) -> None:
        """CO5: a piece of text or of a call's arguments."""
        block = self._block(kind, event)
        block.pieces.add(_said(kind, event))
        self._repeats(item, block.pieces, _TEXT if kind == _CONTENT else _ARGUMENTS, _FREE)

    def _block(self, kind: str, event: dict[str, Any]) -> _Block:
        """CO4: the open block that an event belongs to."""
        key = self._key(kind, event)
        block = self._blocks.get(key)
        if block is None or not block.open:
            refuse(Signal.CONTRADICTION, f"more came for {kind} {key[1]}, which is not under way")
        return block

    def _key(self, kind: str, event: dict[str, Any]) -> tuple[str, int]:
        if not self._started:
            refuse(Signal.NO_TERMINAL, "the stream does not begin with message-start")
        index = event.get("index")
        if type(index) is not int or index < 0:
            refuse(Signal.WRONG_TYPE, lambda: f"the index of a {kind} is {short(index)}, a whole number was expected")
        return kind, index

    def _end(self, event: dict[str, Any]) -> None:
        """CO6: the message ends once, after every block that began."""
        if not self._started:
            refuse(Signal.NO_TERMINAL, "the stream does not begin with message-start")
        delta = an_object(event.get("delta"), "delta")
        if delta.get("error") is not None:  # A8
            failed(delta["error"])
        self._reason = self._checked_reason(delta)
        for kind, index in (key for key, block in self._blocks.items() if block.open):
            refuse(Signal.NO_TERMINAL, f"the message ended before {kind} {index} did")
        self._usage = _usage(delta)
        self._ended = True

    def _draft(self) -> Draft:
        found = self._blocks.items()
        text = "".join(block.pieces.text() for (kind, _), block in found if kind == _CONTENT)
        calls = tuple(ToolCall(b.name, b.id, b.pieces.text()) for (kind, _), b in found if kind == _CALL)
        return _drafted(text, calls, self._reason, self._usage, "provider-terminal", "blocks-closed")

    # --- one document

    def _document(self, document: dict[str, Any]) -> Draft:
        """CO11: a whole response."""
        if "message" not in document or isinstance(document["message"], str):
            failed(document)
        message = an_object(document["message"], "message")
        text = [
            a_string(block.get("text"), "text")
            for block in (an_object(item, "a content block") for item in a_list(message.get("content"), "content"))
            if block.get("type") == "text"
        ]
        calls: list[ToolCall] = []
        for item in a_list(message.get("tool_calls"), "tool_calls"):
            call = an_object(item, "a tool call")
            function = an_object(call.get("function"), "function")
            arguments = a_string(function.get("arguments"), "arguments")
            calls.append(ToolCall(_name(call), a_string(call.get("id"), "the id of a tool call") or None, arguments))
        reason = self._checked_reason(document)
        return _drafted("".join(text), tuple(calls), reason, _usage(document), "one-document")

    # --- both

    def _checked_reason(self, holder: dict[str, Any]) -> str:
        """CO7: a normal reason; a stop sequence is one where the request named any."""
        reason = holder.get("finish_reason")
        if reason not in NORMAL and not (reason == "STOP_SEQUENCE" and self._options.stop_sequences):
            refuse(Signal.BAD_STOP, lambda: f"the finish reason is {short(reason)}")
        return str(reason)


def _drafted(text: str, calls: tuple[ToolCall, ...], reason: str, usage: Usage, *proof: str) -> Draft:
    if reason == "TOOL_CALL" and not calls:  # CO9
        refuse(Signal.BAD_STOP, "the finish reason is 'TOOL_CALL', but no tool call arrived")
    return Draft(text=text, tool_calls=calls, stop_reason=reason, usage=usage, evidence=(*proof, "continuity:none"))


def _piece(event: dict[str, Any], key: str) -> dict[str, Any]:
    message = an_object(an_object(event.get("delta"), "delta").get("message"), "message")
    return an_object(message.get(key), key)


def _said(kind: str, event: dict[str, Any]) -> str:
    """What an event adds: text, never what was thought; or arguments."""
    if kind == _CONTENT:
        return a_string(_piece(event, "content").get("text"), "text")
    return a_string(an_object(_piece(event, "tool_calls").get("function"), "function").get("arguments"), "arguments")


def _name(call: dict[str, Any]) -> str:
    name = a_string(an_object(call.get("function"), "function").get("name"), "the name of a tool")
    if not name:
        refuse(Signal.MISSING_KEY, "a tool call does not open with its name")
    return name


def _usage(holder: dict[str, Any]) -> Usage:
    """CO10: the tokens of the model; where only the billed ones are counted, those."""
    usage = an_object(holder.get("usage"), "usage")
    counts = an_object(usage.get("tokens"), "tokens") or an_object(usage.get("billed_units"), "billed_units")
    return Usage(_count(counts.get("input_tokens")), _count(counts.get("output_tokens")))


def _count(value: Any) -> int | None:
    """Cohere's schema has its counts as numbers, so `12.0` may stand for 12."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else None
