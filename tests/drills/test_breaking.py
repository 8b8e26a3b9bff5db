"""Over real sockets: every fault with every end, byte for byte, and what the proxy says of it."""

import gzip
from contextlib import suppress

import pytest
from tests.drills.running import MESSAGES, ask, connect, proxying, read_answer, request
from tests.support import answers
from tests.support.server import CHUNK_FIN, CHUNKED, CLOSE, LENGTH, RST, SHORT, Script, serving

from endmark.core import strictjson
from endmark.drills import faults
from endmark.drills.faults import Body, End

CALL = answers.chat_call("{}")
FAULTS = ["cut:0", "cut:301", "flip:17.3", "terminal-", "edge:2", "dup:1", "stall:34+0.01", "stall:34+0.01-", "lie:301"]
SEEN = {End.POLITE: ("chunked", "whole"), End.FIN: ("chunked", "eof"), End.SHORT: ("length", "eof")}
SEEN[End.RST] = ("chunked", "reset")


def expected(fault, body=CALL, wire="openai-chat"):
    parts = faults.parse(fault).play(Body(body, "text/event-stream", wire))
    return b"".join(part for part in parts if isinstance(part, bytes))


@pytest.fixture(scope="module")
def server():
    with serving(Script(CALL)) as running:
        yield running


@pytest.mark.parametrize("end", list(End))
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_with_every_end(server, fault, end):
    server.play(Script(CALL))
    with proxying(server.url, fault=f"{fault}/{end}") as proxy:
        first, again = ask(proxy.url), ask(proxy.url)
    assert first == again
    assert first.body == expected(fault)
    assert (first.framed, first.ended) == SEEN[end]
    assert first.status == 200
    assert first.headers["content-type"] == "text/event-stream"
    if end is End.SHORT:
        assert int(first.headers["content-length"]) > len(first.body)
    assert proxy.said[0] == (
        f"{fault}{'' if end is End.POLITE else f'/{end}'}: POST /v1/chat/completions: "
        f"{len(first.body):,} of {len(CALL):,} bytes, {end}"
    )
    assert len(proxy.said) == 2


def test_a_polite_end_keeps_the_connection(server):
    server.play(Script(CALL))
    with proxying(server.url, fault="cut:100") as proxy, connect(proxy.url) as sock:
        for _ in range(3):
            sock.sendall(request())
            assert read_answer(sock).body == CALL[:100]


def test_a_stall_is_silence_until_the_client_gives_up(server):
    server.play(Script(CALL))
    with proxying(server.url, fault="stall:34") as proxy:
        with connect(proxy.url) as sock:
            sock.settimeout(0.3)
            sock.sendall(request())
            got = b""
            with suppress(TimeoutError):
                while piece := sock.recv(4096):
                    got += piece
                pytest.fail("the connection ended")
        assert got.endswith(b"\r\n22\r\n" + CALL[:34] + b"\r\n")


def test_a_sweep_hands_out_every_place_once_and_says_which(server):
    server.play(Script(CALL))
    with proxying(server.url, sweep="cut", start=len(CALL) - 5, end=End.FIN) as proxy:
        got = [ask(proxy.url) for _ in range(5)]
        assert [answer.body for answer in got] == [CALL[:at] for at in range(len(CALL) - 5, len(CALL))]
        assert {answer.ended for answer in got} == {"eof"}
        assert proxy.do(lambda: proxy.proxy.swept.is_set())
        summary = proxy.do(lambda: proxy.proxy.sweep.summary())
        late = ask(proxy.url)
    assert [line.partition(":")[2].partition("/")[0] for line in proxy.said[:5]] == [
        str(at) for at in range(len(CALL) - 5, len(CALL))
    ]
    assert summary == f"sweep complete: cut {len(CALL) - 5:,} to {len(CALL) - 1:,} of {len(CALL):,}, 5 faults played"
    assert (late.status, late.ended) == (502, "whole")
    assert "the sweep is over" in strictjson.loads(late.body)["detail"]


def test_a_sweep_of_edges_ends_before_the_whole_stream(server):
    server.play(Script(CALL))
    count = CALL.count(b"\n\n")
    with proxying(server.url, sweep="edge") as proxy:
        got = [ask(proxy.url).body for _ in range(count)]
        assert proxy.do(lambda: proxy.proxy.swept.is_set())
    assert got[0] == b""
    assert got[-1] == CALL[: CALL.rindex(b"data: [DONE]")]
    assert len(set(got)) == count


def test_a_sweep_may_leave_places_out(server):
    server.play(Script(b"0123456789"))
    with proxying(server.url, sweep="cut", start=1, step=4) as proxy:
        assert [len(ask(proxy.url).body) for _ in range(3)] == [1, 5, 9]
        assert proxy.do(lambda: proxy.proxy.swept.is_set())
        assert proxy.do(proxy.proxy.sweep.summary) == "sweep complete: cut 1 to 9 of 10, 3 faults played"


def test_a_file_is_served_without_an_upstream():
    with proxying(served=(b"0123456789", "text/plain"), fault="cut:4/short") as proxy:
        got = ask(proxy.url, "/anything", b"ignored")
        assert (got.body, got.ended, got.headers["content-type"]) == (b"0123", "eof", "text/plain")
        assert ask(proxy.url, "/x", None, "HEAD").status == 200
    with proxying(served=(b"0123456789", "text/plain")) as proxy:
        got = ask(proxy.url, "/x", None, "GET")
        assert (got.body, got.ended, got.headers["content-length"]) == (b"0123456789", "whole", "10")


def test_only_what_was_asked_for_is_broken(server):
    server.play(Script(CALL))
    with proxying(server.url, fault="cut:3", only="/chat/") as proxy:
        assert ask(proxy.url).body == CALL[:3]
        assert ask(proxy.url, "/v1/models", None, "GET").body == CALL
    server.play(Script(b'{"error":{}}', LENGTH, "429 Too Many Requests", content_type="application/json"))
    with proxying(server.url, fault="cut:3") as proxy:
        assert ask(proxy.url).body == b'{"error":{}}'


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("cut:100000", "the fault does not fit: the body has {} bytes, the fault needs 100,000"),
        ("edge:99", "the fault does not fit: the body has {events} events, the fault needs 99"),
    ],
)
def test_a_drill_that_cannot_be_played_does_not_look_like_one_that_was_survived(server, fault, why):
    server.play(Script(CALL))
    with proxying(server.url, fault=fault) as proxy:
        got = ask(proxy.url)
    told = why.format(len(CALL), events=CALL.count(b"\n\n"))
    assert got.status == 502
    assert strictjson.loads(got.body)["detail"] == (
        f"endmark: no fault was played: {told}. Nothing of the answer was passed on."
    )
    assert proxy.said == [f"not played: POST /v1/chat/completions: {told}"]


@pytest.mark.parametrize("ending", [CHUNK_FIN, SHORT, RST])
def test_an_answer_that_is_broken_already_is_not_broken_again(server, ending):
    server.play(Script(CALL, ending))
    with proxying(server.url, fault="cut:3") as proxy:
        got = ask(proxy.url)
    assert got.status == 502
    assert "the upstream's own answer ended badly" in proxy.said[0]


@pytest.mark.parametrize("ending", [CHUNKED, LENGTH, CLOSE])
def test_however_the_whole_answer_came_it_is_broken_alike(server, ending):
    server.play(Script(CALL, ending))
    with proxying(server.url, fault="cut:50/rst") as proxy:
        got = ask(proxy.url)
    assert (got.body, got.ended) == (CALL[:50], "reset")


def test_what_is_broken_is_asked_for_uncoded_and_cut_as_it_comes(server):
    server.play(Script(CALL, zipped=True))
    zipped = gzip.compress(CALL, mtime=0)
    with proxying(server.url, fault="cut:50") as proxy:
        got = ask(proxy.url, headers=[("Accept-Encoding", "gzip, br")])
        assert got.body == zipped[:50]
        assert got.headers["content-encoding"] == "gzip"
    head = server.requests[0][0].lower()
    assert b"accept-encoding: identity" in head
    assert b"gzip" not in head


def test_a_lie_takes_its_wire_from_the_path_or_by_name(server):
    server.play(Script(answers.messages_call()))
    whole = answers.messages_call()
    with proxying(server.url, fault="lie:900") as proxy:
        by_path = ask(proxy.url, MESSAGES).body
    with proxying(server.url, fault="lie:900", wire="anthropic") as proxy:
        by_name = ask(proxy.url, "/gateway").body
    assert by_path == by_name == expected("lie:900", whole, "anthropic") != whole
