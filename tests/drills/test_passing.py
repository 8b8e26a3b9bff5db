"""The plain proxy: what it passes, what it keeps to one connection, and what it says when there is nothing to pass."""

import asyncio
import socket
import ssl
import threading
from contextlib import closing

import pytest
from tests.drills.running import CHAT, ask, connect, proxying, read_answer, request
from tests.faces.shell import wait_for
from tests.support import answers
from tests.support.server import CHUNK_FIN, CHUNKED, CLOSE, LENGTH, RST, SHORT, STALL, Script, serving, sse_pieces

from endmark.core import strictjson
from endmark.drills.proxy.inbound import Inbound

CALL = answers.chat_call()
MODES = pytest.mark.parametrize("guard", [None, True], ids=["plain", "guard"])


def detail(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    found = strictjson.loads(answer.body)
    assert (found["status"], answer.ended) == (answer.status, "whole")
    return found["detail"]


@MODES
@pytest.mark.parametrize("ending", [CHUNKED, LENGTH])
@pytest.mark.parametrize("pieces", [None, [bytes([byte]) for byte in CALL[:300]] + [CALL[300:]], sse_pieces(CALL)])
def test_a_whole_answer_passes_byte_for_byte(guard, ending, pieces):
    headers = {"X-Request-Id": "req_1", "Set-Cookie": "a=1", "Keep-Alive": "timeout=5"}
    with (
        serving(Script(CALL, ending, headers=headers, pieces=pieces)) as server,
        proxying(server.url, guard=guard) as p,
    ):
        got = ask(p.url)
    assert (got.status, got.body, got.ended, got.framed) == (200, CALL, "whole", ending)
    assert (got.headers["x-request-id"], got.headers["set-cookie"]) == ("req_1", "a=1")
    assert "keep-alive" not in got.headers


@MODES
def test_a_request_passes_with_its_keys_and_without_what_is_for_one_connection(guard):
    sent = [("Authorization", "Bearer sk-1"), ("X-Hop", "1"), ("Connection", "x-hop, keep-alive"), ("TE", "trailers")]
    with serving(Script(CALL)) as server, proxying(f"{server.url}/base/", guard=guard) as proxy:
        ask(proxy.url, f"{CHAT}?key=1", b'{"model":"m"}', headers=sent)
        port = server.port
    head, body = server.requests[0]
    first, *lines = head.decode().split("\r\n")
    assert first == f"POST /base{CHAT}?key=1 HTTP/1.1"
    assert body == b'{"model":"m"}'
    assert f"Host: 127.0.0.1:{port}" in lines
    assert "Authorization: Bearer sk-1" in lines
    low = head.lower()
    assert b"x-hop" not in low
    assert b"te:" not in low
    assert b"host: here" not in low


@MODES
def test_connections_are_kept_on_both_sides(guard):
    with serving(Script(CALL)) as server, proxying(server.url, guard=guard) as proxy, connect(proxy.url) as sock:
        for _ in range(20):
            sock.sendall(request())
            assert read_answer(sock).body == CALL
        assert len(server.requests) == 20
        assert server.connections == 1


def test_a_connection_that_the_upstream_will_not_keep_is_not_used_again():
    script = Script(CALL, headers={"Connection": "close"})
    with serving(script) as server, proxying(server.url) as proxy, connect(proxy.url) as sock:
        for _ in range(2):
            sock.sendall(request())
            assert read_answer(sock).body == CALL
        assert server.connections == 2


@pytest.mark.parametrize("ending", [CHUNK_FIN, SHORT, RST])
def test_what_ends_badly_above_ends_badly_below(ending):
    with serving(Script(CALL, ending)) as server, proxying(server.url) as proxy:
        got = ask(proxy.url)
    assert got.ended == "reset"
    assert CALL.startswith(got.body)


def test_what_only_the_close_ends_is_passed_so():
    with serving(Script(CALL, CLOSE)) as server, proxying(server.url) as proxy:
        got = ask(proxy.url)
    assert (got.body, got.framed, got.ended) == (CALL, "close", "whole")


@MODES
def test_fifty_at_once(guard):
    got = []
    with serving(Script(CALL, pieces=sse_pieces(CALL))) as server, proxying(server.url, guard=guard) as proxy:
        threads = [threading.Thread(target=lambda: got.append(ask(proxy.url).body)) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert got == [CALL] * 50


@MODES
@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_request_passes(guard, chunked):
    body = b'{"image":"' + b"A" * 3_000_000 + b'"}'
    with serving(Script(CALL)) as server, proxying(server.url, guard=guard) as proxy, connect(proxy.url) as sock:
        if chunked:
            sock.sendall(b"POST %b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % CHAT.encode())
            for at in range(0, len(body), 100_000):
                piece = body[at : at + 100_000]
                sock.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
            sock.sendall(b"0\r\n\r\n")
        else:
            sock.sendall(request(body=body))
        assert read_answer(sock).body == CALL
    assert server.requests[0][1] == body


def test_expect_100_continue_is_answered_here():
    with serving(Script(CALL)) as server, proxying(server.url) as proxy, connect(proxy.url) as sock:
        sock.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"{}")
        assert read_answer(sock).body == CALL
    assert b"expect" not in server.requests[0][0].lower()


@MODES
def test_head_and_no_content(guard):
    with serving(Script(b"", LENGTH, "204 No Content")) as server, proxying(server.url, guard=guard) as proxy:
        assert ask(proxy.url, "/v1/x", None, "GET").status == 204
        server.play(Script(CALL, LENGTH))
        got = ask(proxy.url, CHAT, None, "HEAD")
        assert (got.status, got.headers["content-length"]) == (200, str(len(CALL)))


def test_what_is_told_on_the_way_is_not_the_answer():
    early = "103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK"
    with serving(Script(CALL, status=early)) as server, proxying(server.url, guard=True) as proxy:
        got = ask(proxy.url)
    assert (got.status, got.body, got.ended) == (200, CALL, "whole")
    assert "link" not in got.headers


def test_an_old_client_gets_no_chunks():
    with serving(Script(CALL)) as server, proxying(server.url) as proxy, connect(proxy.url) as sock:
        sock.sendall(b"POST /x HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
        got = read_answer(sock)
    assert (got.body, got.framed, got.ended) == (CALL, "close", "whole")
    assert "transfer-encoding" not in got.headers


def test_trailers_of_one_message_are_no_headers_of_the_next():
    end = b"0\r\nX-Trailer: t\r\n\r\n"
    with serving(Script(CALL, end=end)) as server, proxying(server.url) as proxy, connect(proxy.url) as sock:
        for _ in range(3):
            sock.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n" + end)
            got = read_answer(sock)
            assert got.body == CALL
            assert "x-trailer" not in got.headers
        assert server.connections == 1
    assert not any(b"x-trailer" in head.lower() for head, _ in server.requests)


def test_a_transfer_coding_that_is_not_undone_here_is_not_passed():
    script = Script(CALL, CLOSE, headers={"Transfer-Encoding": "gzip, chunked"})
    with serving(script) as server, proxying(server.url) as proxy, connect(proxy.url) as sock:
        got = ask(proxy.url)
        assert got.status == 502
        assert "its transfer coding 'gzip, chunked' is not undone here" in detail(got)
        sock.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n")
        assert read_answer(sock).status == 501


def test_a_fault_of_our_own_ends_no_answer(monkeypatch):
    def fails(_self, _ending):
        raise RuntimeError("planted")

    monkeypatch.setattr("endmark.drills.proxy.judge.Judge.verdict", fails)
    with serving(Script(CALL)) as server, proxying(server.url, guard=True) as proxy:
        assert ask(proxy.url).ended == "reset"
    assert proxy.said == ["our own fault: RuntimeError: planted"]


# --- nothing to pass


def test_an_upstream_that_is_not_there():
    with closing(socket.create_server(("127.0.0.1", 0))) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
    with proxying(url) as proxy, connect(proxy.url) as sock:
        for _ in range(2):  # the connection goes on
            sock.sendall(request())
            got = read_answer(sock)
            assert got.status == 502
            assert detail(got) == f"endmark: the upstream {url} could not be asked: nothing takes connections there."
    assert proxy.said == [f"unreachable: {url}: nothing takes connections there"] * 2


def test_an_answer_that_comes_before_the_end_of_its_request_reaches_the_client():
    with closing(socket.create_server(("127.0.0.1", 0))) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
    with proxying(url) as proxy, connect(proxy.url) as sock:
        sock.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n")
        wait_for(lambda: proxy.said)
        for _ in range(40):
            sock.sendall(b"A" * 100_000)
        assert read_answer(sock).status == 502
        assert sock.recv(1) == b""


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (Script(drop=True), "it closed the connection before it answered"),
        (Script(before_head=5), "it sent nothing for 0.2 seconds"),
        (Script(status="200 OK\r\nContent-Length: x"), "its answer is not HTTP/1.1: "),
        (Script(headers={"Content-Length": "5"}), "its answer is not HTTP/1.1: "),  # with chunks: read in two ways
    ],
)
def test_an_upstream_that_does_not_answer(script, why):
    with serving(script) as server, proxying(server.url, idle=0.2) as proxy:
        got = ask(proxy.url)
    assert got.status == 502
    assert why in detail(got)


def test_silence_inside_an_answer_resets():
    with serving(Script(CALL, STALL)) as server, proxying(server.url, idle=0.2) as proxy:
        got = ask(proxy.url)
    assert (got.body, got.ended) == (CALL, "reset")


@pytest.mark.parametrize(
    ("sent", "status", "why"),
    [
        (b"nonsense\r\n\r\n", 400, "the request is not HTTP/1.1"),
        (
            b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            "not HTTP/1.1",
        ),
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 400, "this is a reverse proxy"),
        (b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 501, "protocol"),
        (b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "this is a reverse proxy"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", 431, "longer than 65,536 bytes"),
    ],
)
def test_a_request_that_cannot_be_passed(sent, status, why):
    with serving(Script(CALL)) as server, proxying(server.url) as proxy, connect(proxy.url) as sock:
        sock.sendall(sent)
        got = read_answer(sock)
        assert got.status == status
        assert why in detail(got)
        assert sock.recv(1) == b""
    assert server.requests == []


def test_a_request_that_does_not_wait_for_its_turn_is_not_taken():
    with serving(Script(CALL)) as server, proxying(server.url) as proxy, connect(proxy.url) as sock:
        sock.sendall(request() + request())
        assert read_answer(sock).body == CALL
        assert sock.recv(1) == b""
    assert len(server.requests) == 1


# --- clients that go, and clients that dawdle


@MODES
def test_a_client_that_goes_cancels_its_request(guard):
    hold = threading.Event()
    script = Script(CALL, pieces=sse_pieces(CALL), hold=hold)
    with serving(script) as server, proxying(server.url, guard=guard) as proxy:
        with connect(proxy.url) as sock:
            sock.sendall(request())
            assert sock.recv(10)
        wait_for(lambda: not proxy.proxy.exchanges)
        hold.set()  # what the server sends now finds nobody
        assert server.closed.wait(10)


@MODES
def test_a_client_that_reads_late_leaves_a_connection_that_reads_on(guard, monkeypatch):
    """The last bytes of an answer may wait for the client, when its connection above is free for the next one."""

    def send(self, data):
        sending(self, data)
        self.pause_writing()  # what the event loop says while a slow client has not taken enough of it
        asyncio.get_running_loop().call_soon(self.resume_writing)

    sending = Inbound.send
    monkeypatch.setattr(Inbound, "send", send)
    script = Script(bytes(300_000), LENGTH, content_type="application/zip")
    with serving(script) as server, proxying(server.url, guard=guard) as proxy, connect(proxy.url) as client:
        client.settimeout(3)
        for _ in range(3):
            client.sendall(request("/files"))
            assert len(read_answer(client).body) == 300_000


@MODES
def test_a_client_that_dawdles_slows_the_upstream_and_fills_no_memory(guard):
    body = answers.chat_text("x" * 2_000_000)
    with (
        serving(Script(body, LENGTH)) as server,
        proxying(server.url, guard=guard) as proxy,
        connect(proxy.url) as sock,
    ):
        sock.sendall(request())
        got = sock.recv(10)

        def buffered():
            return max(client.transport.get_write_buffer_size() for client in proxy.proxy.clients)

        seen = [proxy.do(buffered) for _ in range(50)]
        assert max(seen) < 2_000_000
        rest = [got]
        while sum(map(len, rest)) < len(body) or not b"".join(rest).endswith(body[-20:]):
            rest.append(sock.recv(1 << 20))
    assert b"".join(rest).endswith(b"\r\n\r\n" + body)


# --- TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    from tests.drills.certificates import make

    return make(tmp_path_factory.mktemp("certificates"))


def trusting(*files):
    context = ssl.create_default_context()
    for file in files:
        context.load_verify_locations(file)
    return context


@MODES
def test_tls_to_an_upstream_whose_certificate_is_trusted(authority, guard):
    with serving(Script(CALL), tls=authority.server) as server, connect_tls(server, trusting(authority.ca), guard) as p:
        got = ask(p.url)
        again = ask(p.url)
    assert got.body == again.body == CALL
    assert server.connections == 1


def connect_tls(server, context, guard=None):
    return proxying(server.url.replace("http:", "https:").replace("127.0.0.1", "localhost"), guard=guard, tls=context)


def test_a_certificate_that_is_not_trusted_gets_nothing(authority):
    with serving(Script(CALL), tls=authority.server) as server, connect_tls(server, trusting()) as proxy:
        got = ask(proxy.url, headers=[("Authorization", "Bearer sk-1")])
    assert got.status == 502
    assert "its certificate is not trusted" in detail(got)
    assert server.requests == []


def test_a_certificate_for_another_name_gets_nothing(authority):
    with serving(Script(CALL), tls=authority.other) as server, connect_tls(server, trusting(authority.ca)) as proxy:
        assert "its certificate is not trusted" in detail(ask(proxy.url))
    assert server.requests == []
