"""Over HTTP: the official client, then raw sockets, names and tokens."""

import asyncio
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
from contextlib import closing, contextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.faces.mcp.desk import SEEN, run, words
from tests.support.world import witness_bytes

from endmark.core import strictjson
from endmark.faces import cli
from endmark.faces.http.protocol import Guarded
from endmark.faces.mcp import http as mcp_http

SECRET = "a-secret-of-more-than-16"


@contextmanager
def serving(room, *flags, **variables):
    """The program as a process of its own, on a free port."""
    with subprocess.Popen(
        room.command("--http", "--port", "0", *flags),
        cwd=room.folder,
        stderr=subprocess.PIPE,
        env={**os.environ, **variables},
    ) as started:
        program: Any = started
        try:
            said = program.stderr.readline().decode()
            yield int(re.findall(r"listening on http://127\.0\.0\.1:(\d+)/mcp", said)[0])
        finally:
            program.send_signal(signal.SIGTERM)
            assert program.wait(60) == 143
            assert b"Traceback" not in program.stderr.read()


def post(port, body, **headers):
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("POST", "/mcp", body, sent | headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def read_all(wire):
    wire.shutdown(socket.SHUT_WR)
    pieces = []
    while piece := wire.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def call(plan):
    arguments = {"name": "apply_schema", "arguments": {"plan": plan}}
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": arguments}).encode()


@contextmanager
def inside(app):
    """The same server in a thread of this process; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(mcp_http.configured(app, "127.0.0.1", 0))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            server.should_exit = True
            thread.join(20)


async def nothing_behind(scope, receive, send):
    if scope["type"] != "lifespan":
        raise AssertionError("nothing got as far as this")
    for word in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{word}.complete"})


SLOW = {
    "no byte": (b"", 408),
    "half a head": (b"POST /mcp HTTP/1.1\r\nHost: x\r\nX-Slow: ", 408),
    "a head without end": (b"POST /mcp HTTP/1.1\r\nX-Long: " + b"a" * 70_000, 431),
    "half a body": (b"POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{", 408),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_request_that_does_not_come_to_its_end_is_ended(monkeypatch, name):
    monkeypatch.setattr(Guarded, "head_seconds", 0.2)
    monkeypatch.setattr(mcp_http, "_BODY_SECONDS", 0.2)
    sent, status = SLOW[name]
    with inside(mcp_http._Asked(nothing_behind, None)) as address, socket.create_connection(address, 20) as wire:
        wire.sendall(sent)
        pieces = []
        while piece := wire.recv(65536):
            pieces.append(piece)
    assert b"".join(pieces).startswith(f"HTTP/1.1 {status} ".encode())


def test_the_same_over_http_behind_a_token(room):
    before = room.dump()
    whole = witness_bytes("http-1", SEEN).decode()
    with serving(room, ENDMARK_MCP_TOKEN=SECRET) as port:

        async def visit():
            where = f"http://127.0.0.1:{port}/mcp"
            async with (
                httpx2.AsyncClient(headers={"Authorization": f"Bearer {SECRET}"}) as known,
                Client(streamable_http_client(where, http_client=known)) as client,
            ):
                cut = await client.call_tool("apply_schema", {"plan": whole[:-1]})
                assert (cut.is_error, cut.structured_content["received_bytes"]) == (True, len(whole[:-1].encode()))
                waits = await client.call_tool("apply_schema", {"plan": whole})
                assert waits.structured_content["state"] == "staged"
                asked = await client.call_tool("job_status", {"job_id": "http-1"})
                assert "endmark approve http-1" in words(asked)

        run(visit)
        body = call(witness_bytes("http-2", SEEN).decode())
        assert [post(port, body)[0], post(port, body, Authorization=f"Bearer {SECRET}x")[0]] == [401, 401]
        known = {"Authorization": f"Bearer {SECRET}"}
        head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {SECRET}\r\n"
        with socket.create_connection(("127.0.0.1", port), timeout=30) as page:  # answered before a body came
            page.sendall(f"{head}Content-Type: text/plain\r\nContent-Length: 1000000\r\n\r\n".encode())
            assert page.recv(12) == b"HTTP/1.1 415"
        assert post(port, body, **known, Host="evil.example:80")[0] == 421  # a name that was rebound
        assert post(port, body, **known, Origin="http://evil.example")[0] == 403
        for bad in (body[:-1], body.replace(b'"plan"', b'"plan": "", "plan"'), b"\xff" + body, b""):
            status, said = post(port, bad, **known)
            assert (status, strictjson.loads(said)["error"]["code"]) == (400, -32700)

        head = f"POST /mcp HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {SECRET}\r\n"
        head += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        for more in (f"Content-Length: {len(body) + 1}\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port)) as wire:  # the end comes before what was declared
                wire.sendall(head.encode() + more.encode())
                wire.sendall(body if "Length" in more else b"%x\r\n%s\r\n" % (len(body), body))
                assert b"staged" not in read_all(wire)
        with socket.create_connection(("127.0.0.1", port)) as wire:  # two lengths: a smuggler's request
            both = f"Content-Length: {len(body)}\r\nTransfer-Encoding: chunked\r\n\r\n"
            wire.sendall(head.encode() + both.encode() + b"0\r\n\r\n" + body)
            assert b" 400 " in read_all(wire)
        assert post(port, call(whole), **known)[0] == 200
    assert room.states() == {"http-1": "staged"}
    assert room.dump() == before


@pytest.mark.parametrize(
    ("flags", "mcp", "says"),
    [
        (["--host", "0.0.0.0"], "", "a bearer token is needed"),
        (["--host", "gate.example.org"], "", "a bearer token is needed"),
        (["--host", "0.0.0.0"], 'token = "env:SECRET"', "by which HOST:PORT clients call it"),
        ([], 'token = "env:SHORT"', "16 or more printable"),
        ([], 'token = "env:NOT_SET"', "the variable NOT_SET is not set"),
        ([], 'token = "open.token"', "others may read it"),
        ([], 'token = "no.token"', "No such file"),
    ],
)
def test_it_does_not_stand_open(room, monkeypatch, capfd, flags, mcp, says):
    monkeypatch.setenv("SECRET", SECRET)
    monkeypatch.setenv("SHORT", "short")
    (room.folder / "open.token").write_text(SECRET)
    room.configure(f'target = "prod"\n{mcp}')
    assert cli.run(["mcp", "--http", *flags]) == 2
    assert says in capfd.readouterr().err
