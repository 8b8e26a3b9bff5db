"""Anthropic Messages, streamed or as one document (spec/wires.md, rules AN1-AN14)."""

from typing import Any

from endmark.core import strictjson
from endmark.core.refusal import Signal
from endmark.core.strictjson import short
from endmark.wires.answer import ToolCall, Usage
from endmark.wires.events import EventReader, failed, named
from endmark.wires.fragments import Aside, Fragments
from endmark.wires.framing import Options, refuse
from endmark.wires.reading import Draft
from endmark.wires.shapes import a_count, a_list, a_string, an_index, an_object
from endmark.wires.sse import Event

NORMAL = ("end_turn", "tool_use")  # AN7
_PINGS = (b'{"type":"ping"}', b'{"type": "ping"}')  # AN2
# AN5: what may be added to a block of each kind, and where the piece stands
_PIECES = {
    "text": {"text_delta": "text"},
    "tool_use": {"input_json_delta": "partial_json"},
    "thinking": {"thinking_delta": "thinking"},
    "server_tool_use": {"input_json_delta": "partial_json"},
}
_ANSWERING = ("text", "tool_use")


class _Block:
    """One content block under way. `given` is the input that it opened with."""

    __slots__ = ("given", "id", "kind", "name", "open", "pieces")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.id: str | None = None
        self.name = ""
        self.given: dict[str, Any] = {}
        self.pieces = Fragments() if kind in _ANSWERING else Aside()
        self.open = True


class Anthropic(EventReader):
    """Reads one message."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._started = False
        self._blocks: list[_Block] = []
        self._reason: str | None = None
        self._asked: int | None = None
        self._spent: int | None = None

    # --- a stream

    def _take(self, item: Event) -> None:
        name, data = item
        event = self._load(data)
        kind = named(name, event)
        match kind:
            case "content_block_delta":
                self._extend(self._block(event), event, item)
            case "content_block_start":
                self._open_block(event)
            case "content_block_stop":
                self._block(event).open = False
            case "message_start":
                self._start(an_object(event.get("message"), "message"))
            case "message_delta":
                self._change(event)
            case "message_stop":
                if self._reason is None:  # AN8
                    refuse(Signal.BAD_STOP, "the message stopped without a stop reason")
                self._ended = True
            case "error":
                failed(event.get("error", event))  # A8
            case _:
                self._idle()  # AN2 A10: pings, and what later versions add

    def _after(self, item: Event) -> None:
        """AN2: a heartbeat may come late. It is recognised by its bytes: nothing else can hide in it."""
        name, data = item
        if data not in _PINGS or name not in (b"", b"ping"):
            super()._after(item)

    def _start(self, message: dict[str, Any]) -> None:
        """AN1: the first event of all that is not a ping; the message is still empty."""
        if self._started:
            refuse(Signal.CONTRADICTION, "a second message starts")
        if a_list(message.get("content"), "content"):
            refuse(Signal.CONTRADICTION, "the message starts with content already in it")
        self._started = True
        self._count(message.get("usage"))

    def _open_block(self, event: dict[str, Any]) -> None:
        """AN3: blocks open in the order of their index, after the message has started and before it has stopped."""
        self._in_message()
        index = an_index(event.get("index"), "the index of a content block", len(self._blocks) + 1)
        if index < len(self._blocks):
            refuse(Signal.CONTRADICTION, f"content block {index} starts a second time")
        self._blocks.append(_block(an_object(event.get("content_block"), "content_block")))

    def _block(self, event: dict[str, Any]) -> _Block:
        """AN4: the open block that an event belongs to."""
        self._in_message()
        block = self._blocks[an_index(event.get("index"), "the index of a content block", len(self._blocks))]
        if not block.open:
            refuse(Signal.CONTRADICTION, f"more came for content block {event['index']}, which has stopped")
        return block

    def _extend(self, block: _Block, event: dict[str, Any], item: Event) -> None:
        """AN5: a piece of a block."""
        delta = an_object(event.get("delta"), "delta")
        kind = a_string(delta.get("type"), "the type of a delta")
        key = _PIECES.get(block.kind, {}).get(kind)
        if key is None:
            if block.kind in _ANSWERING and kind != "citations_delta":
                refuse(Signal.WRONG_VALUE, lambda: f"a {block.kind} block was sent a delta of the type {short(kind)}")
            self._idle()
            return
        if not isinstance(delta.get(key), str):
            refuse(Signal.WRONG_TYPE, lambda: f"{key} is {short(delta.get(key))}, a string was expected")
        block.pieces.add(delta[key])
        self._repeats(item, block.pieces, ("delta", key), ())

    def _change(self, event: dict[str, Any]) -> None:
        """AN6: the message's stop reason, once every block has stopped, and its final usage."""
        self._in_message(stopping=True)
        delta = an_object(event.get("delta"), "delta")
        self._count(event.get("usage"))
        if delta.get("stop_reason") is None:
            return
        for index, block in enumerate(self._blocks):
            if block.open:
                refuse(Signal.NO_TERMINAL, f"the message stopped before content block {index} did")
        self._check_reason(delta)
        if self._reason not in (None, delta["stop_reason"]):
            refuse(Signal.BAD_STOP, f"the stop reason {short(self._reason)} became {short(delta['stop_reason'])}")
        self._reason = delta["stop_reason"]

    def _in_message(self, stopping: bool = False) -> None:
        if not self._started:
            refuse(Signal.NO_TERMINAL, "the stream does not begin with the start of its message")
        if self._reason is not None and not stopping:  # AN12
            refuse(Signal.BAD_STOP, f"more of the answer came after the stop reason {short(self._reason)}")

    def _draft(self) -> Draft:
        return self._drafted(self._blocks, self._reason or "", ("provider-terminal", "blocks-closed"))

    # --- one document

    def _document(self, document: dict[str, Any]) -> Draft:
        """AN13: a whole `message`."""
        if document.get("type") == "error":
            failed(document.get("error"))
        if document.get("type") != "message":
            refuse(Signal.WRONG_TYPE, lambda: f"the document is {short(document.get('type'))}, 'message' was expected")
        self._check_reason(document)
        blocks = [_block(an_object(block, "a content block")) for block in a_list(document.get("content"), "content")]
        usage = an_object(document.get("usage"), "usage")
        counted = Usage(a_count(usage.get("input_tokens")), a_count(usage.get("output_tokens")))
        return self._drafted(blocks, document["stop_reason"], ("one-document",), counted)

    # --- both

    def _drafted(self, blocks: list[_Block], reason: str, proof: tuple[str, ...], usage: Usage | None = None) -> Draft:
        _check_handovers(blocks)
        calls = tuple(_tool_call(block) for block in blocks if block.kind == "tool_use")
        if reason == "tool_use" and not calls:  # AN11
            refuse(Signal.BAD_STOP, "the stop reason is 'tool_use', but no tool use arrived")
        return Draft(
            text="".join(block.pieces.text() for block in blocks if block.kind == "text"),
            tool_calls=calls,
            stop_reason=reason,
            usage=usage or Usage(self._asked, self._spent),
            evidence=(*proof, "continuity:none"),
        )

    def _check_reason(self, message: dict[str, Any]) -> None:
        """AN7: a normal reason; a stop sequence is one where the request named any."""
        reason = message.get("stop_reason")
        asked = self._options.stop_sequences
        if reason not in NORMAL and not (asked and reason == "stop_sequence"):
            refuse(Signal.BAD_STOP, lambda: f"the stop reason is {short(reason)}")
        if message.get("stop_sequence") is not None and not asked:
            refuse(
                Signal.BAD_STOP,
                lambda: f"it stopped at the sequence {short(message['stop_sequence'])}, and none was asked for",
            )

    def _count(self, usage: Any) -> None:
        """AN10: counts are totals; the last one stands."""
        if isinstance(usage, dict):
            asked, spent = a_count(usage.get("input_tokens")), a_count(usage.get("output_tokens"))
            self._asked = self._asked if asked is None else asked
            self._spent = self._spent if spent is None else spent


def _block(content: dict[str, Any]) -> _Block:
    """AN3: a block as it opens, or as a document holds it."""
    kind = content.get("type")
    if not isinstance(kind, str):
        refuse(Signal.WRONG_TYPE, lambda: f"the type of a content block is {short(kind)}, a string was expected")
    block = _Block(kind)
    if kind == "text":
        block.pieces.add(a_string(content.get("text"), "text"))
    elif kind == "tool_use":
        block.name = a_string(content.get("name"), "the name of a tool")
        if not block.name:
            refuse(Signal.MISSING_KEY, "a tool use does not open with its name")
        block.id = a_string(content.get("id"), "the id of a tool use") or None
        block.given = an_object(content.get("input"), "input")
    return block


def _check_handovers(blocks: list[_Block]) -> None:
    """AN14: what one model had said when it declined and another went on is not the start of the other's answer."""
    begun = False
    for block in blocks:
        begun = begun or block.kind == "tool_use" or block.pieces.text() != ""  # of what was thought none is kept
        if begun and block.kind == "fallback":
            refuse(Signal.BAD_STOP, "the model declined in the middle of its answer, and another model went on")


def _tool_call(block: _Block) -> ToolCall:
    """AN9: the arguments as they were streamed; only where none were, the object that the block opened with."""
    streamed = block.pieces.text()
    if streamed and block.given:
        refuse(Signal.CONTRADICTION, "a tool use opens with its input and streams it as well")
    if streamed:
        return ToolCall(block.name, block.id, streamed)
    return ToolCall(block.name, block.id, strictjson.dumps(block.given).decode(), parsed=True)
