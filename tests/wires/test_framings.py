"""What holds for each framing: the cap is the most that is taken, and what is broken stays broken as it was."""

import pytest
from tests.wires import bodies

from endmark.core.refusal import Signal
from endmark.wires.eventstream import FrameStream
from endmark.wires.jsonarray import ArrayStream
from endmark.wires.ndjson import LineStream
from endmark.wires.sse import EventStream

WHOLE = {
    EventStream: b"data: x\n\n",
    LineStream: b"{}\n",
    ArrayStream: b"[{}]",
    FrameStream: bodies.message("x", "{}"),
}
BROKEN = {EventStream: b"dita: x\n\n", ArrayStream: b"{", FrameStream: b"\0" * 16}


@pytest.mark.parametrize("framing", WHOLE)
def test_as_many_bytes_as_the_cap_are_taken_and_no_more(framing):
    """A9"""
    raw = WHOLE[framing]
    for cap, signal in ((len(raw), None), (len(raw) - 1, Signal.OVER_CAP)):
        for parts in ([raw], [raw[:-1], raw[-1:]], [b"", raw, b""]):
            frames = framing(cap)
            found = [item for part in parts for item in frames.feed(part)]
            assert bool(frames.at_end and found) == (signal is None)
            assert (frames.fault.signal if frames.fault else None) == signal
            assert frames.received == len(raw)


@pytest.mark.parametrize("framing", BROKEN)
def test_what_is_broken_stays_broken_as_it_was(framing):
    frames = framing(100)
    frames.feed(BROKEN[framing])
    first = frames.fault
    assert first.signal is not Signal.OVER_CAP
    for more in (WHOLE[framing], b"y" * 200):
        assert frames.feed(more) == []
        assert frames.fault is first
    assert frames.received == len(BROKEN[framing]) + len(WHOLE[framing]) + 200
