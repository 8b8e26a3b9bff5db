"""Many events in one read are what they are one by one: recognised together only where reading would take each."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wires.bodies import Turn
from tests.wires.bodies_openai import STREAMS
from tests.wires.support import bytewise, fed, outcome, portions

from endmark.core.refusal import Refused
from endmark.wires import batch
from endmark.wires.names import reader

WORDS = ["SELECT ", "ž", "😀", '"q"', "\\", "\n", "x" * 40, "{", "]", "%s", "€"]
SHAPE = b'{"n":7,"delta":{"text":"word"},"end":null}'


def event(text: bytes, number: bytes = b"7", name: bytes = b"", end: bytes = b"null") -> bytes:
    head = b"event: " + name + b"\n" if name else b""
    return head + b'data: {"n":' + number + b',"delta":{"text":"' + text + b'"},"end":' + end + b"}\n\n"


def columns(block, name=b"", free=(("delta", "text"), ("n",))):
    made = batch.of(name, SHAPE.decode(), free)
    assert made is not None
    found = made.columns(block)
    return None if found is None else {path: found[at] for path, at in made.groups.items()}


@pytest.mark.parametrize(
    "texts",
    [[b"word"], [b""], [b"a", b"", "€ž😀".encode(), b"%s {}[]:,"], [b'\\"', b"\\\\", b"\\u0041\\n", b"\x7f"]],
    ids=["one", "empty", "plain", "escaped"],
)
@pytest.mark.parametrize("name", [b"", b"content_block_delta"])
def test_the_values_are_found_as_they_are_spelled(texts, name):
    numbers = [b"%d" % number for number in range(len(texts))]
    block = b"".join(event(t, n, name) for t, n in zip(texts, numbers, strict=True))
    assert columns(block, name) == {("delta", "text"): texts, ("n",): numbers}


@pytest.mark.parametrize(
    "block",
    [
        event(b'a","x":"b'),
        event(b"a\x01b"),
        event(b"a\tb"),
        event(b"a\\"),
        event(b"\\x"),
        event(b"\\ud83d"),
        event("é".encode("latin-1")),
        event(b"\xc3") + event(b"\xa9"),
        event(b"a\\") + event(b'"'),
        event(b"a", b"07"),
        event(b"a", b"-7"),
        event(b"a", b"7.0"),
        event(b"a", b"1" * 19),
        event(b"a", end=b'"stop"'),
        event(b"a", name=b"other"),
        event(b"a")[:-1],
        event(b"a") + b"\n",
        b": comment\n" + event(b"a"),
        event(b"a").replace(b"\n", b"\r\n"),
        event(b"a").replace(b"data: ", b"data:"),
        event(b"a") + event(b"a")[:-20],
        event(b'a"},"end":null}\n\ndata: {"n":7,"delta":{"text":"b'.replace(b'"', b"'")),
        b"data: [DONE]\n\n",
        b"\n\n",
        b"x" * 5000,
    ],
)
def test_what_is_not_wholly_of_the_shape_is_not_recognised(block):
    assert columns(block) is None
    assert columns(event(b"a") * 3 + block) is None
    assert columns(block + event(b"a") * 3) is None


@pytest.mark.parametrize(
    ("document", "free"),
    [
        ('{"a":1}', ("b",)),
        ('{"a":"\\ud83d\\ude00"}', ("a",)),
        ('{"a":"x",\n"b":1}', ("a",)),
        ('{"a":"x",\r"b":1}', ("a",)),
    ],
    ids=["nothing free", "a pair of escapes", "two lines", "a CR"],
)
def test_an_event_that_has_no_shape(document, free):
    """It has one without what is special in it, so that each is None for its own reason."""
    assert batch.of(b"", document, (free,)) is None
    plain = document.replace("\n", "").replace("\r", "").replace("\\ud83d\\ude00", "x")
    assert (batch.of(b"", plain, (free,)) is None) == (free == ("b",))


def test_what_never_fits_costs_no_more_for_being_long():
    made = batch.of(b"", SHAPE.decode(), (("delta", "text"),))
    assert made is not None
    assert made.columns(b"y" * 4_000_000 + b"\n\n") is None  # would take hours if each byte began anew


def long_stream(wire: str, seed: int) -> bytes:
    """Some hundred events that only add text, so that the reader knows their shape."""
    rng = random.Random(seed)
    return STREAMS[wire](Turn(text="".join(rng.choices(WORDS, k=1500))))


@st.composite
def damaged(draw):
    wire = draw(st.sampled_from(sorted(STREAMS)))
    body = bytearray(long_stream(wire, draw(st.integers(0, 3))))
    at = draw(st.integers(0, len(body) - 1))
    kind = draw(st.sampled_from(["none", "flip", "drop", "event", "double", "cut"]))
    if kind == "flip":
        body[at] ^= 1 << draw(st.integers(0, 7))
    elif kind == "drop":
        del body[at : at + draw(st.integers(1, 400))]
    elif kind == "event":
        edge = body.find(b"\n\n", at) + 2
        body[edge:edge] = draw(
            st.sampled_from([b": ping\n\n", b"data: {}\n\n", b"data: x\n\n", b"\n\n", b"data: [DONE]\n\n", b"id: 1\n"])
        )
    elif kind == "double":
        edge = body.find(b"\n\n", at) + 2
        body[edge:edge] = body[edge : body.find(b"\n\n", edge) + 2]
    elif kind == "cut":
        del body[at:]
    return wire, bytes(body), draw(st.integers(0, 2**32))


def said(made):
    return (made.signal, made.received_bytes, made.detail) if isinstance(made, Refused) else made


@settings(max_examples=40)
@given(damaged(), st.booleans())
def test_in_large_portions_a_reader_finds_what_it_finds_byte_by_byte(case, ended_only):
    wire, body, seed = case
    slow = said(outcome(fed(reader(wire, ended_only=ended_only), bytewise(body))))
    assert said(outcome(fed(reader(wire, ended_only=ended_only), [body[:9000], body[9000:]]))) == slow
    assert said(outcome(fed(reader(wire, ended_only=ended_only), portions(body, random.Random(seed))))) == slow


@pytest.mark.parametrize("wire", STREAMS)
def test_what_was_skimmed_ends_with_an_event_and_is_not_read_again(wire):
    body = long_stream(wire, 1)
    made, skimmed, at = reader(wire), 0, 0
    while at < len(body):
        part = body[at : at + 4096]
        at += len(part)
        to = made.skim(part)
        if to:
            assert part[to - 2 : to] == b"\n\n"
            skimmed += len(part)
        else:
            made.feed(part)
    assert skimmed > len(body) // 4
    assert outcome(made) == outcome(fed(reader(wire), [body]))
