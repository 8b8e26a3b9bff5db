"""What goes up is what was read here, and no byte of one exchange reaches another."""

import socket
import threading
from contextlib import closing, contextmanager

import pytest
from tests.drills.running import CHAT, ask, connect, proxying, read_answer, request
from tests.drills.test_passing import MODES, detail
from tests.faces.shell import wait_for
from tests.support import answers
from tests.support.server import CHUNK_FIN, CHUNKED, CLOSE, LENGTH, Script, serving, sse_pieces

CALL = answers.chat_call()
HIDDEN = b"POST /hidden HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def proxied(mode, url, **more):
    """The proxy as it passes, guards, or breaks (by nothing: all of the body, politely ended)."""
    fault = f"cut:{len(CALL)}" if mode == "fault" else None
    with proxying(url, guard=mode == "guard" or None, fault=fault, **more) as proxy:
        yield proxy


every_mode = pytest.mark.parametrize("mode", ["plain", "guard", "fault"])


@every_mode
@pytest.mark.parametrize(
    "named",
    [
        "content-length",
        "Content-Length, close",
        "transfer-encoding",
        "keep-alive, HOST",
        "content-type",
        "authorization",
    ],
)
def test_a_connection_that_names_what_frames_or_routes_is_refused(mode, named):
    with serving(Script(CALL)) as server, proxied(mode, server.url) as proxy, connect(proxy.url) as sock:
        sock.sendall(request(body=HIDDEN, headers=[("Connection", named), ("Authorization", "k")]))
        got = read_answer(sock)
        assert got.status == 400
        assert "Connection names" in detail(got)
        assert sock.recv(1) == b""
        assert ask(proxy.url).status == 200
    assert [head.split(b" ")[1] for head, _ in server.requests] == [CHAT.encode()]


@every_mode
def test_a_body_is_framed_by_what_was_read(mode):
    """Two requests in the body of one stay a body, whatever the head says besides."""
    with serving(Script(CALL)) as server, proxied(mode, server.url) as proxy:
        for headers in ([], [("Connection", "x-a")], [("TE", "trailers"), ("Trailer", "content-length")]):
            assert ask(proxy.url, body=HIDDEN * 2, headers=headers).status == 200
    assert [body for _, body in server.requests] == [HIDDEN * 2] * 3
    assert all(head.lower().count(b"content-length") == 1 for head, _ in server.requests)


@MODES
@pytest.mark.parametrize("ending", [CHUNKED, LENGTH])
def test_what_an_answer_means_is_not_lost_by_its_connection_header(guard, ending):
    named = {"Connection": "content-type, content-length, transfer-encoding, x-hop, set-cookie", "X-Hop": "1"}
    script = Script(CALL, ending, headers=named | {"Set-Cookie": "a=1"})
    with serving(script) as server, proxying(server.url, guard=guard) as proxy:
        got = ask(proxy.url)
    assert (got.body, got.ended, got.framed) == (CALL, "whole", ending)
    assert got.headers["content-type"] == "text/event-stream"
    assert got.headers["set-cookie"] == "a=1"
    assert "x-hop" not in got.headers


# --- an upstream that answers early


def _head(file):
    """The lines of a request's head; nothing once the other side has closed."""
    lines = []
    while (line := file.readline()) not in (b"\r\n", b""):
        lines.append(line)
    return b"".join(lines) if line else b""


class Early:
    """Answers the head of the first request, then goes on reading as HTTP/1.1 says: what comes is that one's body."""

    def __init__(self, status, size):
        self.status, self.size = status, size
        self.requests, self.connections = [], 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as file:
            try:
                while head := _head(file):
                    early = b"X-Early" in head
                    size = self.size if early else 2
                    status = self.status if early else "200 OK"
                    body = b"{}" if early else CALL
                    said = (
                        f"HTTP/1.1 {status}\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
                    )
                    if early:
                        connection.sendall(said.encode() + body)
                    self.requests.append((head, file.read(size)))
                    if not early:
                        connection.sendall(said.encode() + body)
            except OSError:
                return


@every_mode
@pytest.mark.parametrize("status", ["401 Unauthorized", "413 Content Too Large"])
def test_a_connection_with_an_unfinished_request_is_not_used_again(mode, status):
    with closing(Early(status, 300)) as server, proxied(mode, server.url, idle=3) as proxy, connect(proxy.url) as sock:
        sock.sendall(b"POST %b HTTP/1.1\r\nHost: x\r\nX-Early: 1\r\nContent-Length: 300\r\n\r\n" % CHAT.encode())
        sock.sendall(b"a" * 10)
        assert read_answer(sock).status == int(status[:3])
        got = ask(proxy.url, headers=[("Authorization", "Bearer victim")])
        assert (got.status, got.body) == (200, CALL)
        assert server.connections == 2
        sock.sendall(b"a" * 290)  # what is left of the first goes nowhere
        assert ask(proxy.url).body == CALL
    assert not any(b"victim" in body for _, body in server.requests)


def test_bytes_in_an_answer_that_has_none_reach_nobody():
    """An answer to HEAD has no body, whatever comes with it in one piece."""
    forged = Script(status="200 OK\r\nContent-Length: 123\r\n\r\nforged", ending=CLOSE)
    with serving(forged) as server, proxying(server.url) as proxy, connect(proxy.url) as sock:
        sock.sendall(request(method="HEAD", body=None))
        got = b""
        while not got.endswith(b"\r\n\r\n") and b"forged" not in got:
            got += sock.recv(65536)
        server.play(Script(CALL))
        sock.sendall(request())
        while not got.endswith(b"0\r\n\r\n"):
            got += sock.recv(65536)
    assert got.count(b"HTTP/1.1 200") == 2
    assert b"forged" not in got


def test_a_switch_of_protocols_that_nobody_asked_for_is_no_answer():
    script = Script(status="101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x")
    with serving(script) as server, proxying(server.url) as proxy:
        assert ask(proxy.url).status == 502


# --- clients that stop sending


@MODES
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_client_that_closes_its_side_gets_no_answer_that_looks_whole(guard, version):
    hold = threading.Event()
    pieces = sse_pieces(CALL)
    with (
        serving(Script(CALL, pieces=pieces, hold=hold)) as server,
        proxying(server.url, guard=guard) as proxy,
        connect(proxy.url) as sock,
    ):
        sock.sendall(f"POST {CHAT} HTTP/{version}\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        assert sock.recv(10)
        sock.shutdown(socket.SHUT_WR)
        assert reset(sock)
        wait_for(lambda: not proxy.proxy.exchanges)
        hold.set()


@MODES
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_nor_one_that_does_so_at_once(guard, version):
    with (
        serving(Script(CALL, CHUNK_FIN)) as server,
        proxying(server.url, guard=guard) as proxy,
        connect(proxy.url) as sock,
    ):
        sock.sendall(f"POST {CHAT} HTTP/{version}\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        sock.shutdown(socket.SHUT_WR)
        assert reset(sock)


def reset(sock):
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        return True
    return False


# --- wishes that are left out


@MODES
@pytest.mark.parametrize("more", [[], [("HTTP2-Settings", "AAMAAABk")]])
def test_a_wish_for_another_protocol_is_left_out(guard, more):
    options = "Upgrade, HTTP2-Settings" if more else "Upgrade"
    headers = [("Connection", options), ("Upgrade", "h2c"), *more]
    with serving(Script(CALL)) as server, proxying(server.url, guard=guard) as proxy, connect(proxy.url) as sock:
        for body in (b"{}", HIDDEN):
            sock.sendall(request(body=body, headers=headers))
            assert read_answer(sock).body == CALL
        sock.sendall(b"GET /v1/x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        assert read_answer(sock).status == 200
        assert [body for _, body in server.requests] == [b"{}", HIDDEN, b""]
        assert not any(word in head.lower() for head, _ in server.requests for word in (b"upgrade", b"http2-settings"))


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("http://other.example:81/v1/x?a=1", "/v1/x?a=1"),
        ("HTTPS://other.example/v1/x", "/v1/x"),
        ("http://h", "/"),
        ("http://h?a=1", "/?a=1"),
    ],
)
def test_of_an_absolute_target_the_path_counts(target, path):
    with serving(Script(CALL)) as server, proxying(f"{server.url}/base") as proxy:
        assert ask(proxy.url, target).body == CALL
    first, *lines = server.requests[0][0].split(b"\r\n")
    assert first == f"POST /base{path} HTTP/1.1".encode()
    assert b"Host: " + server.url.removeprefix("http://").encode() in lines


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /x HTTP/2.0\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 505),
        (b"CONNECT /x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\n{}", 400),
        (b"POST /x#y HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 400),
    ],
)
def test_a_head_that_can_be_read_in_two_ways_is_refused(sent, status):
    with serving(Script(CALL)) as server, proxying(server.url) as proxy, connect(proxy.url) as sock:
        sock.sendall(sent)
        assert read_answer(sock).status == status
    assert server.requests == []
