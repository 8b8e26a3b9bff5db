"""One thread that looks at the clock while SQLite works: a row can be long, and a progress handler counts only steps.

It can end a statement between two of its rows. Inside one call of an SQL function nothing can.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

EVERY = 0.05  # seconds between two looks
_LOOKS_AT_NOTHING = 20  # before it sleeps until it is needed; to wake it costs more than a short job


class Interruptible(Protocol):
    """A connection, as far as this goes."""

    def interrupt(self) -> None: ...


class Due(Protocol):
    """Says whether what is being watched has to end. Called from this thread."""

    def __call__(self) -> int: ...


class _Watch:
    """Started when first needed, and again in a process that was forked off; it keeps no program running."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watched: dict[int, tuple[Interruptible, Due]] = {}
        self._thread: threading.Thread | None = None
        self._sleeps = False

    @contextmanager
    def over(self, connection: Interruptible, due: Due) -> Iterator[None]:
        """While this block runs, `connection` is interrupted whenever `due` says so."""
        key = id(connection)
        with self._changed:
            if self._thread is None or not self._thread.is_alive():
                self._watched.clear()
                self._thread = threading.Thread(target=self._run, name="endmark-watch", daemon=True)
                self._thread.start()
            self._watched[key] = connection, due
            if self._sleeps:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:  # an interruption that has begun is over then, and none comes later
                self._watched.pop(key, None)

    def _run(self) -> None:
        looks = 0
        with self._changed:
            while True:
                looks = 0 if self._watched else looks + 1
                self._sleeps = looks > _LOOKS_AT_NOTHING
                self._changed.wait(None if self._sleeps else EVERY)
                for connection, due in self._watched.values():
                    if _says_so(due):
                        connection.interrupt()


def _says_so(due: Due) -> bool:
    """Whatever goes wrong in asking ends the statement too, as it does where SQLite asks."""
    try:
        return bool(due())
    except BaseException:  # noqa: BLE001
        return True


_WATCH = _Watch()
over = _WATCH.over
