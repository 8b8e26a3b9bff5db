"""The connections of clients: a request comes in, an answer goes out, and its end is honest or none.

An answer can end in three ways: as its framing says (`finish`), with the close of the connection before that
(`hang_up`), or with a reset (`reset`), which no client takes for an end.
"""

import asyncio
import socket
import struct
import sys
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, cast

import httptools

from endmark.drills.proxy import heads, reading
from endmark.drills.proxy.heads import Answer, Framing, Headers

if TYPE_CHECKING:
    from endmark.drills.proxy.server import Proxy

_LONGEST_HEAD = 64 * 1024
_UNSENT = 256 * 1024  # bytes that wait for a slow client before the upstream is asked to wait too
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset
_STEP, _PATIENCE = 0.001, 5.0  # seconds


class Exchanging(Protocol):
    """What an exchange is to its client's connection."""

    def request_body(self, data: bytes) -> None: ...

    def request_end(self) -> None:
        """The request is here to its end."""

    def download_paused(self, paused: bool) -> None:
        """The client takes the answer slower than it comes."""

    def client_gone(self) -> None: ...


class Inbound(asyncio.Protocol):
    """One client. Its requests are answered one at a time; one that does not wait for its turn is not taken."""

    def __init__(self, proxy: "Proxy") -> None:
        self._proxy = proxy
        self.transport = cast(asyncio.Transport, None)  # set before anything else happens
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: Headers = []
        self._head_bytes = 0
        self._in_head = True
        self._closes_after = False  # the answer came before the end of its request
        self._resetting = False
        self._over = False  # nothing more is read: what comes is not for us
        self._again = b""  # a head whose wish for another protocol was left out, to be read once more
        self._keep_alive = True
        self._minor = 1
        self._method = ""
        self._framing = Framing.NONE
        self.head_sent = False
        self.sent = 0  # bytes of the body
        self._taker: Exchanging | None = None

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_UNSENT)
        self._proxy.clients.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._proxy.clients.discard(self)
        taker, self._taker = self._taker, None
        if taker is not None:
            taker.client_gone()

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._stay(data[upgrade.args[0] :])
        except httptools.HttpParserError as fault:
            self._refuse(400, f"the request is not HTTP/1.1: {fault}")
        else:
            if self._head_bytes > _LONGEST_HEAD:
                self._refuse(431, f"the head of the request is longer than {_LONGEST_HEAD:,} bytes")

    def eof_received(self) -> bool:
        """A client that has gone looks like one that only sends no more: neither gets an answer that looks whole."""
        if self._taker is not None or self._resetting:
            self.reset_now()
        return False

    def pause_writing(self) -> None:
        if self._taker is not None:
            self._taker.download_paused(True)

    def resume_writing(self) -> None:
        if self._taker is not None:
            self._taker.download_paused(False)

    # --- called by the parser

    def on_message_begin(self) -> None:
        if self._taker is not None:  # answering one after the other would take a queue; closing is as good (RFC 9112)
            self._over = True

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._head_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))
        self._head_bytes += len(name) + len(value)

    def on_headers_complete(self) -> None:
        if self._over or self._head_bytes > _LONGEST_HEAD:
            return
        self._in_head, self._head_bytes = False, 0
        self._method = self._parser.get_method().decode("latin-1")
        self._keep_alive = self._parser.should_keep_alive()
        version = self._parser.get_http_version()
        self._minor = 0 if version == "1.0" else 1
        headers, self._headers = self._headers, []
        url, self._url = self._url, b""
        self.head_sent, self.sent = False, 0
        refused = reading.refused(self._method, version, url, headers)
        if refused is not None:
            self._refuse(*refused)
            return
        if self._parser.should_upgrade():
            self._again = reading.without_upgrade(self._method, version, url, headers)
            return
        request = reading.request(self._method, url, headers)
        if self._minor and heads.values(headers, b"expect").lower() == "100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._taker = self._proxy.begin(self, request)

    def on_body(self, body: bytes) -> None:
        if self._taker is not None and not self._over:
            self._taker.request_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        if self._again:  # it has only begun
            return
        if self._closes_after:
            self._over = True
            self.transport.close()
        if self._taker is not None and not self._over:
            self._taker.request_end()

    # --- asked by an exchange

    def send_head(self, answer: Answer, data: bytes = b"") -> None:
        """The head of the answer and the first bytes of its body; the framing is the answer's own where this client
        can read it."""
        framing = answer.framing
        headers = [*heads.passed(answer.headers), *_framed(answer)]
        if framing is Framing.CHUNKED and self._minor == 0:
            framing, headers = Framing.CLOSE, heads.passed(headers)
        self._framing = framing
        if framing is Framing.CLOSE or self._over or self._proxy.stopping:
            self._keep_alive = False
        if not self._keep_alive:
            headers.append((b"Connection", b"close"))
        elif self._minor == 0:
            headers.append((b"Connection", b"keep-alive"))
        self.head_sent = True
        self.sent = len(data)
        head = heads.write(b"HTTP/1.1 %d %b" % (answer.status, answer.reason), headers)
        self.transport.write(b"".join((head, self._frame(data))) if data else head)

    def send(self, data: bytes | memoryview) -> None:
        """The next bytes of the body."""
        if not data:
            return
        self.sent += len(data)
        self.transport.write(self._frame(data))

    def finish(self) -> None:
        """The end that the framing promised."""
        if self._framing is Framing.CHUNKED:
            self.transport.write(b"0\r\n\r\n")
        self._taker = None
        if not self._in_head and not self._over:  # a close now could cost the client the answer: it is still sending
            self._closes_after = True
            asyncio.get_running_loop().call_later(_PATIENCE, self.transport.close)
            return
        self._headers = []  # trailers are no headers of the next request
        if not self._keep_alive or self._over or self._proxy.stopping:
            self.transport.close()

    def hang_up(self) -> None:
        """The close of the connection, whatever the framing promised."""
        self._taker, self._over = None, True
        self.transport.close()

    async def reset(self) -> None:
        """A reset, once all that was sent has reached the client, or after some seconds."""
        self._taker, self._over, self._resetting = None, True, True
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _PATIENCE
        while not self._has_arrived() and loop.time() < give_up and not self.transport.is_closing():
            await asyncio.sleep(_STEP)
        self.reset_now()

    def reset_now(self) -> None:
        """A reset, and what has not reached the client yet is lost."""
        taker, self._taker = self._taker, None
        self._over = True
        sock = self.transport.get_extra_info("socket")
        with suppress(OSError):  # it is closed already
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()
        if taker is not None:
            taker.client_gone()

    def answer(self, status: int, detail: str) -> None:
        """An answer of the proxy's own."""
        head, body = heads.problem(status, detail)
        self.send_head(head, b"" if self._method == "HEAD" else body)
        self.finish()

    def close_if_idle(self) -> None:
        """Between two requests nothing is lost by a close. Where a reset is due, a close may look like an end."""
        if self._resetting:
            self.reset_now()
        elif self._taker is None:
            self.transport.close()

    # --- the rest

    def _stay(self, rest: bytes) -> None:
        """Go on with HTTP/1.1 (RFC 9110 section 7.8): the parser takes what follows for the other protocol's."""
        if self._over:  # it was refused with its head
            return
        again, self._again = self._again, b""
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(again + rest)

    def _refuse(self, status: int, detail: str) -> None:
        self._over, self._keep_alive = True, False
        if self._taker is not None:  # inside the body of a request whose answer may have begun
            self.reset_now()
            return
        self.answer(status, f"{detail}. Nothing was passed on.")

    def _frame(self, data: bytes | memoryview) -> bytes | memoryview:
        return b"%x\r\n%b\r\n" % (len(data), bytes(data)) if self._framing is Framing.CHUNKED else data

    def _has_arrived(self) -> bool:
        if self.transport.get_write_buffer_size():
            return False
        sock = self.transport.get_extra_info("socket")
        return sock is None or _unacknowledged(sock) == 0


def _framed(answer: Answer) -> Headers:
    """The headers of an answer's framing. Of an answer without a body they say what a GET would bring."""
    if answer.framing is Framing.CHUNKED:
        return [(b"Transfer-Encoding", b"chunked")]
    if answer.length is not None and answer.status != HTTPStatus.NO_CONTENT:  # RFC 9110 section 8.6
        return [(b"Content-Length", b"%d" % answer.length)]
    return []


def _unacknowledged(sock: socket.socket) -> int:
    """Bytes that the other side has not taken yet, as the system counts them; 0 where it does not say."""
    import fcntl

    try:
        if sys.platform == "darwin":
            return sock.getsockopt(socket.SOL_SOCKET, 0x1024)  # SO_NWRITE
        return int(struct.unpack("i", fcntl.ioctl(sock.fileno(), 0x5411, b"\0\0\0\0"))[0])  # SIOCOUTQ
    except OSError:
        return 0
