"""OpenAI chat completions, streamed or as one document (spec/wires.md, rules OC1-OC23)."""

from re import Match
from typing import Any

from endmark.core.refusal import Signal
from endmark.core.strictjson import dumps, short
from endmark.wires.answer import ToolCall, Usage
from endmark.wires.batch import Columns
from endmark.wires.choices import OtherChoices
from endmark.wires.events import EventReader, failed
from endmark.wires.fragments import Aside, Fragments
from endmark.wires.framing import Fault, Options, refuse
from endmark.wires.placing import Places
from endmark.wires.profiles import PROFILES, Profile
from endmark.wires.reading import NO_TERMINAL, Draft
from endmark.wires.shapes import a_count, a_list, a_string, an_index, an_object
from endmark.wires.sse import Event
from endmark.wires.stencil import Path

DONE = b"[DONE]"
NORMAL = ("stop", "tool_calls", "function_call")  # OC5
# OC20: what a provider's own word for the end must not hold, whatever it was translated to
_ABNORMAL = (
    "length", "limit", "max", "exceed", "trunc", "incomplete", "filter", "safety", "recit", "block", "prohib", "spii",
    "refus", "error", "malform", "pause", "cancel", "abort", "timeout",
)  # fmt: skip

_CONTENT: Path = ("choices", 0, "delta", "content")
_ARGUMENTS: Path = ("choices", 0, "delta", "tool_calls", 0, "function", "arguments")
_REASONING = ("reasoning_content", "reasoning")  # OC8: which name depends on the server; no part of the answer
_SPENT: Path = ("usage", "completion_tokens")
_ASKED: Path = ("usage", "prompt_tokens")
_FREE: tuple[Path, ...] = (
    *(("created",), ("obfuscation",), _SPENT, _ASKED, ("usage", "total_tokens")),
    *(("choices", 0, "delta", key) for key in _REASONING),
)
_LISTS: tuple[Path, ...] = (("choices", 0, "logprobs", "content"),)


class _Call:
    """One tool call under way."""

    __slots__ = ("arguments", "id", "kind", "name", "parsed")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.id: str | None = None
        self.name = ""
        self.arguments = Fragments()
        self.parsed = False  # the arguments came as an object, whole


class OpenAIChat(EventReader):
    """Reads one chat completion. `profile` names what kind of server sends it, "" for OpenAI itself."""

    _followed = (_SPENT, _ASKED)

    def __init__(self, options: Options, profile: str = "") -> None:
        super().__init__(options)
        self._profile = PROFILES[profile]
        self._profile_name = profile
        self._id: str | None = None
        self._free = (*_FREE, ("id",)) if self._profile.ids_differ else _FREE
        self._text = Fragments()
        self._aside = Aside()
        self._calls: list[_Call] = []
        self._places = Places()
        self._function_call: _Call | None = None
        self._reason: str | None = None
        self._others = OtherChoices()
        self._asked: int | None = None
        self._spent: int | None = None

    # --- a stream

    def _take(self, item: Event) -> None:
        name, data = item
        if data == DONE:
            if self._reason is None:  # OC4
                refuse(Signal.NO_TERMINAL, "[DONE] came before any finish reason")
            if self._others.open:  # OC21
                refuse(Signal.NO_TERMINAL, "[DONE] came before the finish reason of each choice")
            self._ended = True
            return
        chunk = self._load(data)
        if name == b"error" or chunk.get("error") is not None:  # A8
            failed(chunk.get("error", chunk))
        if "choices" not in chunk and chunk.get("object") != "chat.completion.chunk":
            self._idle()  # OC1 A10: another type of event
            return
        self._check_id(chunk)
        self._count(chunk.get("usage"))
        choice = self._only_choice(chunk, self._others)
        if choice is not None:
            self._add(choice, item)

    def _add(self, choice: dict[str, Any], item: Event) -> None:
        """One piece of the answer, or its finish reason."""
        delta = an_object(choice.get("delta"), "delta")
        content = a_string(delta.get("content"), "content")
        calls = a_list(delta.get("tool_calls"), "tool_calls")
        function_call = an_object(delta.get("function_call"), "function_call")
        self._check_refusal(delta)
        if self._reason is not None and (content or calls or function_call):  # OC6
            refuse(Signal.BAD_STOP, f"more of the answer came after the finish reason {short(self._reason)}")
        if content:  # OC7
            self._text.add(content)
        places = [self._add_call(call) for call in calls]
        if function_call:  # OC10
            self._function_call = self._function_call or _Call("function")
            _extend(self._function_call, function_call, "arguments", self._profile)
        if choice.get("finish_reason") not in (None, ""):  # OC5: some send "" for none yet
            self._finish(choice)
        elif self._reason is None and not function_call:
            if calls:
                call = self._calls[places[0]]
                if len(calls) == 1 and not content and not call.parsed:
                    self._repeats(item, call.arguments, _ARGUMENTS, self._free, _LISTS)
            elif content:
                self._repeats(item, self._text, _CONTENT, self._free, _LISTS)
            else:
                key = next((key for key in _REASONING if isinstance(delta.get(key), str)), "")
                self._repeats(item, self._aside, ("choices", 0, "delta", key), self._free, _LISTS)

    def _continues(self, match: Match[str]) -> bool:
        for path in self._followed:
            if path in self._groups:
                self._count({path[1]: int(match[self._groups[path]])})
        return True

    def _continue_all(self, groups: dict[Path, int], columns: Columns) -> bool:
        for path in self._followed:
            if path in groups:
                self._count({path[1]: int(columns[groups[path]][-1])})
        return True

    def _add_call(self, call: Any) -> int:
        """OC9: pieces belong together by their index, which counts up from 0; or by their id (OC22 OC23)."""
        call = an_object(call, "a tool call")
        place = self._places.of(call) if self._profile.calls_by_id else call.get("index")
        index = an_index(place, "the index of a tool call", len(self._calls) + 1)
        if index == len(self._calls):
            self._calls.append(_Call(_kind(call)))
        _extend_call(self._calls[index], call, self._profile)
        return index

    def _finish(self, choice: dict[str, Any]) -> None:
        """OC6: the finish reason may be repeated and never changes."""
        reason = choice["finish_reason"]
        self._check_reason(choice)
        if self._reason not in (None, reason):
            refuse(Signal.BAD_STOP, f"the finish reason {short(self._reason)} became {short(reason)}")
        self._reason = reason

    def _unended(self) -> Fault | None:
        done = self._reason is not None and not self._others.open
        return None if self._profile.done_optional and done else NO_TERMINAL  # OC17

    def _draft(self) -> Draft:
        calls = [*self._calls, *([self._function_call] if self._function_call else [])]
        proof = "provider-terminal" if self._ended else "gave-up:done"
        return self._drafted(self._text.text(), calls, self._reason or "", proof)

    # --- one document

    def _document(self, document: dict[str, Any]) -> Draft:
        """OC14: a whole `chat.completion`."""
        if document.get("error") is not None:
            failed(document["error"])
        if document.get("object") != "chat.completion":
            refuse(Signal.WRONG_TYPE, lambda: f"the document is {short(document.get('object'))}, not 'chat.completion'")
        usage, document_usage = Usage(), document.get("usage")
        if isinstance(document_usage, dict):
            usage = Usage(
                a_count(document_usage.get("prompt_tokens")), a_count(document_usage.get("completion_tokens"))
            )
        others = OtherChoices()
        choice = self._only_choice(document, others)
        if choice is None:
            refuse(Signal.WRONG_COUNT, "the document holds no choice")
        if others.open:  # OC21
            refuse(Signal.BAD_STOP, "a choice of the document has no finish reason")
        self._check_reason(choice)
        message = an_object(choice.get("message"), "message")
        self._check_refusal(message)
        calls: list[_Call] = []
        for call in a_list(message.get("tool_calls"), "tool_calls"):
            called = an_object(call, "a tool call")
            calls.append(_Call(_kind(called)))
            _extend_call(calls[-1], called, self._profile)
        if function_call := an_object(message.get("function_call"), "function_call"):
            calls.append(_Call("function"))
            _extend(calls[-1], function_call, "arguments", self._profile)
        text = a_string(message.get("content"), "content")
        return self._drafted(text, calls, choice["finish_reason"], "one-document", usage)

    # --- both

    def _drafted(self, text: str, calls: list[_Call], reason: str, proof: str, usage: Usage | None = None) -> Draft:
        if reason != "stop" and not calls:  # OC13
            refuse(Signal.BAD_STOP, f"the finish reason is {short(reason)}, but no call arrived")
        # OC15
        profile = (f"profile:{self._profile_name}", *self._profile.gives_up) if self._profile_name else ()
        parsed = self._profile.arguments_parsed
        return Draft(
            text=text,
            tool_calls=tuple(ToolCall(c.name, c.id, c.arguments.text(), parsed or c.parsed) for c in calls),
            stop_reason=reason,
            usage=usage or Usage(self._asked, self._spent),
            evidence=(proof, "continuity:none", *profile),
        )

    def _only_choice(self, chunk: dict[str, Any], others: OtherChoices) -> dict[str, Any] | None:
        """OC3, and OC21 of the `others`: an answer is one choice, number 0; a chunk may hold none."""
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            refuse(Signal.WRONG_TYPE, lambda: f"choices is {short(choices)}, a list was expected")
        if not choices:
            return None
        if self._options.ended_only:
            return others.without(choices, self._check_reason)
        choice = an_object(choices[0], "a choice")
        index = choice.get("index")
        if len(choices) > 1 or type(index) is not int or index != 0:
            refuse(Signal.WRONG_COUNT, "an answer is one choice, number 0; this one has others (ask with n=1)")
        if choice.get("error") is not None:  # A8
            failed(choice["error"])
        return choice

    def _check_reason(self, choice: dict[str, Any]) -> None:
        """OC5, and what a profile knows besides (OC16 OC20)."""
        reason = choice.get("finish_reason")
        if reason not in NORMAL:
            refuse(Signal.BAD_STOP, lambda: f"the finish reason is {short(reason)}")
        stopped_at = choice.get("stop_reason")
        if self._profile.stop_strings and isinstance(stopped_at, str) and not self._options.stop_sequences:
            refuse(Signal.BAD_STOP, lambda: f"it stopped at the sequence {short(stopped_at)}, and none was asked for")
        native = choice.get("native_finish_reason")
        if self._profile.native_reasons and isinstance(native, str) and any(w in native.lower() for w in _ABNORMAL):
            refuse(Signal.BAD_STOP, lambda: f"the provider's own finish reason is {short(native)}")

    def _check_refusal(self, message: dict[str, Any]) -> None:
        """OC11: a model that declines does not answer. Its answer has ended all the same (OC21)."""
        if not a_string(message.get("refusal"), "refusal"):
            return
        if not self._options.ended_only:
            refuse(Signal.BAD_STOP, "the model refused to answer")
        if self._reason is not None:
            refuse(Signal.BAD_STOP, f"more of the answer came after the finish reason {short(self._reason)}")

    def _check_id(self, chunk: dict[str, Any]) -> None:
        """OC2: the chunks of one answer carry one id."""
        found = chunk.get("id")
        if not found or self._profile.ids_differ:
            return
        if self._id is None:
            self._id = found
        elif found != self._id:
            refuse(Signal.CONTRADICTION, lambda: f"chunks of two answers are mixed: {short(self._id)}, {short(found)}")

    def _count(self, usage: Any) -> None:
        """OC12: the last count stands."""
        if isinstance(usage, dict):
            asked, spent = a_count(usage.get("prompt_tokens")), a_count(usage.get("completion_tokens"))
            self._asked = self._asked if asked is None else asked
            self._spent = self._spent if spent is None else spent


def _kind(call: dict[str, Any]) -> str:
    """`function`, whose text is `arguments`, or `custom`, whose text is `input`."""
    kind = call.get("type") or ("custom" if "custom" in call else "function")
    if kind not in ("function", "custom"):
        refuse(Signal.WRONG_VALUE, lambda: f"a tool call is of the type {short(kind)}")
    return str(kind)


def _extend_call(call: _Call, piece: dict[str, Any], profile: Profile) -> None:
    found = a_string(piece.get("id"), "the id of a tool call")
    if found:
        if call.id not in (None, found):
            refuse(Signal.CONTRADICTION, lambda: f"one tool call has two ids, {short(call.id)} and {short(found)}")
        call.id = found
    key = "input" if call.kind == "custom" else "arguments"
    _extend(call, an_object(piece.get(call.kind), call.kind), key, profile)


def _extend(call: _Call, piece: dict[str, Any], key: str, profile: Profile) -> None:
    name = a_string(piece.get("name"), "the name of a tool")
    if name:
        if call.name not in ("", name):
            refuse(Signal.CONTRADICTION, lambda: f"one tool call has two names, {short(call.name)} and {short(name)}")
        call.name = name
    if not call.name:
        refuse(Signal.MISSING_KEY, "a tool call does not open with its name")
    value = piece.get(key)
    whole = profile.argument_objects and isinstance(value, dict)  # MI6
    arguments = dumps(value).decode() if whole else a_string(value, key)
    if not arguments:
        return
    if call.parsed or (whole and call.arguments.text()):  # MI6
        refuse(Signal.CONTRADICTION, "more came for a tool call whose arguments are one object")
    call.parsed = whole
    call.arguments.add(arguments)
