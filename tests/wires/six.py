"""What the six wires of `bodies` are tested with: turns, and how the witness comes out of an answer."""

import random
from dataclasses import replace

from tests.wires import bodies, support
from tests.wires.bodies import Call, Turn, dump

from endmark.core import plan, strictjson
from endmark.core.ending import Ending
from endmark.wires.answer import Answer, Reader
from endmark.wires.names import reader

WIRES = tuple(bodies.STREAMS)
PARSED = (
    "gemini",
    "gemini-array",
    "ollama",
)  # these hand arguments over as an object, so the witness is a string in it
# What each says when it stopped at the cap, and when a filter stopped it; Ollama and Mistral know no filter.
CAPPED = {
    "gemini": "MAX_TOKENS",
    "gemini-array": "MAX_TOKENS",
    "ollama": "length",
    "bedrock": "max_tokens",
    "mistral": "length",
    "cohere": "MAX_TOKENS",
}
FILTERED = {
    "gemini": "SAFETY",
    "gemini-array": "SAFETY",
    "ollama": "content_filter",
    "bedrock": "content_filtered",
    "mistral": "content_filter",
    "cohere": "ERROR",
}
WORDS = ["SELECT", "'ž'", "\n", "😀", '"q"', "\\", "{", "]", " ", "€", "\t", "x" * 40, "}{", "END_APPLY", "é̀"]


def asked(wire: str, text: str) -> Turn:
    """The tool call that a plan's witness text comes in."""
    return Turn(calls=(Call("apply_schema", dump({"plan": text}) if wire in PARSED else text),))


def turns(wire: str) -> dict[str, Turn]:
    return {"plan": asked(wire, support.PLAN), "verdict": Turn(text=support.VERDICT)}


def opened(wire: str, raw: bytes) -> Reader:
    made = reader(wire)
    made.feed(raw)
    return made


def read(wire: str, raw: bytes, ending: Ending = Ending.LAST_CHUNK) -> Answer:
    return opened(wire, raw).finish(ending)


def witness(answer: Answer) -> str:
    """The witness text of the one call of an answer."""
    (call,) = answer.tool_calls
    return str(strictjson.loads(call.arguments.encode())["plan"]) if call.parsed else call.arguments


def planned(answer: Answer) -> plan.Plan:
    text = witness(answer).encode()
    return plan.read_witness(strictjson.loads(text), len(text))


def same_answer(answer: Answer, turn: Turn) -> None:
    """That nothing of what the model said is lost or altered."""
    assert answer.text == turn.text
    assert [call.name for call in answer.tool_calls] == [call.name for call in turn.calls]
    for got, sent in zip(answer.tool_calls, turn.calls, strict=True):
        assert (
            (bodies.loaded(got.arguments) == bodies.loaded(sent.arguments))
            if got.parsed
            else got.arguments == sent.arguments
        )
    assert answer.usage.output_tokens == turn.tokens


def any_turn(rng: random.Random, length: int = 40) -> Turn:
    """A turn of any shape that says something."""

    def said(most: int) -> str:
        return "".join(rng.choices(WORDS, k=rng.randint(1, most)))

    calls = []
    for number in range(rng.choice([0, 1, 1, 2, 3])):
        arguments = dump({said(2): said(length), "n": [number, {"deep": [None, True, -1.5]}]})
        calls.append(Call(f"tool_{number}", arguments, f"call_{number}"))
    turn = Turn(
        text=said(length) if not calls or rng.random() < 0.5 else "",
        calls=tuple(calls),
        tokens=rng.randint(21, 4000),
        thoughts=said(length) if rng.random() < 0.5 else "",
    )
    return replace(turn, text=turn.text or "." if not calls else turn.text)
