"""uvicorn's HTTP/1.1 protocol, with an end to heads that come slowly or never end."""

from __future__ import annotations

import os
from asyncio import TimerHandle, Transport
from collections.abc import Callable
from typing import Any, cast

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from endmark.faces.http.problems import PROBLEM, Problem, not_tried
from endmark.faces.http.transport import Joining

HEAD_MAX = 64 * 1024  # H24: bytes of a line and its header fields; of trailer fields the same again


TO_BE_TOLD = 64  # H25: connections over the limit that are still read, so that they hear why; more are closed at once
UNREAD = "unread"  # in the state of a request: pieces of its body that stood ready when the client had gone


class Guarded(HttpToolsProtocol):
    """H23: one connection. `head_seconds`: how long a head may take, and a new connection may say nothing."""

    head_seconds = 10.0
    told: Callable[[Problem], None] | None = None  # what was answered here, where no application saw the request

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self._most, self.limit_concurrency = self.limit_concurrency, None  # uvicorn's own answer is no problem document
        self._timer: TimerHandle | None = None
        self._in_head = True
        self._head = 0
        self._fields = 0
        self._unread: list[bytes] = []

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(Transport, Joining(transport, self.loop)))
        if self._most is not None and len(self.connections) > self._most + TO_BE_TOLD:
            self._end(_full())
            return
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None:  # what nobody has taken yet arrived all the same, and is counted
            self._unread.append(bytes(cycle.body))
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._head += len(data)
        super().data_received(data)
        if (self._in_head and self._head > HEAD_MAX) or self._fields > HEAD_MAX:
            said = f"The request's head holds more than {HEAD_MAX:,} bytes. Nothing was done."
            self._end(not_tried("head-too-large", said, close=True))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._fields = True, 0
        if self._timer is None:
            self._head = 0
            self._arm()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += len(name) + len(value)
        if self._fields <= HEAD_MAX:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._disarm()
        self._in_head, self._head, self._fields = False, 0, 0
        whole = self.app
        if self._most is not None and max(len(self.connections), len(self.tasks)) >= self._most:
            self.app = self._busy
        super().on_headers_complete()
        self.app = whole
        self._unread = self.scope["state"][UNREAD] = []

    def _arm(self) -> None:
        self._timer = self.loop.call_later(self.head_seconds, self._too_slow)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        said = f"The request's head did not come within {self.head_seconds:g} s. Nothing was done; send it again."
        self._end(not_tried("head-stalled", said, close=True))

    def send_400_response(self, msg: str) -> None:
        """H2: what is no HTTP. Where its body had begun, the application learns that it was cut."""
        said = "What came is no HTTP/1.1 request, or its framing contradicts itself. Send it again as one."
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self._write(not_tried("bad-framing", said, close=True))
        self.transport.close()

    def _end(self, answer: Problem) -> None:
        """Close; with an answer where none has begun."""
        if not self.transport.is_closing():
            cycle: RequestResponseCycle | None = self.cycle
            if self._in_head and (cycle is None or cycle.response_complete):
                self._write(answer)
            self.transport.close()

    def _write(self, answer: Problem) -> None:
        if self.told is not None:
            self.told(answer)
        body = msgspec.json.encode(answer.document)
        fields = b"".join(b"%s: %s\r\n" % field for field in _fields(answer, body))
        status = f"{answer.status} {answer.document['title']}".encode()
        self.transport.write(b"HTTP/1.1 " + status + b"\r\n" + fields + b"\r\n" + body)

    async def _busy(self, scope: Any, receive: Any, send: Any) -> None:
        """The application of a connection over the limit (H25)."""
        answer = _full()
        if self.told is not None:
            self.told(answer)
        body = msgspec.json.encode(answer.document)
        await send({"type": "http.response.start", "status": answer.status, "headers": _fields(answer, body)})
        await send({"type": "http.response.body", "body": body})


def _full() -> Problem:
    return not_tried("busy", "Too many connections are held already. Nothing was done; send it again.", close=True)


def _fields(answer: Problem, body: bytes) -> list[tuple[bytes, bytes]]:
    """H37 too: nobody else gives this answer its id."""
    found = {"content-type": PROBLEM, "content-length": str(len(body)), **answer.headers}
    return [(name.encode(), value.encode()) for name, value in found.items()] + [
        (b"x-request-id", os.urandom(8).hex().encode())
    ]
