"""An HTTP endpoint under drill: what it answers, what it does not, and requests that end badly on their way."""

import socket
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.drills.sweeping import counts, drill, holes, texts

from endmark.core import strictjson
from endmark.core.refusal import Refused
from endmark.drills.body import Body
from endmark.drills.faults import End
from endmark.drills.sweep.world import Functions
from endmark.drills.targets.answer import Answer, Seen, rules
from endmark.drills.targets.http import HttpTarget

WHOLE = b'{"a": [1, 2]}'


class Gate(ThreadingHTTPServer):
    """`judge` takes the bytes and returns a status, or None for no answer at all. `got`: what came, in order."""

    daemon_threads = True

    def __init__(self, judge):
        super().__init__(("127.0.0.1", 0), Endpoint)
        self.judge, self.got = judge, []

    def handle_error(self, request, client_address):
        """A reset is what some faults are; anything else is told."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Gate

    def do_POST(self):
        data = self.body()
        self.server.got.append((self.path, data, self.connection.getpeername()[1]))
        status = self.server.judge(data)
        if status is None:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def body(self):
        """As careless servers read: what there is counts as all there is."""
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            data = b""
            while line := self.rfile.readline().strip():
                size = int(line, 16)
                data += self.rfile.read(size)
                self.rfile.readline()
                if not size:
                    break
            return data
        return self.rfile.read(int(self.headers["Content-Length"]))

    def log_message(self, *_):
        pass


@contextmanager
def serving(judge):
    server = Gate(judge)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_address[1]}/jobs?x=1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def strict(data):
    try:
        strictjson.loads(data)
    except Refused:
        return 422
    return 201


def test_an_endpoint_without_holes():
    with serving(strict) as (server, url):
        swept = drill(HttpTarget(url=url), WHOLE, "cuts,shorts,fins")
    assert (swept.control, holes(swept), swept.exit_code) == ("accepted", [], 0)
    assert counts(swept) == {"REFUSED": 3 * len(WHOLE)}
    assert server.got[0][:2] == ("/jobs?x=1", WHOLE)
    polite = {port for _, data, port in server.got[: len(WHOLE)]}
    assert len(polite) == 1, "one connection is kept"


def test_each_answer_has_its_name():
    def judge(data):
        return {2: 500, 4: None, 6: 200, 8: 302, len(WHOLE): 200}.get(len(data), 400)

    with serving(judge) as (_, url):
        swept = drill(HttpTarget(url=url), WHOLE)
        assert texts(swept, Answer.CRASHED) == ["cut:2", "cut:4"]
        assert [note for _, _, note in swept.found(Answer.CRASHED)] == [
            "status 500",
            "closed the connection without an answer",
        ]
        assert holes(swept) == ["cut:6"]
        named = drill(HttpTarget(url=url, rules=rules(("status:400,500",))), WHOLE)
        assert texts(named, Answer.CRASHED) == ["cut:4", "cut:8"]
        said = drill(HttpTarget(url=url, rules=rules(("stdout:^ok",))), WHOLE)
        assert said.control == "refused (status 200, and said so)"


def test_a_hang_is_told_and_the_sweep_goes_on():
    go_on = threading.Event()

    def judge(data):
        if len(data) == 5:
            go_on.wait(20)
        return 200 if data == WHOLE else 400

    with serving(judge) as (_, url):
        try:
            swept = drill(HttpTarget(url=url, limit=0.3), WHOLE)
        finally:
            go_on.set()
    assert texts(swept, Answer.HUNG) == ["cut:5"]
    assert counts(swept) == {"HUNG": 1, "REFUSED": len(WHOLE) - 1}


def test_a_server_that_is_not_there_fails_the_control():
    with serving(strict) as (_, url):
        pass
    swept = drill(HttpTarget(url=url), WHOLE)
    assert swept.control.startswith("could not be asked (127.0.0.1:")
    assert swept.exit_code == 1


def test_a_server_that_takes_a_short_body_has_holes():
    """It answers 200 to what there is, without a look at what was declared."""
    with serving(lambda data: 200 if data.startswith(b'{"a"') else 400) as (_, url):
        swept = drill(HttpTarget(url=url), WHOLE, "shorts")
    assert holes(swept) == [f"cut:{at}/short" for at in range(4, len(WHOLE))]


def test_after_a_reset_only_the_effect_tells():
    written = []

    def judge(data):
        written.append(data)
        return 200 if data == WHOLE else 400

    with serving(judge) as (_, url):
        unseen = drill(HttpTarget(url=url), WHOLE, only="cut:5/rst")
        assert (unseen.tried, unseen.exit_code) == (0, 1)
        world = Functions(lambda: 0, None)
        seen = drill(HttpTarget(url=url, watched=True), WHOLE, only="cut:5/rst", world=world)
        assert counts(seen) == {"REFUSED": 1}
        assert counts(drill(HttpTarget(url=url), WHOLE, "rsts")) == {"NO_FAULT": len(WHOLE)}
        assert counts(drill(HttpTarget(url=url, watched=True), WHOLE, "rsts", world=world)) == {"REFUSED": len(WHOLE)}


def test_refused_and_written_is_a_hole():
    written = []

    def judge(data):
        if len(data) > 9:
            written.append(data)
        return 200 if data == WHOLE else 400

    with serving(judge) as (_, url):
        world = Functions(lambda: len(written), written.clear)
        swept = drill(HttpTarget(url=url), WHOLE, world=world)
    assert holes(swept) == ["cut:10", "cut:11", "cut:12"]
    assert swept.count(Answer.EFFECT) == 3


@pytest.mark.parametrize("end", [End.SHORT, End.FIN])
def test_a_whole_body_that_ends_badly_is_a_fault_too(end):
    with serving(lambda data: 200) as (_, url):
        swept = drill(HttpTarget(url=url), WHOLE, only=f"cut:{len(WHOLE)}/{end}")
    assert swept.tried == 1


ANSWERS = {
    "chunked": b"HTTP/1.1 422 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
    "ended by its connection": b"HTTP/1.1 422 No\r\n\r\nno",
    "after an interim one": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_every_kind_of_answer_is_read_to_its_end(kind):
    assert _asked(ANSWERS[kind]) == Seen(Answer.REFUSED, "status 422")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 20", ANSWERS["chunked"][:-7]])
def test_half_an_answer_is_a_crash(answer):
    assert _asked(answer).answer is Answer.CRASHED


def test_what_is_no_http_is_a_crash():
    assert _asked(b"SSH-2.0-x\r\n\r\n") == Seen(Answer.CRASHED, "an answer that is no HTTP")


def _asked(answer):
    """What is made of these bytes of a server that then closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                while WHOLE not in connection.recv(4096):
                    pass
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        player = HttpTarget(url=f"http://127.0.0.1:{listener.getsockname()[1]}/").open(0)
        seen = player.play(None, Body(WHOLE))
        player.close()
        thread.join(10)
    return seen
