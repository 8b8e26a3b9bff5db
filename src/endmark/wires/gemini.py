"""Gemini's generateContent: server-sent events, a JSON array, or one document (spec/wires.md, rules G1-G13)."""

from typing import Any

from endmark.core import strictjson
from endmark.core.refusal import Signal
from endmark.core.strictjson import short
from endmark.wires.answer import ToolCall, Usage
from endmark.wires.events import EventReader, failed
from endmark.wires.framing import Options, refuse
from endmark.wires.jsonarray import CLOSED, ArrayStream
from endmark.wires.reading import Draft, StreamReader
from endmark.wires.shapes import a_count, a_list, a_string, an_object
from endmark.wires.sse import Event

NORMAL = "STOP"  # G5
_MOST = 1 << 16  # candidates of one document


class _Turn:
    """The answer that responses add up to, whatever framing brings them. Each is one strict JSON object."""

    def __init__(self, least: int = 0, most: int = 1) -> None:
        """`least` and `most`: how many candidates there must be, where it only counts whether they ended (G13)."""
        self._least = least
        self._most = most
        self._begun: dict[int, bool] = {}  # G13: whether each has stopped
        self._id: str | None = None
        self._text: list[str] = []
        self._calls: list[ToolCall] = []
        self._asked: int | None = None
        self._spent: int | None = None
        self.stopped = False  # STOP has come; no candidate may follow

    def add(self, response: dict[str, Any]) -> None:
        """The next response."""
        if response.get("error") is not None:  # A8
            failed(response["error"])
        feedback = an_object(response.get("promptFeedback"), "promptFeedback")
        if feedback.get("blockReason"):  # G2
            refuse(Signal.BAD_STOP, lambda: f"the prompt was blocked: {short(feedback['blockReason'])}")
        self._check_id(response)
        self._count(an_object(response.get("usageMetadata"), "usageMetadata"))
        candidates = self._candidates(response)
        if self.stopped and (candidates or "usageMetadata" not in response):  # G6
            refuse(Signal.BYTES_AFTER_END, "more than a count of tokens came after the finish reason STOP")
        for candidate in candidates:  # G1
            self._add(candidate)

    def _candidates(self, response: dict[str, Any]) -> list[dict[str, Any]]:
        """G4, or G13 where it only counts whether they ended."""
        if self._least:
            return [an_object(item, "a candidate") for item in a_list(response.get("candidates"), "candidates")]
        candidate = _only_candidate(response)
        return [] if candidate is None else [candidate]

    def _add(self, candidate: dict[str, Any]) -> None:
        """A candidate whose number was asked for (G4 G13); it need not be said where it is 0."""
        index = candidate.get("index", 0)
        if type(index) is not int or not 0 <= index < self._most:
            refuse(Signal.WRONG_COUNT, lambda: f"candidate {short(index)} was not asked for (see candidateCount)")
        if self._begun.get(index):  # G6
            refuse(Signal.BYTES_AFTER_END, f"more of candidate {index} came after the finish reason STOP")
        content = an_object(candidate.get("content"), "content")
        for part in a_list(content.get("parts"), "parts"):
            self._part(an_object(part, "a part"))
        reason = candidate.get("finishReason")
        if reason and reason != NORMAL:  # G5
            refuse(Signal.BAD_STOP, lambda: f"the finish reason is {short(reason)}")
        self._begun[index] = bool(reason)
        stopped = sum(self._begun.values())
        self.stopped = stopped == len(self._begun) and stopped >= self._least

    def _part(self, part: dict[str, Any]) -> None:
        """G7 G8: text, or a call with its arguments as an object. What the model thought is not its answer."""
        if part.get("thought") is True:
            return
        self._text.append(a_string(part.get("text"), "text"))
        call = an_object(part.get("functionCall"), "functionCall")
        if not call:
            return
        if call.get("partialArgs") is not None or call.get("willContinue"):  # G9
            refuse(Signal.WRONG_VALUE, "a function call came in pieces (ask without streamFunctionCallArguments)")
        name = a_string(call.get("name"), "the name of a function call")
        if not name:
            refuse(Signal.MISSING_KEY, "a function call does not say its name")
        arguments = strictjson.dumps(an_object(call.get("args"), "args")).decode()
        self._calls.append(
            ToolCall(name, a_string(call.get("id"), "the id of a function call") or None, arguments, True)
        )

    def _check_id(self, response: dict[str, Any]) -> None:
        """G3: the responses of one answer carry one id."""
        found = response.get("responseId")
        if not found:
            return
        if self._id is None:
            self._id = a_string(found, "responseId")
        elif found != self._id:
            refuse(Signal.CONTRADICTION, lambda: f"two answers are mixed: {short(self._id)}, {short(found)}")

    def _count(self, usage: dict[str, Any]) -> None:
        """G10: counts are totals so far, the last one stands; what was thought is spent from the same cap."""
        asked, said = a_count(usage.get("promptTokenCount")), a_count(usage.get("candidatesTokenCount"))
        thought = a_count(usage.get("thoughtsTokenCount"))
        self._asked = self._asked if asked is None else asked
        if said is not None or thought is not None:
            self._spent = (said or 0) + (thought or 0)

    def draft(self, *evidence: str) -> Draft:
        """The answer as it stands."""
        return Draft(
            text="".join(self._text),
            tool_calls=tuple(self._calls),
            stop_reason=NORMAL,
            usage=Usage(self._asked, self._spent),
            evidence=(*evidence, "continuity:none"),
        )


def _only_candidate(response: dict[str, Any]) -> dict[str, Any] | None:
    """G4: an answer is one candidate; a response may hold none. Its number is looked at by `_Turn`."""
    candidates = a_list(response.get("candidates"), "candidates")
    if not candidates:
        return None
    if len(candidates) > 1:
        refuse(
            Signal.WRONG_COUNT, "an answer is one candidate, number 0; this one has others (ask with candidateCount 1)"
        )
    return an_object(candidates[0], "a candidate")


def _turn(options: Options) -> _Turn:
    return _Turn(options.choices, options.choices) if options.ended_only else _Turn()


def _document(document: dict[str, Any], options: Options) -> Draft:
    """G12: a whole response, which says STOP itself."""
    turn = _Turn(1, _MOST) if options.ended_only else _Turn()
    turn.add(document)
    if not turn.stopped:
        refuse(Signal.BAD_STOP, "the document holds no finish reason")
    return turn.draft("one-document")


class Gemini(EventReader):
    """Reads one answer of `streamGenerateContent?alt=sse`."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._turn = _turn(options)

    def _take(self, item: Event) -> None:
        self._turn.add(self._load(item[1]))
        self._ended = self._turn.stopped  # G11

    def _after(self, item: Event) -> None:
        self._turn.add(self._load(item[1]))  # G6: only the count may still come

    def _draft(self) -> Draft:
        return self._turn.draft("provider-terminal")

    def _document(self, document: dict[str, Any]) -> Draft:
        return _document(document, self._options)


class GeminiArray(StreamReader[bytes]):
    """Reads one answer of `streamGenerateContent` as it comes without `alt=sse`: one JSON array of responses."""

    def __init__(self, options: Options) -> None:
        super().__init__(options, ArrayStream(options.cap))
        self._turn = _turn(options)

    def _take(self, item: bytes) -> None:
        if item != CLOSED:
            self._turn.add(self._load(item))
        elif self._turn.stopped:
            self._ended = True  # G11
        else:
            refuse(Signal.NO_TERMINAL, "the array closed before any finish reason")

    def _draft(self) -> Draft:
        return self._turn.draft("provider-terminal", "array-closed")

    def _document(self, document: dict[str, Any]) -> Draft:
        return _document(document, self._options)
