"""Answers broken on purpose: each is read to its end first, then played with its fault, the same way each time."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from endmark.core.ending import WHOLE, Ending
from endmark.drills import edges, faults
from endmark.drills.faults import Body, Broken, DoesNotFit, End, Part, Pause
from endmark.drills.proxy.exchange import Relay
from endmark.drills.proxy.heads import Answer, Framing, Request
from endmark.drills.proxy.inbound import Inbound
from endmark.drills.proxy.options import Faulting
from endmark.sources import asked
from endmark.sources.capture import DEFAULT_LIMIT

if TYPE_CHECKING:
    from endmark.drills.proxy.server import Proxy

_PORTION = 16 * 1024


class Sweeping:
    """One fault after the other, each given out once."""

    def __init__(self, faulting: Faulting) -> None:
        self._kind = faulting.sweep or ""
        self._end = faulting.end
        self._step = faulting.step
        self._next = self._first = faulting.start
        self._places: int | None = None  # how many the first body had

    @property
    def given(self) -> int:
        """How many faults were given out."""
        return (self._next - self._first) // self._step

    @property
    def is_over(self) -> bool:
        return self._places is not None and self._next >= self._places

    def next(self, body: Body) -> Broken | None:
        """The next fault for a body; None when the last one is out. Raises DoesNotFit."""
        count, make = faults.SWEEPS[self._kind]
        if self._places is None:
            self._places = count(body)
        if self.is_over:
            return None
        made = Broken(make(self._next), self._end)
        self._next += self._step
        return made

    def summary(self) -> str:
        """One line."""
        of = "" if self._places is None else f" of {self._places:,}"
        ends = "complete" if self.is_over else "not complete"
        if not self.given:
            return f"sweep {ends}: {self._kind}, no fault played"
        last = self._next - self._step
        return f"sweep {ends}: {self._kind} {self._first:,} to {last:,}{of}, {self.given:,} faults played"


class Breaking(Relay):
    """Plays one fault, or the next of a sweep."""

    def __init__(self, proxy: "Proxy", client: Inbound, request: Request, faulting: Faulting) -> None:
        super().__init__(proxy, client, request)
        self._faulting = faulting
        self._applies = faulting.only in request.path and request.method != "HEAD"
        self._head: Answer | None = None
        self._data = bytearray()
        self._may_send = asyncio.Event()
        self._may_send.set()
        self._gone = False

    def paused(self, paused: bool) -> None:
        if paused:
            self._may_send.clear()
        else:
            self._may_send.set()

    def lost(self, why: str) -> None:
        self._gone = True
        self._may_send.set()

    def take(self, head: Answer | None, data: bytes, ending: Ending | None) -> None:
        if head is not None:
            self._head = head
            self._applies = self._applies and 200 <= head.status < 300 and head.framing is not Framing.NONE
        if self._gone or not self._applies:
            super().take(head, data, ending)
            return
        self._data += data
        if len(self._data) > DEFAULT_LIMIT:
            self.drop()
            self._refuse(f"the answer is longer than {DEFAULT_LIMIT:,} bytes")
        elif ending is not None:
            self._break(ending)

    def _break(self, ending: Ending) -> None:
        head = self._head
        if head is None:
            return
        if ending not in WHOLE and ending is not Ending.CLOSED:
            self._refuse(f"the upstream's own answer ended badly ({ending}) after {len(self._data):,} bytes")
            return
        body = Body(bytes(self._data), head.get(b"content-type"), self._wire())
        sweep = self._proxy.sweep
        try:
            broken = sweep.next(body) if sweep is not None else self._faulting.broken
            if broken is None:
                self._refuse("the sweep is over")
                return
            parts = broken.fault.play(body)
        except DoesNotFit as fault:
            self._refuse(f"the fault does not fit: {fault}")
            return
        sent = sum(len(part) for part in parts if isinstance(part, bytes))
        self._proxy.log(
            f"{broken}: {self._request.method} {self._request.path}: {sent:,} of {len(body.data):,} bytes, {broken.end}"
        )
        self._proxy.spawn(self._played(head, body, parts, broken.end))

    async def _played(self, head: Answer, body: Body, parts: list[Part], end: End) -> None:
        try:
            await self._play(head, body, parts, end)
        finally:
            if self._proxy.sweep is not None and self._proxy.sweep.is_over:
                self._proxy.swept.set()

    async def _play(self, head: Answer, body: Body, parts: list[Part], end: End) -> None:
        client = self._client
        sent = sum(len(part) for part in parts if isinstance(part, bytes))
        short = end is End.SHORT
        client.send_head(
            msgspec.structs.replace(
                head,
                framing=Framing.LENGTH if short else Framing.CHUNKED,
                length=max(len(body.data), sent + 1) if short else None,
            )
        )
        for part in parts:
            if isinstance(part, Pause):
                await self._wait(part)
            else:
                await self._send(part, body)
            if self._gone:
                return
        if end is End.POLITE:
            client.finish()
        elif end is End.RST:
            await client.reset()
        else:
            client.hang_up()

    async def _send(self, data: bytes, body: Body) -> None:
        """Event by event, as servers send them."""
        pieces = edges.events(data, body.shape)
        for piece in pieces:
            for at in range(0, len(piece), _PORTION):
                await self._may_send.wait()
                if self._gone:
                    return
                self._client.send(piece[at : at + _PORTION])

    async def _wait(self, pause: Pause) -> None:
        loop = asyncio.get_running_loop()
        until = None if pause.seconds is None else loop.time() + pause.seconds
        while not self._gone and not self._proxy.stopping and (until is None or loop.time() < until):
            await asyncio.sleep(0.02 if until is None else min(0.02, max(0.0, until - loop.time())))

    def _wire(self) -> str | None:
        if self._faulting.wire is not None:
            return self._faulting.wire
        host = self._proxy.options.upstream.host if self._proxy.options.upstream is not None else ""
        return asked.wire_of(host, self._request.path, self._request.query)

    def _refuse(self, why: str) -> None:
        """A drill that was not played must not look like one that was survived."""
        self._gone = True
        self._proxy.log(f"not played: {self._request.method} {self._request.path}: {why}")
        self._client.answer(502, f"no fault was played: {why}. Nothing of the answer was passed on.")
