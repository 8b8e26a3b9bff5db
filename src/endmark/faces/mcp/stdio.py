"""The protocol on standard input and output: one message a line, and nothing else on standard output."""

import asyncio
import fcntl
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import anyio
import anyio.to_thread
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from endmark.faces.interrupt import EXIT
from endmark.faces.mcp import framing
from endmark.faces.mcp.desk import Desk
from endmark.faces.terminal import say


def serve(server: Server[Any], desk: Desk) -> int:
    """Serve until the client closes its side, or a signal. Returns the exit code.

    What is being worked on is finished first; at a signal it is rolled back at its next step.
    """
    with _standard_streams() as (incoming, outgoing):
        return anyio.run(_serve, server, desk, incoming, outgoing)


async def _serve(server: Server[Any], desk: Desk, incoming: int, outgoing: int) -> int:
    code = 0
    out = _Out(outgoing)
    async with anyio.create_task_group() as group:

        async def obey() -> None:
            nonlocal code
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for number in signals:
                    desk.stop(number.name)
                    code = EXIT[number.name]
                    group.cancel_scope.cancel()

        group.start_soon(obey)
        lines = _Lines(incoming, out)
        try:
            # Both have what the SDK uses of a file, and no more.
            async with stdio_server(cast(Any, lines), cast(Any, out)) as (read, write):
                await server.run(read, write, server.create_initialization_options())
        except* (BrokenPipeError, anyio.BrokenResourceError):
            pass  # nobody reads the answers any more
        group.cancel_scope.cancel()
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(desk.wait)
    return code


@contextmanager
def _standard_streams() -> Iterator[tuple[int, int]]:
    """Descriptors of the wire that nobody else has: what a program started here reads or prints does not touch it."""
    kept = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in (0, 1)]
    nowhere = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nowhere, 0)
        os.dup2(2, 1)
        yield kept[0], kept[1]
    finally:
        os.dup2(kept[0], 0)
        os.dup2(kept[1], 1)
        os.close(nowhere)  # the copies stay open: a thread may still wait for a line


class _Out:
    """The wire to the client."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = anyio.Lock()

    async def write(self, text: str) -> None:
        async with self._lock:
            await anyio.to_thread.run_sync(
                self._write, text.encode("utf-8", "backslashreplace"), abandon_on_cancel=True
            )

    async def flush(self) -> None:
        """Every write has gone out already."""

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]


class _Lines:
    """The client's messages, those that are whole and strict; the others are answered here."""

    def __init__(self, descriptor: int, out: _Out) -> None:
        self._descriptor = descriptor
        self._out = out

    def __aiter__(self) -> AsyncIterator[str]:
        return self._good()

    async def _good(self) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        # A thread that nothing waits for: no signal reaches a read of standard input.
        threading.Thread(target=self._read, args=(loop, queue), daemon=True).start()
        while (line := await queue.get()) is not None:
            if not line.strip():
                continue
            fault = framing.fault_of(line)
            if fault is None:
                yield line.decode()
            else:
                say("endmark mcp: a message was refused: it is not one whole strict JSON object.")
                await self._out.write(fault.decode() + "\n")

    def _read(self, loop: asyncio.AbstractEventLoop, queue: "asyncio.Queue[bytes | None]") -> None:
        def put(line: bytes | None) -> None:
            asyncio.run_coroutine_threadsafe(queue.put(line), loop).result()

        try:
            with os.fdopen(self._descriptor, "rb", closefd=False) as stream:
                while line := stream.readline(framing.MOST_BYTES + 1):
                    if line.endswith(b"\n"):
                        put(line)
                    elif len(line) > framing.MOST_BYTES:
                        put(line)  # to be refused
                        while (rest := stream.readline(1 << 20)) and not rest.endswith(b"\n"):
                            pass
                    else:
                        say(f"endmark mcp: the input ended inside a message of {len(line):,} bytes. It led to nothing.")
            put(None)
        except (OSError, RuntimeError, asyncio.CancelledError):
            return  # the loop is gone, or the wire
