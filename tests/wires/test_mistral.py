"""Mistral: what it does otherwise than the wire that it resembles."""

import pytest
from tests.wires import bodies, support
from tests.wires.bodies import Call, Turn, dump
from tests.wires.six import asked, planned, read, witness

from endmark.core import strictjson
from endmark.core.ending import Ending
from endmark.core.refusal import Refused, Signal
from endmark.seal import AnswerRefused, seal
from endmark.sources.capture import Capture

PLAN = asked("mistral", support.PLAN)


def stream(chunks):
    return bodies.sse([*(("", dump(chunk)) for chunk in chunks), ("", "[DONE]")])


def test_the_model_s_own_text_of_the_arguments_comes_out():
    for raw in (bodies.mistral(PLAN), bodies.mistral_document(PLAN)):
        answer = read("mistral", raw)
        assert not answer.tool_calls[0].parsed
        assert witness(answer) == support.PLAN
        assert planned(answer).stmt_count == 11


@pytest.mark.parametrize("reason", ["length", "model_length", "error"])
def test_inc_002_007_043_an_abnormal_reason_is_no_stop(reason):
    """At a length stop no call of the turn is one, the whole first one neither."""
    calls = (Call("first", '{"a": 1}', "a"), Call("second", '{"sql": "ALT', "b"))
    for turn in (Turn(text=support.VERDICT, reason=reason), Turn(calls=calls, reason=reason)):
        for raw in (bodies.mistral(turn), bodies.mistral_document(turn)):
            with pytest.raises(Refused, match=reason) as refused:
                read("mistral", raw)
            assert refused.value.signal is Signal.BAD_STOP


def test_inc_038_040_a_chunk_without_choices_is_no_end_and_no_fault():
    """A count in a chunk of its own, before `[DONE]`."""
    chunks = bodies.mistral_chunks(PLAN)
    count = chunks[-1].pop("usage")
    head = {key: chunks[0][key] for key in ("id", "object", "created", "model")}
    answer = read("mistral", stream([*chunks, head | {"choices": [], "usage": count}]))
    assert (witness(answer), answer.usage.output_tokens) == (support.PLAN, 321)


def test_inc_120_124_what_is_sent_twice_is_no_plan():
    """The wire cannot know; the strict reader of the arguments does."""
    whole = Turn(calls=(Call("apply_schema", support.PLAN + support.PLAN),))
    with pytest.raises(Refused):
        planned(read("mistral", bodies.mistral(whole)))
    chunks = bodies.mistral_chunks(PLAN)
    at = next(n for n, chunk in enumerate(chunks) if chunk["choices"][0]["delta"].get("tool_calls"))
    with pytest.raises(Refused):
        planned(read("mistral", stream([*chunks[: at + 1], *chunks[at:]])))


def test_two_calls_of_one_index_are_two():
    calls = (Call("f", '{"a": 1}', "a"), Call("f", '{"a": 2}', "b"))
    chunks = bodies.mistral_chunks(Turn(calls=calls))
    for chunk in chunks:
        for call in chunk["choices"][0]["delta"].get("tool_calls", []):
            del call["index"]
    answer = read("mistral", stream(chunks))
    assert [(call.id, call.arguments) for call in answer.tool_calls] == [("a", '{"a": 1}'), ("b", '{"a": 2}')]


def test_two_whole_calls_in_one_chunk_are_two():
    chunks = bodies.mistral_chunks(Turn(calls=(Call("f", "{}", "a"), Call("g", "{}", "b"))))
    one, two = (chunk["choices"][0]["delta"] for chunk in chunks[1:3])
    one["tool_calls"] += two.pop("tool_calls")
    assert [call.name for call in read("mistral", stream(chunks)).tool_calls] == ["f", "g"]


def test_arguments_that_come_as_an_object_prove_a_plan_in_one_string_alone():
    """MI6 CA7: the provider parsed them, so the order of their keys is not the model's."""
    for arguments, sealed in (({"plan": support.PLAN}, True), (strictjson.loads(support.PLAN.encode()), False)):
        call = {"id": "a", "index": 0, "function": {"name": "apply_schema", "arguments": arguments}}
        choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
        raw = stream([{"id": "m", "object": "chat.completion.chunk", "choices": [choice]}])
        assert read("mistral", raw).tool_calls[0].parsed
        capture = Capture(raw=raw, ending=Ending.LAST_CHUNK, wire="mistral")
        if sealed:
            assert seal(capture, tool="apply_schema").plan.stmt_count == 11
            continue
        with pytest.raises(AnswerRefused, match="exactly one key, 'plan'"):
            seal(capture, tool="apply_schema")
