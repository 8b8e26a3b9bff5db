"""Ctrl-C and SIGTERM: noted while something is being changed, and obeyed between two steps of it.

One SQL function can run for hours and cannot be stopped from outside. A third signal ends the process where it stands:
the database rolls back by its journal, and the next start settles the ledger.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

EXIT = {"SIGINT": 130, "SIGTERM": 143}
_PATIENCE = 3  # signals
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
        self._before: dict[signal.Signals, Any] = {}

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
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        self._count += 1
        if self._count >= _PATIENCE:
            os.write(2, b"endmark: ended at once; nothing is half done. 'endmark reconcile' settles the record.\n")
            os._exit(EXIT[self.first or "SIGINT"])
