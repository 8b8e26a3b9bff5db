"""The guard over real sockets: a whole answer passes byte for byte, and no other one ever ends."""

import gzip
import os
import stat
import threading
import zlib

import brotli  # type: ignore[import-untyped]
import pytest
from tests.drills.running import CHAT, MESSAGES, ask, connect, proxying, read_answer, request
from tests.faces.shell import wait_for
from tests.support import answers
from tests.support.server import CHUNK_FIN, CHUNKED, CLOSE, LENGTH, RST, SHORT, Script, serving, sse_pieces
from tests.wires import bodies, six

from endmark.core import strictjson
from endmark.drills import edges
from endmark.drills.edges import Shape
from endmark.drills.proxy.options import Guarding

SAYING = six.turns("cohere")["verdict"]
GEMINI = "/v1beta/models/m:streamGenerateContent"
SSE, NDJSON, JSON, FRAMES = (
    "text/event-stream",
    "application/x-ndjson",
    "application/json",
    "application/vnd.amazon.eventstream",
)
# name: path, content type, body
STREAMS = {
    "openai-chat": (CHAT, SSE, answers.chat_call()),
    "openai-responses": ("/v1/responses", SSE, answers.responses_call()),
    "anthropic": (MESSAGES, SSE, answers.messages_call()),
    "gemini": (f"{GEMINI}?alt=sse", SSE, answers.gemini_text()),
    "ollama": ("/api/chat", NDJSON, answers.ollama_text()),
    "bedrock": ("/model/m/converse-stream", FRAMES, bodies.bedrock(SAYING)),
    "cohere": ("/v2/chat", SSE, bodies.cohere(SAYING)),
}
ARRAYS = {"gemini-array": (GEMINI, JSON, bodies.gemini_array(SAYING))}
DOCUMENTS = {
    "openai-chat document": (CHAT, JSON, answers.chat_document()),
    "anthropic document": (MESSAGES, JSON, answers.messages_document()),
}
ALL = STREAMS | ARRAYS | DOCUMENTS
ENDINGS = [CHUNKED, LENGTH, CHUNK_FIN, SHORT, RST]


def script(name, ending=CHUNKED, **more):
    _, kind, body = ALL[name]
    return Script(body, ending, content_type=kind, **more)


def places(body, kind):
    """Every edge, and the bytes around it; of a document every 37th byte."""
    shape = edges.shape_of_type(kind)
    if shape is Shape.DOCUMENT:
        return sorted({*range(0, len(body), 37), len(body) - 1})
    cuts = edges.edges(body, shape)
    return sorted({at for cut in cuts for at in (cut - 1, cut, cut + 1) if 0 <= at < len(body)})


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("ending", ENDINGS)
def test_no_cut_ever_ends(name, ending):
    path, kind, body = ALL[name]
    with serving() as server, proxying(server.url, guard=True) as proxy:
        for at in places(body, kind)[:: 1 if ending in (CHUNKED, LENGTH) else 7]:
            server.play(script(name, ending, cut=at))
            got = ask(proxy.url, path)
            assert got.ended == "reset", at
            assert body.startswith(got.body)
            assert len(got.body) <= at
        server.play(script(name, ending))
        got = ask(proxy.url, path)
        assert got.ended == ("whole" if ending in (CHUNKED, LENGTH) else "reset")
        if ending in (CHUNKED, LENGTH):
            assert got.body == body
    assert all(line.startswith("withheld: POST ") for line in proxy.said[:-1])
    assert len([line for line in proxy.said if line.startswith("whole: ")]) == (ending in (CHUNKED, LENGTH))


@pytest.mark.soak
@pytest.mark.parametrize("name", ALL)
def test_no_cut_at_any_byte_ever_ends(name):
    path, _, body = ALL[name]
    with serving() as server, proxying(server.url, guard=True) as proxy:
        for at in range(len(body)):
            for ending in (CHUNKED, LENGTH):
                server.play(script(name, ending, cut=at))
                assert ask(proxy.url, path).ended == "reset"


TERMINAL = {
    "openai-chat": b'"finish_reason":"',
    "openai-responses": b"response.completed",
    "anthropic": b"message_delta",
    "gemini": b"finishReason",
    "ollama": b'"done":true',
    "bedrock": b"messageStop",
    "cohere": b"message-end",
}


@pytest.mark.parametrize("name", STREAMS)
def test_what_declares_the_end_waits_for_the_end_and_nothing_else_waits(name):
    """Clients stop reading at the terminal event, so it may not reach them before the judgement."""
    path, _, body = STREAMS[name]
    shape = edges.shape_of_type(STREAMS[name][1])
    declared = edges.last_edge(body[: body.index(TERMINAL[name])], shape)
    hold = threading.Event()
    held = Script(content_type=STREAMS[name][1], pieces=[body, b"x"], hold=hold)
    with serving(held) as server, proxying(server.url, guard=True) as proxy, connect(proxy.url) as sock:
        sock.sendall(request(path))
        got = b""
        while len(got) < declared or not got.endswith(body[:declared][-40:] + b"\r\n"):
            got += sock.recv(65536)
        assert TERMINAL[name] not in got
        sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.settimeout(10)
        hold.set()
        assert TERMINAL[name] not in read_to_end(sock)  # one byte too many, so it never ends


def read_to_end(sock):
    data = b""
    try:
        while piece := sock.recv(65536):
            data += piece
            if data.endswith(b"0\r\n\r\n"):
                break
    except ConnectionResetError:
        pass
    return data


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("size", [1, 7])
def test_portions_of_any_size_pass_and_are_judged_alike(name, size):
    path, kind, body = STREAMS[name]
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    with serving(Script(body, content_type=kind, pieces=pieces)) as server, proxying(server.url, guard=True) as proxy:
        assert ask(proxy.url, path)[2:4] == (body, "whole")
        server.play(Script(body, content_type=kind, pieces=pieces[: len(pieces) * 2 // 3]))
        got = ask(proxy.url, path)
        assert got.ended == "reset"
        assert body.startswith(got.body)


def test_an_event_reaches_the_client_before_the_next_one_comes():
    hold = threading.Event()
    body = answers.chat_text()
    first = sse_pieces(body)[0]
    with (
        serving(Script(body, pieces=sse_pieces(body), hold=hold)) as server,
        proxying(server.url, guard=True) as proxy,
        connect(proxy.url) as sock,
    ):
        sock.sendall(request())
        got = b""
        while first not in got:
            got += sock.recv(4096)
        hold.set()
        assert read_to_end(sock).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


# --- what is whole in its bytes and still no whole answer


BAD = {
    "a capped answer": (CHAT, answers.chat_text(finish="length"), "bad-stop"),
    "a stop reason that is not normal": (MESSAGES, answers.messages_text(stop="max_tokens"), "bad-stop"),
    "an end without a reason": (CHAT, answers.sse([]), "no-terminal"),
    "an event after the end": (CHAT, answers.chat_call() + b'data: {"choices":[]}\n\n', "bytes-after-end"),
    "an empty body": (CHAT, b"", "empty"),
    "no terminal event": (CHAT, answers.chat_call()[: -len(b"data: [DONE]\n\n")], "no-terminal"),
    "an error in the stream": (MESSAGES, b'event: error\ndata: {"type":"error","error":{"type":"x"}}\n\n', "bad-stop"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("ending", [CHUNKED, LENGTH])
def test_an_end_that_is_no_good_one_is_withheld(name, ending):
    path, body, signal = BAD[name]
    with serving(Script(body, ending)) as server, proxying(server.url, guard=True) as proxy:
        got = ask(proxy.url, path)
    assert got.ended == "reset"
    assert body.startswith(got.body)
    assert f": {signal}: " in proxy.said[0]
    if name == "an error in the stream":  # the client gets to see which
        assert got.body == (body if ending == CHUNKED else body[:-1])
    elif body:
        assert len(got.body) < len(body)


def test_the_requested_cap_is_read_from_the_request():
    with serving(Script(answers.chat_call())) as server, proxying(server.url, guard=True) as proxy:
        assert ask(proxy.url, body=b'{"max_tokens":701}').ended == "whole"
        assert ask(proxy.url, body=b'{"max_tokens":700}').ended == "reset"
        assert ask(proxy.url, body=b'{"max_tokens":').ended == "whole"
    assert "token-cap: 700 output tokens reached the requested cap of 700" in proxy.said[1]


def test_what_only_the_close_ends_is_withheld_unless_allowed():
    with serving(Script(answers.chat_call(), CLOSE)) as server:
        with proxying(server.url, guard=True) as proxy:
            assert ask(proxy.url).ended == "reset"
        assert "weak-evidence" in proxy.said[0]
        with proxying(server.url, guard=Guarding(allow_close_delimited=True)) as proxy:
            assert ask(proxy.url).body == answers.chat_call()
        server.play(Script(answers.chat_call(), CLOSE, cut=900))
        with proxying(server.url, guard=Guarding(allow_close_delimited=True)) as proxy:
            assert ask(proxy.url).ended == "reset"


def test_a_server_that_lies_is_not_caught():
    body = answers.chat_call()
    with (
        serving(Script(body)) as server,
        proxying(server.url, fault=f"lie:{len(body) // 2}") as liar,
        proxying(liar.url, guard=True) as proxy,
    ):
        got = ask(proxy.url)
    assert got.ended == "whole"
    assert len(got.body) < len(body)


# --- what is no model's answer


@pytest.mark.parametrize(
    ("path", "method", "status", "kind"),
    [
        ("/v1/models", "GET", "200 OK", JSON),
        ("/v1/embeddings", "POST", "200 OK", JSON),
        (f"{MESSAGES}/count_tokens", "POST", "200 OK", JSON),
        (CHAT, "POST", "429 Too Many Requests", JSON),
        (CHAT, "POST", "500 Internal Server Error", SSE),
        (CHAT, "POST", "307 Temporary Redirect", JSON),
        ("/v1/files/f/content", "GET", "200 OK", "application/octet-stream"),
        ("/v1/audio/speech", "POST", "200 OK", "audio/mpeg"),
    ],
)
@pytest.mark.parametrize("ending", [CHUNKED, LENGTH])
def test_other_answers_pass_untouched(path, method, status, kind, ending):
    body = b'{"not":"an answer"'
    with (
        serving(Script(body, ending, status, content_type=kind)) as server,
        proxying(server.url, guard=True) as proxy,
    ):
        got = ask(proxy.url, path, None if method == "GET" else b"{}", method)
    assert (got.status, got.body, got.ended) == (int(status[:3]), body, "whole")
    assert proxy.said == []


def test_a_stream_of_an_unknown_format_is_refused_unless_told_to_pass():
    with serving(Script(answers.chat_call())) as server:
        with proxying(server.url, guard=True) as proxy:
            got = ask(proxy.url, "/gateway/run")
        assert (got.status, got.ended) == (502, "whole")
        assert strictjson.loads(got.body)["detail"] == (
            "endmark: POST /gateway/run is answered by a stream whose format is not known, so it cannot be judged. "
            "Nothing of it was passed on. Name the format with --wire, or pass such streams with --pass-unknown."
        )
        with proxying(server.url, guard=Guarding(pass_unknown=True)) as proxy:
            assert ask(proxy.url, "/gateway/run").body == answers.chat_call()
        assert proxy.said[0].startswith("passed unjudged: POST /gateway/run: ")
        with proxying(server.url, guard=Guarding(wire="openai-chat")) as proxy:
            assert ask(proxy.url, "/gateway/run").body == answers.chat_call()
            server.play(Script(answers.chat_call(), cut=500))
            assert ask(proxy.url, "/gateway/run").ended == "reset"


def test_a_named_profile_holds_where_many_serve_and_nowhere_else():
    no_done = answers.chat_call()[: -len(b"data: [DONE]\n\n")]
    with (
        serving(Script(no_done)) as server,
        proxying(server.url, guard=Guarding(wire="openai-chat+llamacpp")) as proxy,
    ):
        assert ask(proxy.url).ended == "whole"
        server.play(Script(answers.messages_call()))
        assert ask(proxy.url, MESSAGES).ended == "whole"
    assert "openai-chat+llamacpp" in proxy.said[0]
    assert "anthropic" in proxy.said[1]


# --- content codings


ZIPPED = gzip.compress(answers.chat_call(), mtime=0)


def flushed(body, wbits=zlib.MAX_WBITS | 16):
    """As a server sends a coded stream: every event is flushed by itself."""
    coder = zlib.compressobj(wbits=wbits)
    pieces = [coder.compress(event) + coder.flush(zlib.Z_SYNC_FLUSH) for event in sse_pieces(body)]
    return [*pieces, coder.flush()]


def coded(pieces, coding="gzip", ending=CHUNKED):
    return Script(b"".join(pieces), ending, headers={"Content-Encoding": coding}, pieces=pieces)


@pytest.mark.parametrize("ending", [CHUNKED, LENGTH])
@pytest.mark.parametrize("pieces", [[ZIPPED], flushed(answers.chat_call())], ids=["one", "flushed"])
def test_a_gzip_body_passes_as_it_is_and_its_cuts_do_not(pieces, ending):
    whole = b"".join(pieces)
    with serving() as server, proxying(server.url, guard=True) as proxy:
        server.play(coded(pieces, ending=ending))
        got = ask(proxy.url)
        assert (got.body, got.ended, got.headers["content-encoding"]) == (whole, "whole", "gzip")
        for at in (0, 5, len(whole) // 2, len(whole) - 9, len(whole) - 1):
            server.play(coded([whole[:at]] if at else [], ending=ending))
            assert ask(proxy.url).ended == "reset"
        short = gzip.compress(answers.chat_call()[:900], mtime=0)  # whole as gzip, and no whole answer
        server.play(coded([short], ending=ending))
        assert ask(proxy.url).ended == "reset"
        server.play(coded([whole, b"more"], ending=ending))
        assert ask(proxy.url).ended == "reset"


def test_in_a_gzip_stream_the_end_waits_too():
    hold = threading.Event()
    body = answers.chat_call()
    pieces = flushed(body)
    end = next(at for at, event in enumerate(sse_pieces(body)) if b'"finish_reason":"' in event)
    sent = Script(b"", headers={"Content-Encoding": "gzip"}, hold=hold)
    sent.pieces = [b"".join(pieces[:-1]), pieces[-1]]
    with serving(sent) as server, proxying(server.url, guard=True) as proxy:
        hold.set()
        got = ask(proxy.url)
        assert (got.body, got.ended) == (b"".join(pieces), "whole")
        sent = Script(b"", headers={"Content-Encoding": "gzip"}, pieces=pieces[: end + 1])
        server.play(sent)
        got = ask(proxy.url)
    assert got.ended == "reset"
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
    seen = decoder.decompress(got.body)
    assert b'"finish_reason":"' not in seen
    assert body.startswith(seen)


def test_other_codings_wait_for_their_end_and_unknown_ones_never_end():
    body = answers.chat_call()
    with serving() as server, proxying(server.url, guard=True) as proxy:
        for coding, made in (("br", brotli.compress(body)), ("deflate", zlib.compress(body))):
            server.play(coded([made], coding))
            assert ask(proxy.url).body == made
            server.play(coded([made[:-1]], coding))
            assert ask(proxy.url).ended == "reset"
        server.play(coded([body], "rot13"))
        got = ask(proxy.url)
    assert (got.body, got.ended) == (b"", "reset")
    assert "nothing here undoes the content coding 'rot13'" in proxy.said[-1]


def test_the_upstream_is_asked_for_what_can_be_judged_as_it_comes():
    with serving(Script(answers.chat_call())) as server, proxying(server.url, guard=True) as proxy:
        ask(proxy.url, headers=[("Accept-Encoding", "br, gzip;q=0.8, zstd")])
        for said in ("br", "gzip;q=0, br", "gzip; q=0.0", "x-gzip"):
            ask(proxy.url, headers=[("Accept-Encoding", said)])
        ask(proxy.url)
    asked = [line for head, _ in server.requests for line in head.split(b"\r\n") if b"ccept-" in line]
    assert asked == [b"Accept-Encoding: gzip", *[b"Accept-Encoding: identity"] * 5]


# --- records


@pytest.fixture
def open_umask():
    """Files are for everybody, unless whoever makes them says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_judged_answers_are_kept_for_their_owner_without_keys(tmp_path):
    body = answers.gemini_text()
    secret = [("Authorization", "Bearer sk-secret"), ("X-Goog-Api-Key", "k-secret")]
    with serving() as server, proxying(server.url, guard=Guarding(record=tmp_path)) as proxy:
        server.play(Script(body, headers={"Set-Cookie": "secret"}))
        ask(proxy.url, f"{GEMINI}?alt=sse&key=k-secret", b'{"secret":1}', headers=secret)
        server.play(Script(body, cut=len(body) - 1))
        ask(proxy.url, f"{GEMINI}?alt=sse&key=k-secret", headers=secret)
        ask(proxy.url, "/v1/models", None, "GET")
    files = sorted(tmp_path.iterdir())
    assert len(files) == 4
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert not any(b"secret" in file.read_bytes() for file in files)
    records = [strictjson.loads(file.read_bytes()) for file in files if file.suffix == ".json"]
    whole = next(record for record in records if record["whole"])
    cut = next(record for record in records if not record["whole"])
    assert whole["received_bytes"] == whole["passed_bytes"] == len(body)
    assert whole["evidence"][0] == "provider-terminal"
    assert (whole["wire"], whole["ending"], whole["path"]) == ("gemini", "last-chunk", GEMINI)
    assert (cut["signal"], cut["received_bytes"]) == ("no-terminal", len(body) - 1)
    assert cut["passed_bytes"] < cut["received_bytes"]
    assert sorted(file.read_bytes() for file in files if file.suffix == ".raw") == sorted([body, body[:-1]])
    assert whole["at"] == "2026-11-30T12:00:00.123456Z"


def test_a_folder_that_cannot_be_written_takes_nothing_from_the_guard(tmp_path):
    with (
        serving(Script(answers.chat_call(), cut=700)) as server,
        proxying(server.url, guard=Guarding(record=tmp_path / "gone")) as proxy,
    ):
        assert ask(proxy.url).ended == "reset"
    assert proxy.said[0].startswith("not recorded: POST ")
    assert proxy.said[1].startswith("withheld: ")


def test_a_client_that_goes_is_on_record_too(tmp_path):
    hold = threading.Event()
    body = answers.chat_call()
    script = Script(body, pieces=sse_pieces(body), hold=hold)
    with serving(script) as server, proxying(server.url, guard=Guarding(record=tmp_path)) as proxy:
        with connect(proxy.url) as sock:
            sock.sendall(request())
            assert sock.recv(10)
        wait_for(lambda: list(tmp_path.glob("*.json")))
        hold.set()
    (record,) = [strictjson.loads(file.read_bytes()) for file in tmp_path.glob("*.json")]
    assert record["ended_early"] == "the client has gone"
    assert "whole" not in record
    assert proxy.said == [f"ended early: POST {CHAT}, {record['received_bytes']} bytes: the client has gone"]


def test_after_a_refusal_the_next_request_is_served():
    body = answers.chat_call()
    with serving(Script(body, cut=400), Script(body)) as server, proxying(server.url, guard=True) as proxy:
        with connect(proxy.url) as sock:
            sock.sendall(request())
            assert read_answer(sock).ended == "reset"
        assert ask(proxy.url).body == body
