"""The connections to the upstream: one exchange at a time on each, kept for the next one where HTTP allows it."""

import asyncio
import ssl
from typing import Protocol, cast

import httptools
import msgspec

from endmark.core.ending import Ending
from endmark.drills.proxy.heads import Answer, Framing, Headers

_KEPT = 32  # idle connections
_KEPT_FOR = 4.0  # seconds; many servers close theirs after 5, and one that closes as it is asked costs an answer
_READ = 96 * 1024  # bytes at a time; larger ones make the allocator ask the system each time
_LENT = 512 * 1024  # bytes at a time, where none are copied
_NO_BODY = (204, 304)


class Unreachable(Exception):
    """The upstream cannot be asked. One clause says why."""


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """Where requests go. `prefix` stands before each path. `tls`: how the server's certificate is checked."""

    host: str
    port: int
    prefix: str = ""
    tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}"

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.tls else 80
        return host if self.port == usual else f"{host}:{self.port}"


class Taker(Protocol):
    """Who asked, and gets the answer."""

    def answered(self, head: Answer | None, data: bytes, ending: Ending | None) -> None:
        """What one read brought: the head if it came, the next bytes of the body, and the end if that was it."""

    def borrows(self) -> bool:
        """Whether the next bytes of the body may be lent: they are passed on as they are, and looked at by nobody."""

    def lent(self, data: memoryview) -> bool:
        """The next bytes of the body, good until this returns. True where they were kept all the same."""

    def failed(self, why: str) -> None:
        """The connection ended before any head came."""

    def upload_paused(self, paused: bool) -> None:
        """The upstream takes the body of the request slower than it comes."""


class Outbound(asyncio.BufferedProtocol):
    """One connection. Its parser is llhttp, which refuses what could be read in two ways."""

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self.transport = cast(asyncio.Transport, None)  # set before anything else happens
        self._taker: Taker | None = None
        self._method = ""
        self._parser = httptools.HttpResponseParser(self)
        self._unreadable = ""  # what of the head cannot be passed on
        self._status = 0
        self._reason = b""
        self._headers: Headers = []
        self._fresh: Answer | None = None  # a head that was read and not handed over yet
        self._head: Answer | None = None
        self._parts: list[bytes] = []
        self._room = memoryview(bytearray(_READ))
        self._complete = False
        self._asked_all = False  # the request was sent whole
        self._may_be_kept = False
        self._surplus = False  # the server went on after the end of its answer
        self._closed = False
        self._left = 0  # bytes of a declared length that are still to come
        self._unparsed = False  # the parser has not seen all of this body

    # --- asked by the exchange

    def ask(self, taker: Taker, method: str) -> None:
        """The next answer goes to `taker`."""
        self._taker, self._method = taker, method
        self._headers, self._parts = [], []  # trailers are no headers of the next answer
        self._head = self._fresh = None
        self._complete = self._asked_all = False
        self._left = 0

    def asked_all(self) -> None:
        """The request has been written to its end."""
        self._asked_all = True

    def abandon(self) -> None:
        """Nobody wants the rest."""
        self._taker = None
        self.transport.abort()

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        if self._taker is None:  # nothing was asked
            self.transport.abort()
            return
        if self._left > 0 and (self._unparsed or self._taker.borrows()):
            self._lend(self._taker, nbytes)
            return
        try:
            self._parser.feed_data(self._room[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as fault:
            self._broken(f"its answer is not HTTP/1.1: {fault}")
            return
        if self._unreadable:
            self._broken("")
            return
        self._hand_over(Ending.LAST_CHUNK if self._is(Framing.CHUNKED) else Ending.LENGTH_MET)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._pool.forget(self)
        if self._taker is None:
            return
        taker, self._taker = self._taker, None
        if self._head is None:
            how = "reset the connection" if exc is not None else "closed the connection"
            taker.failed(f"it {how} before it answered")
        elif self._is(Framing.CLOSE):
            taker.answered(None, b"", Ending.CLOSED if exc is None else Ending.RESET)
        else:
            taker.answered(None, b"", Ending.SHORT if exc is None else Ending.RESET)

    def pause_writing(self) -> None:
        if self._taker is not None:
            self._taker.upload_paused(True)

    def resume_writing(self) -> None:
        if self._taker is not None:
            self._taker.upload_paused(False)

    # --- called by the parser

    def on_message_begin(self) -> None:
        self._surplus = self._surplus or self._complete

    def on_status(self, status: bytes) -> None:
        self._reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._surplus:
            return
        self._status = self._parser.get_status_code()
        headers, self._headers = self._headers, []
        reason, self._reason = self._reason, b""
        if self._status < 200:  # told on the way; the answer is still to come
            return
        length, chunked = None, False
        for name, value in headers:
            low = name.lower()
            if low == b"content-length":
                length = int(value)
            elif low == b"transfer-encoding":
                chunked = True
                if value.lower() != b"chunked":
                    self._unreadable = f"its transfer coding {value.decode('latin-1')[:40]!a} is not undone here"
        if self._method == "HEAD" or self._status in _NO_BODY:
            framing = Framing.NONE
        elif chunked:
            framing = Framing.CHUNKED
        else:
            framing = Framing.CLOSE if length is None else Framing.LENGTH
        self._head = self._fresh = Answer(
            status=self._status, reason=reason, headers=headers, framing=framing, length=length
        )
        if framing is Framing.NONE:
            self._complete = True
        elif framing is Framing.LENGTH:
            self._left = length or 0
            self._may_be_kept = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self._surplus = self._surplus or self._is(Framing.NONE)  # bytes where none belong are passed to nobody
        if not self._surplus:
            self._parts.append(body)
            self._left -= len(body)

    def on_message_complete(self) -> None:
        self._complete = self._complete or self._status >= 200
        self._may_be_kept = self._parser.should_keep_alive()  # the parser knows it now, and later no more

    # --- the rest

    def _lend(self, taker: Taker, nbytes: int) -> None:
        """The body of a declared length, past the parser: it would only count."""
        self._unparsed = True
        mine = min(nbytes, self._left)
        self._left -= mine
        data = self._room[:mine]
        if self._left:
            if not taker.borrows():
                taker.answered(None, bytes(data), None)
            elif taker.lent(data) or len(self._room) < _LENT:
                self._room = memoryview(bytearray(_LENT))
            return
        self._complete, self._surplus, self._unparsed = True, mine < nbytes, False
        self._parser = httptools.HttpResponseParser(self)  # the old one still waits for what it was not shown
        self._parts = [bytes(data)]
        self._hand_over(Ending.LENGTH_MET)

    def _is(self, framing: Framing) -> bool:
        return self._head is not None and self._head.framing is framing

    def _hand_over(self, whole: Ending) -> None:
        taker, head = self._taker, self._fresh
        self._fresh = None
        parts = self._parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if parts:
            self._parts = []
        if taker is None or self._head is None:
            return
        if not self._complete:
            if head is not None or data:
                taker.answered(head, data, None)
            return
        self._taker = None
        sent = self._asked_all and not self.transport.get_write_buffer_size()
        if sent and self._may_be_kept and self._method != "HEAD" and not (self._surplus or self._closed):
            self._pool.keep(self)
        elif sent:
            self.transport.close()
        else:  # what would be written next here belongs to a request that is answered already
            self.transport.abort()
        taker.answered(head, data, whole)

    def _broken(self, why: str) -> None:
        taker, self._taker = self._taker, None
        self.transport.abort()
        if taker is None:
            return
        if self._head is None or self._unreadable:
            taker.failed(self._unreadable or why)
        else:
            taker.answered(self._fresh, b"".join(self._parts), Ending.SHORT)


class Pool:
    """The connections to one upstream: made when needed, the one that was used last is used first."""

    def __init__(self, upstream: Upstream, connect_timeout: float) -> None:
        self.upstream = upstream
        self._timeout = connect_timeout
        self._idle: dict[Outbound, asyncio.TimerHandle] = {}

    def take(self) -> Outbound | None:
        """An idle connection, if there is one."""
        while self._idle:
            found, timer = self._idle.popitem()
            timer.cancel()
            if not found.transport.is_closing():
                return found
        return None

    async def connect(self) -> Outbound:
        """A new connection. Raises Unreachable."""
        where, loop = self.upstream, asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout):
                _, made = await loop.create_connection(
                    lambda: Outbound(self), where.host, where.port, ssl=where.tls, server_hostname=None
                )
        except TimeoutError:
            raise Unreachable(f"it did not take the connection within {self._timeout:g} seconds") from None
        except ssl.SSLCertVerificationError as fault:
            raise Unreachable(f"its certificate is not trusted: {fault.verify_message}") from None
        except (OSError, UnicodeError) as fault:
            raise Unreachable(_why(fault)) from None
        return made

    def keep(self, connection: Outbound) -> None:
        """For the next exchange."""
        if len(self._idle) >= _KEPT:
            connection.transport.close()
            return
        loop = asyncio.get_running_loop()
        self._idle[connection] = loop.call_later(_KEPT_FOR, connection.transport.close)

    def forget(self, connection: Outbound) -> None:
        timer = self._idle.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        for connection in list(self._idle):
            self.forget(connection)
            connection.transport.close()


def _why(fault: Exception) -> str:
    if isinstance(fault, ConnectionRefusedError):
        return "nothing takes connections there"
    if isinstance(fault, ssl.SSLError):
        return f"TLS failed: {fault}"
    return str(fault.strerror if isinstance(fault, OSError) and fault.strerror else fault).lower()
