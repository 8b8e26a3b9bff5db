"""One program, run to its end or killed with its whole group: as cheaply as a process can be started and watched.

A drill starts tens of thousands. `posix_spawn` and one `poll` cost half of what `subprocess` does, and no wait sleeps.
"""

import fcntl
import os
import select
import signal
import time
from contextlib import suppress

import msgspec

from endmark.core.refusal import CannotTry

_PORTION = 1 << 16
_KEPT = 1 << 24  # bytes of each output; more is read and dropped
_LINGER = 1.0  # seconds for the pipes of a killed group to close
# As a program expects them, whatever we ignore ourselves.
_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT)


class Ran(msgspec.Struct, frozen=True):
    """How a program ended. `code` as subprocess tells it, negative for a signal; None where its time was over."""

    code: int | None
    out: bytes
    err: bytes


def run(argv: list[str], data: bytes, limit: float) -> Ran:
    """Run a program with `data` on its standard input. After `limit` seconds its process group is killed.

    Raises CannotTry where it cannot be started.
    """
    running = _Running(argv, data)
    try:
        code = running.watch(time.monotonic() + limit)
    except BaseException:
        running.kill()
        raise
    if code is None:
        running.kill()
        return Ran(None, b"", b"")
    return Ran(code, bytes(running.out), bytes(running.err))


class _Running:
    """A program that was started, and its pipes."""

    def __init__(self, argv: list[str], data: bytes) -> None:
        ends = [_above(end) for _ in range(3) for end in os.pipe()]
        self._in, self._out, self._err = ends[1], ends[2], ends[4]
        theirs = (ends[0], ends[3], ends[5])
        moved = [(os.POSIX_SPAWN_DUP2, end, at) for at, end in enumerate(theirs)]
        try:
            self._pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=moved, setpgroup=0, setsigdef=_SIGNALS)
        except (OSError, ValueError) as fault:
            for end in (self._in, self._out, self._err):
                os.close(end)
            why = fault.strerror if isinstance(fault, OSError) else str(fault)
            raise CannotTry(f"{argv[0]} cannot be run: {why}") from None
        finally:
            for end in theirs:
                os.close(end)
        self.out, self.err = bytearray(), bytearray()
        self._rest = memoryview(data)
        self._open = {self._out: self.out, self._err: self.err}
        self._code: int | None = None
        self._watched = os.pidfd_open(self._pid) if hasattr(os, "pidfd_open") else None
        os.set_blocking(self._in, False)
        self._write()

    def watch(self, until: float) -> int | None:
        """Until it has ended and its pipes are closed. Its exit code, or None when the time is over."""
        poll = select.poll()
        for end in self._open:
            poll.register(end, select.POLLIN)
        if self._rest:
            poll.register(self._in, select.POLLOUT)
        while self._open:
            left = until - time.monotonic()
            ready = poll.poll(max(0.0, left * 1000))
            if not ready and left <= 0:
                return None
            for end, _ in ready:
                if end == self._in:
                    self._write()
                    if not self._rest:
                        poll.unregister(end)
                elif not self._read(end):
                    poll.unregister(end)
        if not self._wait(until):
            return None
        self._close()
        return self._code

    def kill(self) -> None:
        """The whole group: what a hung gate started must not go on beside the next fault."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        self._wait(time.monotonic() + _LINGER)
        self._close()

    def _write(self) -> None:
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._in, self._rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # it has read enough
            self._rest = memoryview(b"")
        os.close(self._in)
        self._in = -1

    def _read(self, end: int) -> bool:
        """Whether more may come."""
        data = os.read(end, _PORTION)
        kept = self._open[end]
        if data:
            if len(kept) < _KEPT:
                kept += data
            return True
        del self._open[end]
        os.close(end)
        return False

    def _wait(self, until: float) -> bool:
        """Whether it ended in time. Where the system has no descriptor of a process, it is asked again and again."""
        pause = 0.0001
        while self._code is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
                break
            left = until - time.monotonic()
            if left <= 0:
                return False
            if self._watched is not None:
                watched = select.poll()
                watched.register(self._watched, select.POLLIN)
                watched.poll(left * 1000)
            else:
                time.sleep(min(pause, left))
                pause = min(2 * pause, 0.02)
        return True

    def _close(self) -> None:
        for end in (self._in, *self._open, self._watched if self._watched is not None else -1):
            if end >= 0:
                os.close(end)
        self._in, self._watched = -1, None
        self._open.clear()


def _above(end: int) -> int:
    """A descriptor that is none of the three standard ones, which a program without them would hand out."""
    if end > 2:
        return end
    moved = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(end)
    return moved
