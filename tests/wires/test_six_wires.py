"""What must hold for each of the six wires alike: every cut, every ending, every lie, and no good stream refused."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.vectors import build_wires_six
from tests.wires import bodies, support, vectors
from tests.wires.bodies import Turn, dump
from tests.wires.six import CAPPED, FILTERED, WIRES, any_turn, asked, opened, planned, read, same_answer, turns

from endmark.core import strictjson, verdict
from endmark.core.ending import WHOLE, Ending
from endmark.core.refusal import Refused, Signal
from endmark.wires.answer import Answer
from endmark.wires.names import reader

KINDS = ("plan", "verdict")
MARKS = ["m-1", "m-2", "m-3"]
MARKED = support.VERDICT[:-1] + ', "marks": ["m-1", "m-2", "m-3"]}'


# --- cuts of the bytes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wire", WIRES)
def test_a_body_is_an_answer_at_its_last_byte_and_nowhere_before(wire, kind):
    raw = bodies.STREAMS[wire](turns(wire)[kind])
    assert support.answers(lambda: reader(wire), raw) == {len(raw): support.WHOLE_ENDINGS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wire", WIRES)
def test_a_document_is_an_answer_at_its_last_byte_and_nowhere_before(wire, kind):
    raw = bodies.DOCUMENTS[wire](turns(wire)[kind])
    assert support.answers(lambda: reader(wire), raw) == {len(raw): support.WHOLE_ENDINGS}


@pytest.mark.parametrize("wire", WIRES)
def test_varied_bodies_are_answers_nowhere_before_their_terminal(wire):
    """What may follow it (a count from Gemini, `[DONE]` from Cohere, white space) leaves the answer as it is."""
    for seed in range(6):
        rng = random.Random(seed)
        raw = bodies.STREAMS[wire](any_turn(rng, 8), rng)
        whole = read(wire, raw)
        for at in support.answers(lambda: reader(wire), raw):
            early = read(wire, raw[:at])
            assert (early.text, early.tool_calls, early.stop_reason) == (
                whole.text,
                whole.tool_calls,
                whole.stop_reason,
            )
            assert wire in ("gemini", "gemini-array", "cohere") or at == len(raw)


@pytest.mark.parametrize("wire", WIRES)
def test_a_cut_read_from_scratch_says_the_same(wire):
    raw = bodies.STREAMS[wire](turns(wire)["plan"])
    for at in range(0, len(raw), 97):
        with pytest.raises(Refused) as refused:
            read(wire, raw[:at])
        assert refused.value.received_bytes == at
        assert refused.value.detail


# --- endings


@pytest.mark.parametrize("ending", Ending)
@pytest.mark.parametrize("wire", WIRES)
def test_only_a_whole_ending_ends_a_whole_body(wire, ending):
    for make in (bodies.STREAMS[wire], bodies.DOCUMENTS[wire]):
        found = support.outcome(opened(wire, make(turns(wire)["plan"])), ending)
        assert isinstance(found, Answer) == (ending in WHOLE)
        if isinstance(found, Answer):
            assert f"transport:{ending.value}" in found.evidence


@pytest.mark.parametrize("wire", WIRES)
def test_the_close_of_a_connection_is_an_end_only_on_request(wire):
    made = reader(wire, allow_close_delimited=True)
    made.feed(bodies.STREAMS[wire](turns(wire)["plan"]))
    assert "transport:closed" in made.finish(Ending.CLOSED).evidence


# --- cuts of the content, and what a server may say of them


@pytest.mark.parametrize("reason", [CAPPED, FILTERED], ids=["capped", "filtered"])
@pytest.mark.parametrize("wire", WIRES)
def test_no_cut_with_an_honest_reason_is_an_answer(wire, reason):
    for at in range(len(support.PLAN) + 1):
        text = support.closed(support.PLAN[:at]) if at % 2 else support.PLAN[:at]
        cut = [asked(wire, text), Turn(text=support.VERDICT[:at])]
        for turn in cut[: 1 + (at <= len(support.VERDICT))]:
            with pytest.raises(Refused) as refused:
                read(wire, bodies.STREAMS[wire](Turn(turn.text, turn.calls, reason[wire])))
            assert refused.value.signal is Signal.BAD_STOP


@pytest.mark.parametrize("wire", WIRES)
def test_a_lying_stop_passes_the_wire_and_no_witness(wire):
    """The server cuts the model, closes what is open and claims a normal stop: only the model's own end can tell."""
    passed = 0
    for at in range(len(support.PLAN)):
        cut = support.PLAN[:at]
        for text in {cut, support.closed(cut)}:
            if text == support.PLAN:  # nothing but quotes and brackets was cut, and they are back
                continue
            raw = bodies.STREAMS[wire](asked(wire, text))
            passed += 1
            with pytest.raises(Refused):
                planned(read(wire, raw))
    assert passed > len(support.PLAN)
    assert planned(read(wire, bodies.STREAMS[wire](asked(wire, support.PLAN)))).stmt_count == 11


@pytest.mark.parametrize("wire", WIRES)
def test_a_lying_stop_passes_no_verdict_that_was_asked_for_marks(wire):
    def judged(text):
        said = read(wire, bodies.STREAMS[wire](Turn(text=text))).text.encode()
        return verdict.read(strictjson.loads(said), len(said), marks=MARKS)

    for at in range(1, len(MARKED)):
        for text in {MARKED[:at], support.closed(MARKED[:at])} - {MARKED}:
            with pytest.raises(Refused):
                judged(text)
    assert judged(MARKED).verdict == "pass"


# --- good streams


def good(wire, seed, length=40):
    rng = random.Random(f"{wire} {seed}")
    turn = any_turn(rng, length)
    raw = bodies.STREAMS[wire](turn, rng)
    made = support.fed(reader(wire, max_output_tokens=turn.tokens + 1), support.portions(raw, rng))
    same_answer(made.finish(rng.choice(sorted(WHOLE))), turn)


@pytest.mark.parametrize("wire", WIRES)
def test_no_good_stream_is_refused(wire):
    for seed in range(100):
        good(wire, seed)


@pytest.mark.soak
@pytest.mark.parametrize("wire", WIRES)
def test_no_good_stream_of_many_is_refused(wire):
    for seed in range(2_000):  # 12,000 over the six
        good(wire, seed)


@pytest.mark.soak
@pytest.mark.parametrize("wire", WIRES)
def test_long_answers_are_read(wire):
    rng = random.Random(wire)
    text = "".join(rng.choices(["word ", "ž", "\n", '"', "😀"], k=4_000_000))
    for turn in (Turn(text=text, tokens=2_000_000), Turn(calls=asked(wire, dump({"a": text})).calls, tokens=2_000_000)):
        raw = bodies.STREAMS[wire](turn)
        assert len(raw) > 10_000_000
        for size in (1_000, 1 << 20):
            made = support.fed(reader(wire), (raw[at : at + size] for at in range(0, len(raw), size)))
            same_answer(made.finish(Ending.LAST_CHUNK), turn)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wire", WIRES)
def test_whole_and_byte_by_byte_are_the_same(wire, kind):
    turn = turns(wire)[kind]
    for make in (bodies.STREAMS[wire], bodies.DOCUMENTS[wire]):
        raw = make(turn)
        whole = read(wire, raw)
        same_answer(whole, turn)
        assert support.fed(reader(wire), support.bytewise(raw)).finish(Ending.LAST_CHUNK) == whole
        assert whole.received_bytes == len(raw)


@pytest.mark.parametrize("wire", WIRES)
def test_asking_changes_nothing(wire):
    raw = bodies.STREAMS[wire](turns(wire)["plan"])
    made = reader(wire)
    for at in range(0, len(raw), 61):
        made.feed(raw[at : at + 61])
        first, second = support.outcome(made, Ending.RESET), support.outcome(made, Ending.RESET)
        assert isinstance(first, Refused)
        assert isinstance(second, Refused)
        assert str(first) == str(second)
    assert made.finish(Ending.LAST_CHUNK) == made.finish(Ending.LAST_CHUNK) == read(wire, raw)


# --- what follows the end


@pytest.mark.parametrize("wire", WIRES)
def test_nothing_may_follow_the_end(wire):
    turn = turns(wire)["plan"]
    raw = bodies.STREAMS[wire](turn)
    again = raw[-200:] if wire == "bedrock" else raw
    for more in (b"\0", b"{", b"x", b"data: x\n\n", b'{"done":true,"done_reason":"stop"}\n', again, b"]", b"}"):
        for parts in ([raw + more], [raw, more], support.bytewise(raw + more)):
            found = support.outcome(support.fed(reader(wire), parts))
            assert isinstance(found, Refused), more
            assert found.received_bytes == len(raw + more)
    for space in (b"\n", b" "):
        found = support.outcome(opened(wire, raw + space))
        taken = wire == "gemini-array" or (space == b"\n" and wire in ("gemini", "mistral", "cohere"))  # JA5, A4
        assert isinstance(found, Answer) == taken, space


@pytest.mark.parametrize("wire", WIRES)
def test_only_white_space_may_follow_a_document(wire):
    raw = bodies.DOCUMENTS[wire](turns(wire)["plan"])
    assert read(wire, raw + b"\n").tool_calls == read(wire, raw).tool_calls
    for more in (b"{}", b"]", b"x", raw):
        assert isinstance(support.outcome(opened(wire, raw + more)), Refused)


# --- caps, and answers that say nothing


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_at_the_token_cap_is_refused(wire):
    for make in (bodies.STREAMS[wire], bodies.DOCUMENTS[wire]):
        raw = make(turns(wire)["plan"])
        for cap, fits in ((320, False), (321, False), (322, True)):
            made = reader(wire, max_output_tokens=cap)
            made.feed(raw)
            found = support.outcome(made)
            assert isinstance(found, Answer) == fits
            if isinstance(found, Refused):
                assert found.signal is Signal.TOKEN_CAP


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_without_text_and_call_is_empty(wire):
    """INC-026, INC-170: nothing at all, and a normal stop after nothing or after thoughts only."""
    for raw in (b"", *(bodies.STREAMS[wire](Turn(thoughts=thoughts)) for thoughts in ("", "hm, let me see"))):
        with pytest.raises(Refused) as refused:
            read(wire, raw)
        assert refused.value.signal is Signal.EMPTY


@pytest.mark.parametrize("wire", WIRES)
def test_a_body_over_the_cap_is_refused_and_not_held(wire):
    made = reader(wire, cap=5_000)
    raw = bodies.STREAMS[wire](Turn(text="x" * 20_000))
    for part in support.bytewise(raw):
        made.feed(part)
    found = support.outcome(made)
    assert isinstance(found, Refused)
    assert (found.signal, found.received_bytes) == (Signal.OVER_CAP, len(raw))


# --- vectors


def test_the_builder_writes_the_files_that_are_there():
    """Byte for byte, none more and none less."""
    there = {vector.name: (vectors.FOLDER / vector.name).read_bytes() for vector in vectors.load(*WIRES, "ended")}
    assert build_wires_six.build() == there
    assert len(there) > 200


# --- any bytes


def judged(wire, parts):
    """Whatever the bytes: an answer or a refusal, the count right, and the same when asked again."""
    made = support.fed(reader(wire), parts)
    received = sum(map(len, parts))
    for ending in (Ending.LAST_CHUNK, Ending.RESET):
        found = support.outcome(made, ending)
        assert found.received_bytes == received
        if isinstance(found, Refused):
            assert isinstance(found.detail, str)
        else:
            assert isinstance(found, Answer)
            assert ending is Ending.LAST_CHUNK


@pytest.mark.parametrize("wire", WIRES)
@given(parts=st.lists(st.binary(max_size=60), max_size=8))
def test_any_bytes_are_an_answer_or_refused(wire, parts):
    judged(wire, parts)


TOKENS = [
    *(b"data: ", b"event: ", b"\n\n", b"\n", b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"true", b"0", b"-1"),
    *(b"1e9", b'{"error":1}', b'{"candidates":[]}', b'{"done":true}', b"[DONE]", b'"type"', b'"message-end"', b"\\u"),
    *(b'"delta"', b'"choices"', b'"message"', b'"done"', b'"finish_reason"', b'"usage"', b"\xff", b"\0\0\0\x10"),
]


@pytest.mark.parametrize("wire", WIRES)
@given(data=st.data())
def test_any_damage_to_a_good_stream_is_an_answer_or_refused(wire, data):
    rng = random.Random(data.draw(st.integers(0, 50)))
    raw = bytearray(bodies.STREAMS[wire](any_turn(rng, 8), rng))
    for _ in range(data.draw(st.integers(1, 4))):
        at, end = sorted(data.draw(st.tuples(st.integers(0, len(raw)), st.integers(0, len(raw)))))
        match data.draw(st.sampled_from(["cut", "insert", "repeat", "flip", "random"])):
            case "cut":
                del raw[at:end]
            case "insert":
                raw[at:at] = data.draw(st.sampled_from(TOKENS))
            case "repeat":
                raw[at:at] = raw[at : min(end, at + 300)]
            case "flip" if at < len(raw):
                raw[at] ^= 1 << data.draw(st.integers(0, 7))
            case _:
                raw[at : at + 4] = data.draw(st.binary(max_size=6))
    judged(wire, [bytes(raw)])


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "STOP", "stop", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "index", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("wire", WIRES)
@given(data=st.data())
def test_any_value_at_any_place_of_a_stream_is_an_answer_or_refused(wire, data):
    """Each JSON value of each event, in turn, becomes something of another kind."""
    turn = turns(wire)[data.draw(st.sampled_from(KINDS))]
    documents, spell = taken_apart(wire, turn)
    document = documents[data.draw(st.integers(0, len(documents) - 1))]
    holder, key = data.draw(st.sampled_from(list(places(document))))
    holder[key] = data.draw(VALUES)
    judged(wire, [spell(documents)])


def places(value):
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list) and value[key]:
            yield from places(value[key])


def taken_apart(wire, turn):
    """The JSON documents of a stream, and what spells a stream with them."""
    short = Turn(text=turn.text[:100], calls=turn.calls)
    if wire == "bedrock":
        events = bodies.bedrock_messages(short)
        names = [name for name, _ in events]
        payloads = [bodies.loaded(bodies.dump(payload)) for _, payload in events]
        return payloads, lambda made: b"".join(map(bodies.message, names, made))
    make = {
        "gemini": bodies.gemini_responses,
        "gemini-array": bodies.gemini_responses,
        "ollama": bodies.ollama_lines,
        "mistral": bodies.mistral_chunks,
        "cohere": bodies.cohere_events,
    }[wire]
    documents = bodies.loaded(bodies.dump(make(short)))
    if wire == "gemini-array":
        return documents, lambda made: bodies.dump(made).encode()
    if wire == "ollama":
        return documents, lambda made: "".join(bodies.dump(line) + "\n" for line in made).encode()
    end = [("", "[DONE]")] if wire == "mistral" else []
    return documents, lambda made: bodies.sse([("", bodies.dump(event)) for event in made] + end)
