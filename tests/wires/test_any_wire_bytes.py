"""Whatever the bytes, a reader of any wire gives an answer or raises Refused, with every byte counted."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wires import bodies, bodies_openai, vectors
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


def swapped(value, rng):
    """A JSON value with one leaf or branch of it exchanged for a value of another kind."""
    odd: list[Any] = [None, True, 0, -1, 1.5, "", "x", [], {}, [[]], [{}], {"type": []}, {"index": "0"}, 10**17]
    if rng.random() < 0.25 or not isinstance(value, dict | list) or not value:
        return rng.choice(odd)
    if isinstance(value, dict):
        key = rng.choice(list(value))
        return value | {key: swapped(value[key], rng)}
    at = rng.randrange(len(value))
    return [*value[:at], swapped(value[at], rng), *value[at + 1 :]]


EVENTS = {
    "openai-chat": bodies_openai.chat_chunks,
    "openai-responses": bodies_openai.responses_events,
    "anthropic": bodies_openai.anthropic_events,
}


def wrong_kinds(wire, seeds):
    """Streams and documents in each of which one JSON value is of a kind that nobody expects there."""
    for seed in seeds:
        rng = random.Random(seed)
        events = EVENTS[wire](rng.choice(list(TURNS.values())), rng)
        at = rng.randrange(len(events))
        events[at] = swapped(events[at], rng)
        raw = b"".join(b"data: " + bodies.dump(event).encode() + b"\n\n" for event in events)
        yield raw + b"data: [DONE]\n\n" * (wire == "openai-chat")
        document = bodies.loaded(bodies_openai.DOCUMENTS[wire](TURNS["plan"]).decode())
        yield bodies.dump(swapped(document, rng)).encode()


@pytest.mark.parametrize("wire", EVENTS)
def test_values_of_every_wrong_kind(wire):
    for raw in wrong_kinds(wire, range(200)):
        judged(wire, raw, random.Random(raw))


@pytest.mark.soak
@pytest.mark.parametrize("wire", EVENTS)
def test_values_of_every_wrong_kind_at_length(wire):
    for raw in wrong_kinds(wire, range(200, 10_000)):
        judged(wire, raw, random.Random(raw))


@pytest.mark.soak
@given(st.sampled_from(OURS), st.integers())
@settings(max_examples=30_000)
def test_mutated_streams_at_length(name, seed):
    rng = random.Random(seed)
    judged(name, mutated(rng), rng)
