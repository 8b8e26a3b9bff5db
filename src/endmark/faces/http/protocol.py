"""uvicorn's HTTP/1.1 protocol, with an end to heads that come slowly or never end."""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_MAX = 64 * 1024  # H24: bytes of a line and its header fields; of trailer fields the same again


TO_BE_TOLD = 64  # H25: connections over the limit that are still read, so that they hear why; more are closed at once
UNREAD = "unread"  # in the state of a request: pieces of its body that stood ready when the client had gone


class Guarded(HttpToolsProtocol):
    """H23: one connection. `head_seconds`: how long a head may take, and a new connection may say nothing."""

    head_seconds = 10.0

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self._timer: TimerHandle | None = None
        self._in_head = True
        self._head = 0
        self._fields = 0
        self._unread: list[bytes] = []

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency + TO_BE_TOLD:
            self._end(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
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
            self._end(b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

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
        super().on_headers_complete()
        self._unread = self.scope["state"][UNREAD] = []

    def _arm(self) -> None:
        self._timer = self.loop.call_later(self.head_seconds, self._too_slow)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        self._end(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    def _end(self, answer: bytes) -> None:
        """Close; with an answer where none has begun."""
        if not self.transport.is_closing():
            cycle: RequestResponseCycle | None = self.cycle
            if self._in_head and (cycle is None or cycle.response_complete):
                self.transport.write(answer)
            self.transport.close()
