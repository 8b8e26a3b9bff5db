"""What is no one whole response is refused: a retry, a redirect, an early break, an error, too much, too late (CA1)."""

import asyncio
import socket
from contextlib import suppress
from typing import Any

import httpx2
import openai
import pytest
from tests.sources.common import CALL, OPENAI, asking, both_libraries, both_modes
from tests.sources.sdks import KEY, MESSAGES, ask, ask_async
from tests.support import answers
from tests.support.server import CHUNK_FIN, CLOSE, LENGTH, SHORT, STALL, Script, sse_pieces

import endmark
from endmark.sources import tee


@both_libraries
@both_modes
def test_an_early_break_is_no_ending(server, library, mode):
    server.play(Script(CALL, pieces=sse_pieces(CALL)))

    def left(c):
        with library.Client(transport=c.transport()) as http:
            client: Any = openai.OpenAI(base_url=server.url, api_key=KEY, http_client=http)
            with client.chat.completions.create(model="m", messages=MESSAGES, stream=True) as stream:
                next(iter(stream))

    async def left_async(c):
        async with library.AsyncClient(transport=c.async_transport()) as http:
            client: Any = openai.AsyncOpenAI(base_url=server.url, api_key=KEY, http_client=http)
            async with await client.chat.completions.create(model="m", messages=MESSAGES, stream=True) as stream:
                async for _ in stream:
                    break

    with endmark.capture() as c:
        left(c) if mode == "sync" else asyncio.run(left_async(c))
    assert c.taken.ending == "short"
    with pytest.raises(endmark.AnswerRefused, match="stopped before the end") as refused:
        c.seal(tool="apply_schema")
    assert refused.value.signal in ("body-cut", "no-terminal")


@both_libraries
@both_modes
def test_an_answer_that_is_not_over_is_not_read_on_when_it_is_left(server, library, mode, monkeypatch):
    """Cancelling costs nothing: nobody waits for the rest of an answer that was given up in the middle."""
    for body in (tee._SyncBody, tee._AsyncBody):
        monkeypatch.setattr(body, "_drain", lambda _body: pytest.fail("the rest was read"))
    server.play(Script(CALL, STALL, cut=1882))

    def left(c):
        with library.Client(transport=c.transport()) as http:
            client: Any = openai.OpenAI(base_url=server.url, api_key=KEY, http_client=http)
            with client.chat.completions.create(model="m", messages=MESSAGES, stream=True) as stream:
                next(iter(stream))

    async def left_async(c):
        async with library.AsyncClient(transport=c.async_transport()) as http:
            client: Any = openai.AsyncOpenAI(base_url=server.url, api_key=KEY, http_client=http)
            async with await client.chat.completions.create(model="m", messages=MESSAGES, stream=True) as stream:
                async for _ in stream:
                    break

    with endmark.capture() as c:
        left(c) if mode == "sync" else asyncio.run(left_async(c))
    assert c.taken.ending == "short"


def test_a_body_still_on_its_way_is_no_answer(server):
    server.play(Script(CALL, pieces=sse_pieces(CALL)))
    with endmark.capture() as c, httpx2.Client(transport=c.transport()) as http:
        client: Any = openai.OpenAI(base_url=server.url, api_key=KEY, http_client=http)
        for chunk in client.chat.completions.create(model="m", messages=MESSAGES, stream=True):
            if chunk.choices and chunk.choices[0].finish_reason:
                with pytest.raises(endmark.AnswerRefused, match="not been read to its end"):
                    c.seal(tool="apply_schema")
        assert c.seal(tool="apply_schema")


@both_libraries
def test_cancelling_is_passed_on_and_no_ending(server, library):
    server.play(Script(CALL, STALL, cut=900))

    async def cancelled(c):
        async with asyncio.timeout(None) as limit:
            clock = asyncio.get_running_loop().time
            await ask_async(
                OPENAI[library], server.url, c.async_transport(), first=lambda: limit.reschedule(clock() + 0.05)
            )

    with endmark.capture() as c, pytest.raises(TimeoutError):
        asyncio.run(cancelled(c))
    assert c.taken.ending == "short"


def retrying(library, server, c, retries=1):
    with library.Client(transport=c.transport(), follow_redirects=True) as http:
        client: Any = openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, http_client=http, max_retries=retries)
        return list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True))


NO_WAIT = {"retry-after-ms": "1"}


@both_libraries
def test_a_retry_is_refused_and_a_reset_forgives(server, library):
    busy = Script(b"{}", LENGTH, "503 Service Unavailable", headers=NO_WAIT)
    server.play(busy, Script(CALL))
    with endmark.capture() as c:
        assert retrying(library, server, c)
        with pytest.raises(endmark.AnswerRefused, match=r"HTTP 503 and then HTTP 200: a retry"):
            c.seal(tool="apply_schema")
        c.reset()
        assert retrying(library, server, c)
        assert c.seal(tool="apply_schema")


@both_libraries
def test_a_redirect_is_refused(server, library):
    moved = Script(b"", LENGTH, "307 Temporary Redirect", headers={"Location": "/v1/elsewhere/chat/completions"})
    server.play(moved, Script(CALL))
    with endmark.capture() as c:
        assert retrying(library, server, c, 0)
        with pytest.raises(endmark.AnswerRefused, match=r"HTTP 307 and then HTTP 200: a redirect"):
            c.seal(tool="apply_schema")


@both_libraries
def test_a_second_answer_is_refused(server, library):
    server.play(Script(CALL))
    with endmark.capture() as c:
        for _ in range(2):
            retrying(library, server, c, 0)
        with pytest.raises(endmark.AnswerRefused, match="2 responses"):
            c.seal(tool="apply_schema")


def test_a_retry_of_one_document_that_was_cut_is_refused(server):
    """The SDK reads the second document and never tells that there was a first."""
    body = answers.chat_document()
    server.play(Script(body, SHORT, cut=700), Script(body, LENGTH))
    with endmark.capture() as c, httpx2.Client(transport=c.transport()) as http:
        client: Any = openai.OpenAI(base_url=server.url, api_key=KEY, http_client=http, max_retries=1)
        assert client.chat.completions.create(model="m", messages=MESSAGES).choices
        with pytest.raises(endmark.AnswerRefused, match="2 responses"):
            c.seal(tool="apply_schema")


@both_libraries
@both_modes
def test_a_retry_of_a_request_that_got_no_response_is_refused(server, library, mode):
    """The connection was dropped before any head came; the SDK sends again and never tells."""

    async def retrying_async(c):
        async with library.AsyncClient(transport=c.async_transport()) as http:
            url = f"{server.url}/v1"
            client: Any = openai.AsyncOpenAI(base_url=url, api_key=KEY, http_client=http, max_retries=1)
            stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            return [chunk async for chunk in stream]

    def ask_twice(c):
        return retrying(library, server, c) if mode == "sync" else asyncio.run(retrying_async(c))

    server.play(Script(drop=True), Script(CALL))
    with endmark.capture() as c:
        assert ask_twice(c)
        with pytest.raises(endmark.AnswerRefused, match=r"failed without a response .*Error\), .*: a retry") as refused:
            c.seal(tool="apply_schema")
        assert (refused.value.signal, refused.value.received_bytes) == ("weak-evidence", len(CALL))
        with pytest.raises(endmark.AnswerRefused):
            _ = c.taken
        c.reset()
        assert ask_twice(c)
        assert c.seal(tool="apply_schema")


@both_libraries
def test_a_request_that_fails_after_the_answer_is_refused_as_well(server, library):
    """Which of two requests an answer belongs to, nobody can say."""
    server.play(Script(CALL), Script(drop=True))
    with endmark.capture() as c:
        assert retrying(library, server, c, 0)
        assert c.taken.ending == "last-chunk"
        with pytest.raises(openai.APIConnectionError):
            retrying(library, server, c, 0)
        with pytest.raises(endmark.AnswerRefused, match="a request failed without a response"):
            c.seal(tool="apply_schema")


def test_no_response_at_all():
    with endmark.capture() as c:
        with pytest.raises(endmark.AnswerRefused, match="no response passed") as refused:
            c.seal()
        assert refused.value.signal == "unreachable"
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        with pytest.raises(openai.APIConnectionError):
            ask(OPENAI[httpx2], f"http://127.0.0.1:{port}", c.transport())
        with pytest.raises(endmark.AnswerRefused, match="1 requests failed: ConnectError"):
            c.seal()


@pytest.mark.parametrize("status", ["206 Part", "400 Bad Request", "429 Too Many", "500 Oh", "301 Moved"])
def test_an_error_response_is_no_answer(server, status):
    server.play(Script(CALL, LENGTH, status))
    with endmark.capture() as c:
        with suppress(openai.APIStatusError):
            ask(OPENAI[httpx2], server.url, c.transport())
        with pytest.raises(endmark.AnswerRefused, match=f"HTTP {status[:3]}") as refused:
            c.seal(tool="apply_schema")
    assert refused.value.signal == "unreachable"


@pytest.mark.parametrize("allowed", [False, True])
def test_a_close_delimited_body_only_by_opt_in_and_on_record(server, allowed):
    server.play(Script(CALL, CLOSE))
    with endmark.capture(allow_close_delimited=allowed) as c:
        ask(OPENAI[httpx2], server.url, c.transport())
        if allowed:
            assert "transport:closed" in c.seal(tool="apply_schema").evidence
        else:
            with pytest.raises(endmark.AnswerRefused) as refused:
                c.seal(tool="apply_schema")
            assert refused.value.signal == "weak-evidence"
        server.play(Script(CALL, CHUNK_FIN))
        c.reset()
        ask(OPENAI[httpx2], server.url, c.transport())
        with pytest.raises(endmark.AnswerRefused):
            c.seal(tool="apply_schema")


@both_modes
def test_what_is_too_long_passes_and_is_refused(server, mode):
    server.play(Script(CALL))
    with endmark.capture(limit=len(CALL) - 1) as c:
        assert len(asking(mode, OPENAI[httpx2], server.url, c)) > 20
        assert c.taken.ending == "too-long"
        assert c.taken.raw == b""
        with pytest.raises(endmark.AnswerRefused) as refused:
            c.seal(tool="apply_schema")
    assert refused.value.signal == "over-cap"
    with endmark.capture(limit=len(CALL)) as c:
        asking(mode, OPENAI[httpx2], server.url, c)
        assert c.seal(tool="apply_schema")


def test_the_idle_limit_is_for_the_body_and_not_for_the_first_byte(server):
    """How long a model may think is the client's own affair."""
    server.play(Script(CALL, headers={"X-Slow": "1"}, before_head=0.4))
    with endmark.capture(idle=0.2) as c:
        assert ask(OPENAI[httpx2], server.url, c.transport())
        assert c.taken.ending == "last-chunk"
        c.reset()
        server.play(Script(CALL, STALL, cut=900))
        with pytest.raises(openai.APITimeoutError):
            ask(OPENAI[httpx2], server.url, c.transport())
        assert c.taken.ending == "idle"


@both_libraries
def test_the_request_keeps_its_own_timeouts(server, library):
    """Its limits for connecting and for the first byte are those of the redirect that a client makes from it."""
    server.play(Script(CALL))
    timeouts = {"connect": 1.0, "read": 50.0, "write": 1.0, "pool": 1.0}
    with endmark.capture(idle=9.0) as c, c.transport() as transport:
        url = f"{server.url}/v1/chat/completions"
        request = library.Request("POST", url, json={}, extensions={"timeout": timeouts})
        response = transport.handle_request(request)
        assert request.extensions["timeout"] is timeouts
        assert b"".join(response.stream) == CALL
        assert timeouts["read"] == 50.0


def test_a_clients_own_shorter_timeout_stays(server):
    server.play(Script(CALL, STALL, cut=900))
    with endmark.capture(idle=30) as c:
        with httpx2.Client(transport=c.transport(), timeout=0.2) as http, pytest.raises(httpx2.ReadTimeout):
            http.post(f"{server.url}/v1/chat/completions", json={"max_tokens": 4096})
        assert c.taken.ending == "idle"
