"""Ollama's /api/chat and /api/generate: lines of JSON, or one document (spec/wires.md, rules OL1-OL10)."""

from typing import Any

from endmark.core import strictjson
from endmark.core.refusal import Signal
from endmark.core.strictjson import short
from endmark.wires.answer import ToolCall, Usage
from endmark.wires.events import failed
from endmark.wires.framing import Options, refuse
from endmark.wires.ndjson import LineStream
from endmark.wires.reading import Draft, StreamReader
from endmark.wires.shapes import a_count, a_list, a_string, an_object

NORMAL = "stop"  # OL7
_LOADING = ("load", "unload")  # OL10: what was asked for was no answer


class _Reply:
    """The answer that lines add up to. Each is one strict JSON object."""

    def __init__(self, ended_only: bool) -> None:
        self._ended_only = ended_only
        self._reason = NORMAL
        self._key: str | None = None
        self._text: list[str] = []
        self._calls: list[ToolCall] = []
        self._usage = Usage()

    def add(self, line: dict[str, Any]) -> bool:
        """The next line. Whether it is the last."""
        if line.get("error") is not None:  # OL2
            failed(line["error"])
        self._check_route(line)
        message = an_object(line.get("message"), "message")
        self._text.append(a_string(message.get("content"), "content"))
        self._text.append(a_string(line.get("response"), "response"))  # OL4
        for source in (message, line):
            for call in a_list(source.get("tool_calls"), "tool_calls"):
                self._calls.append(_call(an_object(call, "a tool call")))
        done = line.get("done", False)
        if type(done) is not bool:
            refuse(Signal.WRONG_TYPE, lambda: f"done is {short(done)}, true or false was expected")
        if done:
            self._usage = Usage(a_count(line.get("prompt_eval_count")), a_count(line.get("eval_count")))  # OL8
            self._reason = line.get("done_reason") or ""
            if not (self._ended_only and self._reason in _LOADING and self._holds_nothing()):  # OL10
                _check_reason(line)
        return done

    def _holds_nothing(self) -> bool:
        return not self._calls and not any(self._text)

    def _check_route(self, line: dict[str, Any]) -> None:
        """OL3: a chat sends messages, a generation responses; one answer is not both."""
        for key in ("message", "response"):
            if line.get(key) is None:
                continue
            self._key = self._key or key
            if key != self._key:
                refuse(Signal.CONTRADICTION, f"one answer holds both {short(self._key)} and {short(key)}")

    def draft(self, evidence: str) -> Draft:
        """The answer as it stands."""
        return Draft(
            text="".join(self._text),
            tool_calls=tuple(self._calls),
            stop_reason=self._reason,
            usage=self._usage,
            evidence=(evidence, "continuity:none"),
        )


def _call(call: dict[str, Any]) -> ToolCall:
    """OL5: a call comes whole, its arguments as an object."""
    function = an_object(call.get("function"), "function")
    name = a_string(function.get("name"), "the name of a tool")
    if not name or function.get("arguments") is None:
        refuse(Signal.MISSING_KEY, "a tool call lacks its name or its arguments")
    arguments = strictjson.dumps(an_object(function["arguments"], "arguments")).decode()
    return ToolCall(name, a_string(call.get("id"), "the id of a tool call") or None, arguments, parsed=True)


def _check_reason(line: dict[str, Any]) -> None:
    """OL7: a server whose own runner went away says `done` without a reason, as very old servers always do."""
    reason = line.get("done_reason")
    if not reason:
        refuse(Signal.BAD_STOP, "the last line says done but not why; so does a server that lost its model's process")
    if reason != NORMAL:
        refuse(Signal.BAD_STOP, lambda: f"the done reason is {short(reason)}")


class Ollama(StreamReader[bytes]):
    """Reads one chat message or generation."""

    def __init__(self, options: Options) -> None:
        super().__init__(options, LineStream(options.cap))
        self._reply = _Reply(options.ended_only)

    def _is_document(self, data: bytes) -> bool | None:
        """OL1: the first line end tells lines from a document without one, which is all that a capture may hold."""
        return False if 0x0A in data else None

    def _take(self, item: bytes) -> None:
        self._ended = self._reply.add(self._load(item))  # OL6

    def _draft(self) -> Draft:
        return self._reply.draft("provider-terminal")

    def _document(self, document: dict[str, Any]) -> Draft:
        """OL9: the same object as a last line, holding all of the answer."""
        reply = _Reply(self._options.ended_only)
        if not reply.add(document):
            refuse(Signal.NO_TERMINAL, "the document does not say that it is done")
        return reply.draft("one-document")
