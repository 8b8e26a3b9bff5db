"""Ends a call that hangs in this very process, at no cost to those that do not."""

import signal
import threading
from types import FrameType
from typing import Any, Protocol

_TICKS = 4


class Hung(BaseException):
    """The call did not return in time. No Exception, so that a gate which catches those does not catch it."""


class Shared(Protocol):
    """A number that another process can see."""

    value: int


class Watchdog:
    """`at` is set to a number before each call. One number for `limit` seconds, and Hung is raised in that call.

    Only the main thread can be watched; elsewhere, and with no `limit`, nothing is. `shared` shows the number to
    whoever watches from outside, for a call that never comes back to Python.
    """

    def __init__(self, limit: float | None, shared: Shared | None = None) -> None:
        self._limit = limit if threading.current_thread() is threading.main_thread() else None
        self._shared = shared
        self.at = -1
        self._seen = -1
        self._ticks = 0
        self._before: Any = None

    def begin(self, at: int) -> None:
        """The call of number `at` begins."""
        self.at = at
        if self._shared is not None:
            self._shared.value = at

    def __enter__(self) -> "Watchdog":
        if self._limit is not None:
            self._seen, self._ticks = -1, 0
            self._before = signal.signal(signal.SIGALRM, self._tick)
            signal.setitimer(signal.ITIMER_REAL, self._limit / _TICKS, self._limit / _TICKS)
        return self

    def __exit__(self, *_: object) -> None:
        if self._limit is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)

    def _tick(self, _number: int, _frame: FrameType | None) -> None:
        self._ticks = self._ticks + 1 if self.at == self._seen else 0
        self._seen = self.at
        if self._ticks > _TICKS and self.at >= 0:
            self._ticks = 0
            raise Hung
