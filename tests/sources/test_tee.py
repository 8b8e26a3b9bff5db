"""The teeing transports under the official SDKs: the SDK sees what it always sees, the capture holds what was sent."""

import asyncio
import threading
from typing import Any

import httpx2
import openai
import pytest
from tests.sources.common import CALL, OPENAI, WORD, asking, both_libraries, both_modes, script_for
from tests.sources.sdks import KEY, MESSAGES, SDKS, ask
from tests.support import answers
from tests.support.server import CHUNK_FIN, CHUNKED, CLOSE, LENGTH, RST, SHORT, STALL, Script, sse_pieces

import endmark
from endmark.sources import tee

# --- the SDK works as ever


@pytest.mark.parametrize("sdk", SDKS, ids=str)
@both_modes
def test_an_sdk_yields_the_same_with_and_without(server, sdk, mode):
    server.play(script_for(sdk, pieces=sse_pieces(sdk.body) if b"\n\n" in sdk.body else None))
    plain = asking(mode, sdk, server.url)
    with endmark.capture(wire=sdk.wire) as c:
        assert asking(mode, sdk, server.url, c) == plain
    assert plain
    assert c.taken.raw == sdk.body
    assert c.taken.ending == "last-chunk"
    assert c.taken.max_output_tokens == 4096
    assert c.taken.facts == ()


@pytest.mark.parametrize("sdk", SDKS, ids=str)
@both_modes
def test_nothing_is_delayed(server, sdk, mode):
    """The rest of the body is sent only when the SDK's user has seen the first of it."""
    gate = threading.Event()
    first = sdk.body.index(b"\n", sdk.body.index(b"\n", 300) + 1) + 1
    whole = sdk.body if sdk.name != "gemini" else answers.gemini_text()
    pieces = [whole[:first], whole[first:]]
    if sdk.name == "gemini":
        events = [event + b"\r\n\r\n" for event in whole.split(b"\r\n\r\n") if event]
        pieces = [b"".join(events[:3]), b"".join(events[3:])]
    elif sdk.name in ("ollama", "mistral"):
        end = whole.index(b"\n") + (2 if sdk.name == "mistral" else 1)
        pieces = [whole[:end], whole[end:]]
    server.play(script_for(sdk, pieces=pieces, hold=gate))
    with endmark.capture(wire=sdk.wire) as c:
        assert asking(mode, sdk, server.url, c, first=gate.set)
    assert c.taken.raw == whole
    assert c.taken.ending == "last-chunk"


@both_libraries
def test_the_connection_is_used_again(server, library):
    """Reading on to the end of the body has a use of its own: the SDK alone would throw the connection away."""
    server.play(Script(CALL))
    with endmark.capture() as c, library.Client(transport=c.transport()) as http:
        client: Any = openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, http_client=http)
        ports = set()
        for _ in range(3):
            c.reset()
            with client.chat.completions.with_streaming_response.create(
                model="m", messages=MESSAGES, stream=True
            ) as response:
                stream = response.http_response.extensions["network_stream"]
                ports.add(stream.get_extra_info("client_addr"))
                for _ in response.parse():
                    pass
            assert c.taken.ending == "last-chunk"
    assert len(ports) == 1


def test_errors_reach_the_sdk_as_they_are(server):
    for script, kind in (
        (Script(b'{"error":{"message":"no"}}', LENGTH, "401 Unauthorized"), openai.AuthenticationError),
        (Script(CALL, CHUNK_FIN, cut=900), openai.APIConnectionError),
        (Script(drop=True), openai.APIConnectionError),
    ):
        server.play(script)
        for transport in (None, endmark.capture().transport()):
            with pytest.raises(kind):
                ask(OPENAI[httpx2], server.url, transport)


# --- the ending is recorded (CA3), the bytes are kept (CA2)


@pytest.mark.parametrize("ending", WORD)
@both_libraries
@both_modes
def test_every_ending_is_recorded(server, library, mode, ending):
    """At the terminal event OpenAI's SDK stops reading; how the body ended is seen all the same."""
    server.play(Script(CALL, ending))
    with endmark.capture(idle=0.3) as c:
        assert len(asking(mode, OPENAI[library], server.url, c)) > 20
    assert c.taken.ending == WORD[ending]
    assert c.taken.raw == CALL


@pytest.mark.parametrize("ending", WORD)
@both_modes
def test_every_ending_of_a_cut_body_is_recorded(server, mode, ending):
    sdk = OPENAI[httpx2]
    server.play(Script(CALL, ending, cut=1882))
    with endmark.capture(idle=0.3) as c:
        try:
            asking(mode, sdk, server.url, c)
        except openai.APIError:
            assert ending in (CHUNK_FIN, SHORT, RST, STALL)
        else:
            assert ending in (CHUNKED, LENGTH, CLOSE)  # what the SDK takes for an answer
    assert c.taken.ending == WORD[ending]
    assert c.taken.raw == CALL[:1882]
    with pytest.raises(endmark.AnswerRefused):
        c.seal(tool="apply_schema")


@pytest.mark.parametrize("ending", [CHUNKED, LENGTH, CLOSE, CHUNK_FIN, SHORT])
@both_modes
def test_the_ending_of_one_document_is_recorded(server, mode, ending):
    sdk = OPENAI[httpx2]
    body = answers.chat_document()
    server.play(Script(body, ending, content_type="application/json"))

    def create(client):
        return client.chat.completions.create(model="m", messages=MESSAGES, max_tokens=4096)

    async def create_async():
        async with sdk.library.AsyncClient(transport=c.async_transport()) as http:
            await create(openai.AsyncOpenAI(base_url=server.url, api_key=KEY, http_client=http, max_retries=0))

    with endmark.capture() as c:
        try:
            if mode == "async":
                asyncio.run(create_async())
            else:
                http = sdk.library.Client(transport=c.transport())
                create(openai.OpenAI(base_url=server.url, api_key=KEY, http_client=http, max_retries=0))
                http.close()
        except openai.APIConnectionError:
            assert ending in (CHUNK_FIN, SHORT)
    assert c.taken.ending == WORD[ending]
    assert c.taken.raw == body
    if ending in (CHUNKED, LENGTH):
        assert c.seal(tool="apply_schema").plan.stmt_count == 11


@pytest.mark.parametrize("late", [0.3])
@both_libraries
@both_modes
def test_an_end_that_comes_late_is_waited_for(server, library, mode, late):
    """OpenAI's async SDK waits a tenth of a second for it, its sync one not at all."""
    server.play(Script(CALL, CHUNKED, before_end=late))
    with endmark.capture() as c:
        asking(mode, OPENAI[library], server.url, c)
    assert c.taken.ending == "last-chunk"


@both_libraries
@both_modes
def test_an_end_that_does_not_come_is_not_waited_for_long(server, library, mode, monkeypatch):
    monkeypatch.setattr(tee, "_DRAIN_SECONDS", 0.2)
    server.play(Script(CALL, STALL))
    with endmark.capture(idle=None) as c:
        asking(mode, OPENAI[library], server.url, c)
    assert c.taken.ending == "idle"
    with pytest.raises(endmark.AnswerRefused) as refused:
        c.seal(tool="apply_schema")
    assert refused.value.signal == "idle"


@both_libraries
@both_modes
def test_what_follows_the_terminal_event_is_captured_too(server, library, mode):
    """The SDK never sees it; whoever judges the answer does."""
    more = b'data: {"choices":[]}\n\n'
    server.play(Script(CALL + more, pieces=[CALL, more]))
    with endmark.capture() as c:
        asking(mode, OPENAI[library], server.url, c)
    assert c.taken.raw == CALL + more
    with pytest.raises(endmark.AnswerRefused) as refused:
        c.seal(tool="apply_schema")
    assert refused.value.signal == "bytes-after-end"


@both_libraries
@both_modes
@pytest.mark.parametrize("cut", [None, -1, -8, 700])
def test_a_compressed_body_is_kept_as_it_came_and_decoded_to_its_end(server, library, mode, cut):
    whole = Script(CALL, zipped=True).sent()
    server.play(Script(CALL, zipped=True, cut=None if cut is None else len(whole[:cut])))
    with endmark.capture() as c:
        asking(mode, OPENAI[library], server.url, c)  # a cut gzip body is no error for either library
    assert c.taken.raw == whole[:cut]
    assert c.taken.content_encoding == "gzip"
    if cut is None:
        assert c.seal(tool="apply_schema").plan.stmt_count == 11
    else:
        with pytest.raises(endmark.AnswerRefused) as refused:
            c.seal(tool="apply_schema")
        assert refused.value.signal == "body-cut"
