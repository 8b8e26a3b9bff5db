"""`endmark proxy` as a program: its first line, its words, its misuse, and how it ends."""

import signal
import socket
import threading
from contextlib import closing, contextmanager

import pytest
from tests.drills.running import CHAT, ask, connect, request
from tests.faces.shell import wait_for
from tests.support import answers
from tests.support.server import STALL, Script, serving, sse_pieces

CALL = answers.chat_call()


@contextmanager
def proxy(shell, *flags):
    """(url, process) of a proxy that has said where it is."""
    with shell.start("proxy", "--port", "0", *flags) as process:
        url = process.stdout.readline().decode().strip()
        assert url.startswith("http://127.0.0.1:")
        yield url, process


def ended(process, number):
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert out == b""
    return process.returncode, err.decode().splitlines()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_first_line_is_the_address_and_a_signal_ends_it(shell, number, code):
    with serving(Script(CALL)) as server, proxy(shell, "--upstream", server.url, "--guard") as (url, process):
        assert ask(url).body == CALL
        returned, said = ended(process, number)
    assert returned == code
    assert said == [
        f"endmark: whole: POST {CHAT}, openai-chat, {len(CALL):,} bytes",
        f"endmark: {number.name}: takes no more requests, and waits up to 30 seconds for those under way.",
    ]


@pytest.mark.parametrize(("flags", "loud"), [((), True), (("--guard",), False), (("--cut", "1"), False)])
def test_a_proxy_that_guards_nothing_says_so_before_anything_else(shell, flags, loud):
    with serving(Script(CALL)) as server, proxy(shell, "--upstream", server.url, *flags) as (_, process):
        _, said = ended(process, signal.SIGTERM)
    assert said[0].startswith("endmark: NOTHING IS GUARDED: every answer passes unjudged") == loud
    assert any("NOTHING" in line for line in said) == loud


def test_a_stream_under_way_ends_well_after_a_signal(shell):
    hold = threading.Event()
    script = Script(CALL, pieces=sse_pieces(CALL), hold=hold)
    with serving(script) as server, proxy(shell, "--upstream", server.url, "--guard") as (url, process):
        with connect(url) as sock:
            sock.sendall(request())
            first = sock.recv(200)
            assert first
            process.send_signal(signal.SIGTERM)
            wait_for(lambda: refuses(url))
            hold.set()
            rest = b""
            while piece := sock.recv(65536):
                rest += piece
        assert rest.endswith(b"0\r\n\r\n")
        process.communicate(timeout=30)
    assert process.returncode == 143


def refuses(url):
    try:
        connect(url).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("flags", [("--grace", "0.1"), ()], ids=["grace", "second signal"])
def test_a_stream_that_does_not_end_is_reset(shell, flags):
    with (
        serving(Script(CALL[:500], STALL)) as server,
        proxy(shell, "--upstream", server.url, "--guard", *flags) as (url, process),
        connect(url) as sock,
    ):
        sock.sendall(request())
        assert sock.recv(10)
        process.send_signal(signal.SIGTERM)
        if not flags:
            wait_for(lambda: refuses(url))
            process.send_signal(signal.SIGTERM)
        assert drained(sock) == "reset"
        _, err = process.communicate(timeout=30)
        server.close()
    assert process.returncode == 143
    assert b"1 connections were reset: their answers had not ended" in err


def test_a_reset_that_is_due_is_no_close_at_the_end(shell):
    """An old client's answer ends with its connection: for it a close would be a whole answer."""
    body = answers.chat_text("x" * 40_000)  # more than the client's system takes, less than makes the proxy wait
    with (
        serving(Script(body[: len(body) // 2])) as server,
        proxy(shell, "--upstream", server.url, "--guard") as (url, process),
        socket.socket() as sock,
    ):
        sock.settimeout(10)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        sock.sendall(request().replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert sock.recv(10)
        process.send_signal(signal.SIGTERM)
        wait_for(lambda: refuses(url))
        assert drained(sock) == "reset"
        process.communicate(timeout=30)
    assert process.returncode == 143


def drained(sock):
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        return "reset"
    return "eof"


def test_a_sweep_ends_by_itself_with_a_summary(shell):
    with serving(Script(b"0123")) as server, proxy(shell, "--upstream", server.url, "--sweep") as (url, process):
        assert [ask(url).body for _ in range(4)] == [b"", b"0", b"01", b"012"]
        _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert err.decode().splitlines() == [
        *(f"endmark: cut:{at}: POST {CHAT}: {at} of 4 bytes, polite" for at in range(4)),
        "endmark: sweep complete: cut 0 to 3 of 4, 4 faults played",
    ]


def test_a_sweep_that_is_interrupted_says_how_far_it_came(shell):
    with serving(Script(b"0123")) as server, proxy(shell, "--upstream", server.url, "--sweep=cut") as (url, process):
        ask(url)
        returned, said = ended(process, signal.SIGINT)
    assert returned == 130
    assert said[-1] == "endmark: sweep not complete: cut 0 to 0 of 4, 1 faults played"


@pytest.mark.parametrize(
    ("name", "more", "kind"),
    [
        ("answer.sse", (), "text/event-stream"),
        ("answer.json", (), "application/json"),
        ("answer", ("--wire", "ollama"), "application/x-ndjson"),
        ("answer.sse", ("--content-type", "text/plain"), "text/plain"),
        ("answer", (), "application/octet-stream"),
    ],
)
def test_a_file_is_served_as_what_it_is(shell, name, more, kind):
    shell.write(name, CALL)
    with proxy(shell, "--body", name, "--cut", "1882", "--ending", "rst", *more) as (url, process):
        got = ask(url)
        assert (got.body, got.ended, got.headers["content-type"]) == (CALL[:1882], "reset", kind)
        assert ended(process, signal.SIGTERM)[0] == 143


def test_a_fault_in_its_text_form(shell):
    shell.write("answer.sse", CALL)
    with proxy(shell, "--body", "answer.sse", "--fault", "edge:2/fin") as (url, process):
        got = ask(url)
        assert (got.body, got.ended) == (b"".join(sse_pieces(CALL)[:2]), "eof")
        assert ended(process, signal.SIGTERM)[0] == 143


UP = ("--upstream", "http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ((), "name either --upstream, where answers come from, or --body, a file to answer with."),
        ((*UP, "--body", "x"), "name either --upstream"),
        (("--upstream", "ftp://x"), "a URL such as https://api.openai.com was expected"),
        (("--upstream", "http://u:p@x"), "clients send their own keys"),
        (("--upstream", "http://x:y"), "--upstream http://x:y: Port could not be cast"),
        ((*UP, "--guard", "--cut", "1"), "--guard judges what an upstream sends"),
        ((*UP, "--cut", "1", "--edge", "2"), "one fault at a time"),
        ((*UP, "--cut", "1", "--sweep"), "one fault at a time"),
        ((*UP, "--cut", "x"), "'cut:x' is no fault; something like cut:1882"),
        ((*UP, "--flip", "3.9"), "'flip:3.9' is no fault"),
        ((*UP, "--ending", "rst"), "--ending needs a fault, or --sweep."),
        ((*UP, "--record", "."), "--record does something only with --guard; add --guard."),
        ((*UP, "--guard", "--record", "gone"), "--record gone: there is no such folder; make it first"),
        ((*UP, "--guard", "--wire", "morse"), "morse"),
        ((*UP, "--cacert", "x"), "--cacert is for an https upstream."),
        (("--upstream", "https://x", "--cacert", "gone.pem"), "--cacert gone.pem: No such file"),
        (("--body", "gone.sse"), "gone.sse: No such file"),
    ],
)
def test_misuse_is_said_in_a_sentence(shell, flags, why):
    said = shell.run("proxy", *flags)
    assert said.code == 2
    assert said.out == b""
    assert why in said.talk
    assert "Traceback" not in said.talk


def test_a_port_that_is_taken(shell):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        said = shell.run("proxy", *UP, "--port", str(port))
    assert said.code == 20
    assert f"127.0.0.1:{port} cannot be listened on: " in said.talk


def test_help_says_what_it_cannot_do(shell):
    text = " ".join(shell.run("proxy", "--help").text.split())
    assert "It cannot catch a server that lies" in text


def test_https_with_an_authority_of_our_own(shell, tmp_path):
    from tests.drills.certificates import make

    authority = make(tmp_path)
    with serving(Script(CALL), tls=authority.server) as server:
        url = f"https://localhost:{server.port}"
        with proxy(shell, "--upstream", url, "--cacert", authority.ca, "--guard") as (address, process):
            assert ask(address).body == CALL
            assert ended(process, signal.SIGTERM)[0] == 143
        with proxy(shell, "--upstream", url, "--guard") as (address, process):
            got = ask(address)
            assert (got.status, got.ended) == (502, "whole")
            code, said = ended(process, signal.SIGTERM)
    assert code == 143
    assert "its certificate is not trusted" in said[0]
