"""The connection that runs a plan's statements, one by one, under a watch; what it does is judged from another."""

from types import TracebackType
from typing import Self

import pymysql
import pymysql.cursors
from pymysql.constants import SERVER_STATUS

from endmark.core.refusal import Signal
from endmark.effects.mariadb import lock
from endmark.effects.mariadb.address import Address
from endmark.effects.mariadb.connection import (
    GRACE,
    SQL_MODE,
    Conn,
    Server,
    close,
    connect,
    is_lost,
    limit_time,
    limit_waits,
    rows,
    signal_of,
    words,
)
from endmark.effects.mariadb.guard import Does, Judged
from endmark.effects.mariadb.watch import Watch, kill
from endmark.effects.target import Failed, Stop

_NOT_ROLLED_BACK = 1196  # a table without transactions was changed
_SETTINGS = "SELECT @@sql_mode, @@autocommit, @@foreign_key_checks, @@unique_checks"


class Lost(Exception):
    """The connection is gone, and what its last statement did is not known."""


class Runner:
    """Holds the runner's name of the lock while it is open. Raises pymysql's errors, Failed and Lost."""

    def __init__(self, address: Address, database: str, server: Server, timeout: float, stop: Stop) -> None:
        self._address = address
        self._server = server
        self._name = lock.runner_name(database)
        self.timeout = timeout
        self._stop = stop
        self.conn: Conn = connect(address, read_timeout=timeout + GRACE)
        try:
            self.number = int(self.conn.thread_id())  # type: ignore[no-untyped-call]
            limit_waits(self.conn, timeout)
            if not lock.get(self.conn, self._name, 0):
                raise Failed(Signal.TARGET_FAULT, "the lock of the statements' connection is held by somebody else")
            limit_time(self.conn, server, timeout)
            self._watch = Watch(address, self.number, timeout, stop)
            self._watch.__enter__()
        except BaseException:
            close(self.conn)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and with it a transaction that is open. Raises nothing."""
        self._watch.__exit__(None, None, None)
        close(self.conn)

    def run(self, who: str, n: int, text: str, judged: Judged) -> int:
        """Run one statement: the rows it changed. `who` names it. Raises Failed when the server said no, and Lost."""
        if len(text.encode()) > self._server.packet_max - 1024:
            raise Failed(Signal.SQL_ERROR, f"{who} is longer than the server's max_allowed_packet", n)
        self._watch.arm()
        try:
            changed = self._send(text, judged)
        except (pymysql.err.MySQLError, OSError) as fault:
            self._watch.disarm()
            if is_lost(fault) or isinstance(fault, OSError):
                raise Lost(f"the connection was lost at {who} ({words(fault)})") from None
            if self._watch.struck is not None:
                raise self._struck(who, n) from None
            signal = signal_of(fault)
            if signal is Signal.STATEMENT_TIMEOUT:
                raise Failed(signal, f"{who} ran longer than {self.timeout:g} s", n) from None
            raise Failed(signal, f"{who}: {words(fault)}", n) from None
        self._watch.disarm()
        if self._watch.struck is not None:
            raise self._struck(who, n)
        return changed

    def _send(self, text: str, judged: Judged) -> int:
        if judged.does is Does.READS or "returning" in judged.names:
            with self.conn.cursor(pymysql.cursors.SSCursor) as cursor:  # what it gives back is not kept
                cursor.execute(text)
                for _row in cursor:
                    pass
                return max(cursor.rowcount, 0) if judged.does is Does.ROWS else 0
        return self.conn.query(text)

    def _struck(self, who: str, n: int) -> Failed:
        signal, what = self._watch.struck or (Signal.INTERRUPTED, "was ended")
        return Failed(signal, f"{who} {what}", n)

    @property
    def in_transaction(self) -> bool:
        """What the server said with its last answer."""
        status: int = self.conn.server_status  # type: ignore[attr-defined]  # public, and not in the stubs
        return bool(status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)

    def changed_for_good(self) -> bool:
        """Whether the open transaction changed a table that cannot be rolled back."""
        rows(self.conn, "SAVEPOINT endmark")
        rows(self.conn, "ROLLBACK TO SAVEPOINT endmark")
        return any(row[1] == _NOT_ROLLED_BACK for row in rows(self.conn, "SHOW WARNINGS"))

    def settings_moved(self, gate: Conn) -> bool:
        """Whether the session is no longer as we set it, or its lock is not ours: a function can do that."""
        mode, *rest = rows(self.conn, _SETTINGS)[0]
        same = set(mode.split(",")) == set(SQL_MODE.split(",")) and rest == [1, 1, 1]
        return not same or not lock.is_held(gate, self._name, self.number)

    def gone(self, gate: Conn) -> bool:
        """End the connection from outside: whether none of its statements can be at work any more."""
        kill(self._address, self.number, "CONNECTION")
        self.close()
        if not lock.get(gate, self._name, GRACE):
            return False
        lock.release(gate, self._name)
        return True
