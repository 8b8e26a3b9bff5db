"""Public reports of answers taken for whole that were not, or refused though they were, as these wires decide them.

Each test bears the id of its row in tests/incidents.
"""

import re

import pytest
from tests.incidents.rows import agrees
from tests.wires.bodies import Call, Turn, dump, sse
from tests.wires.bodies_openai import (
    OPENAI_HEAD,
    anthropic,
    anthropic_events,
    chat_chunks,
    openai_chat,
    openai_chat_document,
    openai_responses,
    responses_events,
)
from tests.wires.support import PLAN, closed, fed, outcome

from endmark.core import plan, strictjson
from endmark.core.decision import row_of
from endmark.core.ending import Ending
from endmark.core.refusal import Refused, Signal
from endmark.wires.answer import Answer
from endmark.wires.names import reader

DONE = ("", "[DONE]")
_states: set[str] = set()


@pytest.fixture(autouse=True)
def the_rows_say_so(request):
    """What a test saw refused is what a row that it bears names."""
    _states.clear()
    yield
    rows = [f"INC-{number}" for number in re.findall(r"(?<=_)\d{3}(?=_|\b)", request.node.name)]
    assert rows
    assert [state for state in _states if not any(agrees(row, state) for row in rows)] == []


def read(wire: str, raw: bytes, ending: Ending = Ending.LAST_CHUNK, **options) -> Answer | Refused:
    return outcome(fed(reader(wire, **options), [raw]), ending)


def refused(wire: str, raw: bytes, signal: Signal, ending: Ending = Ending.LAST_CHUNK, **options) -> str:
    """What the refusal says, which must be for `signal` and count every byte."""
    found = read(wire, raw, ending, **options)
    assert isinstance(found, Refused), found
    assert (found.signal, found.received_bytes) == (signal, len(raw))
    _states.add(row_of(signal).state.value)
    return found.detail


def accepted(wire: str, raw: bytes, **options) -> Answer:
    found = read(wire, raw, **options)
    assert isinstance(found, Answer), found
    return found


def calling(*arguments: str, **more) -> Turn:
    return Turn(calls=tuple(Call("run", text, f"call_{at}") for at, text in enumerate(arguments)), **more)


def chat(chunks, *rest) -> bytes:
    return sse([*[("", dump(chunk)) for chunk in chunks], *rest])


def no_witness(answer: Answer) -> None:
    with pytest.raises(Refused):
        plan.read_witness(strictjson.loads(answer.tool_calls[0].arguments.encode()), answer.received_bytes)


def test_inc_002_a_length_stop_drops_a_call_that_was_closed_for_it():
    arguments = '{"path":"R.md","content":"# A\\n| x |"}'
    assert "length" in refused("openai-chat", openai_chat(calling(arguments, reason="length")), Signal.BAD_STOP)


def test_inc_003_a_cap_drops_the_whole_turn():
    arguments = '{"target":"db1","opts":{"dry_run":tr'
    refused("anthropic", anthropic(calling(arguments, reason="max_tokens")), Signal.BAD_STOP)


def test_inc_005_an_incomplete_response_drops_the_whole_call_too():
    turn = calling('{"sql":"SELECT 1"}', '{"sql":"ALT', reason="max_output_tokens")
    assert "max_output_tokens" in refused("openai-responses", openai_responses(turn), Signal.BAD_STOP)


def test_inc_006_no_arguments_at_a_cap_are_not_empty_arguments():
    refused("openai-chat", openai_chat(calling("", reason="length")), Signal.BAD_STOP)
    assert accepted("openai-chat", openai_chat(calling(""))).tool_calls[0].arguments == ""


def test_inc_007_the_good_call_goes_with_the_cut_one():
    refused("openai-chat", openai_chat(calling('{"a":1}', '{"a":', reason="length")), Signal.BAD_STOP)


def test_inc_008_a_tool_use_closed_at_the_cap():
    turn = calling('{"file_path":"a.md"}', reason="max_tokens", tokens=8_000)
    refused("anthropic", anthropic(turn), Signal.BAD_STOP, max_output_tokens=8_000)
    lying = anthropic(calling('{"file_path":"a.md"}', tokens=8_000))
    refused("anthropic", lying, Signal.TOKEN_CAP, max_output_tokens=8_000)


@pytest.mark.parametrize("arguments", ['{"city":"Par', closed(PLAN[: len(PLAN) // 2]), "{}"])
@pytest.mark.parametrize("make", [openai_chat, openai_chat_document], ids=["INC-012", "INC-014"])
def test_inc_012_014_015_017_029_a_reason_that_was_rewritten_is_left_to_the_witness(make, arguments):
    """The wire cannot see it; the arguments can. Where tokens were counted and capped, the wire does see it."""
    no_witness(accepted("openai-chat+vllm", make(calling(arguments))))
    refused("openai-chat+vllm", make(calling(arguments, tokens=16)), Signal.TOKEN_CAP, max_output_tokens=16)


def test_inc_013_a_whole_call_at_the_cap_may_be_one_of_two():
    refused("openai-chat", openai_chat(calling('{"a":1}', tokens=64)), Signal.TOKEN_CAP, max_output_tokens=64)


def test_inc_023_a_response_that_does_not_complete():
    events = responses_events(Turn(text="pass"))
    raw = sse([(event["type"], dump(event)) for event in events[:5]])
    assert b"output_text.delta" in raw
    refused("openai-responses", raw, Signal.NO_TERMINAL)


def test_inc_024_027_one_delta_and_an_end():
    raw = chat([OPENAI_HEAD | {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": None}]}])
    refused("openai-chat", raw, Signal.NO_TERMINAL)
    refused("openai-chat+llamacpp", raw, Signal.NO_TERMINAL)


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses", "anthropic"])
def test_inc_026_no_event_at_all(wire):
    """A1, also where the transport says that all is well."""
    refused(wire, b"", Signal.EMPTY)
    refused(wire, b"", Signal.EMPTY, Ending.RESET)
    refused(wire, b": keep-alive\n\n", Signal.NO_TERMINAL)


def test_inc_028_031_arguments_that_stop():
    chunks = chat_chunks(calling('{"n":1,"items":[1,2'))[:-2]
    refused("openai-chat", chat(chunks), Signal.NO_TERMINAL)
    refused("openai-chat", chat(chunks), Signal.RESET, Ending.RESET)
    events = responses_events(calling('{"file_path":"t.ts","content":"import'))[:4]
    refused("openai-responses", sse([("", dump(event)) for event in events]), Signal.RESET, Ending.RESET)


def test_inc_035_036_an_event_without_its_blank_line():
    whole = openai_chat(Turn(text="ok"))
    for tail in (b'data: {"result":{"ok":tru', b'data: {"a":1'):
        refused("openai-chat", whole[: whole.index(b"data: [DONE]")] + tail, Signal.NO_TERMINAL)
    refused("openai-chat", whole.removesuffix(b"\n"), Signal.NO_TERMINAL)


def test_inc_038_040_a_last_chunk_that_only_counts_is_no_cut():
    chunks = chat_chunks(Turn(text="pass"))
    assert chunks[-1]["choices"] == []
    chunks[-3]["choices"][0]["finish_reason"] = "stop"  # on the last chunk with content
    del chunks[-2]
    answer = accepted("openai-chat", chat(chunks, DONE))
    assert (answer.text, answer.usage.output_tokens) == ("pass", 321)


def test_inc_039_usage_on_every_chunk_ends_nothing():
    chunks = chat_chunks(calling('{"a": "' + "x" * 600 + '"}'))
    assert len(chunks) > 14
    chunks = [chunk | {"usage": {"completion_tokens": at}} for at, chunk in enumerate(chunks)]
    assert accepted("openai-chat", chat(chunks, DONE)).usage.output_tokens == len(chunks) - 1
    for at in range(len(chunks)):
        refused("openai-chat", b": begun\n" + chat(chunks[:at]), Signal.NO_TERMINAL)


def test_inc_042_an_error_event_in_the_stream():
    events = anthropic_events(calling('{"a":1}'))[:3]
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    raw = sse([(event["type"], dump(event)) for event in [*events, error]])
    assert "overloaded_error" in refused("anthropic", raw, Signal.BAD_STOP)


def test_inc_043_an_error_as_a_finish_reason():
    chunks = chat_chunks(calling('{"a":'))[:-2]
    bad = OPENAI_HEAD | {"error": {"code": 502, "message": "gone"}}
    bad |= {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]}
    for wire in ("openai-chat", "openai-chat+openrouter"):
        assert "502" in refused(wire, chat([*chunks, bad], DONE), Signal.BAD_STOP)
        del bad["error"]
        assert "error" in refused(wire, chat([*chunks, bad], DONE), Signal.BAD_STOP)
        bad["error"] = {"code": 502}


def test_inc_050_052_053_054_silence_is_an_ending():
    """What stopped coming is `idle`, whatever came; a comment is no progress and no event."""
    raw = openai_chat(Turn(text="ok"))
    one = raw[: raw.index(b"\n\n") + 2]
    for body in (raw, raw[:200], one, one + b": ping\n\n" * 9):
        refused("openai-chat", body, Signal.IDLE, Ending.IDLE)


def test_inc_055_a_reset_after_a_block_is_no_message():
    events = anthropic_events(Turn(text="first", calls=(Call("run", "{}"),)))
    stop = next(at for at, event in enumerate(events) if event["type"] == "content_block_stop")
    raw = sse([(event["type"], dump(event)) for event in events[: stop + 3]])
    refused("anthropic", raw, Signal.RESET, Ending.RESET)
    refused("anthropic", raw, Signal.NO_TERMINAL)


def test_inc_056_064_065_an_array_closed_for_the_model():
    for text in ('{"commands":["npm install","npm test"', '{"arr":[{"a":1', '{"path":"i.html","content":"<div'):
        no_witness(accepted("openai-chat", openai_chat(calling(closed(text)))))


def test_inc_059_a_block_without_its_end():
    events = [event for event in anthropic_events(calling('{"a":1}')) if event["type"] != "content_block_stop"]
    refused("anthropic", sse([(event["type"], dump(event)) for event in events]), Signal.NO_TERMINAL)


@pytest.mark.parametrize("make", [openai_chat, openai_responses, anthropic])
def test_inc_061_arguments_come_out_as_they_went_in(make):
    text = '{"code":"if(a){b}{c}"}'
    wire = {openai_chat: "openai-chat", openai_responses: "openai-responses", anthropic: "anthropic"}[make]
    assert accepted(wire, make(calling(text))).tool_calls[0].arguments == text


def test_inc_062_what_ends_in_a_bracket_is_not_whole_for_it():
    for text in ('{"items":[1,2]', '{"patch":{"path":"x"}'):
        refused("openai-chat", text.encode(), Signal.NOT_JSON)
        no_witness(accepted("openai-chat", openai_chat(calling(text))))


def test_inc_120_123_124_pieces_sent_twice():
    """Numbered events show it. Elsewhere the arguments are then not one JSON object."""
    for pieces in (['{"a":', "1}", '{"a":1}'], ['{"a"', '{"a":1', '{"a":1}'], ['{"a":', '{"a":', "1}"]):
        chunks = chat_chunks(calling(""))
        opened, end = chunks[1], chunks[2:]
        more = [
            OPENAI_HEAD
            | {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}}]}
            for text in pieces
        ]
        no_witness(accepted("openai-chat", chat([opened, *more, *end], DONE)))
    events = responses_events(calling('{"a":1}'))
    twice = [*events[:4], events[3], *events[4:]]
    refused("openai-responses", sse([("", dump(event)) for event in twice]), Signal.WRONG_COUNT)
    renumbered = [event | {"sequence_number": at} for at, event in enumerate(twice)]
    refused("openai-responses", sse([("", dump(event)) for event in renumbered]), Signal.CONTRADICTION)


def test_inc_124_a_piece_of_the_middle_sent_twice():
    """Inside a statement nothing in the text tells. Numbered events do; elsewhere the evidence says that none tell."""
    turn = calling(PLAN)
    chunks, events = chat_chunks(turn), responses_events(turn)
    believed = 0
    for at in range(2, len(chunks) - 2):
        answer = accepted("openai-chat", chat([*chunks[: at + 1], *chunks[at:]], DONE))
        assert "continuity:none" in answer.evidence
        try:
            plan.read_witness(strictjson.loads(answer.tool_calls[0].arguments.encode()), answer.received_bytes)
        except Refused as refusal:
            _states.add(row_of(refusal.signal).state.value)
        else:
            believed += 1
    assert 0 < believed < len(chunks) / 2
    for at, event in enumerate(events):
        twice = [*events[: at + 1], event, *events[at + 1 :]]
        for sent in (twice, [one | {"sequence_number": number} for number, one in enumerate(twice)]):
            found = read("openai-responses", sse([("", dump(one)) for one in sent]))
            assert isinstance(found, Refused) or found.tool_calls[0].arguments == PLAN


def test_inc_170_a_normal_end_of_nothing():
    for wire, make in (("openai-chat", openai_chat), ("openai-responses", openai_responses), ("anthropic", anthropic)):
        refused(wire, make(Turn()), Signal.EMPTY)


def test_inc_171_a_message_without_a_reason():
    message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "", "signature": ""}],
    }
    refused("anthropic", dump(message | {"stop_reason": None}).encode(), Signal.BAD_STOP)
    events = [event for event in anthropic_events(Turn(thoughts="hm")) if event["type"] != "message_delta"]
    refused("anthropic", sse([(event["type"], dump(event)) for event in events]), Signal.BAD_STOP)
