"""OpenAI Responses, streamed or as one document (spec/wires.md, rules OR1-OR16)."""

from re import Match
from typing import Any

from endmark.core import strictjson
from endmark.core.refusal import Signal
from endmark.core.strictjson import short
from endmark.wires.answer import ToolCall, Usage
from endmark.wires.batch import Columns
from endmark.wires.events import EventReader, failed, named
from endmark.wires.fragments import Aside, Fragments
from endmark.wires.framing import Options, refuse
from endmark.wires.reading import Draft
from endmark.wires.shapes import a_count, a_list, a_string, an_index, an_object
from endmark.wires.sse import Event
from endmark.wires.stencil import Path

DONE = b"[DONE]"
# OR6: where the text of a call stands, by the type of its item
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
# OR14: calls that whoever asked is to run too, though not as text; listed so that nobody takes the others for all
_OTHER_CALLS = ("apply_patch_call", "computer_call", "local_shell_call", "shell_call")

_NUMBER: Path = ("sequence_number",)
_FREE: tuple[Path, ...] = (_NUMBER, ("obfuscation",))
_LISTS: tuple[Path, ...] = (("logprobs",),)
_TEXT = "response.output_text"
_CALL_TEXT = {
    "response.function_call_arguments": "function_call",
    "response.custom_tool_call_input": "custom_tool_call",
}


class _Part:
    """One content part of a message, or the text of one call, under way."""

    __slots__ = ("kind", "open", "pieces")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pieces = Fragments()
        self.open = True


class _Item:
    """One output item under way. `done` is the copy that closed it."""

    __slots__ = ("call", "done", "kind", "parts")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.parts: list[_Part] = []
        self.call = _Part(kind)
        self.done: dict[str, Any] | None = None


class OpenAIResponses(EventReader):
    """Reads one response."""

    _followed = (_NUMBER,)

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._next: int | None = None  # the number that the next event must carry
        self._id: Any = None
        self._items: list[_Item] = []
        self._final: dict[str, Any] = {}
        self._done = False
        self._aside = Aside()

    # --- a stream

    def _take(self, item: Event) -> None:
        name, data = item
        event = self._load(data)
        kind = named(name, event)
        if kind == "error":  # A8
            failed(event.get("error") or event)
        self._check_number(event, kind)
        stem, _, verb = kind.rpartition(".")
        if stem == _TEXT and verb in ("delta", "done"):
            part = self._part(event)
            _require(part, "output_text", kind)
            self._extend(part, event, verb, "text", item)
        elif stem in _CALL_TEXT and verb in ("delta", "done"):
            found = self._item(event)
            _require(found.call, _CALL_TEXT[stem], kind)
            self._extend(found.call, event, verb, _CALLS[found.kind], item)
        elif stem == "response.content_part" and verb in ("added", "done"):
            self._change_part(event, verb)
        elif stem == "response.output_item" and verb in ("added", "done"):
            self._change_item(event, verb)
        elif stem == "response.refusal" and not self._options.ended_only:  # OR11
            refuse(Signal.BAD_STOP, "the model refused to answer")
        elif stem == "response":
            self._change_response(event, verb)
        elif verb == "delta" and isinstance(event.get("delta"), str):
            self._repeats(item, self._aside, ("delta",), _FREE)  # OR3: reasoning, and what hosted tools are told
        else:
            self._idle()  # OR3: hosted tools, heartbeats, and what later versions add

    def _check_number(self, event: dict[str, Any], kind: str) -> None:
        """OR1: the events are numbered without a gap. A heartbeat of a gateway may have no number."""
        number = event.get("sequence_number")
        if number is None and kind == "keepalive":
            return
        if type(number) is not int or number < 0:
            refuse(Signal.WRONG_TYPE, lambda: f"the sequence number of an event is {short(number)}")
        if self._next is not None and number != self._next:
            refuse(
                Signal.WRONG_COUNT, f"event {number} came where event {self._next} was due: events were lost or doubled"
            )
        self._next = number + 1

    def _continues(self, match: Match[str]) -> bool:
        if int(match[self._groups[_NUMBER]]) != self._next:
            return False
        self._next += 1
        return True

    def _continue_all(self, groups: dict[Path, int], columns: Columns) -> bool:
        numbers, first = columns[groups[_NUMBER]], self._next
        if first is None or numbers != [b"%d" % number for number in range(first, first + len(numbers))]:
            return False
        self._next = first + len(numbers)
        return True

    def _change_response(self, event: dict[str, Any], verb: str) -> None:
        """OR2 OR10: how the response stands."""
        response = an_object(event.get("response"), "response")
        if verb == "created":
            if self._id is not None:
                refuse(Signal.CONTRADICTION, "a second response starts")
            self._id = response.get("id") or ""
        elif verb == "completed":
            self._complete(response)
        elif verb in ("failed", "incomplete", "cancelled"):
            _check_status(response)
            refuse(Signal.BAD_STOP, f"the response is {verb}")

    def _change_item(self, event: dict[str, Any], verb: str) -> None:
        """OR4 OR8: items open in the order of their index, and close with a copy of all that is in them."""
        self._in_response()
        copy = an_object(event.get("item"), "item")
        if verb == "added":
            index = an_index(event.get("output_index"), "output_index", len(self._items) + 1)
            if index < len(self._items):
                refuse(Signal.CONTRADICTION, f"output item {index} starts a second time")
            self._items.append(_Item(a_string(copy.get("type"), "the type of an item")))
            return
        item = self._item(event)
        if any(part.open for part in item.parts):
            refuse(Signal.NO_TERMINAL, f"output item {event['output_index']} is done before its content is")
        _check_copy(item, copy)
        item.done = copy

    def _change_part(self, event: dict[str, Any], verb: str) -> None:
        """OR5: content parts open in the order of their index, and close with a copy."""
        copy = an_object(event.get("part"), "part")
        kind = a_string(copy.get("type"), "the type of a content part")
        if kind == "refusal" and not self._options.ended_only:  # OR11
            refuse(Signal.BAD_STOP, "the model refused to answer")
        if verb == "added":
            item = self._item(event)
            index = an_index(event.get("content_index"), "content_index", len(item.parts) + 1)
            if index < len(item.parts):
                refuse(Signal.CONTRADICTION, f"content part {index} starts a second time")
            item.parts.append(_Part(kind))
            if kind == "output_text":
                item.parts[-1].pieces.add(a_string(copy.get("text"), "text"))
            return
        part = self._part(event)
        _require(part, kind, "response.content_part.done")
        if kind == "output_text":
            _check_equal(part, copy.get("text"), "content_part.done")
        part.open = False

    def _extend(self, part: _Part, event: dict[str, Any], verb: str, key: str, item: Event) -> None:
        """OR6 OR7: a piece of text, or the copy of all pieces."""
        if verb == "done":
            _check_equal(part, event.get(key), "done")
            return
        if not isinstance(event.get("delta"), str):
            refuse(Signal.WRONG_TYPE, lambda: f"delta is {short(event.get('delta'))}, a string was expected")
        part.pieces.add(event["delta"])
        self._repeats(item, part.pieces, ("delta",), _FREE, _LISTS)

    def _item(self, event: dict[str, Any]) -> _Item:
        """OR4: the open item that an event belongs to."""
        self._in_response()
        item = self._items[an_index(event.get("output_index"), "output_index", len(self._items))]
        if item.done is not None:
            refuse(Signal.CONTRADICTION, f"more came for output item {event['output_index']}, which is done")
        return item

    def _part(self, event: dict[str, Any]) -> _Part:
        """OR5: the open content part that an event belongs to."""
        item = self._item(event)
        part = item.parts[an_index(event.get("content_index"), "content_index", len(item.parts))]
        if not part.open:
            refuse(Signal.CONTRADICTION, f"more came for content part {event['content_index']}, which is done")
        return part

    def _in_response(self) -> None:
        if self._id is None:
            refuse(Signal.NO_TERMINAL, "the stream does not begin with the creation of its response")

    def _complete(self, response: dict[str, Any]) -> None:
        """OR9: the final copy holds exactly what was streamed."""
        self._in_response()
        _check_status(response)
        if response.get("id") and self._id and response["id"] != self._id:
            refuse(Signal.CONTRADICTION, "the response that completes is another one than was created")
        output = a_list(response.get("output"), "output")
        if len(output) != len(self._items):
            refuse(Signal.WRONG_COUNT, f"{len(self._items)} items were streamed, the final copy holds {len(output)}")
        for index, (item, copy) in enumerate(zip(self._items, output, strict=True)):
            if item.done is None:
                refuse(Signal.NO_TERMINAL, f"the response completed before output item {index} was done")
            _check_copy(item, an_object(copy, "an output item"))
        self._final = response
        self._ended = True

    def _after(self, item: Event) -> None:
        """OR12: some gateways add the mark of the other OpenAI wire, once."""
        if self._done or item[1] != DONE:
            super()._after(item)
        self._done = True

    def _draft(self) -> Draft:
        proof = ("provider-terminal", "continuity:sequence-numbers", "final-copy-equal")
        return _draft(self._final, proof, self._options.ended_only)

    # --- one document

    def _document(self, document: dict[str, Any]) -> Draft:
        """OR15: a whole `response`."""
        if document.get("object") != "response":
            if document.get("error") is not None:
                failed(document["error"])
            refuse(Signal.WRONG_TYPE, lambda: f"the document is {short(document.get('object'))}, not 'response'")
        proof = ("one-document", "continuity:none")
        if self._options.ended_only and _is_under_way(document):
            return Draft(text="", tool_calls=(), stop_reason=document["status"], usage=Usage(), evidence=proof)
        _check_status(document)
        return _draft(document, proof, self._options.ended_only)


def _require(part: _Part, kind: str, event: str) -> None:
    if part.kind != kind:
        refuse(Signal.CONTRADICTION, lambda: f"{short(event)} came for {short(part.kind)}")


def _check_equal(part: _Part, copy: Any, where: str) -> None:
    """OR7: a copy equals the pieces that came before it."""
    if copy != part.pieces.text():
        refuse(
            Signal.CONTRADICTION,
            f"the pieces of a text are not what its copy in {where} says: some were lost or doubled",
        )


def _check_copy(item: _Item, copy: dict[str, Any]) -> None:
    """OR8: the copy of an item has its type and its text, and is whole."""
    if copy.get("type") != item.kind:
        refuse(Signal.CONTRADICTION, lambda: f"an item of the type {short(item.kind)} became {short(copy.get('type'))}")
    _check_item_status(copy)
    if item.kind in _CALLS:
        _check_equal(item.call, copy.get(_CALLS[item.kind]), "its item")
    elif item.kind == "message":
        content = [an_object(part, "a content part") for part in a_list(copy.get("content"), "content")]
        if len(content) != len(item.parts):
            refuse(Signal.WRONG_COUNT, f"{len(item.parts)} content parts were streamed, the copy holds {len(content)}")
        for part, twin in zip(item.parts, content, strict=True):
            _require(part, a_string(twin.get("type"), "the type of a content part"), "its copy")
            if part.kind == "output_text":
                _check_equal(part, twin.get("text"), "its item")


def _check_item_status(copy: dict[str, Any]) -> None:
    """OR8: an item that states how it stands is completed."""
    if copy.get("type") in ("message", *_CALLS) and copy.get("status") not in (None, "completed"):
        refuse(Signal.BAD_STOP, lambda: f"an output item is {short(copy.get('status'))}")


def _check_status(response: dict[str, Any]) -> None:
    """OR9: the response is completed, without an error and without a reason why not."""
    if response.get("error") is not None:
        failed(response["error"])
    details = response.get("incomplete_details")
    if details is not None:
        reason = details.get("reason") if isinstance(details, dict) else details
        refuse(Signal.BAD_STOP, lambda: f"the response is incomplete: {short(reason)}")
    if response.get("status") != "completed":
        refuse(Signal.BAD_STOP, lambda: f"the status of the response is {short(response.get('status'))}")


def _is_under_way(document: dict[str, Any]) -> bool:
    """OR16: what a request in the background is answered with at once says that there is no answer yet."""
    return (
        document.get("background") is True
        and document.get("status") in ("queued", "in_progress")
        and document.get("error") is None
        and document.get("incomplete_details") is None
    )


def _draft(response: dict[str, Any], proof: tuple[str, ...], ended_only: bool) -> Draft:
    """OR13 OR14: the answer that a completed response holds."""
    texts: list[str] = []
    calls: list[ToolCall] = []
    for entry in a_list(response.get("output"), "output"):
        item = an_object(entry, "an output item")
        kind = a_string(item.get("type"), "the type of an item")
        _check_item_status(item)
        if kind == "message":
            for part in [an_object(part, "a content part") for part in a_list(item.get("content"), "content")]:
                if part.get("type") == "refusal" and not ended_only:  # OR11
                    refuse(Signal.BAD_STOP, "the model refused to answer")
                if part.get("type") == "output_text":
                    texts.append(a_string(part.get("text"), "text"))
        elif kind in _CALLS:
            name = a_string(item.get("name"), "the name of a tool")
            if not name:
                refuse(Signal.MISSING_KEY, "a tool call has no name")
            arguments = a_string(item.get(_CALLS[kind]), _CALLS[kind])
            calls.append(ToolCall(name, a_string(item.get("call_id"), "call_id") or None, arguments))
        elif kind in _OTHER_CALLS:
            whole = strictjson.dumps(item).decode()
            calls.append(ToolCall(kind, a_string(item.get("call_id"), "call_id") or None, whole, parsed=True))
    usage = an_object(response.get("usage"), "usage")
    return Draft(
        text="".join(texts),
        tool_calls=tuple(calls),
        stop_reason="completed",
        usage=Usage(a_count(usage.get("input_tokens")), a_count(usage.get("output_tokens"))),
        evidence=proof,
    )
