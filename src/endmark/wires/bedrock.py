"""Bedrock's ConverseStream, and Converse as one document (spec/wires.md, rules B1-B14)."""

from typing import Any

from endmark.core import strictjson
from endmark.core.refusal import Signal
from endmark.core.strictjson import short
from endmark.wires.answer import ToolCall, Usage
from endmark.wires.events import failed
from endmark.wires.eventstream import FrameStream, Message
from endmark.wires.fragments import Fragments
from endmark.wires.framing import Fault, Options, refuse
from endmark.wires.reading import NO_TERMINAL, Draft, StreamReader
from endmark.wires.shapes import a_count, a_list, a_string, an_object

NORMAL = ("end_turn", "tool_use")  # B7

_INSIDE_FRAME = Fault(Signal.BODY_CUT, "the body stops inside a frame, short of the length that its prelude declares")
_NO_METADATA = Fault(Signal.NO_TERMINAL, "the stream stopped between messageStop and the metadata that follows it")
_TEXT, _CALL, _OTHER = "text", "tool use", "other"


class _Block:
    """One content block under way."""

    __slots__ = ("id", "kind", "name", "open", "pieces")

    def __init__(self, kind: str | None) -> None:
        self.kind = kind  # None until a delta says it: text and reasoning are not announced
        self.id: str | None = None
        self.name = ""
        self.pieces = Fragments()
        self.open = True


class Bedrock(StreamReader[Message]):
    """Reads one message. `metadata_optional` is for servers that stop at `messageStop`, which AWS does not."""

    def __init__(self, options: Options, metadata_optional: bool = False) -> None:
        super().__init__(options, FrameStream(options.cap))
        self._metadata_optional = metadata_optional
        self._started = False
        self._blocks: dict[int, _Block] = {}
        self._reason: str | None = None
        self._counted = False  # the metadata has come
        self._usage = Usage()

    # --- a stream

    def _take(self, item: Message) -> None:
        if item.kind != "event":  # B1
            refuse(Signal.BAD_STOP, f"the provider reported an {item.kind}: {short(item.name)}")
        match item.name:
            case "contentBlockDelta":
                event = self._load(item.payload)
                self._extend(self._open_block(event), an_object(event.get("delta"), "delta"))
            case "contentBlockStart":
                self._start_block(self._load(item.payload))
            case "contentBlockStop":
                self._open_block(self._load(item.payload)).open = False
            case "messageStart":
                if self._started or self._load(item.payload).get("role") != "assistant":  # B2
                    refuse(Signal.CONTRADICTION, "a second message starts, or one that is not the assistant's")
                self._started = True
            case "messageStop":
                self._stop(self._load(item.payload))
            case "metadata":
                if self._counted:  # B8
                    refuse(Signal.CONTRADICTION, "a second metadata event came")
                self._counted = True
                self._usage = _usage(self._load(item.payload))
        self._ended = self._reason is not None and self._counted  # B9

    def _in_message(self) -> None:
        if not self._started:
            refuse(Signal.NO_TERMINAL, "the stream does not begin with messageStart")
        if self._reason is not None:
            refuse(Signal.BYTES_AFTER_END, f"more of the answer came after the stop reason {short(self._reason)}")

    def _start_block(self, event: dict[str, Any]) -> None:
        """B3: announces a block that has not begun."""
        self._in_message()
        index = _index(event)
        if index in self._blocks:
            refuse(Signal.CONTRADICTION, f"content block {index} starts a second time")
        self._blocks[index] = _announced(an_object(event.get("start"), "start"))

    def _open_block(self, event: dict[str, Any]) -> _Block:
        """B4: the open block that an event belongs to. Text and reasoning begin without being announced."""
        self._in_message()
        index = _index(event)
        block = self._blocks.setdefault(index, _Block(None))
        if not block.open:
            refuse(Signal.CONTRADICTION, f"more came for content block {index}, which has stopped")
        return block

    def _extend(self, block: _Block, delta: dict[str, Any]) -> None:
        """B5: a piece of text, or of the JSON text of a tool's input. Other deltas hold nothing of the answer."""
        if "text" in delta:
            block.kind = block.kind or _TEXT
            if block.kind != _TEXT:
                refuse(Signal.CONTRADICTION, f"a block of {block.kind} was sent text")
            block.pieces.add(a_string(delta["text"], "text"))
        if "toolUse" in delta:
            if block.kind in (None, _TEXT):
                refuse(Signal.CONTRADICTION, "a tool's input came for a block that was not announced as its use")
            block.pieces.add(a_string(an_object(delta["toolUse"], "toolUse").get("input"), "input"))

    def _stop(self, event: dict[str, Any]) -> None:
        """B6: the message stops once, after every block that began."""
        self._in_message()
        for index, block in self._blocks.items():
            if block.open:
                refuse(Signal.NO_TERMINAL, f"the message stopped before content block {index} did")
        self._reason = self._checked_reason(event)

    def _unended(self) -> Fault | None:
        if self._frames.pending:  # ES7
            return _INSIDE_FRAME
        if self._reason is None:
            return NO_TERMINAL
        return None if self._metadata_optional else _NO_METADATA  # B9 B14

    def _draft(self) -> Draft:
        blocks = [block for _, block in sorted(self._blocks.items())]  # B11
        calls = tuple(ToolCall(b.name, b.id, b.pieces.text()) for b in blocks if b.kind == _CALL)
        text = "".join(block.pieces.text() for block in blocks if block.kind == _TEXT)
        proof = ["provider-terminal", "blocks-closed", "frame-checksums"]  # B12
        if self._metadata_optional:
            proof += ["profile:no-metadata"] if self._counted else ["profile:no-metadata", "gave-up:metadata"]
        return _drafted(text, calls, self._reason or "", self._usage, *proof)

    # --- one document

    def _document(self, document: dict[str, Any]) -> Draft:
        """B13: what Converse answers."""
        if "output" not in document:
            failed(document)
        message = an_object(an_object(document["output"], "output").get("message"), "message")
        text: list[str] = []
        calls: list[ToolCall] = []
        for item in a_list(message.get("content"), "content"):
            block = an_object(item, "a content block")
            cited = an_object(block.get("citationsContent"), "citationsContent")
            for piece in (block, *a_list(cited.get("content"), "content")):
                text.append(a_string(an_object(piece, "a piece of text").get("text"), "text"))
            found = _announced(block)
            if found.kind == _CALL:
                spelled = strictjson.dumps(an_object(block["toolUse"].get("input"), "input")).decode()
                calls.append(ToolCall(found.name, found.id, spelled, parsed=True))
        return _drafted("".join(text), tuple(calls), self._checked_reason(document), _usage(document), "one-document")

    # --- both

    def _checked_reason(self, event: dict[str, Any]) -> str:
        """B7: a normal reason; a stop sequence is one where the request named any."""
        reason = event.get("stopReason")
        if reason not in NORMAL and not (reason == "stop_sequence" and self._options.stop_sequences):
            refuse(Signal.BAD_STOP, lambda: f"the stop reason is {short(reason)}")
        return str(reason)


def _drafted(text: str, calls: tuple[ToolCall, ...], reason: str, usage: Usage, *proof: str) -> Draft:
    if reason == "tool_use" and not calls:  # B10
        refuse(Signal.BAD_STOP, "the stop reason is 'tool_use', but no tool use arrived")
    return Draft(text=text, tool_calls=calls, stop_reason=reason, usage=usage, evidence=(*proof, "continuity:none"))


def _announced(start: dict[str, Any]) -> _Block:
    """B3: a tool use for the caller to run, or a block that holds nothing of the answer."""
    use = an_object(start.get("toolUse"), "toolUse")
    if not use:
        return _Block(_OTHER if start else None)
    if use.get("type") == "server_tool_use":
        return _Block(_OTHER)
    block = _Block(_CALL)
    block.name = a_string(use.get("name"), "the name of a tool")
    block.id = a_string(use.get("toolUseId"), "toolUseId") or None
    if not block.name:
        refuse(Signal.MISSING_KEY, "a tool use does not open with its name")
    return block


def _index(event: dict[str, Any]) -> int:
    index = event.get("contentBlockIndex")
    if type(index) is not int or index < 0:
        refuse(Signal.WRONG_TYPE, lambda: f"contentBlockIndex is {short(index)}, a whole number was expected")
    return index


def _usage(holder: dict[str, Any]) -> Usage:
    """B8: tokens as the metadata counts them."""
    usage = an_object(holder.get("usage"), "usage")
    return Usage(a_count(usage.get("inputTokens")), a_count(usage.get("outputTokens")))
