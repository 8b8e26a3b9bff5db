"""Any HTTP endpoint: the payload is the body of a request, which may also end badly on its way."""

import socket
import ssl
import struct
import time
from typing import Any
from urllib.parse import urlsplit

import msgspec

from endmark.core.refusal import CannotTry
from endmark.drills.body import Body, DoesNotFit, Part, Pause
from endmark.drills.faults import Broken, End
from endmark.drills.targets.answer import Answer, Rules, Seen

_RECEIVED = 1 << 16
_LONGEST = 1 << 24  # bytes of an answer that are kept
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close() sends RST


class HttpTarget(msgspec.Struct, frozen=True, kw_only=True):
    """`headers` as (name, value). `limit` in seconds for one answer. `watched`: the effect is looked at, so that a
    request whose answer nobody can see is worth sending."""

    url: str
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    limit: float = 10.0
    rules: Rules = Rules()
    watched: bool = False

    @property
    def name(self) -> str:
        return f"{self.method} {self.url.partition('?')[0]}"

    def open(self, worker: int) -> "HttpPlayer":
        return HttpPlayer(self)


class _Response:
    """What the parser tells. `status` is 0 until a final answer is whole."""

    def __init__(self, make: Any) -> None:
        self.parser = make(self)
        self.raw = b""
        self.body = bytearray()
        self.status = 0
        self.keeps = False

    def on_message_complete(self) -> None:
        status = self.parser.get_status_code()
        if status >= 200 and not self.status:  # and no interim answer, such as 100
            self.status = status
            self.keeps = self.parser.should_keep_alive()  # the parser knows it now, and later no more

    def end(self) -> None:
        """The connection has ended. Raises _Gone, but where that is the end of the body: neither length nor chunks."""
        head, whole, _ = self.raw.rpartition(b"HTTP/1.")[2].partition(b"\r\n\r\n")
        if not whole or b"content-length:" in head.lower() or b"transfer-encoding:" in head.lower():
            raise _Gone(bool(self.raw))
        self.status = self.parser.get_status_code()


class _Listening(_Response):
    """Where a rule wants to see the body too."""

    def on_body(self, data: bytes) -> None:
        if len(self.body) < _LONGEST:
            self.body += data


class _Gone(Exception):
    """The connection ended before a whole answer. `began`: some of one was there."""

    def __init__(self, began: bool) -> None:
        super().__init__()
        self.began = began


class HttpPlayer:
    """Keeps one connection for the requests that end well."""

    in_process = False

    def __init__(self, target: HttpTarget) -> None:
        try:
            import httptools
        except ImportError:
            raise CannotTry("an HTTP drill needs httptools: pip install 'endmark[proxy]'") from None
        self._parser = httptools.HttpResponseParser
        self._fault = httptools.HttpParserError
        self._target = target
        parts = urlsplit(target.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CannotTry(f"{target.url}: a URL such as http://127.0.0.1:8000/jobs was expected")
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        named = {name.lower() for name, _ in target.headers}
        lines = [f"{target.method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in target.headers)]
        lines += [] if "host" in named else [f"Host: {parts.netloc.rpartition('@')[2]}"]
        lines += [] if "content-type" in named else ["Content-Type: application/json"]
        self._head = "\r\n".join([*lines, ""]).encode("latin-1")
        self._kept: socket.socket | None = None

    def play(self, broken: Broken | None, body: Body) -> Seen:
        if broken is None:
            return self.give(body.data)
        parts = broken.fault.play(body)
        if broken.end is End.POLITE and all(isinstance(part, bytes) for part in parts):
            return self.give(b"".join(part for part in parts if isinstance(part, bytes)))
        if broken.end is End.RST and not self._target.watched:
            raise DoesNotFit("nobody sees an answer after a reset; watch the effect with --effect")
        return self._broken(parts, broken.end, len(body.data))

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    # --- a request that ends well

    def give(self, data: bytes) -> Seen:
        """What the endpoint makes of a request with this body."""
        request = b"%bContent-Length: %d\r\n\r\n%b" % (self._head, len(data), data)
        until = time.monotonic() + self._target.limit
        again = self._kept is not None  # a kept connection may have been closed meanwhile
        try:
            try:
                return self._ask(request, until)
            except _Gone as gone:
                if again and not gone.began:
                    return self._ask(request, until)
                raise
        except _Gone:
            return Seen(Answer.CRASHED, "closed the connection without an answer")
        except TimeoutError:
            self.close()
            return Seen(Answer.HUNG, f"no answer within {self._target.limit:g} s")

    def _ask(self, request: bytes, until: float) -> Seen:
        if self._kept is None:
            self._kept = self._connect()
        connection, keeps = self._kept, False
        try:
            try:
                connection.sendall(request)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it may have answered before it took all
            except BlockingIOError:
                raise TimeoutError from None
            seen, keeps = self._answer(connection, until)
            return seen
        finally:
            if not keeps:
                self.close()

    # --- a request that does not

    def _broken(self, parts: list[Part], end: End, whole: int) -> Seen:
        until = time.monotonic() + self._target.limit
        chunked = end is End.FIN
        sent = sum(len(part) for part in parts if isinstance(part, bytes))
        framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % max(whole, sent + 1)
        stalls = any(isinstance(part, Pause) for part in parts)
        with self._connect() as connection:
            try:
                connection.sendall(b"%b%b\r\n\r\n" % (self._head, framing))
                for part in parts:
                    if isinstance(part, bytes) and part:
                        connection.sendall(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
                    elif isinstance(part, Pause) and part.seconds is not None:
                        time.sleep(min(part.seconds, max(0.0, until - time.monotonic())))
                if end is End.RST:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    return Seen(Answer.REFUSED, "reset")
                if not stalls:
                    connection.shutdown(socket.SHUT_WR)
                seen, _ = self._answer(connection, until)
            except (_Gone, BrokenPipeError, ConnectionResetError):
                return Seen(Answer.REFUSED, "hung up")
            except (TimeoutError, BlockingIOError):
                return Seen(Answer.HUNG, f"no answer within {self._target.limit:g} s")
            return seen

    # --- both

    def _connect(self) -> socket.socket:
        try:
            made = socket.create_connection((self._host, self._port), self._target.limit)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                return self._tls.wrap_socket(made, server_hostname=self._host)
            # The system's own time limit spares a call before every one that reads.
            made.settimeout(None)
            whole, part = divmod(self._target.limit, 1)
            for which in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                made.setsockopt(socket.SOL_SOCKET, which, struct.pack("ll", int(whole), max(1, int(part * 1e6))))
            return made
        except OSError as fault:
            raise CannotTry(f"{self._host}:{self._port} cannot be reached: {fault.strerror or fault}") from None

    def _answer(self, connection: socket.socket, until: float) -> tuple[Seen, bool]:
        """The answer, and whether the connection may be kept."""
        response = (_Response if self._target.rules.stdout is None else _Listening)(self._parser)
        while not response.status:
            if response.raw and time.monotonic() > until:
                raise TimeoutError
            try:
                data = connection.recv(_RECEIVED)
            except BlockingIOError:
                raise TimeoutError from None
            except (ConnectionResetError, BrokenPipeError):
                data = b""
            if not data:
                response.end()
                break
            if len(response.raw) < _RECEIVED:
                response.raw += data
            try:
                response.parser.feed_data(data)
            except self._fault:
                return Seen(Answer.CRASHED, "an answer that is no HTTP"), False
        return self._target.rules.of_status(response.status, bytes(response.body)), response.keeps
