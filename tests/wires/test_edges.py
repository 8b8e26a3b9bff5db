"""What only one of several conditions refuses, on the wires of Anthropic, Bedrock and Cohere."""

import pytest
from tests.vectors.wire_cases import dump
from tests.vectors.wire_cases_openai import sse
from tests.wires.support import fed

from endmark.core.ending import Ending
from endmark.core.refusal import Refused
from endmark.wires.names import reader


def outcome(wire, raw, **asked):
    """The text of the answer, or the signal of the refusal."""
    try:
        return fed(reader(wire, **asked), [raw.encode()]).finish(Ending.LAST_CHUNK).text
    except Refused as refused:
        return refused.signal.value


def anthropic(reason, **more):
    content = [{"type": "text", "text": "whole"}]
    return dump({"type": "message", "content": content, "stop_reason": reason, "usage": {}} | more)


def bedrock(reason):
    message = {"role": "assistant", "content": [{"text": "whole"}]}
    return dump({"output": {"message": message}, "stopReason": reason, "usage": {}})


def cohere(reason):
    message = {"role": "assistant", "content": [{"type": "text", "text": "whole"}]}
    return dump({"id": "1", "message": message, "finish_reason": reason, "usage": {}})


@pytest.mark.parametrize(
    ("wire", "made", "sequence", "cut"),
    [
        ("anthropic", anthropic, "stop_sequence", "max_tokens"),
        ("bedrock", bedrock, "stop_sequence", "max_tokens"),
        ("cohere", cohere, "STOP_SEQUENCE", "MAX_TOKENS"),
    ],
)
def test_that_a_sequence_was_asked_for_excuses_no_other_reason(wire, made, sequence, cut):
    assert outcome(wire, made(sequence), stop_sequences=True) == "whole"
    assert outcome(wire, made(sequence)) == "bad-stop"
    assert outcome(wire, made(cut), stop_sequences=True) == outcome(wire, made(cut)) == "bad-stop"


# --- a stream of Anthropic's, one event changed

START = {"type": "message_start", "message": {"content": [], "usage": {}}}
OPEN = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
PIECE = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "whole"}}
SHUT = {"type": "content_block_stop", "index": 0}
REASON = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
STOP = {"type": "message_stop"}


def stream(*events):
    return outcome("anthropic", sse(*events))


def test_a_stream_that_is_whole():
    assert stream(START, OPEN, PIECE, SHUT, REASON, STOP) == "whole"
    later = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 2}}
    assert stream(START, OPEN, PIECE, SHUT, REASON, later, STOP) == "whole"


def test_a_message_starts_empty():
    """AN1"""
    full = {"type": "message_start", "message": {"content": [{"type": "text", "text": "x"}], "usage": {}}}
    assert stream(full, OPEN, PIECE, SHUT, REASON, STOP) == "contradiction"


@pytest.mark.parametrize("text", [7, None, ["x"], {}])
def test_a_piece_is_a_string(text):
    """AN5"""
    piece = PIECE | {"delta": {"type": "text_delta", "text": text}}
    assert stream(START, OPEN, piece, SHUT, REASON, STOP) == "wrong-type"


@pytest.mark.parametrize("kind", [7, None, ["text"]])
def test_the_type_of_a_block_is_a_string(kind):
    """AN3"""
    block = OPEN | {"content_block": {"type": kind, "text": ""}}
    assert stream(START, block, SHUT, REASON, STOP) == "wrong-type"


def test_what_was_thought_before_a_handover_is_no_answer_begun():
    """AN14"""
    thought = {"type": "thinking", "thinking": ""}
    thinking = [
        OPEN | {"content_block": thought},
        PIECE | {"delta": {"type": "thinking_delta", "thinking": "so"}},
        SHUT,
    ]
    handover = [OPEN | {"index": 1, "content_block": {"type": "fallback"}}, SHUT | {"index": 1}]
    answer = [OPEN | {"index": 2}, PIECE | {"index": 2}, SHUT | {"index": 2}]
    assert stream(START, *thinking, *handover, *answer, REASON, STOP) == "whole"


def test_an_event_is_of_the_type_its_name_says():
    """E9: a stream that is merely called a message says nothing."""
    whole = [START, OPEN, PIECE, SHUT, REASON, STOP]
    assert outcome("anthropic", "".join(f"event: message\ndata: {dump(event)}\n\n" for event in whole)) == "whole"
    assert stream(*whole[:2], dump({"type": 7}), *whole[2:]) == "wrong-type"


# --- documents of others


def gemini(**candidate):
    said = {"content": {"parts": [{"text": "whole"}]}, "finishReason": "STOP"}
    return dump({"candidates": [said | candidate], "usageMetadata": {"candidatesTokenCount": 1}})


def test_the_one_candidate_is_number_0():
    assert outcome("gemini", gemini()) == outcome("gemini", gemini(index=0)) == "whole"
    for index in (1, -1, True, "0", 0.0):
        assert outcome("gemini", gemini(index=index)) in ("wrong-count", "wrong-type")


def chat(*choices):
    return dump({"object": "chat.completion", "choices": list(choices), "usage": {"completion_tokens": 1}})


def test_a_document_holds_choice_number_0_and_no_refusal():
    choice = {"index": 0, "message": {"content": "whole"}, "finish_reason": "stop"}
    assert outcome("openai-chat", chat(choice)) == "whole"
    refused = {"content": "whole", "refusal": "I cannot"}
    for wrong in ([choice | {"index": 1}], [choice | {"index": -1}], [choice | {"message": refused}], []):
        assert outcome("openai-chat", chat(*wrong)) in ("wrong-count", "bad-stop", "missing-key")


@pytest.mark.parametrize("wire", ["gemini", "gemini-array"])
def test_the_cap_of_what_is_read(wire):
    raw = gemini() if wire == "gemini" else f"[{gemini()}]"
    assert outcome(wire, raw, cap=len(raw)) == "whole"
    assert outcome(wire, raw, cap=len(raw) - 1) == "over-cap"


# --- what a refusal says


@pytest.mark.parametrize("verb", ["failed", "incomplete", "cancelled"])
def test_a_response_that_did_not_complete_says_why(verb):
    """OR10"""
    reason = {"incomplete_details": {"reason": "max_output_tokens"}}
    ended = {"type": f"response.{verb}", "response": reason | {"status": verb}, "sequence_number": 0}
    made = fed(reader("openai-responses"), [sse(ended).encode()])
    with pytest.raises(Refused, match="max_output_tokens"):
        made.finish(Ending.LAST_CHUNK)


@pytest.mark.parametrize(
    ("wire", "raw", "why"),
    [
        ("gemini-array", '[{"candidates":[]}]', "the array closed before any finish reason"),
        ("ollama", '{"response":"hello","done":true}\n', "a server that lost its model"),
    ],
)
def test_an_end_that_lacks_its_reason_is_told_from_a_cut(wire, raw, why):
    """G11 OL7"""
    with pytest.raises(Refused, match=why):
        fed(reader(wire), [raw.encode()]).finish(Ending.LAST_CHUNK)
