"""Public reports of bodies that stalled, were reset or lost the end of their coding, over real sockets.

Each test bears the id of its row in tests/incidents. Nothing of such a body is used, and the refusal counts its bytes.
"""

import openai
import pytest
from tests.incidents.rows import agrees
from tests.sources.common import CALL, OPENAI, asking, both_libraries, both_modes
from tests.support.server import CHUNK_FIN, CHUNKED, CLOSE, LENGTH, RST, STALL, Script, Server, sse_pieces

import endmark
from endmark.core.decision import row_of
from endmark.sources.recorder import Head, Recorder

TOOL = "apply_schema"
EVENTS = sse_pieces(CALL)
PING = b": ping\n\n"


def refused(mode, sdk, server, row_id, *, raw, ending, believed=False, coding=""):
    """What a capture says of what the server plays: refused as the row says, with all of `raw` counted and kept."""
    with endmark.capture(idle=0.1) as c:
        try:
            seen = asking(mode, sdk, server.url, c)
        except openai.APIError:
            assert not believed
        else:
            assert believed
            assert isinstance(seen, list)
    assert (c.taken.raw, c.taken.ending, c.taken.content_encoding) == (raw, ending, coding)
    with pytest.raises(endmark.AnswerRefused) as caught:
        c.seal(tool=TOOL)
    assert caught.value.received_bytes == len(raw)
    assert agrees(row_id, row_of(caught.value.signal).state)
    return caught.value


@both_libraries
@both_modes
@pytest.mark.parametrize("row_id", ["INC-048", "INC-155"])
@pytest.mark.parametrize("ending", [CHUNKED, LENGTH, CLOSE])
def test_a_compressed_body_without_its_trailer_is_cut(server, library, mode, row_id, ending):
    """Both libraries take it for whole, and so does the SDK; every event of the stream is there."""
    whole = Script(CALL, zipped=True).sent()
    raw = whole[:-8] if row_id == "INC-048" else whole[:-1]
    server.play(Script(CALL, ending, zipped=True, cut=len(raw)))
    word = {CHUNKED: "last-chunk", LENGTH: "length-met", CLOSE: "closed"}[ending]
    said = refused(mode, OPENAI[library], server, row_id, raw=raw, ending=word, believed=True, coding="gzip")
    assert said.signal in ("body-cut", "weak-evidence")


# What came before the silence: one event; a piece of one; three; three and heartbeats.
STALLED = {
    "INC-050": EVENTS[:1],
    "INC-052": [*EVENTS[:4], EVENTS[4][:30]],
    "INC-053": EVENTS[:3],
    "INC-054": [*EVENTS[:3], *[PING] * 9],
}


@both_libraries
@both_modes
@pytest.mark.parametrize("row_id", STALLED)
def test_silence_with_the_socket_open_is_no_end(server, library, mode, row_id):
    raw = b"".join(STALLED[row_id])
    server.play(Script(raw, STALL, pieces=STALLED[row_id]))
    assert refused(mode, OPENAI[library], server, row_id, raw=raw, ending="idle").signal == "idle"


@both_libraries
@both_modes
def test_inc_050_a_fin_after_the_silence_is_no_end_either(server, library, mode):
    server.play(Script(EVENTS[0], CHUNK_FIN, pieces=EVENTS[:1], before_end=0.05))
    assert refused(mode, OPENAI[library], server, "INC-050", raw=EVENTS[0], ending="short").signal == "body-cut"


@both_libraries
@both_modes
def test_inc_055_a_reset_is_no_end(server, library, mode):
    """What was in the client's buffers may be lost with it, so only what came is compared."""
    server.play(Script(CALL, RST, cut=900))
    with endmark.capture(idle=0.1) as c, pytest.raises(openai.APIError):
        asking(mode, OPENAI[library], server.url, c)
    assert CALL.startswith(c.taken.raw)
    assert c.taken.ending == "reset"
    with pytest.raises(endmark.AnswerRefused) as caught:
        c.seal(tool=TOOL)
    assert agrees("INC-055", row_of(caught.value.signal).state)


# --- heartbeats are no progress


class Beating(Server):
    """A server that after some events sends nothing but heartbeats, until the client goes or a minute is over."""

    def __init__(self, beat):
        super().__init__(Script(b""))
        self.beat = beat

    def _answer(self, connection, script):
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode())
        for piece in EVENTS[:3]:
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        for _ in range(3_000):
            if self._stop.wait(0.02):
                break
            connection.sendall(b"%x\r\n%s\r\n" % (len(self.beat), self.beat))
        return False


@both_libraries
@both_modes
@pytest.mark.parametrize("beat", [PING, b'event: ping\ndata: {"type": "ping"}\n\n'], ids=["comment", "event"])
def test_inc_054_heartbeats_are_no_progress(library, mode, beat):
    """The socket is never silent for as long as the limit. The SDK takes it for a timeout, which it is."""
    server = Beating(beat)
    try:
        with endmark.capture(idle=0.3) as c, pytest.raises(openai.APITimeoutError) as failed:
            asking(mode, OPENAI[library], server.url, c)
    finally:
        server.close()
    assert "only heartbeats" in str(failed.value.__cause__)
    assert c.taken.raw.startswith(b"".join(EVENTS[:3]) + beat)
    assert set(c.taken.raw.removeprefix(b"".join(EVENTS[:3])).split(beat)) == {b""}
    with pytest.raises(endmark.AnswerRefused) as caught:
        c.seal(tool=TOOL)
    assert caught.value.signal == "idle"
    assert agrees("INC-054", row_of(caught.value.signal).state)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def stood_still(*portions, idle=10.0, seconds=6.0):
    """At which portions, that many seconds apart, the limit was over."""
    clock = Clock()
    recorder = Recorder(wire="openai-chat", idle=idle, clock=clock)
    exchange = recorder.begin(Head(status=200, http_version="HTTP/1.1"), None)
    assert exchange is not None
    found = []
    for at, portion in enumerate(portions):
        clock.now += seconds
        if exchange.stands_still(portion):
            found.append(at)
    return found


@pytest.mark.parametrize(
    "beat",
    [
        b": ping\n\n", b":\n\n", b"\n", b"\r\n\r\n", b": a\r: b\r\r", b": OPENROUTER PROCESSING\n\n: again\n\n",
        b'event: ping\ndata: {"type": "ping"}\n\n', b'event:ping\r\ndata:{"type":"ping"}\r\n\r\n',
    ],
)  # fmt: skip
def test_inc_054_what_is_a_heartbeat(beat):
    assert stood_still(beat, beat, beat) == [1, 2]
    assert stood_still(beat, b"data: {}\n\n", beat, beat) == [3]
    assert stood_still(beat, beat, beat, idle=None) == []
    assert stood_still(beat, beat, beat, seconds=0.1) == []


@pytest.mark.parametrize(
    "portion",
    [
        b"data: {}\n\n", b"d", b'"', b": ping\n\ndata: {", b": half a comm", b'event: ping\ndata: {"type": "pi',
        b"{}\n", b'event: ping\ndata: {"type":"ping","more":1}\n\n', b"event: message_stop\n", b"\x1f\x8b\x08",
        b"retry: 3\n\n",
    ],
)  # fmt: skip
def test_inc_054_anything_else_is_progress(portion):
    """Also a piece of a heartbeat: what that makes late is a limit, and no answer is refused for it."""
    assert stood_still(portion, portion, portion, portion) == []
