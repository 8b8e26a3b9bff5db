"""Ends a statement that runs too long, or when somebody asks to stop: from a second connection, by KILL QUERY."""

import contextlib
import threading
import time
from types import TracebackType
from typing import Self

import pymysql

from endmark.core.refusal import Signal
from endmark.effects.mariadb.address import Address
from endmark.effects.mariadb.connection import READ_TIMEOUT, close, connect, rows
from endmark.effects.target import Stop

_LOOK = 0.05  # seconds between two looks at the clock and at `stop`


class Watch:
    """While armed, one thread looks at the clock and at `stop`. `struck` says why a statement was ended.

    A connection that was struck is not used again: the kill may reach it between two statements.
    """

    def __init__(self, address: Address, thread_id: int, timeout: float, stop: Stop) -> None:
        self._address = address
        self._thread_id = thread_id
        self._timeout = timeout
        self._stop = stop
        self._deadline: float | None = None
        self._guard = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="endmark-watch", daemon=True)
        self.struck: tuple[Signal, str] | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def arm(self) -> None:
        self._deadline = time.monotonic() + self._timeout

    def disarm(self) -> None:
        """From here on nothing is killed; waits for a kill that is on its way."""
        with self._guard:
            self._deadline = None

    def _look(self) -> None:
        while not self._ended.wait(_LOOK):
            with self._guard:
                if self._deadline is None or self.struck is not None:
                    continue
                if time.monotonic() > self._deadline:
                    self.struck = (Signal.STATEMENT_TIMEOUT, f"ran longer than {self._timeout:g} s")
                elif (by := self._stop()) is not None:
                    self.struck = (Signal.INTERRUPTED, f"was ended by {by}")
                else:
                    continue
                kill(self._address, self._thread_id, "QUERY")


def kill(address: Address, thread_id: int, what: str) -> None:
    """KILL QUERY or KILL CONNECTION, from a connection of its own. Raises nothing: the caller looks at the outcome."""
    conn = None
    with contextlib.suppress(pymysql.err.MySQLError, OSError):
        conn = connect(address, read_timeout=READ_TIMEOUT)
        rows(conn, f"KILL {what} {thread_id:d}")
    close(conn)
