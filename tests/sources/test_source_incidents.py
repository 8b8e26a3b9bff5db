"""Public reports of bodies that stalled, were reset or lost the end of their coding, over real sockets.

Each test bears the id of its row in tests/incidents. Nothing of such a body is used, and the refusal counts its bytes.
"""

import openai
import pytest
from tests.incidents.rows import agrees
from tests.sources.common import CALL, OPENAI, asking, both_libraries, both_modes
from tests.support.server import CHUNK_FIN, CHUNKED, CLOSE, LENGTH, RST, STALL, Script, sse_pieces

import endmark
from endmark.core.decision import row_of

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
