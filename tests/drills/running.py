"""A proxy in a thread of this process, and a client that sees every byte and every way an answer ends."""

import asyncio
import socket
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from endmark.drills import faults
from endmark.drills.proxy.options import Faulting, Guarding, Options, Served
from endmark.drills.proxy.outbound import Upstream
from endmark.drills.proxy.server import Proxy

AT = datetime(2026, 11, 30, 12, 0, 0, 123456, UTC)
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


class Running:
    """One proxy at work. `said`: its log lines."""

    def __init__(self, options, said):
        self.said = said
        self._options = options
        self._started = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._main(),))
        self._thread.start()
        assert self._started.wait(10)

    async def _main(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self.proxy = Proxy(self._options)
        self.url = await self.proxy.listen("127.0.0.1", 0)
        self._started.set()
        await self._stop.wait()
        await self.proxy.close(0)

    def close(self):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def do(self, function):
        """Something in the proxy's own thread."""
        done = asyncio.run_coroutine_threadsafe(_called(function), self._loop)
        return done.result(10)


async def _called(function):
    return function()


def upstream(url, tls=None):
    parts = urlsplit(url)
    return Upstream(host=parts.hostname, port=parts.port, prefix=parts.path.rstrip("/"), tls=tls)


@contextmanager
def proxying(url=None, *, guard=None, fault=None, sweep=None, served=None, tls=None, **more):
    """`guard`: a Guarding or True. `fault`: in its text form, with its end. `served`: (body, content type)."""
    faulting = {key: more.pop(key) for key in ("wire", "only", "start", "step", "end") if key in more}
    said: list[str] = []
    options = Options(
        upstream=upstream(url, tls) if url else None,
        served=Served(body=served[0], content_type=served[1], name="file") if served else None,
        guarding=Guarding() if guard is True else guard,
        faulting=Faulting(broken=faults.parse_broken(fault) if fault else None, sweep=sweep, **faulting)
        if fault or sweep
        else None,
        log=said.append,
        now=lambda: AT,
        **more,
    )
    running = Running(options, said)
    try:
        yield running
    finally:
        running.close()


class Raw(NamedTuple):
    """What came of one request. `ended`: "whole" as the framing says, "eof" or "reset" before that."""

    status: int
    headers: dict
    body: bytes
    ended: str
    framed: str


def connect(url):
    parts = urlsplit(url)
    sock = socket.create_connection((parts.hostname, parts.port), timeout=10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def request(path=CHAT, body=b"{}", method="POST", headers=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: here", *(f"{name}: {value}" for name, value in headers)]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


def ask(url, path=CHAT, body=b"{}", method="POST", headers=()):
    """One request on a connection of its own."""
    with connect(url) as sock:
        sock.sendall(request(path, body, method, headers))
        return read_answer(sock, method)


def read_answer(sock, method="POST"):
    """One answer, to its end or to the end of the connection."""
    data, ended = b"", ""

    def more():
        nonlocal data, ended
        if not ended:
            try:
                piece = sock.recv(65536)
            except ConnectionResetError:
                ended = "reset"
                return False
            if piece:
                data += piece
                return True
            ended = "eof"
        return False

    while b"\r\n\r\n" not in data and more():
        pass
    head, _, data = data.partition(b"\r\n\r\n")
    if not head:
        return Raw(0, {}, b"", ended, "none")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status = int(first.split()[1])
    if method == "HEAD" or status in (204, 304):
        return Raw(status, headers, b"", "whole", "none")
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while True:
            while b"\r\n" not in data and more():
                pass
            size, mark, rest = data.partition(b"\r\n")
            if not mark:
                return Raw(status, headers, body + data, ended, "chunked")
            count = int(size, 16)
            data = rest
            while len(data) < count + 2 and more():
                pass
            if len(data) < count + 2:
                return Raw(status, headers, body + data[:count], ended, "chunked")
            body, data = body + data[:count], data[count + 2 :]
            if not count:
                return Raw(status, headers, body, "whole", "chunked")
    if "content-length" in headers:
        wanted = int(headers["content-length"])
        while len(data) < wanted and more():
            pass
        return Raw(status, headers, data, "whole" if len(data) == wanted else ended, "length")
    while more():
        pass
    return Raw(status, headers, data, "whole" if ended == "eof" else ended, "close")
