"""A reader that has learnt how events repeat takes many at once; whatever else is among them is read, or refused."""

from typing import Any

import pytest
from tests.vectors.wire_cases_openai import chunk, sse
from tests.wires.support import fed
from tests.wires.support import outcome as answer_or_refusal

from endmark.core.refusal import Refused, Signal
from endmark.wires.names import reader
from endmark.wires.sse import EventStream

WORD = sse(chunk({"content": "a"})).encode()
THOUGHT = sse(chunk({"reasoning": "b"})).encode()
END = sse(chunk({}, "stop"), "[DONE]").encode()
LEARNT = 64  # events in a row


def outcome(made) -> Any:
    return answer_or_refusal(made)


def learnt(event=WORD, **asked):
    return fed(reader("openai-chat", **asked), [event] * LEARNT)


def test_a_block_of_events_that_repeat_is_taken():
    made = learnt()
    assert made.skim(WORD * 9) == len(WORD) * 9
    assert made.skim(WORD * 2 + WORD[:20]) == len(WORD) * 2
    assert made.skim(WORD[20:]) == len(WORD) - 20
    made.feed(END)
    answer = outcome(made)
    assert answer.text == "a" * (LEARNT + 12)
    assert answer.received_bytes == len(WORD) * (LEARNT + 12) + len(END)


@pytest.mark.parametrize(
    "block",
    [
        WORD * 2 + END,
        WORD + THOUGHT,
        WORD[:-1],
        WORD + WORD.replace(b"data", b"event: error\ndata"),
        WORD * 2 + END.replace(b"\n", b"\r"),
        WORD * 2 + WORD.replace(b'"a"', b'"a\r"'),
        WORD * 2 + b"\r",
        WORD * 2 + b": comment\n\n",
    ],
)
def test_a_block_with_anything_else_in_it_is_read(block):
    made, slow = learnt(), learnt()
    assert made.skim(block) == 0
    for read in (made, slow):
        read.feed(block) if read is made else fed(read, [block[at : at + 1] for at in range(len(block))])
    for rest in (b"", END):
        found = [outcome(fed(read, [rest])) for read in (made, slow)]
        assert str(found[0]) == str(found[1])


def test_what_is_added_to_something_else_is_learnt_anew():
    """Pieces of the text that come after others must not go where those others went."""
    made = learnt()
    made.feed(THOUGHT)
    assert made.skim(WORD * 3) == 0
    fed(made, [WORD * 3, THOUGHT, END])
    assert outcome(made).text == "a" * (LEARNT + 3)


def test_nothing_is_taken_once_it_is_refused():
    made = learnt()
    made.feed(b"data: {}}\n\n")
    assert made.skim(WORD * 3) == 0
    assert isinstance(outcome(made), Refused)


def test_no_more_is_taken_than_the_cap():
    """A9"""
    size = len(WORD) * (LEARNT + 5)
    assert learnt(cap=size).skim(WORD * 5) == len(WORD) * 5
    made = learnt(cap=size - 1)
    assert made.skim(WORD * 5) == 0
    made.feed(WORD * 5)
    assert outcome(made).signal is Signal.OVER_CAP


def test_the_name_of_an_event_that_repeats_is_looked_at():
    """A8: an error says so by its name alone."""
    made = learnt()
    made.feed(b"event: error\n" + WORD)
    assert outcome(made).signal is Signal.BAD_STOP


def numbered(first, count):
    delta = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "a"}
    return sse(*(delta | {"sequence_number": number} for number in range(first, first + count))).encode()


def test_a_block_that_does_not_count_on_is_read_and_refused():
    """OR1"""
    part = {"type": "output_text", "text": ""}
    begin: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}},
        {"type": "response.content_part.added", "output_index": 0, "content_index": 0, "part": part},
    ]
    head = sse(*(event | {"sequence_number": at} for at, event in enumerate(begin))).encode()
    at = len(begin)
    for block, taken in (
        (numbered(at + LEARNT, 3), True),
        (numbered(at + LEARNT + 1, 3), False),
        (numbered(at + LEARNT - 1, 3), False),
        (numbered(at + LEARNT, 2) + numbered(at + LEARNT + 3, 1), False),
    ):
        made = fed(reader("openai-responses"), [head, *(numbered(at + more, 1) for more in range(LEARNT))])
        assert made.skim(block) == (len(block) if taken else 0)
        made.feed(block if not taken else b"")
        assert outcome(made).signal is (Signal.NO_TERMINAL if taken else Signal.WRONG_COUNT)
        one = fed(reader("openai-responses"), [head, *(numbered(at + more, 1) for more in range(LEARNT))])
        fed(one, [event + b"\n\n" for event in block.split(b"\n\n")[:-1]])  # one by one they are looked at as well
        assert outcome(one).signal is outcome(made).signal


def test_what_has_not_ended_is_spelled_only_where_it_is_known():
    """What `under_way` says is put before a block of events, to look at them together."""
    for begun in (b"", b"da", b"data: x\n", b"event: x\n", b"event: x\ndata: y\nda"):
        stream = EventStream(100)
        stream.feed(begun)
        assert stream.under_way(1) == begun
        assert stream.under_way(100 - len(begun)) == begun
        assert stream.under_way(101 - len(begun)) is None
    for begun in (b"data: x\r", b"data: x\ndata: y\n"):
        stream = EventStream()
        stream.feed(begun)
        assert stream.under_way(1) is None
