"""Events that repeat are recognised without being read again; nothing is recognised that reading would not accept."""

import json
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wires.bodies import Call, Turn, dump, sse
from tests.wires.bodies_openai import STREAMS, chat_chunks, responses_events
from tests.wires.support import fed, outcome, portions

from endmark.core import strictjson
from endmark.core.refusal import Refused, Signal
from endmark.wires import stencil
from endmark.wires.answer import Usage
from endmark.wires.anthropic import Anthropic
from endmark.wires.fragments import Aside, Fragments
from endmark.wires.framing import Options
from endmark.wires.openai_chat import OpenAIChat
from endmark.wires.openai_responses import OpenAIResponses

READERS = {"openai-chat": OpenAIChat, "openai-responses": OpenAIResponses, "anthropic": Anthropic}
# What stands in the text that repeats: escapes of each kind, what ends a string, what is cut, what is not ASCII.
TEXT = ["a", " ", '\\"', "\\\\", "\\n", "\\u0041", "\\ud83d\\ude00", "ž", "€", "😀", "\x7f", "/", "{", "}", ","]
LOOSE = [
    *TEXT,
    '"',
    "\\",
    "\\x",
    "\\ud83d",
    "\\ude00",
    "\n",
    "\x00",
    "\x1f",
    "\\u12",
    '":1,"k":"',
    "é".encode("latin-1"),
]

leaves = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8)
documents = st.dictionaries(
    st.text(max_size=4),
    st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    min_size=1,
    max_size=4,
)


def paths(value, path=()):
    """Every path to a leaf."""
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inner, (*path, key))
    else:
        yield path


def at(value, path):
    for key in path:
        value = value[key]
    return value


def replaced(value, path, leaf):
    if not path:
        return leaf
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], leaf)
    return copy


@given(documents, st.data())
def test_a_pattern_matches_the_same_document_with_other_values(document, data):
    text = json.dumps(document, ensure_ascii=data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 1])))
    free = data.draw(st.sets(st.sampled_from(list(paths(document))), max_size=3))
    made = stencil.cut(text, free)
    if made is None:
        return
    pattern, groups = made
    assert set(groups) <= free
    match = pattern.fullmatch(text)
    assert match is not None
    for path, group in groups.items():
        assert isinstance(at(document, path), str | int)
        spelled = match[group]
        start, end = match.span(group)
        piece = "".join(data.draw(st.lists(st.sampled_from(TEXT + LOOSE[:-1] + ["0", "7", "00"]), max_size=4)))
        changed = text[:start] + piece + text[end:]
        try:
            read = strictjson.loads(changed.encode())
        except Refused:
            assert pattern.fullmatch(changed) is None
            continue
        if pattern.fullmatch(changed):
            quote = '"' if isinstance(at(document, path), str) else ""
            leaf = strictjson.loads(f'{{"":{quote}{piece}{quote}}}'.encode())[""]
            assert read == replaced(document, path, leaf)
        assert spelled == match[group]


def test_a_pattern_frees_only_strings_and_whole_numbers():
    text = '{"a":"x","b":12,"c":-1,"d":1.5,"e":null,"f":["x",{"a":"y"}],"g":0}'
    free = {("a",), ("b",), ("c",), ("d",), ("e",), ("f",), ("f", 1, "a"), ("g",), ("h",)}
    made = stencil.cut(text, free)
    assert made is not None
    assert set(made[1]) == {("a",), ("b",), ("f", 1, "a"), ("g",)}
    for number in ("01", "-1", "1.0", "1e3", "9" * 19, "+1", " 1", ""):
        assert not made[0].fullmatch(text.replace("12", number))
    assert made[0].fullmatch(text.replace("12", "9" * 18))
    assert stencil.cut(text, {("c",), ("h",)}) is None
    assert stencil.cut('{"a\\u0062":"x"}', {("ab",)}) is None


@pytest.mark.parametrize(
    "piece", [*TEXT, *LOOSE[len(TEXT) : -1], "".join(TEXT), "\\ud7ff", "\\uE000", "\\uDFFF", "\\U0041", "\\"]
)
def test_a_pattern_takes_no_string_that_is_not_strict(piece):
    """Half a pair alone is none, and a whole pair of escapes is left to be read."""
    made = stencil.cut('{"a":["","x"],"b":1}', {("a", 1)})
    assert made is not None
    changed = f'{{"a":["","{piece}"],"b":1}}'
    try:
        strictjson.loads(changed.encode())
        strict = "\\ud83d" not in piece and '"' not in piece.replace('\\"', "")
    except Refused:
        strict = False
    assert (made[0].fullmatch(changed) is not None) == strict


def test_fragments_are_one_text():
    pieces = Fragments()
    assert pieces.text() == ""
    pieces.add_spelled('a\\"')
    pieces.add_spelled("\\u0041")
    assert pieces.text() == 'a"A'
    pieces.add("\\n")
    pieces.add_spelled("\\n")
    assert pieces.text() == 'a"A\\n\n'
    assert pieces.text() == 'a"A\\n\n'
    aside = Aside()
    aside.add("x")
    aside.add_spelled("y")
    assert aside.text() == ""


def base(wire, rng):
    """A stream most of which repeats, as a list of its events."""
    text = "".join(rng.choice(['"', "\\", "\n", "a", "ž", "😀", "{", ", "]) for _ in range(60))
    calls = (Call("run", json.dumps({"a": text}, ensure_ascii=False)),) if rng.random() < 0.5 else ()
    turn = Turn(text=text if not calls or rng.random() < 0.3 else "", calls=calls, thoughts="hm" * rng.randint(0, 9))
    return STREAMS[wire](turn, rng if rng.random() < 0.7 else None).split(b"\n\n")


PIECE = re.compile(rb'"(?:content|arguments|delta|text|partial_json|thinking|reasoning(?:_content)?)":"')


def damaged(events, rng):
    """The stream with a few faults: in the text that repeats, in any byte, or in whole events."""
    events = list(events)
    for _ in range(rng.choice([0, 1, 1, 2])):
        at = rng.randrange(len(events))
        event = events[at]
        kind = rng.randrange(6)
        inside = [found.end() for found in PIECE.finditer(event)]
        if kind == 0 and event:
            byte = rng.randrange(len(event))
            events[at] = event[:byte] + bytes([rng.randrange(256)]) + event[byte + 1 :]
        elif kind == 1 and event:
            byte = rng.choice(inside) if inside and rng.random() < 0.8 else rng.randrange(len(event))
            piece = rng.choice(LOOSE)
            events[at] = event[:byte] + (piece if isinstance(piece, bytes) else piece.encode()) + event[byte:]
        elif kind == 2:
            del events[at]
        elif kind == 3:
            events.insert(at, event)
        elif kind == 4:
            events[at] = event[: rng.randrange(len(event) + 1)]
        else:
            events.insert(rng.randrange(len(events)), event)
        if not events:
            break
    return b"\n\n".join(events)


def both(wire, raw, rng):
    """What a reader says that recognises as soon as it can, and one that never does."""
    said = []
    for patience in (1, 10**9):
        reader = READERS[wire](Options())
        reader._patience = patience
        found = outcome(fed(reader, portions(raw, rng)))
        said.append((found.signal, found.received_bytes) if isinstance(found, Refused) else found)
    return said


@pytest.mark.parametrize("wire", READERS)
@pytest.mark.parametrize("seed", range(3))
def test_recognising_is_reading(wire, seed):
    rng = random.Random(f"{wire} {seed}")
    accepted = 0
    for _ in range(120):
        events = base(wire, rng)
        fast, slow = both(wire, damaged(events, rng), rng)
        assert fast == slow
        accepted += not isinstance(fast, tuple)
    assert accepted > 20


@pytest.mark.soak
@pytest.mark.parametrize("wire", READERS)
@given(st.integers())
@settings(max_examples=2_000)
def test_recognising_is_reading_at_length(wire, seed):
    rng = random.Random(seed)
    fast, slow = both(wire, damaged(base(wire, rng), rng), rng)
    assert fast == slow


def test_what_repeats_is_counted():
    """OC12 OR1: the tokens and the numbers of events that were recognised are those of events that were read."""
    dice = random.Random(1)
    chunks = chat_chunks(Turn(text="ab" * 600))
    chunks = [
        chunk | {"usage": {"completion_tokens": at, "prompt_tokens": 2 * at}} for at, chunk in enumerate(chunks[:-2])
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    fast, slow = both("openai-chat", sse([*[("", dump(chunk)) for chunk in chunks], ("", "[DONE]")]), dice)
    assert fast == slow
    assert fast.usage == Usage(2 * (len(chunks) - 2), len(chunks) - 2)
    events = responses_events(Turn(text="ab" * 600))
    events[9]["sequence_number"], events[8]["sequence_number"] = 8, 9  # what they add is the same
    fast, slow = both("openai-responses", sse([("", dump(event)) for event in events]), dice)
    assert fast == slow
    assert fast[0] == Signal.WRONG_COUNT


@pytest.mark.parametrize("wire", READERS)
def test_a_long_stream_is_recognised(wire):
    """Otherwise nothing here was tested."""
    text = "".join(f'word {at} \\" \u017e\n' for at in range(2_000))
    for turn in (Turn(text=text), Turn(calls=(Call("run", text),)), Turn(text="x", thoughts=text)):
        reader = READERS[wire](Options())
        read: list[int] = []
        load = reader._load
        reader._load = lambda data, load=load, read=read: read.append(1) or load(data)
        raw = STREAMS[wire](turn)
        answer = outcome(fed(reader, [raw]))
        assert not isinstance(answer, Refused)
        assert (answer.text, [call.arguments for call in answer.tool_calls]) == (
            turn.text,
            [c.arguments for c in turn.calls],
        )
        assert len(read) < raw.count(b"data: ") / 4
