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
    try:
        strictjson.loads(text.encode())
    except Refused:  # an integer of more than 64 bits: no document to cut
        return
    free = data.draw(st.sets(st.sampled_from(list(paths(document))), max_size=3))
    made = stencil.cut(text, free)
    if made is None:
        return
    pattern, groups = made
    assert set(groups) <= free
    match = pattern.fullmatch(text)
    if match is None:  # two escapes for one character are read at length
        assert "\\ud" in text
        return
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


# --- lists of any length, which is what log probabilities come in


def logprobs(rng, top):
    """One piece of a text with what the model thought of it, spelled as OpenAI spells it."""

    def one(text):
        weighed = rng.choice([-rng.random() * 9, -9999.0, 0.0, -1e-05, 0, -3])
        return {"token": text, "logprob": weighed, "bytes": list(text.encode())}

    pieces = ["a", "ž", "😀", '"', "\n", " the", "\\"]
    content = [one(rng.choice(pieces)) for _ in range(rng.choice([0, 1, 1, 2]))]
    return {"content": [found | {"top_logprobs": [one(rng.choice(pieces)) for _ in range(top)]} for found in content]}


@given(documents, st.data())
def test_a_pattern_with_lists_matches_nothing_that_is_not_strict(document, data):
    """Whatever is put into the lists: what is matched is strict JSON and, but for the lists, the same document."""
    text = json.dumps(document, ensure_ascii=data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 1])))
    free = data.draw(st.sets(st.sampled_from(list(paths(document))), min_size=1, max_size=2))
    found = [path for path in branches(document) if isinstance(at(document, path), list)]
    if not found:
        return
    lists = data.draw(st.sets(st.sampled_from(found), min_size=1, max_size=2))
    made = stencil.cut(text, free, lists)
    if made is None:
        return
    for _ in range(4):
        start, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        kind = data.draw(st.sampled_from(["repeat", "drop", "insert", "number"]))
        piece = data.draw(
            st.sampled_from([",", "]", "[", "[]", "0", "-1.5e3", "00", "1e999", '""', "{", "}", ", ", "null"])
        )
        changed = {
            "repeat": text[:end] + text[start:],
            "drop": text[:start] + text[end:],
            "insert": text[:start] + piece + text[start:],
            "number": re.sub(r"[0-9]+", piece, text, count=1),
        }[kind]
        if made[0].fullmatch(changed):
            read = strictjson.loads(changed.encode())
            for path in [*lists, *made[1]]:
                read, document = blanked(read, path), blanked(document, path)
            assert read == document


def branches(value, path=()):
    """Every path to what is no leaf."""
    if isinstance(value, dict | list):
        yield path
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from branches(inner, (*path, key))


def blanked(value, path):
    """`value` without what stands at `path`, or as it is where nothing does: a list above it may have shrunk."""
    try:
        at(value, path)
    except (KeyError, IndexError, TypeError):
        return value
    return replaced(value, path, None)


def test_a_list_is_taken_by_its_first_element():
    text = '{"t":"x","l":[{"a":"b","n":-1.5,"i":[1,2],"z":null}]}'
    made = stencil.cut(text, {("t",)}, {("l",)})
    assert made is not None
    entry = '{"a":"%s","n":%s,"i":%s,"z":null}'
    for inner in (
        "", entry % ("", "0", "[]"), entry % ("\\n", "-2e-05", "[0]"), ",".join([entry % ("ž", "17.25", "[9,8,7]")] * 9)
    ):  # fmt: skip
        assert made[0].fullmatch(f'{{"t":"","l":[{inner}]}}')
    for inner in (
        ",", entry % ("", "0", "[1,]"), entry % ("", "01", "[]"), entry % ("", "1e999", "[]"),
        entry % ("\n", "0", "[]"),
        (entry % ("", "0", "[]")) * 2, (entry % ("", "0", "[]")) + ",", "," + entry % ("", "0", "[]"),
        entry.replace('"z":null', '"a":null') % ("", "0", "[]"), entry % ("", "9" * 19, "[]"), entry % ("", "-", "[]"),
        entry % ("", "1.", "[]"), entry % ('"', "0", "[]"), entry % ("\\ud83d", "0", "[]"), entry % ("", "0", "[1 2]"),
    ):  # fmt: skip
        assert not made[0].fullmatch(f'{{"t":"","l":[{inner}]}}'), inner


@pytest.mark.parametrize("text", ['{"t":"x","l":[]}', '{"t":"x","l":[ 1 ]}', '{"t":"x","l":[\n{"a":1}\n]}'])
def test_a_list_that_shows_no_plain_element_is_taken_as_it_is(text):
    made = stencil.cut(text, {("t",)}, {("l",)})
    assert made is not None
    assert made[0].fullmatch(text)
    for other in ("[1]", "[ 2 ]", "[,]", "[ , ]"):
        assert not made[0].fullmatch('{"t":"x","l":' + other + "}")


def test_lists_in_lists_cost_no_more_than_their_length():
    """Each level stands once in the pattern, and what does not match is found out in one go."""
    deep = "[" * 40 + "1" + "]" * 40
    made = stencil.cut('{"t":"x","l":' + deep + "}", {("t",)}, {("l",)})
    assert made is not None
    assert len(made[0].pattern) < 4_000
    assert made[0].fullmatch('{"t":"y","l":' + deep + "}")
    made = stencil.cut('{"t":"x","l":[{"n":1.5,"b":[1]}]}', {("t",)}, {("l",)})
    assert made is not None
    entry = '{"n":-0.123456789012345,"b":[' + ",".join(["240"] * 30) + "]}"
    assert not made[0].fullmatch('{"t":"y","l":[' + ",".join([entry] * 300) + ",]}")


@pytest.mark.parametrize("seed", range(4))
def test_recognising_log_probabilities_is_reading_them(seed):
    rng = random.Random(seed)
    chunks = chat_chunks(Turn(text="one two, three. " * 40))
    chunks = [
        chunk | {"choices": [choice | {"logprobs": logprobs(rng, seed)} for choice in chunk["choices"]]}
        for chunk in chunks
    ]
    events = [*[b"data: " + dump(chunk).encode() for chunk in chunks], b"data: [DONE]", b""]
    fast, slow = both("openai-chat", b"\n\n".join(events), rng)
    assert fast == slow
    assert fast.text == "one two, three. " * 40
    for _ in range(60):
        fast, slow = both("openai-chat", damaged(events, rng), rng)
        assert fast == slow


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
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 5))])
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
