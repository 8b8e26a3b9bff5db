"""The proxy as a process of its own, between a real server and a plain socket: what a body and a first byte cost."""

import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench.capture import chat_stream
from bench.measure import Row

BULK, SMALL, FIRST_BYTE, GUARD = 0.35, 0.6, 0.5e-3, 1.5
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
_REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n{}"
_ENDMARK = str(Path(sys.executable).with_name("endmark"))


def _serve(listener: socket.socket, head: bytes, pieces: list[bytes], pause: float) -> None:
    """Sends the same answer to whoever asks, one piece a `send`, `pause` seconds apart; connections stay open."""
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            asked = b""
            while more := connection.recv(65536):
                asked += more
                if asked.endswith(b"{}"):
                    asked = b""
                    connection.sendall(head)
                    for piece in pieces:
                        connection.sendall(piece)
                        if pause:
                            time.sleep(pause)


@contextmanager
def _server(head: bytes, pieces: list[bytes], takers: int, pause: float = 0.0) -> Iterator[int]:
    """A server with a process for each connection; its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    processes = [
        multiprocessing.get_context("fork").Process(target=_serve, args=(listener, head, pieces, pause), daemon=True)
        for _ in range(takers)
    ]
    for process in processes:
        process.start()
    try:
        yield listener.getsockname()[1]
    finally:
        for process in processes:
            process.terminate()
            process.join()
        listener.close()


@contextmanager
def _proxy(port: int, *flags: str) -> Iterator[int]:
    command = [_ENDMARK, "proxy", "--upstream", f"http://127.0.0.1:{port}", "--port", "0", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().rpartition(":")[2])
        finally:
            process.terminate()


class _Client:
    """One connection that is kept: asks, and reads an answer to its end."""

    def __init__(self, port: int, body: int, chunked: bool) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port))
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._body = body
        self._chunked = chunked
        self._room = memoryview(bytearray(1 << 20))

    def first_byte(self) -> float:
        """Seconds until something of the body is here; the rest is read too, and not counted."""
        start = time.perf_counter()
        self._sock.sendall(_REQUEST)
        count = 0
        first = 0.0
        last = b""
        while True:
            got = self._sock.recv_into(self._room)
            if not got:
                raise SystemExit("the connection closed inside an answer")
            if not count:
                first = time.perf_counter() - start
            count += got
            last = (last + bytes(self._room[max(0, got - 7) : got]))[-7:]
            if last == b"\r\n0\r\n\r\n" if self._chunked else count >= self._body:
                return first

    def whole(self) -> None:
        self.first_byte()


def _in_turn(actions: list[Callable[[], object]], count: int) -> list[list[float]]:
    """The seconds of each action, all of them in every turn; the first turn is thrown away."""
    times: list[list[float]] = [[] for _ in actions]
    for turn in range(count + 1):
        order = range(len(actions))
        for which in order if turn % 2 else reversed(order):
            start = time.perf_counter()
            actions[which]()
            if turn:
                times[which].append(time.perf_counter() - start)
    return times


def _clients(port: int, body: int, chunked: bool, stack: ExitStack) -> list[_Client]:
    """Direct, through the plain proxy, through the guard."""
    plain = stack.enter_context(_proxy(port))
    guard = stack.enter_context(_proxy(port, "--guard"))
    return [_Client(at, body, chunked) for at in (port, plain, guard)]


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _throughput(size: int, piece: int, count: int, what: str, limit: float) -> list[Row]:
    body = chat_stream(size)
    parts = [body[at : at + piece] for at in range(0, len(body), piece)]
    pieces = [*(_chunk(part) for part in parts), b"0\r\n\r\n"]
    with _server(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", pieces, 3) as port, ExitStack() as stack:
        clients = _clients(port, 0, True, stack)
        direct, plain, guard = _in_turn([client.whole for client in clients], count)
    share = statistics.median(a / b for a, b in zip(direct, plain, strict=True))
    d, p, g = map(statistics.median, (direct, plain, guard))
    cost = statistics.median(b / a for a, b in zip(plain, guard, strict=True))
    return [
        Row(f"throughput of the proxy : direct, {what}", p, d, share, limit, at_least=True),
        Row(f"`--guard` : the plain proxy, {what}, as fast as they come", g, p, cost, None),
    ]


def _bulk(size: int, count: int) -> Row:
    piece = bytes(range(256)) * 1024
    pieces = [piece] * (size // len(piece))
    head = _HEAD + b"Content-Length: %d\r\n\r\n" % (len(piece) * len(pieces))
    with _server(head, pieces, 2) as port, ExitStack() as stack:
        plain = stack.enter_context(_proxy(port))
        clients = [_Client(at, size, False) for at in (port, plain)]
        direct, proxied = _in_turn([client.whole for client in clients], count)
    share = statistics.median(a / b for a, b in zip(direct, proxied, strict=True))
    what = f"throughput of the proxy : direct, {size / 1e6:.0f} MB with a length"
    return Row(what, statistics.median(proxied), statistics.median(direct), share, BULK, at_least=True)


def _first_byte(count: int) -> list[Row]:
    body = chat_stream(4000)
    pieces = [b"".join(map(_chunk, body.splitlines(True))) + b"0\r\n\r\n"]
    rows = []
    with _server(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", pieces, 3) as port, ExitStack() as stack:
        clients = _clients(port, 0, True, stack)
        times: list[list[float]] = [[] for _ in clients]
        _in_turn(
            [partial(lambda c, t: t.append(c.first_byte()), c, t) for c, t in zip(clients, times, strict=True)], count
        )
    direct, plain, guard = (statistics.median(t[1:]) for t in times)
    for name, time_ in (("the plain proxy", plain), ("`--guard`", guard)):
        told = f"first byte through {name} : direct (ratio: the difference : 0.5 ms)"
        rows.append(Row(told, time_, direct, (time_ - direct) / FIRST_BYTE, 1.0))
    return rows


def _work(port: int, streams: int, *flags: str) -> float:
    """Seconds of processor time of a proxy that serves so many streams, its start and its end included."""
    command = [_ENDMARK, "proxy", "--upstream", f"http://127.0.0.1:{port}", "--port", "0", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    client = _Client(int(process.stdout.readline().rpartition(":")[2]), 0, True)
    for _ in range(streams):
        client.whole()
    process.stdout.close()
    process.terminate()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


def _paced(streams: int, turns: int) -> Row:
    """Events that come one by one, as models send them: each is a read, a look and a write of its own."""
    events = chat_stream(150_000).split(b"\n\n")[:-1]
    pieces = [*(_chunk(event + b"\n\n") for event in events), b"0\r\n\r\n"]
    plain: list[float] = []
    guard: list[float] = []
    with _server(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", pieces, 1, pause=1e-4) as port:
        for _ in range(turns):
            for times, flags in ((plain, ()), (guard, ("--guard",))):
                times.append((_work(port, streams + 1, *flags) - _work(port, 1, *flags)) / streams)
    p, g = statistics.median(plain), statistics.median(guard)
    what = f"processor time of `--guard` : of the plain proxy, {len(events)} events that come one by one"
    return Row(what, g, p, g / p, GUARD)


def measure(quick: bool) -> list[Row]:
    few = 11 if quick else 31
    return [
        _bulk(64 << 20 if quick else 256 << 20, few),
        *_throughput(8_000_000, 16_384, few, "8 MB of events in 16 KiB chunks", BULK),
        *_throughput(2_000_000, 256, few, "2 MB of events in 256 byte chunks", SMALL),
        _paced(8, 3 if quick else 7),
        *_first_byte(300 if quick else 1000),
    ]
