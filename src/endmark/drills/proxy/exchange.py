"""One request and its answer: the request goes to the upstream as it comes, the answer to a relay that decides."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from endmark.core.ending import WHOLE, Ending
from endmark.drills.proxy import heads
from endmark.drills.proxy.heads import Answer, Framing, Request
from endmark.drills.proxy.inbound import Inbound
from endmark.drills.proxy.outbound import Outbound, Unreachable

if TYPE_CHECKING:
    from endmark.drills.proxy.server import Proxy

_WAITING = 256 * 1024  # bytes of a request that wait for the connection before the client is asked to wait too


class Relay:
    """What is done with an answer: here, it is passed as it is, and what ends badly above ends badly below."""

    def __init__(self, proxy: "Proxy", client: Inbound, request: Request) -> None:
        self._proxy = proxy
        self._client = client
        self._request = request
        self.drop: Callable[[], None] = lambda: None
        """Tells the exchange that the rest of the answer is not wanted."""

    def asked(self, body: bytes) -> None:
        """A piece of the request's body goes up."""

    def asked_all(self) -> None:
        """The request has ended."""

    def paused(self, paused: bool) -> None:
        """The client reads slower than the answer comes, or has caught up."""

    def lost(self, why: str) -> None:
        """No more of the answer comes, or nobody wants it. May be told twice, and after the end."""

    @property
    def borrows(self) -> bool:
        """Whether the next bytes are passed as they are, so that they may be lent."""
        return type(self) is Relay

    def take(self, head: Answer | None, data: bytes, ending: Ending | None) -> None:
        """What one read brought, as in `Taker.answered`; the last call has an ending."""
        client = self._client
        if head is not None:
            client.send_head(head, data)
        else:
            client.send(data)
        if ending in WHOLE:
            client.finish()
        elif ending is Ending.CLOSED:
            client.hang_up()
        elif ending is not None:
            self._proxy.spawn(client.reset())


class Exchange:
    """Between one client's connection and one of the upstream's."""

    def __init__(self, proxy: "Proxy", client: Inbound, request: Request, relay: Relay) -> None:
        self._proxy = proxy
        self._client = client
        self._request = request
        self._relay = relay
        relay.drop = self._drop
        self._outbound: Outbound | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._request_ended = request.framing is Framing.NONE
        self._answering = False
        self._held_up = False  # by the client, which reads slowly
        self._over = False
        self._moved = asyncio.get_running_loop().time()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        assert self._proxy.pool is not None  # noqa: S101  # a proxy without an upstream makes no exchange
        self._watch()
        found = self._proxy.pool.take()
        if found is not None:
            self._ask(found)
        else:
            self._proxy.spawn(self._connect())

    # --- from the client

    def request_body(self, data: bytes) -> None:
        if self._over:  # answered already: nobody is to get the rest
            return
        self._relay.asked(data)
        piece = b"%x\r\n%b\r\n" % (len(data), data) if self._request.framing is Framing.CHUNKED else data
        if self._outbound is not None:
            self._moved = asyncio.get_running_loop().time()
            self._outbound.transport.write(piece)
            return
        self._waiting.append(piece)
        self._waiting_bytes += len(piece)
        if self._waiting_bytes > _WAITING:
            self._client.transport.pause_reading()

    def request_end(self) -> None:
        self._request_ended = True
        if self._over:
            return
        self._relay.asked_all()
        if self._request.framing is Framing.CHUNKED:
            if self._outbound is not None:
                self._outbound.transport.write(b"0\r\n\r\n")
            else:
                self._waiting.append(b"0\r\n\r\n")
        if self._outbound is not None:
            self._outbound.asked_all()

    def download_paused(self, paused: bool) -> None:
        self._relay.paused(paused)
        self._held_up = paused
        self._moved = asyncio.get_running_loop().time()
        if self._over or self._outbound is None or self._outbound.transport.is_closing():
            return  # after the end it is another exchange's
        if paused:
            self._outbound.transport.pause_reading()
        else:
            self._outbound.transport.resume_reading()

    def client_gone(self) -> None:
        self._relay.lost("the client has gone")
        self._drop()

    # --- from the upstream

    def answered(self, head: Answer | None, data: bytes, ending: Ending | None) -> None:
        self._moved = asyncio.get_running_loop().time()
        self._answering = True
        if ending is not None:
            self._end()
        if not self._over or ending is not None:
            try:
                self._relay.take(head, data, ending)
            except Exception as fault:  # noqa: BLE001  # whatever it is: an answer that is not judged may not end
                self._proxy.log(f"our own fault: {type(fault).__name__}: {fault}")
                self._client.reset_now()
                self._drop()

    def borrows(self) -> bool:
        return self._relay.borrows and not self._over

    def lent(self, data: memoryview) -> bool:
        self._moved = asyncio.get_running_loop().time()
        self._client.send(data)
        return self._client.transport.get_write_buffer_size() > 0

    def failed(self, why: str) -> None:
        if self._over:
            return
        self._end()
        self._relay.lost(f"the upstream failed: {why}")
        self._proxy.told_unreachable(self._client, why)

    def upload_paused(self, paused: bool) -> None:
        if self._client.transport.is_closing():
            return
        if paused:
            self._client.transport.pause_reading()
        else:
            self._client.transport.resume_reading()

    # --- the rest

    async def _connect(self) -> None:
        assert self._proxy.pool is not None  # noqa: S101  # as above
        try:
            made = await self._proxy.pool.connect()
        except Unreachable as fault:
            self.failed(str(fault))
            return
        if self._over:
            made.transport.abort()
            return
        self._ask(made)
        if not self._client.transport.is_closing():
            self._client.transport.resume_reading()

    def _ask(self, outbound: Outbound) -> None:
        request, upstream = self._request, self._proxy.upstream
        self._outbound = outbound
        outbound.ask(self, request.method)
        headers = [(b"Host", upstream.authority.encode("latin-1"))]
        headers += self._proxy.upward(heads.passed(request.headers, b"host", b"expect"))
        if request.framing is Framing.CHUNKED:
            headers.append((b"Transfer-Encoding", b"chunked"))
        elif request.length is not None:
            headers.append((b"Content-Length", b"%d" % request.length))
        first = b"%b %b%b HTTP/1.1" % (request.method.encode("latin-1"), upstream.prefix.encode(), request.target)
        outbound.transport.write(b"".join([heads.write(first, headers), *self._waiting]))
        self._waiting.clear()
        if self._request_ended:
            outbound.asked_all()

    def _drop(self) -> None:
        if self._over:
            return
        self._end()
        if self._outbound is not None:
            self._outbound.abandon()

    def _end(self) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        self._proxy.exchanges.discard(self)
        if not self._request_ended and not self._client.transport.is_closing():
            self._client.transport.resume_reading()

    def _watch(self) -> None:
        """Ends the exchange when the upstream is silent for longer than the idle limit."""
        loop, limit = asyncio.get_running_loop(), self._proxy.options.idle
        left = self._moved + limit - loop.time()
        if left > 0 or self._held_up:
            self._timer = loop.call_later(max(left, 0.1), self._watch)
            return
        outbound, self._outbound = self._outbound, None
        if outbound is not None:
            outbound.abandon()
        if self._answering:
            self.answered(None, b"", Ending.IDLE)
        else:
            self.failed(f"it sent nothing for {limit:g} seconds")
