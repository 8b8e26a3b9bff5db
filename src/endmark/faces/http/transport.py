"""A connection's transport that sends the head of an answer together with what follows it at once."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Transport
from typing import Any


class Joining:
    """`transport`, with one difference: what begins an HTTP/1.1 answer is held until the next piece or the next turn of
    the loop, whichever is first. One packet instead of two; the client wakes up once."""

    def __init__(self, transport: Transport, loop: AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        elif data.startswith(b"HTTP/1.1 "):
            self._held = data
            self._loop.call_soon(self._let_go)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._let_go()
        self._transport.close()

    def _let_go(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
