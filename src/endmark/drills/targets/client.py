"""A client behind the proxy: it asks for an answer, the answer is broken, and its exit code says if it was believed."""

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from endmark.core.refusal import CannotTry
from endmark.drills import edges
from endmark.drills.body import Body, DoesNotFit
from endmark.drills.faults import Broken
from endmark.drills.proxy.heads import Request
from endmark.drills.proxy.inbound import Exchanging, Inbound
from endmark.drills.proxy.options import Faulting, Options, Served
from endmark.drills.proxy.server import Proxy
from endmark.drills.targets.answer import Answer, Rules, Seen
from endmark.drills.targets.command import WORKER
from endmark.drills.targets.process import run

URL = "{url}"
_PATIENCE = 10.0  # seconds for the proxy to start or to stop


class ClientTarget(msgspec.Struct, frozen=True, kw_only=True):
    """`argv` is run once for each fault; `{url}` in it is the address to ask. `limit` in seconds."""

    argv: tuple[str, ...]
    content_type: str
    limit: float = 10.0
    rules: Rules = Rules()

    @property
    def name(self) -> str:
        return " ".join(self.argv)

    def open(self, worker: int) -> "ClientPlayer":
        return ClientPlayer(self, worker)


class _Counting(Proxy):
    """Counts what it is asked."""

    asked = 0

    def begin(self, client: Inbound, request: Request) -> Exchanging:
        self.asked += 1
        return super().begin(client, request)


class ClientPlayer:
    """One proxy, in a thread beside."""

    in_process = False

    def __init__(self, target: ClientTarget, worker: int) -> None:
        self._target = target
        self._worker = str(worker)
        self._said: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._proxy: _Counting | None = None
        self._url = ""

    def play(self, broken: Broken | None, body: Body) -> Seen:
        if self._proxy is None:
            self._start(body)
        proxy = self._proxy
        assert proxy is not None  # noqa: S101  # just started
        faulting = None if broken is None else Faulting(broken=broken, wire=body.wire)
        self._said.clear()
        self._in_loop(lambda: setattr(proxy, "options", msgspec.structs.replace(proxy.options, faulting=faulting)))
        proxy.asked = 0
        argv = [word.replace(URL, self._url).replace(WORKER, self._worker) for word in self._target.argv]
        ran = run(argv, b"", self._target.limit)
        for line in self._said:
            if line.startswith("not played"):
                raise DoesNotFit(line.rpartition(": ")[2])
        if not proxy.asked:
            return Seen(Answer.INCONCLUSIVE, f"the client asked for nothing at {URL}")
        if ran.code is None:
            return Seen(Answer.HUNG, f"no end within {self._target.limit:g} s")
        return self._target.rules.of_exit(ran.code, ran.out)

    def close(self) -> None:
        proxy = self._proxy
        if proxy is not None:
            asyncio.run_coroutine_threadsafe(proxy.close(0), self._loop).result(_PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        if not self._thread.is_alive():
            self._loop.close()

    def _start(self, body: Body) -> None:
        options = Options(
            served=Served(body=body.data, content_type=self._target.content_type, name="payload"),
            log=self._said.append,
            now=lambda: datetime.min.replace(tzinfo=UTC),
        )

        async def start() -> tuple[_Counting, str]:
            proxy = _Counting(options)
            return proxy, await proxy.listen("127.0.0.1", 0)

        try:
            self._proxy, self._url = asyncio.run_coroutine_threadsafe(start(), self._loop).result(_PATIENCE)
        except OSError as fault:
            raise CannotTry(f"the proxy cannot listen: {fault.strerror or fault}") from None

    def _in_loop(self, action: Callable[[], object]) -> None:
        async def act() -> None:
            action()

        asyncio.run_coroutine_threadsafe(act(), self._loop).result(_PATIENCE)


def type_of(body: Body, given: str | None) -> str:
    """The Content-Type that is sent: what was asked for, else what the wire says, else JSON."""
    if given is not None:
        return given
    if body.wire is None:
        return "application/json"
    return edges.TYPES[edges.shape_of_wire(body.wire)] if body.shape in edges.STREAMS else "application/json"
