"""Server-sent events and lines: the same items however the bytes come, bounded memory, no repeated copying."""

import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wires.support import bytewise, portions

from endmark.core.refusal import Signal
from endmark.wires.ndjson import LineStream
from endmark.wires.sse import EventStream

ENDS = ("\n", "\r", "\r\n")


def events(raw, cap=1 << 20):
    """The events of `raw`, which must be the same in one piece and byte by byte, and what stream is left."""
    found = []
    for parts in ([raw], bytewise(raw)):
        stream = EventStream(cap)
        found.append(([event for part in parts for event in stream.feed(part)], stream))
    (whole, one), (pieced, other) = found
    assert whole == pieced
    assert (one.received, one.fault, one.pending, one.at_end) == (len(raw), other.fault, other.pending, other.at_end)
    return whole, one


@pytest.mark.parametrize("end", ENDS)
def test_lines_end_in_three_ways(end):
    """E2 E5 E7: also where the LF of a CRLF comes in another portion than its CR."""
    raw = end.join(["data: a", "data: b", "", "event: e", "data:c", "", ""]).encode()
    found, stream = events(raw)
    assert found == [(b"", b"a\nb"), (b"e", b"c")]
    assert stream.at_end
    assert not stream.pending


@pytest.mark.parametrize(
    ("line", "data"),
    [
        ("data: x", b"x"),
        ("data:x", b"x"),
        ("data:  x", b" x"),
        ("data: x ", b"x "),
        ("data", b""),
        ("data:", b""),
        ("data::", b":"),
        ("data: data: x", b"data: x"),
        ("data: \ufeff", "\ufeff".encode()),
        ("data: ž€😀", "ž€😀".encode()),
        ("data: \x0b\x0c\x1c\x1d\x1e\x85\u2028", "\x0b\x0c\x1c\x1d\x1e\x85\u2028".encode()),  # ends of lines elsewhere
    ],
)
def test_a_field_is_what_stands_after_its_colon_and_one_space(line, data):
    assert events(f"{line}\n\n".encode())[0] == [(b"", data)]


@pytest.mark.parametrize("line", [":", ": ping", ":data: x", "id", "id: 7", "id: \0", "retry: 3", "retry: x", "event"])
def test_what_says_nothing(line):
    """E3 E4"""
    assert events(f"{line}\ndata: x\n{line}\n\n{line}\n".encode())[0] == [(b"", b"x")]


@pytest.mark.parametrize(
    "line", ["Data: x", "data : x", " data: x", "dat: x", "error: {}", "{}", "\ufeffdata: x", "\0", " "]
)
@pytest.mark.parametrize("end", ENDS)
def test_a_line_that_is_no_field_is_refused(line, end):
    """E6"""
    found, stream = events(f"data: x{end}{end}{line}{end}data: y{end}{end}".encode())
    assert found == [(b"", b"x")]
    assert stream.fault is not None
    assert stream.fault.signal == Signal.BAD_STOP


@pytest.mark.parametrize(
    ("raw", "count"), [("\ufeffdata: x\n\n", 1), ("\ufeff\ndata: x\n\n", 1), ("\n\ufeffdata: x\n\n", 0)]
)
def test_one_mark_at_the_very_start(raw, count):
    """E1"""
    assert len(events(raw.encode())[0]) == count


def test_an_event_without_data_is_none_and_leaves_no_name():
    """E5"""
    assert events(b"event: a\n\ndata: x\n\n")[0] == [(b"", b"x")]
    assert events(b"event: a\nevent: b\ndata: x\n\ndata: y\n\n")[0] == [(b"b", b"x"), (b"", b"y")]


@pytest.mark.parametrize("end", ENDS)
def test_where_bytes_stop(end):
    """E8: the end of an event is known only to its last byte; a CR may be all of it, until a CRLF has been seen."""
    raw = f"data: x{end}{end}".encode()
    for at in range(len(raw) + 1):
        stream = EventStream()
        stream.feed(raw[:at])
        assert (stream.at_end and not stream.pending) == (at == len(raw)), at
    for more in (b":", b": bye", b"id: 1\n", b"data\n", b"event: x\n\n", b"retry\n\n", b"x"):
        stream = EventStream()
        stream.feed(raw + more)
        assert not stream.at_end
    for more in (b"\n\n", b"\r\r", b": bye\n", b":\r\n\r\n: bye\r\n"):  # A4: no events
        for parts in ([raw + more], bytewise(raw + more)):
            stream = EventStream()
            for part in parts:
                stream.feed(part)
            assert stream.at_end


@given(
    st.lists(st.sampled_from(["data: a", "data", ": c", "event: e", "id: 1", "", "", "data: ž"]), max_size=30),
    st.integers(),
)
def test_portions_do_not_matter(lines, seed):
    rng = random.Random(seed)
    raw = "".join(line + rng.choice(ENDS) for line in lines).encode() + rng.choice([b"", b"data: cut", b"\r"])
    whole, _ = events(raw)
    stream = EventStream()
    assert [event for part in portions(raw, rng) for event in stream.feed(part)] == whole
    text = re.sub("\r\n?", "\n", raw.decode())
    plain = []
    for block in text.split("\n\n")[:-1]:
        data = [line.removeprefix("data").removeprefix(":").removeprefix(" ") for line in block.split("\n")]
        data = [value for value, line in zip(data, block.split("\n"), strict=True) if line.startswith("data")]
        plain += ["\n".join(data).encode()] if data else []
    assert [data for _, data in whole] == plain


@pytest.mark.parametrize("stream", [EventStream, LineStream])
def test_what_is_held_is_bounded(stream):
    """A9: one byte too many, and nothing is kept; the count goes on."""
    for parts in ([b"x" * 101], [b"x" * 100, b"\n"], [b"data: x\n\n" * 12], [b"data: x\n"] * 20):
        held = stream(100)
        for part in parts:
            held.feed(part)
        held.feed(b"y" * 10)
        assert held.fault is not None
        assert held.fault.signal == Signal.OVER_CAP
        assert held.received == sum(map(len, parts)) + 10
        assert held.feed(b"data: x\n\n") == []
        assert not held._tail
    held = stream(100)
    held.feed(b"x" * 100)
    assert held.fault is None


def test_lines():
    """NL1 NL2 NL3"""
    for parts in ([b"a\n\n \r\nb\r\nc"], bytewise(b"a\n\n \r\nb\r\nc")):
        stream = LineStream()
        assert [line for part in parts for line in stream.feed(part)] == [b"a", b"b\r"]
        assert stream.pending
        assert not stream.at_end
        assert stream.feed(b"\n") == [b"c"]
        assert stream.at_end
        assert stream.feed(b"\n") == []
        assert not stream.at_end
        assert not stream.pending


@pytest.mark.parametrize("stream", [EventStream, LineStream])
@pytest.mark.parametrize("lines", [1, 20_000])
def test_no_byte_is_copied_again_and_again(stream, lines):
    """One event of 2 MB in portions of 1 KB takes at most three times what it takes in portions of 64 KB."""
    raw = (b"data: " + b"x" * (2_000_000 // lines) + b"\n") * lines + b"\n"

    def feed(size):
        held = stream()
        for at in range(0, len(raw), size):
            held.feed(raw[at : at + size])

    def cost(size):
        """The least of a few, in time of this process alone: others run beside it."""
        start = time.process_time()
        feed(size)
        return time.process_time() - start

    small, large = (min(cost(size) for _ in range(9)) for size in (1024, 64 * 1024))
    assert small <= 3 * large + 0.003
