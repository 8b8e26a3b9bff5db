"""No whole stream is refused: OpenAI's and Anthropic's wires on seeded good streams, varied in all that may vary."""

import random

import pytest
from tests.wires.bodies import Call, Turn
from tests.wires.bodies_openai import STREAMS
from tests.wires.support import TURNS, bytewise, fed, outcome, portions

from endmark.core.refusal import Refused
from endmark.wires.names import reader

WIRES = tuple(STREAMS)
PROFILES = ("vllm", "llamacpp", "ollama", "azure", "openrouter", "gemini", "claude-gateway")
WORDS = ["SELECT", "'ž'", "\n", "😀", '"q"', "\\", "{", "]", " ", "€", "\t", "x" * 40, "}{", "\x7f", "\u2028", "é̀"]


def any_turn(rng: random.Random, size: int) -> Turn:
    def text(longest: int) -> str:
        return "".join(rng.choices(WORDS, k=rng.randint(1, longest)))

    calls = [Call(rng.choice(["apply_schema", "ž"]), text(size), f"call_{at}") for at in range(rng.randint(0, 3))]
    said = text(size) if not calls or rng.random() < 0.4 else ""
    return Turn(said, tuple(calls), tokens=rng.randint(1, 9_999), thoughts=text(size) if rng.random() < 0.4 else "")


def check(wire: str, turn: Turn, rng: random.Random, parts_of=portions) -> None:
    raw = STREAMS[wire](turn, rng)
    name = f"{wire}+{rng.choice(PROFILES)}" if wire == "openai-chat" and rng.random() < 0.4 else wire
    answer = outcome(fed(reader(name), parts_of(raw, rng)))
    assert not isinstance(answer, Refused), (name, answer)
    assert answer.text == turn.text
    assert [(call.name, call.id, call.arguments) for call in answer.tool_calls] == [
        (call.name, call.id, call.arguments) for call in turn.calls
    ]
    assert answer.usage.output_tokens in (None, turn.tokens)
    assert answer.received_bytes == len(raw)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("batch", range(6))
def test_five_hundred_good_streams(wire, batch, record_property):
    """28 each, in portions of any size; a quarter of them byte by byte."""
    record_property("good streams", 28)
    for seed in range(28):
        rng = random.Random(f"{wire} {batch} {seed}")
        turn = any_turn(rng, 25) if seed % 7 else rng.choice(list(TURNS.values()))
        check(wire, turn, rng, portions if seed % 4 else lambda raw, _rng: bytewise(raw))


@pytest.mark.soak
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("batch", range(10))
def test_ten_thousand_good_streams(wire, batch, record_property):
    record_property("good streams", 334)
    for seed in range(334):
        rng = random.Random(f"soak {wire} {batch} {seed}")
        check(wire, any_turn(rng, 60), rng)


@pytest.mark.soak
@pytest.mark.parametrize("wire", WIRES)
def test_answers_of_ten_megabytes(wire):
    rng = random.Random(wire)
    long = "".join(rng.choices(WORDS, k=2_400_000))
    assert len(long.encode()) > 10_000_000
    for turn in (Turn(long), Turn(calls=(Call("apply_schema", long),))):
        for varied in (None, random.Random(7)):
            raw = STREAMS[wire](turn, varied)
            answer = outcome(
                fed(reader(wire, cap=len(raw)), [raw[at : at + 65_536] for at in range(0, len(raw), 65_536)])
            )
            assert not isinstance(answer, Refused)
            assert (answer.text, [call.arguments for call in answer.tool_calls]) == (
                turn.text,
                [call.arguments for call in turn.calls],
            )
