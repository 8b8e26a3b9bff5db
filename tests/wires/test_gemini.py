"""Gemini: the two forms of a stream, and the reports of answers that were taken for whole."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wires import bodies, support
from tests.wires.bodies import Call, Turn, dump
from tests.wires.six import asked, planned, read, witness

from endmark.core.ending import Ending
from endmark.core.refusal import Refused, Signal
from endmark.wires.jsonarray import CLOSED, ArrayStream
from endmark.wires.names import reader

FORMS = ("gemini", "gemini-array")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a"\\{}[],:é\n'), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(st.sampled_from('a"\\{}[]'), max_size=3), VALUES, max_size=3), max_size=5)


@given(documents=OBJECTS, indent=st.sampled_from([None, 0, 2]), seed=st.integers(0, 99), ascii_=st.booleans())
def test_an_array_comes_apart_into_its_elements(documents, indent, seed, ascii_):
    raw = json.dumps(documents, indent=indent, ensure_ascii=ascii_).encode()
    for parts in ([raw], support.bytewise(raw), support.portions(raw, random.Random(seed))):
        frames = ArrayStream()
        found = [element for part in parts for element in frames.feed(part)]
        assert frames.fault is None
        assert frames.at_end
        assert not frames.pending
        assert found.pop() == CLOSED
        assert [bodies.loaded(element.decode()) for element in found] == documents


@given(documents=OBJECTS, data=st.data())
def test_a_cut_array_has_not_ended(documents, data):
    raw = json.dumps(documents).encode()
    frames = ArrayStream()
    frames.feed(raw[: data.draw(st.integers(0, len(raw) - 1))])
    assert frames.pending
    assert not frames.at_end


@pytest.mark.parametrize("wire", FORMS)
def test_the_witness_comes_as_one_string(wire):
    """G8: the model's own spelling and order of keys are in it."""
    answer = read(wire, bodies.STREAMS[wire](asked(wire, support.PLAN)))
    assert answer.tool_calls[0].parsed
    assert witness(answer) == support.PLAN
    assert planned(answer).statements == support.STATEMENTS


@pytest.mark.parametrize("wire", FORMS)
def test_a_stream_that_stops_at_any_event_is_refused(wire):
    for seed in range(40):
        rng = random.Random(seed)
        made = reader(wire)
        made.feed(b"[" if wire == "gemini-array" else b": open\n")
        for response in bodies.gemini_responses(Turn(text=support.VERDICT, thoughts="hm " * 9), rng):
            made.feed(dump(response).encode() if wire == "gemini-array" else bodies.sse([("", dump(response))], rng))
            if "STOP" in dump(response):
                break
            with pytest.raises(Refused) as refused:
                made.finish(Ending.LAST_CHUNK)
            assert refused.value.signal is Signal.NO_TERMINAL
            made.feed(b"," if wire == "gemini-array" else b"")


@pytest.mark.parametrize("wire", FORMS)
def test_inc_022_the_cap_is_no_end_though_nothing_was_counted(wire):
    responses = bodies.gemini_responses(Turn(text="The change renames two fie", reason="MAX_TOKENS"))
    for response in responses:
        del response["usageMetadata"]
    raw = dump(responses).encode() if wire == "gemini-array" else bodies.sse([("", dump(r)) for r in responses])
    for body in (raw, bodies.gemini_document(Turn(text="The change renames two fie", reason="MAX_TOKENS"))):
        with pytest.raises(Refused, match="MAX_TOKENS") as refused:
            read(wire, body)
        assert refused.value.signal is Signal.BAD_STOP


@pytest.mark.parametrize("wire", FORMS)
def test_inc_044_a_malformed_call_is_no_stop(wire):
    response = {"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "f({"}]}
    stream = dump([response]).encode() if wire == "gemini-array" else bodies.sse([("", dump(response))])
    for raw in (stream, dump(response).encode()):
        with pytest.raises(Refused, match="MALFORMED_FUNCTION_CALL"):
            read(wire, raw)


@pytest.mark.parametrize("wire", FORMS)
def test_inc_170_stop_without_a_part_is_empty(wire):
    contents: list[Any] = [
        {"parts": []},
        {},
        None,
        {"parts": [{"text": ""}]},
        {"parts": [{"text": "hm", "thought": True}]},
    ]
    for content in contents:
        response = {"candidates": [{"content": content, "finishReason": "STOP"}]}
        with pytest.raises(Refused) as refused:
            read(wire, dump([response]).encode() if wire == "gemini-array" else bodies.sse([("", dump(response))]))
        assert refused.value.signal is Signal.EMPTY


def test_inc_039_a_count_with_every_event_is_no_end():
    """The call comes with its last event and not with the first that counts tokens."""
    responses = bodies.gemini_responses(asked("gemini", support.PLAN))
    assert all("usageMetadata" in response for response in responses)
    for count in range(1, len(responses)):
        with pytest.raises(Refused):
            read("gemini", bodies.sse([("", dump(response)) for response in responses[:count]]))


def test_an_error_between_the_events_is_one():
    """Google's servers may put an error into the stream as bare JSON, line by line."""
    raw = bodies.gemini(Turn(text=support.VERDICT))
    error = json.dumps(
        {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}, indent=2
    )
    middle = raw.index(b"\n\n", len(raw) // 2) + 2
    for at in (middle, len(raw)):
        for form in (error, f"data: {dump(bodies.loaded(error))}"):
            with pytest.raises(Refused):
                read("gemini", raw[:at] + form.encode() + b"\n\n" + raw[at:])
    with pytest.raises(Refused, match="overloaded"):
        read("gemini", error.encode(), Ending.LENGTH_MET)


def test_the_other_form_is_refused():
    turn = Turn(text="hello", calls=(Call("f", "{}"),))
    for wire, other in (FORMS, FORMS[::-1]):
        with pytest.raises(Refused):
            read(wire, bodies.STREAMS[other](turn))
