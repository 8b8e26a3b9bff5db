"""Sealing a captured answer: every whole one, and no other, whatever was cut, claimed or closed on the way."""

import gzip
import hashlib
import itertools
import json
import pickle

import msgspec
import pytest
from tests.seal.lies import closings, value_of
from tests.support import answers

from endmark.core import mc1, plan, proof
from endmark.core.ending import WHOLE, Ending
from endmark.core.evidence import Level
from endmark.core.refusal import Refused, Signal
from endmark.seal import AnswerRefused, seal
from endmark.sources.capture import Capture, of_file
from endmark.wires import names

CALLS = {
    "openai-chat": answers.chat_call,
    "openai-responses": answers.responses_call,
    "anthropic": answers.messages_call,
    "mistral": answers.mistral_call,
    "gemini": answers.gemini_call,
    "ollama": answers.ollama_call,
}
TEXTS = {
    "openai-chat": answers.chat_text,
    "anthropic": answers.messages_text,
    "gemini": answers.gemini_text,
    "ollama": answers.ollama_text,
}
DOCUMENTS = {"openai-chat": answers.chat_document, "anthropic": answers.messages_document}
TOOL = "apply_schema"
MARKS = ["m-1f", "m-2a", "m-9c"]
PLAN = plan.seal(plan.read_witness(msgspec.json.decode(answers.witness()), 0))  # noqa: TID251  # our own text


def whole(raw, wire, ending=Ending.LAST_CHUNK, **more):
    return Capture(raw=raw, ending=ending, wire=wire, **more)


def refused(*arguments, **named):
    with pytest.raises(AnswerRefused) as caught:
        seal(*arguments, **named)
    return caught.value


CASES: list[tuple[str, bytes, str | None]] = [(wire, make(), TOOL) for wire, make in CALLS.items()]
CASES += [(wire, make(), None) for wire, make in TEXTS.items()]
CASES += [(wire, make(), TOOL) for wire, make in DOCUMENTS.items()]
NAMES = [f"{wire}-{'text' if tool is None else 'call'}-{len(body)}" for wire, body, tool in CASES]
every_case = pytest.mark.parametrize(("wire", "body", "tool"), CASES, ids=NAMES)


# Two seals are byte-equal: CA9
@every_case
@pytest.mark.parametrize("ending", sorted(WHOLE))
def test_a_whole_answer_is_sealed(wire, body, tool, ending):
    sealed = seal(whole(body, wire, ending), tool=tool)
    assert sealed.level is Level.SEALED
    assert sealed.raw_sha256 == hashlib.sha256(body).hexdigest()
    assert f"transport:{ending}" in sealed.evidence
    assert sealed.envelope == seal(whole(body, wire), tool=tool).envelope
    proven = proof.prove(sealed.envelope)
    assert proven.form == sealed.form
    assert proven.value == sealed.value
    if tool is None:
        assert sealed.envelope == mc1.seal(answers.verdict().encode())  # exactly as written
        assert sealed.verdict.verdict == "pass"
    else:
        assert sealed.envelope == PLAN
        assert sealed.plan.statements == answers.ELEVEN


@every_case
def test_every_byte_cut_with_every_ending_is_refused(wire, body, tool):
    """One pass: the reader is asked at each byte what it would say, were the body to end there."""
    reader = names.reader(wire)
    tried = 0
    for at in range(len(body)):
        for ending in Ending:
            tried += 1
            try:
                reader.finish(ending)
            except Refused:
                continue
            refused(whole(body[:at], wire, ending), tool=tool)  # a wire may be content; then the text is not
        reader.feed(body[at : at + 1])
    assert tried == len(body) * len(Ending)
    assert seal(whole(body, wire), tool=tool)
    for ending in set(Ending) - WHOLE:
        refused(whole(body, wire, ending), tool=tool)


@every_case
def test_anything_after_the_end_is_refused(wire, body, tool):
    for more in (body, b"data: {}\n\n", b'{"done":true}\n', b"x"):
        refused(whole(body + more, wire), tool=tool)


# --- the model's text was cut before the provider ended the answer


def text_of(tool):
    return answers.witness() if tool else answers.verdict(marks=MARKS)


def sealed_of_content_cuts(make, wire, step, tool, **claimed):
    """The content cuts that are sealed, as they are or closed in some way, and how many were tried.

    Where only closing brackets were lost, closing them makes the very same value: nothing was lost, nothing is found.
    """
    text, found, tried = text_of(tool), [], 0
    same = value_of(text)
    for at in range(0, len(text), step):
        for content in [text[:at], *closings(text[:at])]:
            if value_of(content) == same:
                continue
            tried += 1
            try:
                seal(whole(make(content, **claimed), wire), tool=tool, marks=None if tool else MARKS)
            except AnswerRefused:
                continue
            found.append(content)
    return found, tried


# The text alone decides here, whichever wire carried it, so one wire of each kind takes every cut.
DENSE = {"openai-chat": 1, "gemini": 3}


@pytest.mark.parametrize("wire", CALLS)
def test_a_server_that_cuts_and_closes_and_says_stop_is_refused(wire):
    """The lying server: what it closes has lost its trailer."""
    found, tried = sealed_of_content_cuts(CALLS[wire], wire, DENSE.get(wire, 17), TOOL)
    assert found == []
    assert tried > 60


@pytest.mark.parametrize("wire", TEXTS)
def test_a_verdict_with_marks_that_was_cut_and_closed_is_refused(wire):
    found, tried = sealed_of_content_cuts(TEXTS[wire], wire, DENSE.get(wire, 5), None)
    assert found == []
    assert tried > 60
    assert seal(whole(TEXTS[wire](answers.verdict(marks=MARKS)), wire), marks=MARKS)


@pytest.mark.parametrize(
    ("wire", "make", "claimed"),
    [
        ("openai-chat", answers.chat_call, {"finish": "length"}),
        ("openai-chat", answers.chat_call, {"finish": "content_filter"}),
        ("openai-chat", answers.chat_document, {"finish": "length"}),
        ("anthropic", answers.messages_call, {"stop": "max_tokens"}),
        ("anthropic", answers.messages_call, {"stop": "refusal"}),
        ("anthropic", answers.messages_call, {"stop": "pause_turn"}),
    ],
)
def test_an_honest_reason_refuses_even_what_looks_whole(wire, make, claimed):
    for content in (answers.witness(), answers.witness()[:700], answers.witness()[:700] + '"]}'):
        assert refused(whole(make(content, **claimed), wire), tool=TOOL).signal == "bad-stop"


def test_without_marks_a_lying_server_can_pass_and_the_evidence_says_so():
    """A verdict whose findings were cut and closed has no witness of its own; that is what marks are for."""
    cut = answers.verdict(findings=[])
    assert "no-marks" in seal(whole(answers.chat_text(cut), "openai-chat")).evidence


# --- exactly one call of that tool and no other: CA6, CA7


def chat_calls(*calls, text=None):
    """A stream with these (name, arguments) calls, and a text before them."""
    made = []
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": arguments}
        made.append({"index": index, "id": f"call_{index}", "type": "function", "function": function})
    first = answers._chunk({"role": "assistant", "content": text, "tool_calls": made})
    return answers.sse([first, answers._chunk({}, "tool_calls")])


WITNESS = answers.witness()


def test_a_text_may_stand_beside_the_call():
    assert seal(whole(chat_calls((TOOL, WITNESS), text="Here it is."), "openai-chat"), tool=TOOL).envelope == PLAN


@pytest.mark.parametrize(
    ("calls", "signal"),
    [
        ([("drop_schema", WITNESS)], "wrong-value"),
        ([("Apply_schema", WITNESS)], "wrong-value"),
        ([(TOOL, WITNESS), (TOOL, WITNESS)], "wrong-count"),
        ([(TOOL, WITNESS), ("notify", "{}")], "wrong-count"),
        ([("notify", "{}"), (TOOL, WITNESS)], "wrong-count"),
    ],
)
def test_any_other_call_is_refused(calls, signal):
    assert refused(whole(chat_calls(*calls), "openai-chat"), tool=TOOL).signal == signal


def test_a_text_where_a_call_was_wanted_and_a_call_where_a_text_was():
    assert refused(whole(answers.chat_text(), "openai-chat"), tool=TOOL).signal == "wrong-count"
    assert refused(whole(answers.chat_call(), "openai-chat")).signal == "wrong-count"


def witness_with(order=("job_id", "stmt_count", "statements", "trailer"), **changes):
    made = {"job_id": "job_1", "stmt_count": 1, "statements": ["CREATE TABLE t (x)"], "trailer": "END_APPLY"} | changes
    return json.dumps({key: made[key] for key in (*order, *(set(changes) - set(order)))})


def test_of_all_orders_of_the_keys_those_with_the_count_before_and_the_trailer_last_are_sealed():
    keys = ("job_id", "stmt_count", "statements", "trailer")
    passed = []
    for order in itertools.permutations(keys):
        try:
            seal(whole(answers.chat_call(witness_with(order)), "openai-chat"), tool=TOOL)
            passed.append(order)
        except AnswerRefused as caught:
            assert row(caught) == "truncated"  # noqa: PT017  # the rest of the loop is the test
    assert len(passed) == 3
    assert all(order[-1] == "trailer" and order.index("stmt_count") < order.index("statements") for order in passed)


def row(caught):
    from endmark.core.decision import row_of

    return row_of(caught.signal).state


@pytest.mark.parametrize(
    ("arguments", "signal"),
    [
        (witness_with(sha256="0" * 64), "trailer-not-last"),
        (witness_with(("job_id", "tool", "stmt_count", "statements", "trailer"), tool=TOOL), "unknown-key"),
        (witness_with(("job_id", "sha256", "stmt_count", "statements", "trailer"), sha256="0" * 64), "unknown-key"),
        (witness_with(stmt_count=2), "wrong-count"),
        (witness_with(statements=[]), "wrong-value"),
        (witness_with(trailer="END"), "no-trailer"),
        (witness_with() + "{}", "two-documents"),
        ("```json\n" + witness_with() + "\n```", "not-json"),
        (witness_with()[:-1] + ',"trailer":"END_APPLY"}', "duplicate-key"),
        ("", "not-json"),
        ("null", "not-an-object"),
        ('{"plan": 7}', "no-trailer"),
        ('{"plan": "{}"}', "no-trailer"),
        ('{"plan": "{}", "note": ""}', "no-trailer"),
        (json.dumps({"plan": WITNESS, "note": ""}), "no-trailer"),
        (answers.verdict(), "no-trailer"),
        (json.dumps({"plan": json.dumps({"plan": WITNESS})}), "no-trailer"),
    ],
)
def test_arguments_that_are_no_witness_form_are_refused(arguments, signal):
    assert refused(whole(chat_calls((TOOL, arguments)), "openai-chat"), tool=TOOL).signal == signal


def test_one_string_is_taken_from_every_provider():
    """A gateway may have parsed and respelled what a wire takes for raw text."""
    as_string = json.dumps({"plan": WITNESS})
    for wire in ("openai-chat", "openai-responses", "anthropic", "mistral"):
        sealed = seal(whole(CALLS[wire](as_string), wire), tool=TOOL)
        assert sealed.envelope == PLAN
        assert "from:one-string" in sealed.evidence


def test_an_object_that_a_provider_parsed_is_no_witness():
    """Its keys may stand in any order now, so what was cut and closed cannot be told."""
    call = {"function": {"name": TOOL, "arguments": json.loads(WITNESS)}}  # noqa: TID251  # as a server would
    last = {"role": "assistant", "content": "", "tool_calls": [call]}
    counted = {"done_reason": "stop", "done": True, "eval_count": 9, "prompt_eval_count": 9}
    body = answers.dump({"model": "m", "created_at": "", "message": last, **counted}).encode() + b"\n"
    caught = refused(whole(body, "ollama"), tool=TOOL)
    assert caught.signal == "wrong-value"
    assert "one string" in caught.detail


# --- texts: CA8


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("Looks good to me!", "not-json"),
        ("```json\n" + answers.verdict() + "\n```", "not-json"),
        (answers.verdict() + "\nI hope this helps.", "two-documents"),
        ('{"verdict": "approve", "diff_sha": "d", "policy_version": "1"}', "wrong-value"),
        ('{"verdict": "pass"}', "missing-key"),
        ('{"answer": 42}', "no-trailer"),
        (answers.verdict(note="x"), "unknown-key"),
        (answers.verdict(statements=[]), "no-trailer"),
        (answers.verdict(stmt_count=0), "no-trailer"),
        (answers.verdict(marks=MARKS[:2]), None),
    ],
)
def test_a_text_that_is_no_verdict_and_no_plan_is_refused(text, signal):
    capture = whole(answers.chat_text(text), "openai-chat")
    if signal is not None:
        assert refused(capture).signal == signal
    assert refused(capture, marks=MARKS).signal in (signal, "marks")


def test_a_plan_may_be_the_text():
    sealed = seal(whole(answers.chat_text(answers.witness()), "openai-chat"))
    assert sealed.envelope == PLAN
    assert "from:text" in sealed.evidence


def test_marks_are_for_a_text():
    with pytest.raises(ValueError, match="marks"):
        seal(whole(answers.chat_call(), "openai-chat"), tool=TOOL, marks=MARKS)


# --- caps, wires, and what is on record: CA5, CA10


def test_an_answer_that_reached_the_requested_cap_is_refused():
    for cap, passes in ((700, False), (699, False), (701, True)):
        capture = whole(answers.chat_call(), "openai-chat", max_output_tokens=cap)
        if passes:
            assert f"output-cap:{cap}" in seal(capture, tool=TOOL).evidence
        else:
            assert refused(capture, tool=TOOL).signal == "token-cap"


def test_a_plan_over_the_cap_is_refused():
    capture = whole(answers.chat_call(), "openai-chat")
    assert seal(capture, tool=TOOL, cap=len(WITNESS.encode()))
    assert refused(capture, tool=TOOL, cap=len(WITNESS.encode()) - 1).signal == "over-cap"


def test_a_wire_must_be_known():
    with pytest.raises(ValueError, match="name one"):
        seal(Capture(raw=b"", ending=Ending.LAST_CHUNK))
    with pytest.raises(ValueError, match="no wire is called"):
        seal(whole(b"", "telegraph"))


def test_the_evidence_names_everything_that_stood_behind_it():
    body = answers.messages_call()
    sealed = seal(whole(body, "anthropic", facts=("request-unread",), max_output_tokens=4096), tool=TOOL)
    digest = hashlib.sha256(body).hexdigest()
    for word in (
        "sealed",
        "count-before-statements",
        "trailer-last",
        "tool:apply_schema",
        "from:arguments",
        "wire:anthropic",
        "provider-terminal",
        "stop-reason:tool_use",
        "transport:last-chunk",
        "output-cap:4096",
        "request-unread",
        f"capture-sha256:{digest}",
    ):
        assert word in sealed.evidence
    assert sealed.evidence[0] == "sealed"
    assert bytes(sealed) == sealed.envelope


def test_a_file_that_is_too_long_is_refused():
    body = answers.chat_call()
    assert seal(of_file(body, wire="openai-chat", limit=len(body)), tool=TOOL)
    assert refused(of_file(body, wire="openai-chat", limit=len(body) - 1), tool=TOOL).signal == "over-cap"


# --- the error


WORDS = {
    Signal.BODY_CUT: "Your last call of apply_schema was cut off after 1,882 bytes; nothing was executed. "
    "Send it again, smaller, in whole; do not continue the old one.",
    Signal.TOKEN_CAP: "was cut off after 1,882 bytes",
    Signal.NO_TRAILER: "was cut off after 1,882 bytes",
    Signal.NOT_JSON: "was cut off after 1,882 bytes",
    Signal.ENVELOPE_DIGEST: "arrived damaged; nothing was executed",
    Signal.BAD_STOP: "did not end normally: because. Nothing was executed. Send it again, in whole",
    Signal.WEAK_EVIDENCE: "could not be proven to be whole: because. Nothing was executed.",
    Signal.UNKNOWN_KEY: "was refused: because. Nothing was executed.",
    Signal.DUPLICATE_KEY: "was refused: because. Nothing was executed.",
    Signal.OVER_CAP: "was refused: because. Nothing was executed.",
}


@pytest.mark.parametrize("signal", WORDS)
def test_the_error_has_words_for_the_model(signal):
    caught = AnswerRefused(signal, 1882, None, "because", "apply_schema")
    assert WORDS[signal] in caught.for_model()
    assert "missing parameter" not in caught.for_model()
    assert AnswerRefused(signal, 1882, None, "because").for_model().startswith("Your last answer")


def test_every_signal_has_words():
    for signal in Signal:
        assert AnswerRefused(signal, 1, None, "because", "t").for_model().startswith("Your last call of t")


def test_the_error_is_a_refusal_that_travels():
    caught = refused(whole(answers.chat_call()[:1882], "openai-chat"), tool=TOOL)
    assert issubclass(type(caught), Refused)
    again = pickle.loads(pickle.dumps(caught))
    for one in (caught, again):
        assert (one.tool, one.received_bytes, one.expected_bytes) == (TOOL, 1882, None)
        assert one.signal == "no-terminal"
        assert one.for_model() == caught.for_model()


def test_what_is_too_long_is_said_of_an_uncoded_body_in_its_own_words():
    with pytest.raises(AnswerRefused) as refused:
        seal(of_file(bytes(101), wire="openai-chat", limit=100), tool=TOOL)
    assert refused.value.signal == "over-cap"
    assert refused.value.detail == "101 bytes or more arrived, over the limit of 100"


@pytest.mark.parametrize(
    ("ending", "size", "signal", "said"),
    [
        (Ending.RESET, 50, "reset", "inside its content coding (by the peer)"),
        (Ending.LAST_CHUNK, 50, "body-cut", "ends early"),
        (Ending.RESET, 0, "body-cut", "ends early"),
    ],
)
def test_a_coded_body_that_does_not_decode_is_refused_for_what_ended_it(ending, size, signal, said):
    raw = gzip.compress(answers.chat_call())[:size]
    caught = refused(whole(raw, "openai-chat", ending, content_encoding="gzip", why="by the peer"), tool=TOOL)
    assert (caught.signal, caught.received_bytes) == (signal, size)
    assert said in caught.detail


@pytest.mark.parametrize(("more", "signal"), [(b"data: ", "reset"), (b'data: {"error":"x"}\n\n', "bad-stop")])
def test_only_what_the_transport_ended_is_explained_by_the_transport(more, signal):
    """What the provider said comes first, and is not blamed on the connection."""
    caught = refused(whole(more, "openai-chat", Ending.RESET, why="by the peer"), tool=TOOL)
    assert caught.signal == signal
    assert ("by the peer" in caught.detail) == (signal == "reset")
