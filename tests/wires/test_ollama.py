"""Ollama: both routes, lines and documents, and the reports of what its endings were taken for."""

import random

import pytest
from tests.wires import bodies, support
from tests.wires.bodies import Turn, dump
from tests.wires.six import any_turn, asked, planned, read, same_answer, witness

from endmark.core.ending import Ending
from endmark.core.refusal import Refused, Signal
from endmark.wires.names import reader

ROUTES = ("chat", "generate")


@pytest.mark.parametrize("route", ROUTES)
def test_both_routes_are_read(route):
    for seed in range(60):
        rng = random.Random(seed)
        turn = any_turn(rng)
        raw = bodies.ollama(turn, rng, route)
        same_answer(support.fed(reader("ollama"), support.portions(raw, rng)).finish(Ending.LAST_CHUNK), turn)


@pytest.mark.parametrize("route", ROUTES)
def test_a_generation_is_an_answer_at_its_last_byte_and_nowhere_before(route):
    raw = bodies.ollama(Turn(text=support.VERDICT), None, route)
    assert support.answers(lambda: reader("ollama"), raw) == {len(raw): support.WHOLE_ENDINGS}


@pytest.mark.parametrize("route", ROUTES)
def test_a_document_may_come_with_its_line_end_or_without(route):
    raw = bodies.ollama_document(Turn(text=support.VERDICT), route)
    for body in (raw, raw + b"\n", raw + b"\r\n"):
        assert read("ollama", body, Ending.LENGTH_MET).text == support.VERDICT


def test_the_last_line_needs_its_end_once_there_were_two():
    """OL1: what stops inside the last line of a stream has not ended, though it is a whole document."""
    raw = bodies.ollama(Turn(text=support.VERDICT))
    with pytest.raises(Refused) as refused:
        read("ollama", raw[:-1])
    assert refused.value.signal is Signal.NO_TERMINAL


def test_the_witness_comes_as_one_string():
    answer = read("ollama", bodies.ollama(asked("ollama", support.PLAN)))
    assert answer.tool_calls[0].parsed
    assert witness(answer) == support.PLAN
    assert planned(answer).statements == support.STATEMENTS


@pytest.mark.parametrize("route", ROUTES)
def test_inc_018_length_is_no_stop(route):
    """A gateway that reported it as one had a verdict cut in its reason merged."""
    turn = Turn(text='{"verdict":"pass","why":"', reason="length")
    for raw in (bodies.ollama(turn, None, route), bodies.ollama_document(turn, route)):
        with pytest.raises(Refused, match="length") as refused:
            read("ollama", raw)
        assert refused.value.signal is Signal.BAD_STOP


def test_inc_065_a_cut_call_is_no_call():
    """What a server makes of the pairs that were whole, at a length stop and at a lying one."""
    cut = bodies.ollama(Turn(calls=(bodies.Call("write", dump({"path": "i.html"})),), reason="length"))
    with pytest.raises(Refused) as refused:
        read("ollama", cut)
    assert refused.value.signal is Signal.BAD_STOP
    kept = bodies.ollama(Turn(calls=(bodies.Call("apply_schema", dump({"job_id": "job_7"})),)))
    answer = read("ollama", kept)
    assert answer.tool_calls[0].arguments == '{"job_id":"job_7"}'
    with pytest.raises(KeyError):  # what must hold the witness is not there
        witness(answer)


def test_inc_027_a_body_without_its_last_line_is_cut():
    lines = bodies.ollama_lines(Turn(text=support.VERDICT))
    for count in range(1, len(lines)):
        with pytest.raises(Refused) as refused:
            read("ollama", "".join(dump(line) + "\n" for line in lines[:count]).encode())
        assert refused.value.signal is Signal.NO_TERMINAL


@pytest.mark.parametrize("route", ROUTES)
def test_done_without_a_word_why_is_refused(route):
    """OL7: so ends a server whose model's process went away, and every server from before there was a reason."""
    for ended in ("", None):
        lines = bodies.ollama_lines(Turn(text=support.VERDICT, extra={"done_reason": ended}), None, route)
        with pytest.raises(Refused, match="not why") as refused:
            read("ollama", "".join(dump(line) + "\n" for line in lines).encode())
        assert refused.value.signal is Signal.BAD_STOP


def test_a_model_that_was_only_loaded_has_not_answered():
    for reason in ("load", "unload"):
        raw = dump({"model": "m", "message": {"role": "assistant", "content": ""}, "done_reason": reason, "done": True})
        with pytest.raises(Refused, match=reason):
            read("ollama", raw.encode())
