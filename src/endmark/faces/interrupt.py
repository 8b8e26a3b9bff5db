"""Ctrl-C and SIGTERM: noted while something is being changed, and obeyed between two steps of it.

One SQL function can run for hours and cannot be stopped from outside. A third signal ends the process where it stands:
the database rolls back by its journal, and the next start settles the ledger. Python calls a signal's handler only
between two steps of its own, so a thread of its own hears of the signals.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

EXIT = {"SIGINT": 130, "SIGTERM": 143}
_PATIENCE = 3  # signals
_APART = 0.1  # seconds between two that count
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(BaseException):
    """SIGTERM came where nothing is being changed. Like KeyboardInterrupt, no `except Exception` catches it."""


def raise_terminated() -> None:
    """From here on SIGTERM raises Terminated, unless whoever started this process had it ignored."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _raise)


def _raise(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated


class Interrupts:
    """While its block runs, both signals are only noted: no exception tears through a change, however often they come.

    Called, it says which came first ("SIGINT", "SIGTERM") or None: the `stop` that a gate asks.
    """

    def __init__(self) -> None:
        self.first: str | None = None
        self._count = 0
        self._last = -_APART
        self._before: dict[signal.Signals, Any] = {}
        self._ear: _Ear | None = None

    def __call__(self) -> str | None:
        return self.first

    @property
    def exit_code(self) -> int | None:
        """What a process that was interrupted exits with; None while it was not."""
        return None if self.first is None else EXIT[self.first]

    def note(self, name: str) -> None:
        self.first = self.first or name

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                try:
                    self._before[number] = signal.signal(number, self._noted)
                except ValueError:  # not the main thread, which gets no signals
                    break
        if self._before:
            self._ear = _Ear(self._heard)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ear is not None:
            self._ear.close()
            self._ear = None
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Inside, both signals raise again: somebody is being asked, and nothing is being changed."""
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.__enter__()

    def _noted(self, number: int, _frame: FrameType | None) -> None:
        self.note(signal.Signals(number).name)

    def _heard(self, number: int) -> None:
        """In the thread that hears: at once, whatever the main thread is at."""
        if number not in self._before:
            return
        self.note(signal.Signals(number).name)
        at = time.monotonic()
        if at - self._last < _APART:  # a key held down, or a supervisor that says it twice
            return
        self._last = at
        self._count += 1
        if self._count >= _PATIENCE:
            os.write(2, b"endmark: ended at once; nothing is half done. 'endmark reconcile' settles the record.\n")
            os._exit(EXIT[self.first or "SIGINT"])


class _Ear:
    """A thread that is told of each signal the moment it arrives, by the descriptor that Python writes it to."""

    def __init__(self, heard: Callable[[int], None]) -> None:
        self._heard = heard
        self._reads, self._writes = os.pipe()
        os.set_blocking(self._writes, False)
        self._before = signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, name="endmark-signals", daemon=True)
        self._thread.start()

    def close(self) -> None:
        signal.set_wakeup_fd(self._before)
        os.write(self._writes, b"\0")  # no signal has this number
        self._thread.join()
        os.close(self._writes)
        os.close(self._reads)

    def _listen(self) -> None:
        while True:
            for number in os.read(self._reads, 64):
                if not number:
                    return
                self._heard(number)
