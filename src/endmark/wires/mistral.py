"""Mistral chat completions, streamed or as one document (spec/wires.md, rules MI1-MI6)."""

from typing import Any

from endmark.core.refusal import Signal
from endmark.core.strictjson import short
from endmark.wires.choices import OtherChoices
from endmark.wires.events import failed
from endmark.wires.framing import Options, refuse
from endmark.wires.openai_chat import OpenAIChat
from endmark.wires.profiles import MISTRAL
from endmark.wires.reading import Draft
from endmark.wires.shapes import a_list, a_string, an_object

NORMAL = ("stop", "tool_calls")  # MI5


class Mistral(OpenAIChat):
    """Reads one chat completion: OpenAI's, but for content in parts and tool calls that are known by their id (MI1)."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._profile = MISTRAL  # MI4 MI6

    def _load(self, data: bytes) -> dict[str, Any]:
        return _no_error(super()._load(data))

    def _document(self, document: dict[str, Any]) -> Draft:
        return super()._document(_no_error(document))

    def _only_choice(self, chunk: dict[str, Any], others: OtherChoices) -> dict[str, Any] | None:
        choice = super()._only_choice(chunk, others)
        if choice is None:
            return None
        if choice.get("delta") is not None:
            delta = an_object(choice["delta"], "delta")
            calls = [_known_by(call) for call in a_list(delta.get("tool_calls"), "tool_calls")]
            return choice | {"delta": delta | {"content": _text(delta.get("content")), "tool_calls": calls}}
        message = an_object(choice.get("message"), "message")
        calls = [_known_by(call) for call in a_list(message.get("tool_calls"), "tool_calls")]
        return choice | {"message": message | {"content": _text(message.get("content")), "tool_calls": calls}}

    def _check_reason(self, choice: dict[str, Any]) -> None:
        """MI5: a normal reason."""
        if choice.get("finish_reason") not in NORMAL:
            refuse(Signal.BAD_STOP, lambda: f"the finish reason is {short(choice.get('finish_reason'))}")


def _no_error(document: dict[str, Any]) -> dict[str, Any]:
    """MI2: an error is an object of that name, beside the `error` key of A8."""
    if document.get("object") == "error":
        failed(document)
    return document


def _known_by(value: Any) -> dict[str, Any]:
    """A tool call without an id that says nothing: the schema gives those that have none the id "null"."""
    call = an_object(value, "a tool call")
    identity = a_string(call.get("id"), "the id of a tool call")
    known = {"id": identity} if identity not in ("", "null") else {}
    return {key: value for key, value in call.items() if key != "id"} | known


def _text(content: Any) -> str:
    """MI3: text, or parts of which some are text. What was thought is not the answer."""
    if not isinstance(content, list):
        return a_string(content, "content")
    parts = [an_object(part, "a part of the content") for part in content]
    return "".join(a_string(part.get("text"), "text") for part in parts if part.get("type") == "text")
