"""What the seeded good streams hold: a rate of false refusals says nothing if what is refused never comes."""

import random
import re

import pytest
from tests.wires import bodies, bodies_openai
from tests.wires.six import any_turn
from tests.wires.support import fed, outcome, portions

from endmark.core.refusal import Refused
from endmark.wires.names import reader

STREAMS = {**bodies_openai.STREAMS, **bodies.STREAMS}
EVENTS = {"openai-chat", "openai-responses", "anthropic", "gemini", "mistral", "cohere"}  # server-sent

# What must occur among the streams of each wire that can hold it, as the bytes show it.
FEATURES: dict[str, tuple[bytes, set[str]]] = {
    "comments": (rb"(?m)^:", EVENTS),
    "CRLF": (rb"\r\n", EVENTS | {"gemini-array", "ollama"}),
    "no space after the colon": (rb"(?m)^data:\{", EVENTS),
    "an event that says nothing": (rb"(?m)^(retry|id): ?\d", EVENTS),
    "characters of several bytes": ("😀".encode(), set(STREAMS) - {"gemini-array"}),
    "pings": (rb'"type":"ping"', {"anthropic"}),
    "types that nobody knows": (
        rb"later_event|laterEvent|response\.later|debug|keepalive|\"status\"",
        {"anthropic", "bedrock", "cohere", "ollama", "openai-chat", "openai-responses"},
    ),
    "usage alone in the last chunk": (
        rb'"choices":\[\][^\n]*"usage":\{|"usage":\{[^\n]*"choices":\[\]',
        {"openai-chat"},
    ),
    "empty pieces": (
        rb'"content": ?""|"delta":""|"partial_json":""|"text": ?""|"input":""|"arguments":""|"response": ?""',
        set(STREAMS) - {"gemini", "gemini-array"},
    ),
    "reasoning": (
        rb"reasoning|thinking|thought",
        set(STREAMS),
    ),
    "calls": (rb"tool_0", set(STREAMS)),
}


@pytest.fixture(scope="module")
def streams():
    """60 a wire."""
    found: dict[str, list[tuple[bytes, random.Random]]] = {}
    for wire, make in STREAMS.items():
        found[wire] = []
        for seed in range(60):
            rng = random.Random(f"variety {wire} {seed}")
            found[wire].append((make(any_turn(rng, 20), rng), rng))
    return found


@pytest.mark.parametrize("feature", FEATURES)
def test_the_good_streams_are_as_various_as_the_worlds(streams, feature):
    pattern, wires = FEATURES[feature]
    assert [wire for wire in sorted(wires) if not any(re.search(pattern, raw) for raw, _ in streams[wire])] == []


def interleaved(raw: bytes) -> bool:
    """Whether pieces of one block or call come between those of another."""
    order = re.findall(rb'"(?:index|output_index|contentBlockIndex)":(\d+)', raw)
    runs = [at for at, before in zip(order, [None, *order], strict=False) if at != before]
    return len(runs) > len(set(runs)) + 2


@pytest.mark.parametrize("wire", ["anthropic", "openai-responses", "bedrock"])
def test_some_blocks_are_interleaved(streams, wire):
    assert any(interleaved(raw) for raw, _ in streams[wire])


@pytest.mark.parametrize("wire", STREAMS)
def test_none_of_them_is_refused_and_some_come_byte_by_byte(streams, wire):
    shortest = []
    for raw, rng in streams[wire]:
        parts = list(portions(raw, rng))
        shortest.append(max(map(len, parts)))
        assert not isinstance(outcome(fed(reader(wire), parts)), Refused)
    assert min(shortest) == 1
