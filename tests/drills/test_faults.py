"""Faults as values: their text form goes there and back, and each does to the bytes what it says, everywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import answers

from endmark.drills import faults
from endmark.drills.faults import (
    BadFault,
    Body,
    Broken,
    Cut,
    DoesNotFit,
    DropTerminal,
    Duplicate,
    Edge,
    End,
    Flip,
    Lie,
    Pause,
    Stall,
)

PLACES = st.integers(0, 10**10 - 1)
SECONDS = st.integers(1, 9999).map(lambda n: n / 100)
FAULTS = st.one_of(
    st.builds(Cut, PLACES),
    st.builds(Flip, PLACES, st.integers(0, 7)),
    st.builds(DropTerminal),
    st.builds(Edge, PLACES),
    st.builds(Duplicate, PLACES),
    st.builds(Stall, PLACES),
    st.builds(Stall, PLACES, SECONDS, st.booleans()),
    st.builds(Lie, PLACES),
)


@given(FAULTS)
def test_every_fault_is_one_line_of_text_and_comes_back_from_it(fault):
    assert faults.parse(str(fault)) == fault
    assert str(fault).isascii()
    assert len(str(fault).split()) == 1


@given(FAULTS, st.sampled_from(list(End)))
def test_so_does_a_fault_with_its_end(fault, end):
    assert faults.parse_broken(str(Broken(fault, end))) == Broken(fault, end)


def test_the_words():
    assert str(Broken(Cut(1882), End.RST)) == "cut:1882/rst"
    assert str(Broken(Flip(17, 3))) == "flip:17.3"
    assert str(Stall(34, 2.5, goes_on=False)) == "stall:34+2.5-"
    assert faults.parse("terminal-") == DropTerminal()


@pytest.mark.parametrize(
    "text",
    ["", "cut", "cut:", "cut:-1", "cut:1 ", "cut:0x1", "cut:\u0661",
     "cut:99999999999", "flip:1", "flip:1.8", "flip:1.33",
     "terminal", "terminal-:1", "edge:x", "dup:", "stall:1+", "stall:1-", "stall:1+x", "lie:", "cut:1\n", "CUT:1"],
)  # fmt: skip
def test_what_is_no_fault_is_told_with_what_one_is(text):
    with pytest.raises(BadFault, match=r"is no fault; something like cut:1882, flip:17.3"):
        faults.parse(text)


@pytest.mark.parametrize("text", ["cut:1/", "cut:1/soft", "cut:1/rst/fin", "cut:1/RST"])
def test_what_is_no_end_is_told(text):
    with pytest.raises(BadFault, match="one of polite, fin, short, rst was expected"):
        faults.parse_broken(text)


EVENTS = [b"data: 0\n\n", b": a comment\r\n\r\n", b"data: 22\n\n", b"data: [DONE]\n\n"]
STREAM = b"".join(EVENTS)
LINES = [b'{"a":1}\n', b'{"done":true}\n']


def sse(data=STREAM):
    return Body(data, "text/event-stream; charset=utf-8")


def test_a_cut_at_every_byte_is_that_prefix():
    for at in range(len(STREAM) + 1):
        assert Cut(at).play(sse()) == [STREAM[:at]]


def test_a_flip_of_every_bit_changes_that_bit_alone():
    for place in range(8 * len(STREAM)):
        (out,) = Flip(place // 8, place % 8).play(sse())
        assert isinstance(out, bytes)
        assert int.from_bytes(out, "little") ^ int.from_bytes(STREAM, "little") == 1 << place


def test_events_are_dropped_cut_and_doubled_whole():
    assert DropTerminal().play(sse()) == [b"".join(EVENTS[:3])]
    assert DropTerminal().play(sse(STREAM + b"data: hal")) == [STREAM]
    for index in range(4):
        assert Edge(index).play(sse()) == [b"".join(EVENTS[:index])]
        assert Duplicate(index).play(sse()) == [b"".join(EVENTS[: index + 1] + EVENTS[index:])]
    assert Edge(4).play(sse()) == [STREAM]


def test_lines_and_frames_have_edges_too():
    lines = Body(b"".join(LINES), "application/x-ndjson")
    assert Edge(1).play(lines) == [LINES[0]]
    frame = (16).to_bytes(4, "big") + bytes(12)
    frames = Body(frame * 3, "application/vnd.amazon.eventstream")
    assert Edge(2).play(frames) == [frame * 2]
    assert DropTerminal().play(frames) == [frame * 2]


def test_a_stall_says_for_how_long_and_what_then():
    assert Stall(5).play(sse()) == [STREAM[:5], Pause(None)]
    assert Stall(5, 2.5).play(sse()) == [STREAM[:5], Pause(2.5), STREAM[5:]]
    assert Stall(5, 2.5, goes_on=False).play(sse()) == [STREAM[:5], Pause(2.5)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cut:49", "the body has 48 bytes, the fault needs 49"),
        ("flip:48.0", "the body has 48 bytes, the fault needs 49"),
        ("stall:49", "the body has 48 bytes, the fault needs 49"),
        ("edge:5", "the body has 4 events, the fault needs 5"),
        ("dup:4", "the body has 4 events, the fault needs 5"),
        ("lie:3", "a lie needs to know the wire; name it"),
    ],
)
def test_a_fault_that_does_not_fit_is_not_played(text, why):
    assert len(STREAM) == 48
    with pytest.raises(DoesNotFit) as told:
        faults.parse(text).play(sse())
    assert str(told.value) == why


@pytest.mark.parametrize("fault", [DropTerminal(), Edge(0), Duplicate(0)])
def test_a_document_has_no_events(fault):
    with pytest.raises(DoesNotFit, match="one JSON document, and this fault needs events"):
        fault.play(Body(b'{"a":1}', "application/json"))
    with pytest.raises(DoesNotFit, match="the body is bytes"):
        fault.play(Body(b"\x1f\x8b", "application/octet-stream"))


@pytest.mark.parametrize("kind", faults.SWEEPS)
def test_a_sweep_has_a_fault_for_every_place_and_each_fits(kind):
    body = Body(answers.chat_call("{}"), "text/event-stream", "openai-chat")
    count, make = faults.SWEEPS[kind]
    played = [make(place) for place in range(count(body))]
    assert len(set(map(str, played))) == count(body) > 0
    for fault in played[:: max(1, len(played) // 50)]:
        assert fault.play(body)
