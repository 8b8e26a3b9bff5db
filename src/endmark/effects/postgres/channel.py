"""One connection, spoken to in pipelines: many messages go out, their replies come back in order.

Only the extended protocol is used, in which the server takes no two statements in one message. Every wait has an end,
and is interrupted when somebody asks to stop.
"""

import contextlib
import select
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

import psycopg
from psycopg import pq
from psycopg.abc import ConnParam
from psycopg.pq import DiagnosticField as Field
from psycopg.pq import ExecStatus

from endmark.effects.target import Stop

COPIES = "0A000"  # SQLSTATE feature_not_supported
TEXT = 25  # the type `text`; every parameter of ours is one
_AHEAD = 128  # messages sent and not yet replied to
_AHEAD_BYTES = 256 * 1024
_ROWS = 4_096  # rows of one result between two looks at `stop`
_LOOK = 0.05  # seconds between two looks at the clock and at `stop`
_GRACE = 5.0  # seconds that a server gets to obey a cancel
_CANCEL = 3.0  # seconds that asking it to may take


class Step(NamedTuple):
    """One statement and its parameters, all of type text. With `keeps` it is only parsed, and kept by that name; with
    `kept` the one of that name runs."""

    sql: bytes
    values: tuple[str | None, ...] = ()
    keeps: bytes = b""
    kept: bytes = b""


class Fault(Exception):
    """What the server refused, in its words."""

    def __init__(
        self, sqlstate: str, message: str, severity: str = "ERROR", raised_in: str = "", context: str = ""
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message
        self.severity = severity
        self.raised_in = raised_in  # the C function of the server that raised it
        self.context = context  # the functions of the database that led there; empty for the statement itself


class Lost(Exception):
    """The connection is gone, or was given up."""


class Late(Exception):
    """The server said nothing for as long as it may."""


class Stopped(Exception):
    """Somebody asked to stop; `by` says who."""

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.by = by


class Reply(NamedTuple):
    """What came back for one step. `rows` are kept only where they were asked for."""

    tag: str
    columns: int
    rows: list[tuple[str | None, ...]]


class Ahead:
    """What was asked already, and is heard when it is needed: the server works meanwhile."""

    def __init__(self, replies: Generator[Reply]) -> None:
        self._replies = replies
        self._heard: list[Reply] = []

    def hear(self, at: int) -> Reply:
        """The reply to step number `at`, from 0. Raises as `Channel.talk` does."""
        while len(self._heard) <= at:
            reply = next(self._replies, None)
            if reply is None:  # it ended with a fault, which somebody else was told
                raise Lost("the server did not come that far")
            self._heard.append(reply)
        return self._heard[at]

    def hear_all(self) -> None:
        """Every reply. Raises as `Channel.talk` does."""
        self._heard.extend(self._replies)

    def forget(self) -> None:
        """Wait for the end of what the server is at, and keep nothing of it. Raises nothing."""
        self._replies.close()


def _never() -> None:
    return None


def _nothing(_waited: float) -> None:
    return None


class Channel:
    """A connection to one server."""

    def __init__(self, parameters: dict[str, ConnParam]) -> None:
        """Connect. Raises psycopg.Error."""
        self._conn = psycopg.connect(autocommit=True, prepare_threshold=None, **parameters)  # type: ignore[arg-type]
        self.parameters = parameters
        self._pg = self._conn.pgconn
        self._pg.nonblocking = 1
        self.pid = self._pg.backend_pid
        self._sent: deque[int] = deque()  # the size of each step that has no reply yet
        self._synced = False
        self._count = 0  # of the steps sent
        self._ahead: Ahead | None = None

    @property
    def version(self) -> int:
        """The server's release as libpq spells it: 150_004 is 15.4."""
        return self._pg.server_version

    @property
    def is_open(self) -> bool:
        return not self._conn.closed and self._pg.status == pq.ConnStatus.OK

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, be it a failed one."""
        return self.is_open and self._pg.transaction_status != pq.TransactionStatus.IDLE

    def close(self) -> None:
        """End the connection; the server rolls back what is open. Raises nothing."""
        with contextlib.suppress(psycopg.Error, OSError):
            self._conn.close()

    def ask_ahead(self, *steps: Step, silence: float, waiting: Callable[[float], None] = _nothing) -> Ahead:
        """Say all of `steps`, and hear the reply to the first one; the others are heard before anything else is said.
        Raises as `talk` does."""
        ahead = Ahead(self.talk(steps, silence=silence, keep=True, waiting=waiting))
        ahead.hear(0)
        self._ahead = ahead
        return ahead

    def forget(self) -> None:
        """Keep nothing of what was asked ahead and is not heard yet. Raises nothing."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.forget()

    def ask(self, *steps: Step, silence: float, waiting: Callable[[float], None] = _nothing) -> list[Reply]:
        """Say all of `steps` and hear every reply. Raises as `talk` does."""
        return list(self.talk(steps, silence=silence, keep=True, prompt=0, waiting=waiting))

    def ask_but_last(
        self, *steps: Step, silence: float, waiting: Callable[[float], None] = _nothing
    ) -> tuple[list[Reply], Fault | None]:
        """As `ask`, where the last step may fail."""
        replies: list[Reply] = []
        try:
            for reply in self.talk(steps, silence=silence, keep=True, prompt=0, waiting=waiting):
                replies.append(reply)
        except Fault as fault:
            if len(replies) < len(steps) - 1:
                raise
            return replies, fault
        return replies, None

    def talk(
        self,
        steps: Iterable[Step],
        *,
        silence: float,
        stop: Stop = _never,
        keep: bool = False,
        prompt: int = 1,
        waiting: Callable[[float], None] = _nothing,
    ) -> Generator[Reply]:
        """The reply to each step, in order. At the first fault the server skips all that follow it.

        `silence`: seconds without any reply that are borne; `waiting` is told how many have passed; `keep`: rows are
        wanted; `prompt`: replies come at once for the first and then every so many steps, the others with those.
        Raises Fault, Late, Stopped (after the server was told to cancel) and Lost. Whoever stops listening
        early leaves a connection whose transaction can only be rolled back.
        """
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            ahead.hear_all()
        if not self.is_open:
            raise Lost("the connection is closed")
        self._sent.clear()
        self._count = 0
        self._synced = heard = False
        try:
            self._pg.enter_pipeline_mode()
            yield from self._talk(iter(steps), silence, stop, keep, prompt, waiting)
            heard = self._drain()
        except psycopg.Error as error:
            self.close()
            raise Lost(_words(error)) from None
        except OSError as error:
            self.close()
            raise Lost(str(error)) from None
        finally:
            if not heard:
                self._abandon()

    def _talk(
        self,
        steps: Iterator[Step],
        silence: float,
        stop: Stop,
        keep: bool,
        prompt: int,
        waiting: Callable[[float], None],
    ) -> Iterator[Reply]:
        pg, sent = self._pg, self._sent
        self._send(steps, prompt)
        is_first, rows = not keep, 0  # of the results for one step
        while sent:
            if is_first:
                pg.set_single_row_mode()  # what a SELECT of the plan returns is not kept
                is_first = False
            if pg.is_busy():
                self._await(silence, stop, waiting)
            result = pg.get_result()
            if result is None:
                raise Lost("the server's replies do not fit what it was asked")
            if result.status == ExecStatus.SINGLE_TUPLE:
                rows += 1
                if not rows % _ROWS and (by := stop()) is not None:
                    self.cancel()
                    raise Stopped(by)
                continue
            rows = 0
            reply = self._hear(result, keep)
            if pg.get_result() is not None:  # None ends the results of each step
                raise Lost("the server sent two results for one statement")
            sent.popleft()
            is_first = not keep
            if len(sent) < _AHEAD // 2 and not self._synced:
                self._send(steps, prompt)
            yield reply

    def _send(self, steps: Iterator[Step], prompt: int) -> None:
        """Send what may be sent now; after the last step a sync."""
        pg, ahead = self._pg, sum(self._sent)
        while len(self._sent) < _AHEAD and ahead < _AHEAD_BYTES:
            step = next(steps, None)
            if step is None:
                pg.pipeline_sync()
                self._synced = True
                return
            values = [None if value is None else value.encode() for value in step.values]
            if step.keeps:
                pg.send_prepare(step.keeps, step.sql)
            elif step.kept:
                pg.send_query_prepared(step.kept, None)
            else:
                pg.send_query_params(step.sql, values or None, [TEXT] * len(values) or None)
            if prompt and not self._count % prompt:
                pg.send_flush_request()
            self._count += 1
            self._sent.append(len(step.sql))
            ahead += len(step.sql)
        pg.send_flush_request()  # else the server would keep its replies, and both would wait

    def _hear(self, result: pq.abc.PGresult, keep: bool) -> Reply:
        status = result.status
        if status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            tag = (result.command_status or b"").decode("ascii", "replace")
            return Reply(tag, result.nfields if status == ExecStatus.TUPLES_OK else -1, _rows(result) if keep else [])
        if status == ExecStatus.EMPTY_QUERY:
            return Reply("", -1, [])
        if status == ExecStatus.FATAL_ERROR:
            raise _fault(result)
        self.close()
        if status in (ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH):
            raise Fault(COPIES, "it copies to or from the client, and nobody here listens")
        raise Lost(f"the server answered with {ExecStatus(status).name}")

    def _await(self, silence: float, stop: Stop, waiting: Callable[[float], None]) -> None:
        """Wait for the next bytes, sending what is still to be sent."""
        pg, since = self._pg, time.monotonic()
        while True:
            unsent = pg.flush()
            readable = self._poll(bool(unsent))
            if readable:
                pg.consume_input()
            if not pg.is_busy():
                return
            if (by := stop()) is not None:
                self.cancel()
                raise Stopped(by)
            waited = time.monotonic() - since
            if waited > silence:
                self.cancel()
                raise Late
            if not readable:
                waiting(waited)

    def _poll(self, unsent: bool) -> bool:
        """Wait a little until there is something to read, or room to write: whether there is something to read."""
        waiter = select.poll()  # select() knows no descriptors from 1024 on
        waiter.register(self._pg.socket, select.POLLIN | (select.POLLOUT if unsent else 0))
        return any(event & ~select.POLLOUT for _descriptor, event in waiter.poll(_LOOK * 1_000))

    def cancel(self) -> None:
        """Ask the server to end what it is at, on a connection of its own. Raises nothing."""
        with contextlib.suppress(psycopg.Error, OSError):
            self._conn.cancel_safe(timeout=_CANCEL)

    def _abandon(self) -> None:
        """After a fault: hear the rest, in which the server skips everything; else end the connection."""
        try:
            if self.is_open and not self._drain():
                self.close()
        except (psycopg.Error, OSError):
            self.close()

    def _drain(self) -> bool:
        """Read on to the sync, for a while: whether the connection can be used again."""
        pg, end = self._pg, time.monotonic() + _GRACE
        if not self._synced:
            pg.pipeline_sync()
            self._synced = True
        while time.monotonic() < end:
            unsent = pg.flush()
            if pg.is_busy():
                if self._poll(bool(unsent)):
                    pg.consume_input()
                continue
            result = pg.get_result()
            if result is not None and result.status == ExecStatus.PIPELINE_SYNC:
                pg.exit_pipeline_mode()
                return True
            if result is not None and result.status in (ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH):
                return False
        return False


def _rows(result: pq.abc.PGresult) -> list[tuple[str | None, ...]]:
    def cell(row: int, column: int) -> str | None:
        value = result.get_value(row, column)
        return None if value is None else value.decode("utf-8", "replace")

    return [tuple(cell(row, column) for column in range(result.nfields)) for row in range(result.ntuples)]


def _fault(result: pq.abc.PGresult) -> Fault:
    def said(field: Field) -> str:
        return (result.error_field(field) or b"").decode("utf-8", "replace")

    message = said(Field.MESSAGE_PRIMARY) or result.error_message.decode("utf-8", "replace").strip()
    if detail := said(Field.MESSAGE_DETAIL):
        message = f"{message} ({detail.rstrip('.')})"
    severity = said(Field.SEVERITY_NONLOCALIZED) or "FATAL"  # none: libpq's own words, the connection broke
    return Fault(said(Field.SQLSTATE), message[:_SAID_MAX], severity, said(Field.SOURCE_FUNCTION), said(Field.CONTEXT))


_SAID_MAX = 1_000  # characters of a server's message that are passed on


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:_SAID_MAX] or type(error).__name__
