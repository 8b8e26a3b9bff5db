"""The proxy as a whole: it listens, gives each request its exchange, and ends when it is told to."""

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

from endmark.drills.proxy import heads
from endmark.drills.proxy.breaking import Breaking, Sweeping
from endmark.drills.proxy.exchange import Exchange, Relay
from endmark.drills.proxy.guard import Guard
from endmark.drills.proxy.heads import Headers, Request
from endmark.drills.proxy.inbound import Exchanging, Inbound
from endmark.drills.proxy.options import Options
from endmark.drills.proxy.outbound import Pool, Upstream
from endmark.drills.proxy.serving import Serving


class Proxy:
    """One listening socket. Make it inside a running event loop."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.log = options.log
        self.pool = Pool(options.upstream, options.connect_timeout) if options.upstream else None
        self.clients: set[Inbound] = set()
        self.exchanges: set[object] = set()
        self.sweep = Sweeping(options.faulting) if options.faulting and options.faulting.sweep else None
        self.stopping = False
        self.swept = asyncio.Event()  # the sweep has handed out its last fault, and that answer has ended
        self._said: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def upstream(self) -> Upstream:
        assert self.options.upstream is not None  # noqa: S101  # asked only by an exchange, which has one
        return self.options.upstream

    async def listen(self, host: str, port: int) -> str:
        """Start. Returns the address as a URL. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Inbound(self), host, port, backlog=512)
        bound = self._server.sockets[0].getsockname()
        shown = f"[{bound[0]}]" if self._server.sockets[0].family is socket.AF_INET6 else bound[0]
        return f"http://{shown}:{bound[1]}"

    async def close(self, grace: float) -> int:
        """Take no more, let what is under way end within `grace` seconds, reset the rest. Returns their number."""
        self.stopping = True
        if self._server is not None:
            self._server.close()
        for client in list(self.clients):
            client.close_if_idle()
        loop = asyncio.get_running_loop()
        until = loop.time() + grace
        while self.clients and loop.time() < until:
            await asyncio.sleep(0.01)
        left = list(self.clients)
        for client in left:
            client.reset_now()
        if self.pool is not None:
            self.pool.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # what was closed is told so
        return len(left)

    # --- asked by connections and exchanges

    def log_once(self, what: str, more: str) -> None:
        """Say `what`, with `more`, unless it was said before."""
        if what not in self._said:
            self._said.add(what)
            self.log(what + more)

    def begin(self, client: Inbound, request: Request) -> Exchanging:
        """A request has begun."""
        relay = self._relay(client, request)
        if self.options.served is not None:
            return Serving(request, relay, self.options.served)
        exchange = Exchange(self, client, request, relay)
        self.exchanges.add(exchange)
        exchange.start()
        return exchange

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.log(f"our own fault: {type(fault).__name__}: {fault}")

    def told_unreachable(self, client: Inbound, why: str) -> None:
        """The upstream gave no answer."""
        self.log(f"unreachable: {self.upstream.url}: {why}")
        client.answer(502, f"the upstream {self.upstream.url} could not be asked: {why}.")

    def upward(self, headers: Headers) -> Headers:
        """The headers of a request as they go up: with the content codings that can be judged, or none to be broken."""
        if self.options.guarding is None and self.options.faulting is None:
            return headers
        coding = b"identity"
        if self.options.guarding is not None and _takes_gzip(heads.values(headers, b"accept-encoding")):
            coding = b"gzip"
        return [*((k, v) for k, v in headers if k.lower() != b"accept-encoding"), (b"Accept-Encoding", coding)]

    def _relay(self, client: Inbound, request: Request) -> Relay:
        if self.options.guarding is not None:
            return Guard(self, client, request, self.options.guarding)
        if self.options.faulting is not None:
            return Breaking(self, client, request, self.options.faulting)
        return Relay(self, client, request)


def _takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding names gzip and does not rule it out (RFC 9110 section 12.5.3)."""
    for item in accepted.lower().split(","):
        name, _, weight = item.partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "").removeprefix("q=").strip("0.") != "" or not weight
    return False
