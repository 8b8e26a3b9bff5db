"""AWS event streams: however the bytes are portioned, whatever is damaged."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wires import bodies, support
from tests.wires.bodies import Turn
from tests.wires.six import read, turns

from endmark.core.refusal import Refused, Signal
from endmark.wires.eventstream import FrameStream, Message

MESSAGES = st.lists(
    st.tuples(
        st.text(min_size=1, max_size=12), st.binary(max_size=80), st.sampled_from(["event", "exception", "error"])
    ),
    max_size=6,
)
KEYS = {"event": ":event-type", "exception": ":exception-type", "error": ":error-code"}


def framed(parts):
    """What comes out, and what stands behind it."""
    frames = FrameStream()
    found = [message for part in parts for message in frames.feed(part)]
    return found, frames


def spelled(messages):
    return b"".join(bodies.message(name, payload, kind, KEYS[kind]) for name, payload, kind in messages)


@given(messages=MESSAGES, seed=st.integers(0, 99))
def test_what_was_put_in_comes_out_however_it_is_portioned(messages, seed):
    raw = spelled(messages)
    expected = [Message(kind, name, payload) for name, payload, kind in messages]
    for parts in ([raw], support.bytewise(raw), support.portions(raw, random.Random(seed))):
        found, frames = framed(parts)
        assert found == expected
        assert (frames.fault, frames.pending, frames.at_end, frames.received) == (None, False, True, len(raw))


@given(messages=MESSAGES, data=st.data())
def test_a_cut_loses_only_what_had_not_ended(messages, data):
    raw = spelled(messages)
    at = data.draw(st.integers(0, len(raw)))
    ends = [len(spelled(messages[: n + 1])) for n in range(len(messages))]
    found, frames = framed([raw[:at]])
    assert len(found) == sum(end <= at for end in ends)
    assert frames.pending == (at not in {0, *ends})
    assert frames.fault is None


@pytest.mark.parametrize("kind", ["plan", "verdict"])
def test_every_flip_of_a_bit_is_refused(kind):
    """ES4. No flip of a bit is missed by a CRC, wherever it stands."""
    whole = turns("bedrock")[kind]
    short = Turn(whole.text[:120], tuple(bodies.Call(c.name, c.arguments[:90], c.id) for c in whole.calls))
    raw = bodies.bedrock(short)
    assert read("bedrock", raw).received_bytes == len(raw)
    for at in range(len(raw)):
        for bit in range(8):
            flipped = raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :]
            with pytest.raises(Refused) as refused:
                read("bedrock", flipped)
            assert refused.value.signal is Signal.ENVELOPE_DIGEST
            assert refused.value.received_bytes == len(raw)


def test_a_byte_lost_or_added_anywhere_is_refused():
    raw = bodies.bedrock(Turn(text=support.VERDICT[:200]))
    for at in range(len(raw)):
        for damaged in (raw[:at] + raw[at + 1 :], raw[:at] + b"\0" + raw[at:], raw[:at] + raw[at : at + 1] + raw[at:]):
            with pytest.raises(Refused):
                read("bedrock", damaged)


def test_a_frame_that_is_lost_or_doubled_at_the_ends_is_refused():
    """In the middle of a text nothing shows it: the evidence says `continuity:none`."""
    parts = [bodies.message(*event) for event in bodies.bedrock_messages(turns("bedrock")["verdict"])]
    texts = range(1, len(parts) - 3)
    for at in set(range(len(parts))) - set(texts):
        for damaged in (parts[:at] + parts[at + 1 :], [*parts[: at + 1], *parts[at:]]):
            with pytest.raises(Refused):
                read("bedrock", b"".join(damaged))
    shorter = read("bedrock", b"".join(parts[:1] + parts[2:]))
    assert shorter.text != support.VERDICT
    assert "continuity:none" in shorter.evidence


def test_a_fault_is_for_good():
    raw = bodies.bedrock(Turn(text="hello"))
    frames = FrameStream()
    frames.feed(raw[:8] + b"\0\0\0\0" + raw[12:])
    assert frames.fault is not None
    fault = frames.fault
    assert frames.feed(raw) == []
    assert frames.fault is fault
    assert frames.received == 2 * len(raw)
