"""OpenAI's and Anthropic's wires: an answer at the last byte and nowhere before; a lie is found by the witness."""

import random

import pytest
from tests.wires.bodies import Call, Turn
from tests.wires.bodies_openai import DOCUMENTS, STREAMS
from tests.wires.support import PLAN, TURNS, VERDICT, WHOLE_ENDINGS, answers, closed, fed, outcome

from endmark.core import plan, strictjson, verdict
from endmark.core.ending import WHOLE, Ending
from endmark.core.refusal import Refused, Signal
from endmark.wires.answer import Answer
from endmark.wires.names import NAMES, reader

WIRES = tuple(STREAMS)
CAPPED = {"openai-chat": "length", "openai-responses": "max_output_tokens", "anthropic": "max_tokens"}
FILTERED = {"openai-chat": "content_filter", "openai-responses": "content_filter", "anthropic": "refusal"}
VERSIONS = [name for name in NAMES if name.partition("+")[0] in WIRES]


def read(wire: str, raw: bytes) -> Answer:
    return fed(reader(wire), [raw]).finish(Ending.LAST_CHUNK)


def planned(answer: Answer) -> plan.Plan:
    """The plan that the one tool call of an answer is the witness form of."""
    (call,) = answer.tool_calls
    return plan.read_witness(strictjson.loads(call.arguments.encode()), answer.received_bytes)


@pytest.mark.parametrize("kind", TURNS)
@pytest.mark.parametrize("wire", WIRES)
def test_a_body_is_an_answer_at_its_last_byte_and_nowhere_before(wire, kind):
    """A4 A12: every offset and ending, asked of one reader; with LF and with CRLF."""
    raw = STREAMS[wire](TURNS[kind])
    for made in (raw, raw.replace(b"\n", b"\r\n"), DOCUMENTS[wire](TURNS[kind])):
        assert answers(lambda: reader(wire), made) == {len(made): WHOLE_ENDINGS}


@pytest.mark.parametrize("wire", WIRES)
def test_varied_bodies_are_answers_at_their_last_byte_and_nowhere_before(wire):
    for seed in range(4):
        rng = random.Random(seed)
        turn = Turn(text="žluť 😀 " * rng.randint(0, 3) + "x", calls=TURNS["plan"].calls, thoughts="hm " * 9)
        raw = STREAMS[wire](turn, rng)
        found = answers(lambda: reader(wire), raw)
        if wire == "openai-responses" and raw.rstrip().endswith(b"[DONE]"):  # OR12: it may be missing
            found.pop(min(found))
        if b"\r" in raw:
            raw = raw.removesuffix(b"\r")
        assert found == {len(raw): WHOLE_ENDINGS}


@pytest.mark.parametrize("wire", VERSIONS)
@pytest.mark.parametrize("ending", Ending)
def test_only_a_whole_ending_ends_a_whole_body(wire, ending):
    """A3"""
    base = wire.partition("+")[0]
    for made in (STREAMS[base](TURNS["plan"]), DOCUMENTS[base](TURNS["plan"])):
        assert isinstance(outcome(fed(reader(wire), [made]), ending), Answer) == (ending in WHOLE)
        taken = outcome(fed(reader(wire, allow_close_delimited=True), [made]), ending)
        assert isinstance(taken, Answer) == (ending in WHOLE or ending is Ending.CLOSED)
        if isinstance(taken, Answer):
            assert taken.evidence[-1] == f"transport:{ending}"


@pytest.mark.soak
@pytest.mark.parametrize("kind", TURNS)
@pytest.mark.parametrize("wire", VERSIONS)
def test_a_cut_read_from_scratch_says_the_same(wire, kind):
    raw = STREAMS[wire.partition("+")[0]](TURNS[kind])
    swept = reader(wire)
    for at in range(len(raw)):
        for ending in (Ending.LAST_CHUNK, Ending.SHORT, Ending.RESET):
            scratch, asked = outcome(fed(reader(wire), [raw[:at]]), ending), outcome(swept, ending)
            if isinstance(scratch, Refused) and isinstance(asked, Refused):
                assert (scratch.signal, scratch.detail) == (asked.signal, asked.detail)
            else:
                assert scratch == asked
                assert wire == "openai-chat+llamacpp"  # OC17
                assert b"[DONE]" not in raw[:at]
        swept.feed(raw[at : at + 1])


@pytest.mark.parametrize("wire", WIRES)
def test_of_several_faults_the_same_one_is_named(wire):
    """A11: nothing, then what is wrong in the bytes, then the ending, then what is missing."""
    raw = STREAMS[wire](TURNS["plan"])
    capped = STREAMS[wire](Turn(text="x", reason=CAPPED[wire]))
    for body, ending, signal in (
        (b"", Ending.RESET, Signal.EMPTY),
        (capped, Ending.RESET, Signal.BAD_STOP),
        (capped + b"nonsense\n\n", Ending.SHORT, Signal.BAD_STOP),
        (raw[:900], Ending.RESET, Signal.RESET),
        (raw, Ending.SHORT, Signal.BODY_CUT),
        (raw + b"x", Ending.IDLE, Signal.IDLE),
        (raw + raw, Ending.IDLE, Signal.BYTES_AFTER_END),
        (raw[:900], Ending.LAST_CHUNK, Signal.NO_TERMINAL),
        (STREAMS[wire](Turn(tokens=9)), Ending.LAST_CHUNK, Signal.EMPTY),
    ):
        refused = outcome(fed(reader(wire, max_output_tokens=9), [body]), ending)
        assert isinstance(refused, Refused)
        assert refused.signal == signal, (body[-40:], ending)


@pytest.mark.parametrize("wire", WIRES)
def test_every_byte_after_the_end_is_refused_but_comments_and_empty_lines(wire):
    """A4"""
    raw = STREAMS[wire](TURNS["verdict"])
    for more in (b"\n", b"\r", b": bye\n\n", b":\r\n:\r\n"):  # no events, and whole
        assert read(wire, raw + more).received_bytes == len(raw + more)
    for more in (b" ", b":", b": bye", b":\ndata:\n\n", b"id: 1\n\n", b"data: [DONE]\n", b"\0", b"\xef\xbb\xbf", raw):
        with pytest.raises(Refused) as refused:
            read(wire, raw + more)
        assert refused.value.signal == Signal.BYTES_AFTER_END
        assert refused.value.received_bytes == len(raw + more)
    document = DOCUMENTS[wire](TURNS["verdict"])
    assert read(wire, b" \n" + document + b"\n \n") is not None
    for more in (b"x", b"}", b"{}", b"\0", document, raw):
        with pytest.raises(Refused) as refused:
            read(wire, document + more)
        assert refused.value.signal == Signal.TWO_DOCUMENTS


@pytest.mark.parametrize("reasons", [CAPPED, FILTERED], ids=["capped", "filtered"])
@pytest.mark.parametrize("wire", WIRES)
def test_no_cut_with_an_honest_reason_is_an_answer(wire, reasons):
    for at in range(len(PLAN) + 1):
        turns = [Turn(calls=(Call("apply_schema", PLAN[:at]),), reason=reasons[wire])]
        turns += [Turn(text=VERDICT[:at], reason=reasons[wire])] if at <= len(VERDICT) else []
        for turn in turns:
            refused = outcome(fed(reader(wire), [STREAMS[wire](turn)]))
            assert isinstance(refused, Refused)
            assert refused.signal == Signal.BAD_STOP


@pytest.mark.parametrize("wire", WIRES)
def test_a_lying_stop_passes_the_wire_and_no_witness(wire):
    """The server cuts the model, closes what is open and claims a normal stop: only the model's own end can tell."""
    passed = 0
    for at in range(len(PLAN)):
        for text in {PLAN[:at], closed(PLAN[:at])} - {PLAN}:  # PLAN: only brackets were cut, and they are back
            answer = outcome(fed(reader(wire), [STREAMS[wire](Turn(calls=(Call("apply_schema", text),)))]))
            assert isinstance(answer, Answer)
            passed += 1
            with pytest.raises(Refused):
                planned(answer)
    assert passed > 1.9 * len(PLAN)
    assert planned(read(wire, STREAMS[wire](TURNS["plan"]))).stmt_count == 11


@pytest.mark.parametrize("wire", WIRES)
def test_a_lying_stop_passes_no_marks(wire):
    marks = ["a1", "b2"]
    text = VERDICT[:-1] + ', "marks": ["a1", "b2"]}'
    for at in range(len(text) + 1):
        for cut in {text[:at], closed(text[:at])}:
            answer = outcome(fed(reader(wire), [STREAMS[wire](Turn(text=cut))]))
            if cut == text:
                assert isinstance(answer, Answer)
                assert verdict.read(strictjson.loads(answer.text.encode()), 1, marks=marks).verdict == "pass"
                continue
            if isinstance(answer, Answer):  # else nothing was left of it
                with pytest.raises(Refused):
                    verdict.read(strictjson.loads(answer.text.encode()), 1, marks=marks)


@pytest.mark.parametrize("wire", WIRES)
def test_the_cap_on_tokens(wire):
    """A6: where the count meets the cap, whatever the reason says; without a count the evidence says so."""
    for make in (STREAMS[wire], DOCUMENTS[wire]):
        raw = make(TURNS["plan"])
        for cap, whole in ((322, True), (321, False), (1, False), (None, True)):
            found = outcome(fed(reader(wire, max_output_tokens=cap), [raw]))
            assert isinstance(found, Answer) == whole
            if isinstance(found, Refused):
                assert found.signal == Signal.TOKEN_CAP


@pytest.mark.parametrize("wire", WIRES)
def test_what_is_held_is_bounded(wire):
    """A9: one byte over the cap and nothing is kept, of a stream, a document, or white space before either."""
    for raw in (STREAMS[wire](TURNS["plan"]), DOCUMENTS[wire](TURNS["plan"]), b" " * 500):
        for parts in ([raw], [raw[:300], raw[300:]], [raw[at : at + 1] for at in range(len(raw))]):
            held = fed(reader(wire, cap=len(raw) - 1), parts)
            held.feed(b"x" * 10)
            refused = outcome(held)
            assert isinstance(refused, Refused)
            assert (refused.signal, refused.received_bytes) == (Signal.OVER_CAP, len(raw) + 10)
        if raw.strip():
            assert isinstance(outcome(fed(reader(wire, cap=len(raw)), [raw])), Answer)
