"""A small real HTTP server whose every byte, and every way to end a body, a test decides.

`Script` is one response: its body in pieces, how it is framed and how it ends; a function of a request's head and body
may make it. The server hands them out in order, the last one for ever, and remembers what it was asked.
"""

import gzip
import socket
import struct
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

# How a body ends. The first four are what a well-meaning server does; CHUNK_FIN is a chunked body without its 0-chunk.
CHUNKED, LENGTH, CLOSE, CHUNK_FIN, SHORT, RST, STALL = (
    "chunked",
    "length",
    "close",
    "chunk-fin",
    "short",
    "rst",
    "stall",
)
ENDINGS = (CHUNKED, LENGTH, CLOSE, CHUNK_FIN, SHORT, RST, STALL)


@dataclass
class Script:
    """One response. `pieces` are sent one `send` each; `cut` counts bytes of the body, None for all of it."""

    body: bytes = b""
    ending: str = CHUNKED
    status: str = "200 OK"
    headers: dict = field(default_factory=dict)
    content_type: str = "text/event-stream"
    pieces: list | None = None
    cut: int | None = None
    zipped: bool = False
    before_head: float = 0.0  # seconds before anything comes back
    before_end: float = 0.0  # seconds between the last byte of the body and its end
    hold: threading.Event | None = None  # set by the test to let the rest of the pieces go
    end: bytes = b"0\r\n\r\n"  # of a chunked body
    drop: bool = False  # close before any byte of a response

    def sent(self):
        """The bytes of the body that go out, after the content coding and before the transfer coding."""
        whole = gzip.compress(self.body, mtime=0) if self.zipped else self.body
        return whole if self.cut is None else whole[: self.cut]

    def portions(self):
        if self.pieces is not None:
            return [piece for piece in self.pieces if piece]
        sent = self.sent()
        return [sent[at : at + 4096] for at in range(0, len(sent), 4096)]


def sse_pieces(body):
    """The events of a stream, one portion each."""
    return [event + b"\n\n" for event in body.split(b"\n\n") if event]


class Server:
    """One listening socket; a thread for each connection; HTTP/1.1 with keep-alive where the ending allows it."""

    def __init__(self, *scripts, tls=None):
        self.scripts = list(scripts)
        self.requests = []
        self._served = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._open = set()
        self._tls = tls
        self.connections = 0  # that were taken
        self.closed = threading.Event()  # some connection has ended
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def play(self, *scripts):
        """Answer from now on with these."""
        with self._lock:
            self.scripts, self._served, self.requests = list(scripts), 0, []

    def close(self):
        self._stop.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            still = list(self._open)
        for connection in still:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)

    def _accept(self):
        while not self._stop.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.add(connection)
                self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            if self._tls is not None:
                connection = self._secured(connection)
            while not self._stop.is_set() and self._one(connection):
                pass
        except OSError:
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()
            self.closed.set()

    def _secured(self, plain):
        with self._lock:
            self._open.discard(plain)
        connection = self._tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._open.add(connection)
        try:
            connection.do_handshake()
        except OSError:
            connection.close()
            raise
        return connection

    def _one(self, connection):
        """One request and its response; whether the connection goes on."""
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                return False
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                length = int(value)
        if b"transfer-encoding: chunked" in head.lower():
            body = self._unchunked(connection, body)
        while len(body) < length:
            more = connection.recv(65536)
            if not more:
                return False
            body += more
        with self._lock:
            script = self.scripts[min(self._served, len(self.scripts) - 1)]
            self._served += 1
            self.requests.append((head, body))
        return self._answer(connection, script if isinstance(script, Script) else script(head, body))

    def _unchunked(self, connection, data):
        """The body of a request in chunks, of which `data` has come."""
        body = b""
        while True:
            while b"\r\n" not in data:
                data += connection.recv(65536)
            size, _, data = data.partition(b"\r\n")
            count = int(size, 16) + 2
            while len(data) < count:
                data += connection.recv(65536)
            body, data = body + data[: count - 2], data[count:]
            if count == 2:  # trailers are read with it
                return body

    def _answer(self, connection, script):
        if script.drop:
            return False
        self._stop.wait(script.before_head)
        chunked = script.ending in (CHUNKED, CHUNK_FIN, RST, STALL)
        portions = script.portions()
        size = sum(map(len, portions))
        lines = [f"HTTP/1.1 {script.status}", f"Content-Type: {script.content_type}"]
        lines += [f"{name}: {value}" for name, value in script.headers.items()]
        if script.zipped:
            lines.append("Content-Encoding: gzip")
        if chunked:
            lines.append("Transfer-Encoding: chunked")
        elif script.ending == LENGTH:
            lines.append(f"Content-Length: {size}")
        elif script.ending == SHORT:
            lines.append(f"Content-Length: {size + 100}")
        else:
            lines.append("Connection: close")
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        for at, piece in enumerate(portions):
            if script.hold is not None and at == 1:
                script.hold.wait(10)
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
        if script.before_end:
            self._stop.wait(script.before_end)
        if script.ending == CHUNKED:
            connection.sendall(script.end)
        elif script.ending == RST:
            # What is in the client's buffer may be lost with a reset; a test cares for the error, not for the rest.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        elif script.ending == STALL:
            self._stop.wait(30)
            return False
        return script.ending in (CHUNKED, LENGTH)


@contextmanager
def serving(*scripts, tls=None):
    """A server for the time of a `with`; over TLS with the context `tls`."""
    server = Server(*scripts, tls=tls)
    try:
        yield server
    finally:
        server.close()
