"""What the guard judges, passes and refuses is a matter of the route."""

import pytest
from tests.drills.running import ask, proxying
from tests.drills.test_guard import FRAMES, NDJSON, SSE
from tests.support import answers
from tests.support.server import Script, serving

from endmark.drills.proxy.options import Guarding


@pytest.mark.parametrize(
    ("method", "path", "kind", "route"),
    [
        ("POST", "/api/pull", NDJSON, "/api/pull"),
        ("POST", "/v1/audio/speech", SSE, "/audio/speech"),
        ("POST", "/v1/audio/transcriptions", SSE, "/audio/transcriptions"),
        ("POST", "/v1/images/generations", SSE, "/images/generations"),
        ("GET", "/v1/responses/r?stream=true", SSE, "GET"),
        ("GET", "/v1/messages/batches/b/results", NDJSON, "GET"),
        ("GET", "/v1/files/f/content", NDJSON, "GET"),
        ("GET", "/mcp", SSE, "GET"),
    ],
)
@pytest.mark.parametrize("wire", [None, "openai-chat"])
def test_streams_that_no_model_answers_pass_and_are_said_once(method, path, kind, route, wire):
    body = b'data: {"not":"an answer"'
    with (
        serving(Script(body, content_type=kind)) as server,
        proxying(server.url, guard=Guarding(wire=wire)) as proxy,
    ):
        for _ in range(2):
            got = ask(proxy.url, path, b"{}" if method == "POST" else None, method)
            assert (got.status, got.body, got.ended) == (200, body, "whole")
    said = f"passed unjudged, here and from now on: {route}, as {method} {path.partition('?')[0]}"
    assert proxy.said == [said]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/completions", SSE),
        ("/v1/chat", "application/stream+json"),
        ("/model/a/invoke-with-response-stream", FRAMES),
        ("/v1/threads/t/runs", SSE),
    ],
)
def test_streams_of_models_that_are_not_read_are_refused(path, kind):
    with (
        serving(Script(b"data: x\n\n", content_type=kind)) as server,
        proxying(server.url, guard=True) as proxy,
    ):
        assert ask(proxy.url, path).status == 502


def test_a_path_is_judged_as_the_upstream_reads_it():
    with serving(Script(answers.chat_call(), cut=900)) as server, proxying(server.url, guard=True) as proxy:
        assert ask(proxy.url, "/v1/chat/complet%69ons").ended == "reset"
    assert server.requests[0][0].startswith(b"POST /v1/chat/complet%69ons ")
