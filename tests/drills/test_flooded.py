"""A guard whose events come many in one read: it recognises them together, and keeps back what it always did."""

import random

import pytest
from tests.drills.running import CHAT, MESSAGES, ask, proxying
from tests.drills.test_guard import SSE
from tests.support.server import CHUNKED, Script, serving
from tests.wires.bodies import Turn
from tests.wires.bodies_openai import STREAMS

from endmark.core.ending import Ending
from endmark.drills.proxy.judge import Judge
from endmark.sources import asked

PATHS = {"openai-chat": CHAT, "anthropic": MESSAGES, "openai-responses": "/v1/responses"}
ENDS = {"openai-chat": b'"finish_reason":"', "anthropic": b'"message_delta"', "openai-responses": b"response.completed"}
TEXT = "CREATE TABLE readings (id INTEGER, note TEXT); 'ž' \\ \"q\"\n" * 300


def whole(wire):
    return STREAMS[wire](Turn(text=TEXT))


@pytest.mark.parametrize("wire", PATHS)
def test_a_flood_passes_whole_and_its_cuts_do_not(wire):
    body = whole(wire)
    with serving() as server, proxying(server.url, guard=True) as proxy:
        server.play(Script(body, CHUNKED, content_type=SSE))
        got = ask(proxy.url, PATHS[wire])
        assert (got.body, got.ended) == (body, "whole")
        for at in (len(body) // 2, body.index(b"\n\n", len(body) // 2) + 2, len(body) - 1):
            server.play(Script(body, CHUNKED, content_type=SSE, cut=at))
            got = ask(proxy.url, PATHS[wire])
            assert got.ended == "reset"
            assert got.body == body[: len(got.body)]


@pytest.mark.parametrize("wire", PATHS)
def test_all_goes_on_but_the_event_under_way_and_the_end(wire):
    body = whole(wire)
    for seed in range(2):
        judge, passed = Judge(wire, "", asked.read(b"{}"), False), b""
        rng, at = random.Random(seed), 0
        while at < len(body):
            part = body[at : at + rng.randint(1, 9000)]
            at += len(part)
            passed += judge.look(part)
            judge.read()
            assert passed + judge.held == body[: judge.received]
            assert ENDS[wire] not in passed
            if ENDS[wire] not in body[: judge.received]:
                assert passed.endswith(b"\n\n") or not passed
                assert b"\n\n" not in judge.held
        assert judge.verdict(Ending.LAST_CHUNK).refused is None


@pytest.mark.parametrize("wire", PATHS)
def test_a_lost_or_doubled_event_of_a_numbered_flood_is_withheld(wire):
    """Only Responses numbers its events; elsewhere a missing one cannot be seen, and a torn one can."""
    body = whole(wire)
    start = body.index(b"\n\n", len(body) // 2) + 2
    end = body.index(b"\n\n", start) + 2
    torn = body[: start + 40] + body[end:]
    lost = body[:start] + body[end:]
    doubled = body[:end] + body[start:]
    for broken in (torn, lost, doubled) if wire == "openai-responses" else (torn,):
        with serving(Script(broken, CHUNKED, content_type=SSE)) as server, proxying(server.url, guard=True) as proxy:
            assert ask(proxy.url, PATHS[wire]).ended == "reset"
