"""The protocol over HTTP: on this machine alone unless a token guards it, and only for names that are known."""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.transport_security import TransportSecuritySettings

from endmark.core.refusal import CannotTry
from endmark.faces.http.protocol import Guarded
from endmark.faces.mcp import framing
from endmark.faces.mcp.desk import Desk
from endmark.faces.mcp.settings import TOKEN, Token
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import say

PATH = "/mcp"
_DRAIN = 15  # seconds for calls under way, at the end
_BODY_SECONDS = 60.0  # for all of a request's body
_KEEP_ALIVE = 30  # seconds that a connection may be idle between two requests
_MOST_CONNECTIONS = 256

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Message, _Receive, _Send], Awaitable[None]]


def serve(server: Server[Any], desk: Desk, host: str, port: int, token: Token | None, hosts: tuple[str, ...]) -> None:
    """Serve until a signal. Raises Misuse where it would stand open, before anything listens."""
    program = _Announcing(configured(application(server, host, port, token, hosts), host, port))
    try:
        program.run()
    finally:
        desk.stop("SIGTERM")
        desk.wait()
    if not program.started:
        raise CannotTry(f"nothing could listen on {host} port {port}: it is in use, or not this machine's")


def configured(app: _App, host: str, port: int) -> uvicorn.Config:
    """How it is served: every head and every body within its time and its size."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Guarded,  # httptools: refuses Content-Length with Transfer-Encoding; a head has its time and its size
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_DRAIN,
    )


class _Announcing(uvicorn.Server):
    """Says where it listens once it does: port 0 is whatever the system gives."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in self.servers:
            for one in listening.sockets:
                where, number = one.getsockname()[:2]
                named = f"[{where}]" if ":" in where else where
                say(f"endmark mcp: listening on http://{named}:{number}{PATH}")


def application(server: Server[Any], host: str, port: int, token: Token | None, hosts: tuple[str, ...]) -> _App:
    """The ASGI application. Raises Misuse for an address that others reach without a token or without its names."""
    near = is_loopback(host)
    if not near and token is None:
        raise Misuse(
            f"--host {host} can be reached from other machines, so a bearer token is needed: set {TOKEN}, or token in "
            "[mcp] of endmark.toml. Nothing listens."
        )
    allowed = list(hosts)
    if near:
        allowed += ["127.0.0.1:*", "localhost:*", "[::1]:*"]
    elif host not in ("0.0.0.0", "::"):  # noqa: S104  # these are what is not taken as a name
        allowed.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    if not allowed:
        raise Misuse(
            f"--host {host} is every address: say in [mcp] hosts of endmark.toml by which HOST:PORT clients call it, "
            "so that no web page can. Nothing listens."
        )
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=allowed,
        allowed_origins=[f"http://{name}" for name in allowed] + [f"https://{name}" for name in hosts],
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=framing.MOST_BYTES,
        transport_security=security,
        host=host,
    )
    return _Asked(app, token)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it. A name other than localhost may lead anywhere."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Asked:
    """Asks for the token, then reads the body to its declared end and judges it, before the SDK sees any of it."""

    def __init__(self, app: Any, token: Token | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._token is not None and not self._shown(scope):
            await _respond(send, 401, framing.refusal(None, "a bearer token is needed here"))
            return
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        kinds = [value for name, value in scope["headers"] if name == b"content-type"]
        if [kind.partition(b";")[0].strip().lower() for kind in kinds] != [b"application/json"]:
            # What a web page may send anywhere unasked: not a byte of it is read.
            await _respond(send, 415, framing.refusal(None, "one Content-Type, application/json, was expected"))
            return
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return  # the client went away inside the body: nobody to answer, and nothing to do
                    body += message.get("body", b"")
                    if len(body) > framing.MOST_BYTES or not message.get("more_body", False):
                        break
        except TimeoutError:
            said = f"{len(body):,} bytes of the body came within {_BODY_SECONDS:g} s, and not its end"
            await _respond(send, 408, framing.refusal(None, said))
            return
        fault = framing.fault_of(bytes(body))
        if fault is not None:
            await _respond(send, 413 if len(body) > framing.MOST_BYTES else 400, fault)
            return
        await self._app(scope, _replay(bytes(body), receive), send)

    def _shown(self, scope: _Message) -> bool:
        shown = [value for name, value in scope["headers"] if name == b"authorization"]
        kind, _, secret = (shown[0] if len(shown) == 1 else b"").partition(b" ")
        return self._token is not None and kind.lower() == b"bearer" and self._token.matches(secret.strip())


def _replay(body: bytes, receive: _Receive) -> _Receive:
    given = False

    async def again() -> _Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _respond(send: _Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 408:
        headers.append((b"connection", b"close"))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
