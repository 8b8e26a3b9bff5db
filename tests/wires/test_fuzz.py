"""Under `soak`: any bytes, damaged streams, damaged captures, of every wire and profile: nothing but Refused leaves.

Damage starts from whole streams and documents and from the vectors, so that it gets past the first line.
"""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wires import bodies, bodies_openai, vectors
from tests.wires.six import PARSED, any_turn
from tests.wires.support import PLAN, fed, outcome, portions

from endmark.core.ending import WHOLE, Ending
from endmark.core.refusal import Refused
from endmark.seal import AnswerRefused, seal
from endmark.sources.capture import Capture
from endmark.wires.answer import Answer
from endmark.wires.eventstream import FrameStream
from endmark.wires.jsonarray import ArrayStream
from endmark.wires.names import NAMES, reader
from endmark.wires.ndjson import LineStream
from endmark.wires.sse import EventStream

STREAMS = {**bodies_openai.STREAMS, **bodies.STREAMS}
DOCUMENTS = {**bodies_openai.DOCUMENTS, **bodies.DOCUMENTS}
VECTORS = [vector.raw for vector in vectors.load()]
CODINGS = ("", "gzip", "deflate", "br", "zstd", "gzip, br", "compress", "\x00")
# What tears a stream where it is thin: framing, JSON's own marks, the words that end it.
SEAMS = [
    *(b"\n", b"\r", b"\r\n", b"\n\n", b": ", b"data: ", b"data:", b"event: error\n", b"id: 1\n", b"\xef\xbb\xbf"),
    *(b"{", b"}", b"[", b"]", b'"', b"\\", b"\\u", b"\\ud83d", b",", b":", b"null", b"1e999", b"-0", b"NaN", b"9" * 30),
    *(
        b"[DONE]",
        b'"message_stop"',
        b'"done":true',
        b'"finish_reason":"stop"',
        b'"finishReason":"STOP"',
        b"\xff",
        b"\0",
    ),
    *(b"\x00\x00\x00\x10", b"messageStop", b":event-type", b'"error":{}', b'"index":-1', b'"type":[]', b"[" * 70),
]

steps = st.tuples(
    st.sampled_from(["cut", "drop", "repeat", "swap", "seam", "byte", "bytes", "splice"]),
    st.floats(0, 1),
    st.floats(0, 1),
    st.binary(max_size=8),
)


def damaged(raw: bytes, damage: list[tuple[str, float, float, bytes]], rng: random.Random) -> bytes:
    """`raw` after each step of `damage`; places are fractions of what there is."""
    for kind, from_, to, new in damage:
        at, end = sorted((int(from_ * len(raw)), int(to * len(raw))))
        if kind == "cut":
            raw = raw[:at]
        elif kind == "drop":
            raw = raw[:at] + raw[end:]
        elif kind == "repeat":
            raw = raw[:end] + raw[at:]
        elif kind == "swap":
            half = (at + end) // 2
            raw = raw[:at] + raw[half:end] + raw[at:half] + raw[end:]
        elif kind == "seam":
            raw = raw[:at] + rng.choice(SEAMS) + raw[at:]
        elif kind == "byte":
            raw = raw[:at] + new[:1] + raw[at + 1 :]
        elif kind == "bytes":
            raw = raw[:at] + new + raw[at + len(new) :]
        else:
            raw = raw[:at] + rng.choice(VECTORS)[-(end - at) :]
    return raw


def source(name: str, rng: random.Random) -> bytes:
    wire = name.partition("+")[0]
    if rng.random() < 0.2:
        return rng.choice(VECTORS)
    turn = any_turn(rng, 12)
    return STREAMS[wire](turn, rng) if rng.random() < 0.8 else DOCUMENTS[wire](turn)


def judged(name: str, raw: bytes, rng: random.Random) -> None:
    """An answer or Refused, all bytes counted, the same when asked again and however the bytes were portioned."""
    options: dict[str, Any] = {
        "max_output_tokens": rng.choice([None, 1, 4_000]),
        "stop_sequences": rng.random() < 0.5,
        "allow_close_delimited": rng.random() < 0.5,
        "cap": rng.choice([40, 700, 1 << 20]),
    }
    made = fed(reader(name, **options), portions(raw, rng))
    other = fed(reader(name, **options), [raw])
    for ending in Ending:
        found = outcome(made, ending)
        assert found.received_bytes == len(raw)
        assert str(found) == str(outcome(made, ending))
        same = outcome(other, ending)
        assert isinstance(found, Answer) == isinstance(same, Answer)
        if isinstance(found, Refused):
            assert found.detail.isprintable()
        else:
            assert found == same
            assert ending in WHOLE or (options["allow_close_delimited"] and ending is Ending.CLOSED)


LONG = settings(max_examples=600)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
@LONG
@given(damage=st.lists(steps, min_size=1, max_size=6), seed=st.integers(0, 1 << 32))
def test_a_damaged_stream_is_an_answer_or_refused(name, damage, seed):
    rng = random.Random(seed)
    judged(name, damaged(source(name, rng), damage, rng), rng)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
@LONG
@given(raw=st.binary(max_size=2_000), seed=st.integers(0, 1 << 32))
def test_any_bytes_are_an_answer_or_refused(name, raw, seed):
    judged(name, raw, random.Random(seed))


@pytest.mark.soak
@pytest.mark.parametrize("framing", [EventStream, LineStream, ArrayStream, FrameStream])
@LONG
@given(damage=st.lists(steps, max_size=6), seed=st.integers(0, 1 << 32))
def test_a_framing_never_raises_and_portions_change_nothing(framing, damage, seed):
    rng = random.Random(seed)
    raw = damaged(source(rng.choice(NAMES), rng), damage, rng)
    one, many = framing(1 << 20), framing(1 << 20)
    whole = one.feed(raw)
    assert [item for part in portions(raw, rng) for item in many.feed(part)] == whole
    assert (one.received, one.fault, one.pending, one.at_end) == (many.received, many.fault, many.pending, many.at_end)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
@LONG
@given(damage=st.lists(steps, max_size=4), seed=st.integers(0, 1 << 32), coding=st.sampled_from(CODINGS))
def test_a_damaged_capture_is_a_plan_with_its_count_or_refused(name, damage, seed, coding):
    rng, wire = random.Random(seed), name.partition("+")[0]
    arguments = bodies.dump({"plan": PLAN}) if wire in PARSED else PLAN
    raw = STREAMS[wire](bodies.Turn(calls=(bodies.Call("apply_schema", arguments),)), rng)
    capture = Capture(
        raw=damaged(raw, damage, rng), ending=rng.choice(list(Ending)), wire=name, content_encoding=coding
    )
    try:
        sealed = seal(capture, tool=rng.choice(["apply_schema", None]), cap=rng.choice([1 << 10, 1 << 20]))
    except AnswerRefused:
        return
    assert sealed.plan.stmt_count == len(sealed.plan.statements)
