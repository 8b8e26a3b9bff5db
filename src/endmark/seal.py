"""A captured answer becomes an envelope, or is refused: the one place where a proof is made from a model's words
(spec/seal.md, rules CA1-CA11).

Four things must agree: the transport saw the end of the body, the provider declared the answer finished, the answer is
what was asked for and nothing else, and the model's own text says where it ends. Nothing is mended on the way.
"""

from typing import Any

import msgspec

from endmark.core import evidence, mc1, plan, proof, strictjson, verdict
from endmark.core.decision import row_of
from endmark.core.ending import Ending
from endmark.core.evidence import Level
from endmark.core.plan import Plan
from endmark.core.proof import Form
from endmark.core.refusal import Refused, Signal
from endmark.core.verdict import Verdict
from endmark.sources.capture import DEFAULT_LIMIT, Capture
from endmark.wires import names
from endmark.wires.answer import Answer, ToolCall

PLAN_KEY = "plan"
"""The one argument of a tool whose provider hands over a parsed object: the witness text, as one string."""

# What a wire says of these endings, whatever the bytes; the source may know more about why.
_ENDED = {
    Ending.CLOSED: Signal.WEAK_EVIDENCE,
    Ending.SHORT: Signal.BODY_CUT,
    Ending.RESET: Signal.RESET,
    Ending.IDLE: Signal.IDLE,
    Ending.TOO_LONG: Signal.OVER_CAP,
    Ending.BAD_ENCODING: Signal.BODY_CUT,
}


class AnswerRefused(Refused):
    """A model's answer was not proven whole, or is not what was asked for; nothing may be done with any of it.

    `tool`: the tool whose call was wanted, None for a text. `received_bytes` counts the bytes of the captured body.
    """

    __slots__ = ("tool",)

    def __init__(
        self, signal: Signal, received_bytes: int, expected_bytes: int | None, detail: str, tool: str | None = None
    ) -> None:
        super().__init__(signal, received_bytes, expected_bytes, detail)
        self.tool = tool

    def for_model(self) -> str:
        """What to answer the model, as the result of its call or the next message: what happened and what to do now."""
        what = f"call of {self.tool}" if self.tool else "answer"
        row = row_of(self.signal)
        if self.signal in (Signal.BAD_STOP, Signal.WEAK_EVIDENCE, Signal.UNREACHABLE):
            why = "did not end normally" if self.signal is Signal.BAD_STOP else "could not be proven to be whole"
            return (
                f"Your last {what} {why}: {self.detail}. Nothing was executed. "
                "Send it again, in whole; do not continue the old one."
            )
        if row.number in (1, 4, 6, 9):
            return (
                f"Your last {what} was cut off after {self.received_bytes:,} bytes; nothing was executed. "
                "Send it again, smaller, in whole; do not continue the old one."
            )
        if row.number in (3, 8):
            return f"Your last {what} arrived damaged; nothing was executed. Send it again, in whole."
        return (
            f"Your last {what} was refused: {self.detail}. Nothing was executed. Mend that and send it again, in whole."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return AnswerRefused, (self.signal, self.received_bytes, self.expected_bytes, self.detail, self.tool)


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that was proven whole, in its envelope.

    `evidence` is all that stood behind it when it was sealed. `raw_sha256` names the bytes that were captured.
    """

    envelope: bytes
    form: Form
    value: Plan | Verdict
    level: Level
    evidence: tuple[str, ...]
    raw_sha256: str
    wire: str
    answer: Answer

    def __bytes__(self) -> bytes:
        return self.envelope

    @property
    def plan(self) -> Plan:
        """The proven plan. Raises TypeError for a verdict."""
        if not isinstance(self.value, Plan):
            raise TypeError("a verdict was sealed, no plan")
        return self.value

    @property
    def verdict(self) -> Verdict:
        """The proven verdict. Raises TypeError for a plan."""
        if not isinstance(self.value, Verdict):
            raise TypeError("a plan was sealed, no verdict")
        return self.value

    @property
    def beside(self) -> tuple[str, ...]:
        """The evidence that the envelope does not carry itself, for the record of a job."""
        return self.evidence[1:]


class NotSealed(msgspec.Struct, frozen=True):
    """A capture that was refused, for the record: `Gate.submit` and `Gate.apply` write down the refusal, no more."""

    raw: bytes
    refused: AnswerRefused

    def __bytes__(self) -> bytes:
        return self.raw

    @property
    def beside(self) -> tuple[str, ...]:
        """No evidence."""
        return ()


def seal(
    capture: Capture,
    *,
    wire: str | None = None,
    tool: str | None = None,
    marks: list[str] | None = None,
    cap: int = mc1.DEFAULT_CAP,
) -> Sealed:
    """The answer in `capture` as an envelope: the one call of `tool`, or without it the answer's text as written.

    A call of a tool, and a text that sets out to be one, is a plan in its witness form. Any other text is a verdict;
    `marks`: the marks its reviewer was asked to echo. `wire`: how to read the capture, where it does not say itself.
    Two seals of one capture are byte-equal. Raises AnswerRefused; ValueError for a wire that does not exist.
    """
    name = wire or capture.wire
    if name is None:
        raise ValueError("the capture does not say which wire it is; name one")
    if tool is not None and marks is not None:
        raise ValueError("marks are echoed in a verdict, which is a text and no call of a tool")
    try:
        answer = read(capture, name)
        text, found = _asked_for(answer, tool, len(capture.raw))
        envelope, form, value, inner = _envelope(text, marks, tool, cap)
    except Refused as refused:
        detail = refused.detail
        raise AnswerRefused(refused.signal, len(capture.raw), refused.expected_bytes, detail, tool) from None
    cap_asked = capture.max_output_tokens
    return Sealed(
        envelope=envelope,
        form=form,
        value=value,
        level=Level.SEALED,
        evidence=(  # CA10
            Level.SEALED.word,
            *inner,
            *found,
            f"wire:{name}",
            *answer.evidence,
            "output-cap:none" if cap_asked is None else f"output-cap:{cap_asked}",
            *capture.facts,
            f"capture-sha256:{capture.sha256}",
        ),
        raw_sha256=capture.sha256,
        wire=name,
        answer=answer,
    )


def read(capture: Capture, wire: str, *, ended_only: bool = False, choices: int = 1) -> Answer:
    """The answer that a capture holds, read to its end by `wire`. Raises Refused; ValueError for an unknown wire.

    `ended_only` and `choices`: as `wires.names.reader` takes them. What is to be sealed is read without.
    """
    reader = names.reader(  # CA5
        wire,
        max_output_tokens=capture.max_output_tokens,
        stop_sequences=capture.stop_sequences,
        allow_close_delimited=capture.allow_close_delimited,
        cap=max(DEFAULT_LIMIT, len(capture.raw)),
        ended_only=ended_only,
        choices=choices,
    )
    try:
        body = capture.body()
    except Refused:
        ended = _ENDED.get(capture.ending)
        if ended is None or not capture.raw or capture.ending is Ending.TOO_LONG:  # that is not decoded at all
            raise
        # A body that was cut does not decode either; that it was cut is what to say.
        detail = f"the body ended badly, {capture.ending}, and so inside its content coding"
        raise Refused(ended, len(capture.raw), None, _with(detail, capture.why)) from None
    reader.feed(body)
    try:
        return reader.finish(capture.ending)
    except Refused as refused:
        if refused.signal is not _ENDED.get(capture.ending):
            raise
        raise Refused(refused.signal, len(capture.raw), None, _with(refused.detail, capture.why)) from None


def _with(detail: str, why: str) -> str:
    return f"{detail} ({why})" if why else detail


def _asked_for(answer: Answer, tool: str | None, received: int) -> tuple[str, tuple[str, ...]]:
    """The text to be sealed, and where it stood. Raises Refused for an answer that is anything else, or more."""
    calls = answer.tool_calls
    if tool is None:
        if calls:  # CA6
            called = ", ".join(strictjson.short(call.name) for call in calls[:3])
            raise Refused(Signal.WRONG_COUNT, received, None, f"a text was expected, the answer calls {called}")
        return answer.text, ("from:text",)
    if len(calls) != 1:  # CA6
        found = "none is made" if not calls else f"{len(calls)} calls are made"
        raise Refused(Signal.WRONG_COUNT, received, None, f"exactly one call, of {tool}, was expected; {found}")
    call = calls[0]
    if call.name != tool:  # CA6
        shown = strictjson.short(call.name)
        raise Refused(Signal.WRONG_VALUE, received, None, f"a call of {tool} was expected, the call is of {shown}")
    return _arguments(call, received)


def _arguments(call: ToolCall, received: int) -> tuple[str, tuple[str, ...]]:
    """The witness text of a call: its raw arguments, or the one string in them."""
    place = f"tool:{call.name}"
    document = _loads(call.arguments.encode(), f"the arguments of {call.name}")
    text = document.get(PLAN_KEY)
    if set(document) == {PLAN_KEY} and isinstance(text, str):  # CA7
        return text, (place, "from:one-string")
    if call.parsed:
        # CA7. Cut and closed by somebody, an object looks whole: the order of its keys is no longer the model's.
        raise Refused(
            Signal.WRONG_VALUE,
            received,
            None,
            f"the provider hands arguments over as an object, so {call.name} takes exactly one key, {PLAN_KEY!r}: "
            "the whole text as one string",
        )
    return call.arguments, (place, "from:arguments")


def _envelope(
    text: str, marks: list[str] | None, tool: str | None, cap: int
) -> tuple[bytes, Form, Plan | Verdict, tuple[str, ...]]:
    where = "the text" if tool is None else "the witness text"
    raw = text.encode()  # every wire reads strict JSON: no half of a surrogate pair is in a text
    if len(raw) > cap:
        raise Refused(Signal.OVER_CAP, len(raw), None, f"{where} is {len(raw):,} bytes, over the cap of {cap:,}")
    document = _loads(raw, where)
    if tool is not None or not _is_verdict(document):  # CA8
        value = plan.read_witness(document, len(raw))
        return plan.seal(value), Form.PLAN, value, evidence.WITNESS  # CA9
    found = verdict.read(document, len(raw), None, marks)
    envelope = mc1.seal(raw)
    said = proof.prove(envelope, len(envelope)).evidence[1 + len(evidence.ENVELOPE) :]
    return envelope, Form.VERDICT, found, (*said, "marks-echoed") if marks else said


def _is_verdict(document: dict[str, Any]) -> bool:
    return "verdict" in document and "statements" not in document and "stmt_count" not in document


def _loads(raw: bytes, where: str) -> dict[str, Any]:
    try:
        return strictjson.loads(raw)
    except Refused as refused:
        raise Refused(refused.signal, refused.received_bytes, None, f"{where}: {refused.detail}") from None
