"""The guard asks whether an answer ended, and not whether it could be sealed; a cut of such an answer never ends."""

import gzip

import pytest
from tests.drills.running import CHAT, MESSAGES, ask, proxying
from tests.drills.test_guard import JSON, NDJSON, SSE, places
from tests.faces.shell import wait_for
from tests.support.server import CHUNKED, LENGTH, Script, serving
from tests.wires import vectors

RESPONSES = "/v1/responses"
GEMINI, GEMINI_STREAM = "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent"
TWO = b'{"generationConfig":{"candidateCount":2}}'
# vector: path, content type, request
CASES = {
    "choices": (CHAT, SSE, b'{"n":2}'),
    "choices_document": (CHAT, JSON, b'{"n":2}'),
    "audio": (CHAT, JSON, b"{}"),
    "empty_stop": (CHAT, SSE, b"{}"),
    "refusal": (CHAT, JSON, b"{}"),
    "end_turn": (MESSAGES, JSON, b"{}"),
    "image": (GEMINI, JSON, b"{}"),
    "gemini_two": (f"{GEMINI_STREAM}?alt=sse", SSE, TWO),
    "gemini_two_document": (GEMINI, JSON, TWO),
    "gemini_array_two": (GEMINI_STREAM, JSON, TWO),
    "queued": (RESPONSES, JSON, b'{"background":true}'),
    "drawn": (RESPONSES, JSON, b"{}"),
    "declined_stream": (RESPONSES, SSE, b"{}"),
    "load": ("/api/generate", JSON, b"{}"),
    "load_line": ("/api/generate", NDJSON, b"{}"),
    "unload": ("/api/generate", JSON, b"{}"),
}
BODIES = {vector.name.removeprefix("ended/"): vector.raw for vector in vectors.load("ended")}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("ending", [CHUNKED, LENGTH])
def test_what_ended_passes_and_its_cuts_do_not(name, ending):
    path, kind, asked = CASES[name]
    body = BODIES[name]
    ends = body.index(b'data: {"usage') if name == "gemini_two" else len(body.rstrip()) if kind == JSON else len(body)
    with serving() as server, proxying(server.url, guard=True) as proxy:
        for headers, sent in (({}, body), ({"Content-Encoding": "gzip"}, gzip.compress(body, mtime=0))):
            server.play(Script(sent, ending, content_type=kind, headers=headers))
            got = ask(proxy.url, path, asked)
            assert (got.body, got.ended) == (sent, "whole")
        wait_for(lambda: len(proxy.said) == 2)
        assert [line.partition(":")[0] for line in proxy.said] == ["whole"] * 2
        for at in places(body, kind)[::3]:
            server.play(Script(body, ending, content_type=kind, cut=at))
            got = ask(proxy.url, path, asked)
            if at < ends:
                assert got.ended == "reset", at


@pytest.mark.parametrize(
    ("name", "path", "kind"),
    [
        ("choices_cut", CHAT, SSE),
        ("choices_open", CHAT, SSE),
        ("choices_length", CHAT, SSE),
        ("choices_document_open", CHAT, JSON),
        ("max_tokens", MESSAGES, JSON),
        ("background_failed", RESPONSES, JSON),
        ("declined_cut", RESPONSES, SSE),
        ("gemini_two_unasked", f"{GEMINI_STREAM}?alt=sse", SSE),
        ("load_after", "/api/generate", NDJSON),
        ("length", "/api/generate", JSON),
    ],
)
def test_what_did_not_end_does_not_pass(name, path, kind):
    with serving(Script(BODIES[name], content_type=kind)) as server, proxying(server.url, guard=True) as proxy:
        assert ask(proxy.url, path).ended == "reset"
    assert proxy.said[0].startswith("withheld: ")
