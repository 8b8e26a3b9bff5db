"""The service on a socket: started, told to end, drained."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import uvicorn

from endmark import __version__
from endmark.core.refusal import CannotTry
from endmark.faces.http.access import is_loopback
from endmark.faces.http.app import make_app
from endmark.faces.http.protocol import TO_BE_TOLD, Guarded
from endmark.faces.http.service import Service
from endmark.faces.misuse import Misuse
from endmark.ledger.book import Ledger
from endmark.ledger.tokens import Tokens

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TAKEN = 128  # connections that are taken in one turn of the loop, before any is judged
_FILES = (
    256 + 2 * _TAKEN
)  # open files beside the connections that are held: ledger, targets, what is just taken or let go
_BACKLOG = 2048  # connections that wait to be taken
_TURN = 0.0005  # seconds that one thread may keep the interpreter from another that wants it
_M_MMAP_THRESHOLD, _LARGE = -3, 1 << 20  # malloc.h; bytes
_KEEP_ALIVE = 30  # seconds that a connection may be idle between two requests


class Server(uvicorn.Server):
    """uvicorn's server, which ends by itself and not by the signal that it was sent. `ready` is told the address."""

    def __init__(self, service: Service, listener: socket.socket, ready: Callable[[str], None] | None = None) -> None:
        settings = service.settings
        how = {"head_seconds": settings.header_timeout, "told": staticmethod(service.answered)}
        protocol = type("Protocol", (Guarded,), how)
        super().__init__(
            uvicorn.Config(
                make_app(service),
                http=protocol,
                ws="none",
                lifespan="on",
                access_log=False,
                log_config=None,
                log_level="critical",  # our own log says what happened, and nothing that came
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=max(1, round(settings.drain_timeout)),
                backlog=_TAKEN,
                limit_concurrency=affordable(settings.max_connections),  # H25
            )
        )
        self.service = service
        service.connections = lambda: len(self.server_state.connections)
        service.requests = lambda: len(self.server_state.tasks)
        self.listener = listener
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listener.listen(
            _BACKLOG
        )  # the loop listened anew, with its `backlog`, which is how many it takes in a turn
        if self.started and self._ready is not None:
            self._ready(address_of(self.listener))
        if self.started:
            self.service.say("started", address=address_of(self.listener), version=__version__)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.service.ending = True  # who waits for news is answered now, and not at the end of a long wait
        self.service.changes.told()
        await super().shutdown(sockets)
        self.service.say("ended")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """H32: SIGTERM or Ctrl-C drains; a second Ctrl-C does not wait."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._told) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _told(self, number: int, _frame: FrameType | None) -> None:
        if self.should_exit and number == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    def run_to_its_end(self) -> None:
        """Serve until told to end."""
        # SQLite lets go of the interpreter for each of an act's statements, and its writer then waits for the loop.
        sys.setswitchinterval(_TURN)
        give_back_large_blocks()
        asyncio.run(self.serve([self.listener]))


def give_back_large_blocks() -> None:
    """Have glibc give a large block back to the system when it is freed. By itself it keeps, once a large body came,
    as much for every thread that ever held one."""
    if "MALLOC_MMAP_THRESHOLD_" in os.environ:
        return
    # Another C library, which has no such word; or a unit that forbids what the import of ctypes does on some Pythons.
    with suppress(ImportError, OSError, AttributeError, MemoryError):
        import ctypes

        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)


def affordable(connections: int) -> int:
    """How many of so many connections this process can hold: it takes more open files if it may. Where a process has
    no file left, nobody is answered, and no ledger or target can be opened."""
    wanted = connections + TO_BE_TOLD + _FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return connections if soft == resource.RLIM_INFINITY else max(1, min(connections, soft - TO_BE_TOLD - _FILES))


def address_of(listener: socket.socket) -> str:
    """`http://host:port` of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises CannotTry where there cannot be one."""
    try:
        family, kind, number, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        # The protocol's number is said, for asyncio sends without delay only where it reads it; create_server says 0.
        listener = socket.socket(family, kind, number)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(where)
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
    except OSError as fault:
        raise CannotTry(f"cannot listen on {host} port {port}: {fault.strerror or fault}. Nothing was done.") from None
    listener.setblocking(False)
    return listener


def check_address(service: Service) -> None:
    """H17: without a token that counts, only this machine is served. Raises Misuse, and CannotTry."""
    host = service.settings.host
    if is_loopback(host):
        return
    with Ledger.open(service.config.ledger, create=True) as ledger:
        tokens = Tokens(ledger).all()
    if not any(token.counts(service.clock()) for token in tokens):
        raise Misuse(
            f"--host {host} can be reached from elsewhere, and the ledger has no token that counts: anybody could "
            "approve. 'endmark token create NAME --scope SCOPE' makes one; 127.0.0.1 needs none. Nothing was served."
        )


def serve(service: Service, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then drain. Raises Misuse and CannotTry before anything is served."""
    check_address(service)
    with listen(service.settings.host, service.settings.port) as listener:
        Server(service, listener, ready).run_to_its_end()
