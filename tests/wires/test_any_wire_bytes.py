"""Whatever the bytes, a reader of any wire gives an answer or raises Refused, with every byte counted."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wires import bodies, bodies_openai, vectors
from tests.wires.bodies import Call, Turn
from tests.wires.support import ENDINGS, TURNS, fed, outcome, portions

from endmark.core.ending import Ending
from endmark.core.refusal import Refused
from endmark.wires.names import NAMES, reader

OURS = tuple(name for name in NAMES if name.partition("+")[0] in bodies_openai.STREAMS)
SEEDS = [vector.raw for vector in vectors.load()]
TOKENS = [
    *(
        word.encode()
        for word in ("data: ", "\n\n", "\r", "\r\n", "event: ", "{}", "[]", "null", "[DONE]", '"', "\\", ":")
    ),
    *(
        word.encode()
        for word in ("0", "-1", "1e999", '"index":', '"type":', '"choices":', '"delta":', '"error":', "true")
    ),
    b"\xff",
    b"\xef\xbb\xbf",
    b"\x00",
]


def judged(name: str, raw: bytes, rng: random.Random) -> None:
    made = reader(name, max_output_tokens=rng.choice([None, 1]), stop_sequences=rng.random() < 0.5, cap=1 << 20)
    fed(made, portions(raw, rng))
    for ending in (*ENDINGS, Ending.END_OF_FILE):
        found = outcome(made, ending)
        assert found.received_bytes == len(raw)
        assert not isinstance(found, Refused) or found.detail.isprintable()
        assert str(found) == str(outcome(made, ending))


@given(st.sampled_from(OURS), st.binary(max_size=300), st.integers())
def test_any_bytes(name, raw, seed):
    judged(name, raw, random.Random(seed))


@given(st.sampled_from(OURS), st.lists(st.sampled_from(TOKENS), max_size=30), st.integers())
def test_any_tokens(name, tokens, seed):
    judged(name, b"".join(tokens), random.Random(seed))


def mutated(rng: random.Random) -> bytes:
    """A stream with values, bytes or tokens put in other places."""
    if rng.random() < 0.5:
        raw = rng.choice(SEEDS)
    else:
        raw = rng.choice([*bodies_openai.STREAMS.values(), *bodies.STREAMS.values()])(TURNS["verdict"], rng)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(raw) + 1)
        end = min(len(raw), at + rng.choice([0, 1, 1, 5, 40]))
        raw = raw[:at] + rng.choice([b"", rng.choice(TOKENS), rng.choice(SEEDS)[:9], raw[end : end + 30]]) + raw[end:]
    return raw


@given(st.sampled_from(OURS), st.integers())
def test_mutated_streams(name, seed):
    rng = random.Random(seed)
    judged(name, mutated(rng), rng)


ODD: list[Any] = [None, True, 0, -1, 1.5, 10**17, "", "x", [], {}, [[]], [{}], [None], {"type": []}, {"index": "0"}]
EVENTS = {
    "openai-chat": bodies_openai.chat_chunks,
    "openai-responses": bodies_openai.responses_events,
    "anthropic": bodies_openai.anthropic_events,
}
SMALL = [
    Turn(text="ab", thoughts="c"),
    Turn(calls=(Call("run", '{"a":1}'), Call("walk", "{}", "call_2"))),
]


def swapped(value: Any) -> Iterator[Any]:
    """A JSON value with one leaf or branch of it exchanged for a value of another kind: every one, for every kind."""
    yield from ODD
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        for other in swapped(inner):
            copy = dict(value) if isinstance(value, dict) else list(value)
            copy[key] = other
            yield copy


@pytest.mark.parametrize("wire", EVENTS)
def test_values_of_every_wrong_kind(wire):
    """At every place of every event and document, a value of a kind that nobody expects there."""
    end = b"data: [DONE]\n\n" if wire == "openai-chat" else b""
    for turn in SMALL:
        events = [b"data: " + bodies.dump(event).encode() + b"\n\n" for event in EVENTS[wire](turn)]
        for at, event in enumerate(EVENTS[wire](turn)):
            before, after = b"".join(events[:at]), b"".join(events[at + 1 :]) + end
            for other in swapped(event):
                raw = before + b"data: " + bodies.dump(other).encode() + b"\n\n" + after
                assert outcome(fed(reader(wire), [raw])).received_bytes == len(raw)
        for other in swapped(bodies.loaded(bodies_openai.DOCUMENTS[wire](turn).decode())):
            raw = bodies.dump(other).encode()
            assert outcome(fed(reader(wire), [raw])).received_bytes == len(raw)


@pytest.mark.soak
@given(st.sampled_from(OURS), st.integers())
@settings(max_examples=10_000)
def test_mutated_streams_at_length(name, seed):
    rng = random.Random(seed)
    judged(name, mutated(rng), rng)
