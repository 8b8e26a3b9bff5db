"""Cohere: events with types, blocks that open and end."""

import random

import pytest
from tests.wires import bodies, support
from tests.wires.bodies import Call, Turn, dump
from tests.wires.six import any_turn, asked, planned, read, witness

from endmark.core.ending import Ending
from endmark.core.refusal import Refused, Signal
from endmark.wires.names import reader

PLAN = asked("cohere", support.PLAN)


def stream(events):
    return bodies.sse([(event["type"], dump(event)) for event in events])


def test_the_model_s_own_text_of_the_arguments_comes_out():
    for raw in (bodies.cohere(PLAN), bodies.cohere_document(PLAN)):
        answer = read("cohere", raw)
        assert not answer.tool_calls[0].parsed
        assert witness(answer) == support.PLAN
        assert planned(answer).stmt_count == 11


def test_inc_024_027_028_a_stream_that_stops_at_any_event_is_refused():
    """The body ends politely, the terminal event has not come."""
    for seed in range(40):
        made = reader("cohere")
        for event in bodies.cohere_events(any_turn(random.Random(seed)), random.Random(seed))[:-1]:
            made.feed(stream([event]))
            with pytest.raises(Refused) as refused:
                made.finish(Ending.LAST_CHUNK)
            assert refused.value.signal is Signal.NO_TERMINAL


def test_an_end_that_is_brought_forward_is_refused():
    """`message-end` with a normal reason right after any event: a block is open, or nothing was said."""
    events = bodies.cohere_events(Turn(calls=PLAN.calls, text="I will."))
    refused = 0
    for count in range(1, len(events) - 1):
        try:
            answer = read("cohere", stream([*events[:count], events[-1]]))
        except Refused:
            refused += 1
            continue
        assert answer.text in ("", "I will.")
        assert answer.tool_calls == read("cohere", stream(events)).tool_calls
    assert refused >= len(events) - 3


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "ERROR", "TIMEOUT", "USER_CANCEL"])
def test_inc_002_003_007_an_abnormal_reason_is_no_stop(reason):
    """No call of such a turn is one."""
    calls = (Call("first", '{"a": 1}', "a"), Call("second", '{"sql": "ALT', "b"))
    for turn in (Turn(text=support.VERDICT, reason=reason), Turn(calls=calls, reason=reason)):
        for raw in (bodies.cohere(turn), bodies.cohere_document(turn)):
            with pytest.raises(Refused, match=reason) as refused:
                read("cohere", raw)
            assert refused.value.signal is Signal.BAD_STOP


def test_inc_042_an_error_in_the_stream_is_no_end():
    events = bodies.cohere_events(PLAN)
    fault = b'event: error\ndata: {"message": "overloaded"}\n\n'
    for at in range(len(events)):
        with pytest.raises(Refused, match="overloaded"):
            read("cohere", stream(events[:at]) + fault + stream(events[at:]))
    with pytest.raises(Refused, match="timed out"):
        read("cohere", bodies.cohere(Turn(text="hello", extra={"error": "timed out"})))


def test_the_same_answer_with_and_without_done():
    """CO8: a cut between the two takes nothing of the answer away."""
    raw = bodies.cohere(PLAN)
    done = read("cohere", raw + b"data: [DONE]\n\n")
    assert (done.tool_calls, done.evidence) == (read("cohere", raw).tool_calls, read("cohere", raw).evidence)
    for at in range(1, len(b"data: [DONE]\n\n")):
        with pytest.raises(Refused) as refused:
            read("cohere", raw + b"data: [DONE]\n\n"[:at])
        assert refused.value.signal is Signal.BYTES_AFTER_END
