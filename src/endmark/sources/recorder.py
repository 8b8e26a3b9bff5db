"""The record of what passed through one capture: at most one response is kept, and how it ended is always known."""

import re
import time
from collections.abc import Callable
from typing import Any

import msgspec

from endmark.core.ending import Ending
from endmark.core.refusal import Refused, Signal
from endmark.sources import asked
from endmark.sources.capture import DEFAULT_LIMIT, Capture

DEFAULT_IDLE = 600.0

# What the last bytes look like where an answer may be over. It decides nothing but whether it is worth reading on for
# the end of the body, when a client closes without having seen it.
_MAY_BE_OVER = re.compile(
    rb'\[DONE\]|message_stop|message-end|messageStop|response\.completed|"done" ?: ?true'
    rb'|"(?:finish_reason|finishReason|stop_reason|stopReason)" ?: ?"'
)
_TAIL = 4096
# What only says that the connection is alive: comments, empty lines, and Anthropic's pings. A portion that is no such
# thing, or a piece of one, counts as progress: that can make a limit later, never earlier.
_HEARTBEATS = re.compile(rb'(?:(?::[^\r\n]*|event: ?ping|data: ?\{ ?"type" ?: ?"ping" ?\})?(?:\r\n|\r|\n))+')


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What one response said of itself before its body, and which wire the request's URL stands for.

    Nothing else of the request is in it: URLs carry keys too.
    """

    status: int
    http_version: str  # "" where the transport does not say
    content_encoding: str = ""
    transfer_encoding: str = ""
    content_length: str = ""
    wire: str | None = None
    path: str = ""
    bodiless: bool = False  # HEAD, 204 and 304 have none, whatever their headers declare


class Exchange:
    """One response on its way: the bytes so far, and its ending once it is known."""

    def __init__(
        self, head: Head, request_body: bytes | None, limit: int, idle: float | None, clock: Callable[[], float]
    ) -> None:
        self.head = head
        self.idle = idle
        self._clock = clock
        self._moved = clock()  # when something came that was more than a heartbeat
        self.ending: Ending | None = None
        self.why = ""
        self.received = 0
        self.chunks: list[bytes] = []
        self._limit = limit
        self._request_body = request_body
        self._asked: asked.Asked | None = None

    def keep(self, chunk: bytes) -> None:
        """One more portion has passed."""
        self.received += len(chunk)
        if self.received <= self._limit:
            self.chunks.append(chunk)
        elif self.chunks:
            self.chunks = []  # refused already; there is no use in holding them

    def stands_still(self, chunk: bytes) -> bool:
        """Whether `chunk`, the last one kept, is a heartbeat, and nothing else has come for longer than the limit."""
        now = self._clock()
        if _HEARTBEATS.fullmatch(chunk) is None:
            self._moved = now
        return self.idle is not None and now - self._moved > self.idle

    def exhausted(self) -> None:
        """The transport says that the body is over. What that is worth, its framing says."""
        self._end(*_framed_end(self.head, self.received))

    def failed(self, fault: BaseException) -> None:
        """The transport raised."""
        self._end(*_failure(fault, self.head))

    def left(self, why: str = "whoever was reading stopped before the end of the body") -> None:
        """The body was closed by this side."""
        self._end(Ending.SHORT, why)

    def stalled(self, seconds: float) -> None:
        """The answer seems to be over and the body did not end."""
        self._end(Ending.IDLE, f"the answer seemed to be over, and the end of the body did not come for {seconds:g} s")

    def _end(self, ending: Ending, why: str = "") -> None:
        if self.ending is None:
            self.ending, self.why = ending, why
            if self.received > self._limit:
                self.ending = Ending.TOO_LONG
                self.why = f"{self.received:,} bytes arrived, over the limit of {self._limit:,}"
        self.asked()

    @property
    def may_be_over(self) -> bool:
        """Whether the end of the body may be all that is missing."""
        if self.head.content_encoding:
            return True
        tail = b""
        for chunk in reversed(self.chunks):
            tail = chunk[-_TAIL:] + tail
            if len(tail) >= _TAIL:
                break
        return _MAY_BE_OVER.search(tail) is not None

    def asked(self) -> asked.Asked:
        """What the request asked for. Its body is read once, not before the answer has passed, and not kept."""
        if self._asked is None:
            self._asked = asked.read(self._request_body)
            self._request_body = None
        return self._asked


class Recorder:
    """What passes through the transports of one capture."""

    def __init__(
        self,
        *,
        wire: str | None = None,
        limit: int = DEFAULT_LIMIT,
        idle: float | None = DEFAULT_IDLE,
        allow_close_delimited: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.wire = wire
        self.idle = idle
        self._clock = clock
        self._limit = limit
        self._allow_close_delimited = allow_close_delimited
        self.reset()

    def reset(self) -> None:
        """Forget what passed; the next response is the one."""
        self._exchange: Exchange | None = None
        self._statuses: list[int] = []
        self._failures: list[str] = []

    def begin(self, head: Head, request_body: bytes | None) -> Exchange | None:
        """A response is about to pass. None for any after the first: none of them is kept."""
        self._statuses.append(head.status)
        if len(self._statuses) > 1:
            return None
        self._exchange = Exchange(head, request_body, self._limit, self.idle, self._clock)
        return self._exchange

    def no_response(self, fault: BaseException) -> None:
        """A request failed before any response of its own came."""
        self._failures.append(type(fault).__name__)

    def capture(self) -> Capture:
        """The one response that passed. Raises Refused where there is none or more than one, or none with an answer.

        Raises ValueError where no wire was named and the request's URL does not tell.
        """
        exchange = self._exchange
        if exchange is None:
            failed = f"; {len(self._failures)} requests failed: {', '.join(self._failures)}" if self._failures else ""
            raise Refused(Signal.UNREACHABLE, 0, None, f"no response passed through this capture{failed}")
        received = exchange.received
        if len(self._statuses) > 1:  # CA1
            raise Refused(Signal.WEAK_EVIDENCE, received, None, _several(self._statuses))
        if self._failures:  # CA1
            raise Refused(Signal.WEAK_EVIDENCE, received, None, _failed(self._failures))
        status = exchange.head.status
        if not 200 <= status < 300 or status == 206:  # CA1; 206 is a part of a body, by its own word
            raise Refused(Signal.UNREACHABLE, received, None, f"the response is HTTP {status}, no answer")
        wire = self.wire or exchange.head.wire
        if wire is None:
            raise ValueError(f"no known wire answers at {exchange.head.path!r}; name it: endmark.capture(wire=...)")
        ending, why = exchange.ending, exchange.why
        if ending is None:
            ending, why = Ending.SHORT, "the body has not been read to its end yet"
        wanted = exchange.asked()
        return Capture(
            raw=b"".join(exchange.chunks),
            ending=ending,
            content_encoding=exchange.head.content_encoding,
            wire=wire,
            max_output_tokens=wanted.max_output_tokens,
            stop_sequences=wanted.stop_sequences,
            allow_close_delimited=self._allow_close_delimited,
            facts=wanted.facts,
            why=why,
        )


def _failed(failures: list[str]) -> str:
    count = "a request" if len(failures) == 1 else f"{len(failures)} requests"
    return (
        f"{count} failed without a response ({', '.join(failures[:3])}), and another one was answered: a retry. "
        "One capture holds one request and its response: turn retries off, or call reset() between requests"
    )


def _several(statuses: list[int]) -> str:
    first, *rest = statuses
    kind = "a redirect" if 300 <= first < 400 else "a retry" if first >= 400 else "a second answer, or a retry"
    shown = ", ".join(f"HTTP {status}" for status in rest[:3])
    return (
        f"{len(statuses)} responses passed through one capture, HTTP {first} and then {shown}: {kind}. "
        "One capture holds one response: turn retries off, or call reset() between requests"
    )


def _framed_end(head: Head, received: int) -> tuple[Ending, str]:
    """How a body ended whose transport reports no error (CA3; RFC 9112, 6.3).

    The libraries below raise for a body that stops before its declared length or its last chunk. That one without
    either of these ends with the connection, and proves nothing, they do not say.
    """
    declared = int(head.content_length) if re.fullmatch("[0-9]{1,20}", head.content_length) else None
    if head.bodiless:
        return Ending.LENGTH_MET, ""
    if declared is not None and declared != received:
        return Ending.SHORT, f"{received:,} of the {declared:,} declared bytes arrived"
    if head.http_version.startswith(("HTTP/2", "HTTP/3")):
        return Ending.END_STREAM, ""
    if head.transfer_encoding:
        if head.transfer_encoding.strip().lower() == "chunked" and head.http_version:
            return Ending.LAST_CHUNK, ""
        return Ending.CLOSED, f"the transfer coding {head.transfer_encoding[:40]!a} was not seen to end"
    if declared is not None:
        return Ending.LENGTH_MET, ""
    return Ending.CLOSED, ""


# By name: httpx, httpx2 and httpcore have classes of their own, equal in name and meaning.
_IDLE = frozenset({"ReadTimeout", "PoolTimeout", "ConnectTimeout", "WriteTimeout", "TimeoutError"})


def _failure(fault: BaseException, head: Head) -> tuple[Ending, str]:
    name, said = type(fault).__name__, ascii(str(fault))[1:-1][:160]
    why = f"{name}: {said}" if said else name
    if not isinstance(fault, Exception):  # cancelled or interrupted: it was this side that stopped
        return Ending.SHORT, f"whoever was reading stopped before the end of the body ({why})"
    if name in _IDLE:
        return Ending.IDLE, why
    if name == "RemoteProtocolError" and not head.http_version.startswith(("HTTP/2", "HTTP/3")):
        return Ending.SHORT, why  # h11: the peer closed before the declared length or the last chunk
    if name == "InvalidBodyLengthError":
        return Ending.SHORT, why  # h2: END_STREAM before, or data after, the declared length
    return Ending.RESET, why


def header(headers: Any, name: str) -> str:
    """The value of a response's header, several joined by commas; "" for none."""
    return ", ".join(headers.get_list(name))
