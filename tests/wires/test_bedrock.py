"""Bedrock: frames that are each whole, and a message that is not."""

import random

import pytest
from tests.wires import bodies, support
from tests.wires.bodies import Turn
from tests.wires.six import any_turn, asked, opened, planned, read, witness

from endmark.core.ending import Ending
from endmark.core.refusal import Refused, Signal
from endmark.wires.names import reader

PLAN = asked("bedrock", support.PLAN)


def frames(turn, rng=None):
    return [bodies.message(name, payload) for name, payload in bodies.bedrock_messages(turn, rng)]


def test_the_model_s_own_text_of_the_arguments_comes_out():
    answer = read("bedrock", bodies.bedrock(PLAN))
    assert not answer.tool_calls[0].parsed
    assert witness(answer) == support.PLAN
    assert planned(answer).stmt_count == 11
    assert {"provider-terminal", "blocks-closed", "frame-checksums", "continuity:none", "usage"} < set(answer.evidence)


def test_a_document_s_arguments_are_not_the_model_s_spelling():
    answer = read("bedrock", bodies.bedrock_document(PLAN))
    assert answer.tool_calls[0].parsed
    assert bodies.loaded(answer.tool_calls[0].arguments) == bodies.loaded(support.PLAN)


def test_a_stream_that_stops_at_any_frame_is_refused():
    for seed in range(40):
        made = reader("bedrock")
        for part in frames(any_turn(random.Random(seed)), random.Random(seed))[:-1]:
            made.feed(part)
            with pytest.raises(Refused) as refused:
                made.finish(Ending.LAST_CHUNK)
            assert refused.value.signal is Signal.NO_TERMINAL


def test_inc_059_a_tool_use_that_never_stopped_is_refused():
    """Without messageStop, and with one that says a normal reason all the same."""
    events = bodies.bedrock_messages(PLAN)
    for at in range(2, len(events) - 3):
        for ending in ([], events[-2:]):
            with pytest.raises(Refused) as refused:
                read("bedrock", b"".join(bodies.message(*event) for event in events[:at] + ending))
            assert refused.value.signal is Signal.NO_TERMINAL


def test_inc_055_a_reset_after_a_whole_block_ends_nothing():
    raw = bodies.bedrock(Turn(text="First the schema.", calls=PLAN.calls))
    first = raw.index(b"contentBlockStop")
    for at in range(first, len(raw) + 1, 41):
        found = support.outcome(opened("bedrock", raw[:at]), Ending.RESET)
        assert isinstance(found, Refused)
        assert found.signal is Signal.RESET


def test_an_exception_anywhere_before_the_end_is_refused():
    parts = frames(PLAN)
    for kind, key in (("exception", ":exception-type"), ("error", ":error-code")):
        fault = bodies.message("modelStreamErrorException", {"message": "oh"}, kind, key)
        for at in range(len(parts)):
            with pytest.raises(Refused, match="modelStreamErrorException") as refused:
                read("bedrock", b"".join(parts[:at]) + fault + b"".join(parts[at:]))
            assert refused.value.signal is Signal.BAD_STOP
        with pytest.raises(Refused) as refused:
            read("bedrock", b"".join(parts) + fault)
        assert refused.value.signal is Signal.BYTES_AFTER_END


def test_the_profile_gives_up_the_metadata_and_nothing_else():
    """B14: the frame edge before the metadata is the only offset that it adds."""
    raw = bodies.bedrock(PLAN)
    metadata = frames(PLAN)[-1]
    found = support.answers(lambda: reader("bedrock+no-metadata"), raw)
    assert set(found) == {len(raw) - len(metadata), len(raw)}
    made = reader("bedrock+no-metadata")
    made.feed(raw[: -len(metadata)])
    assert {"profile:no-metadata", "gave-up:metadata", "usage:none"} < set(made.finish(Ending.LAST_CHUNK).evidence)
