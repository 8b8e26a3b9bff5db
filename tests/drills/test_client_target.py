"""Clients behind the proxy: which broken answers does a client take for whole?"""

import sys

import pytest
from tests.drills.sweeping import counts, drill, holes
from tests.support import answers

from endmark.drills.body import Body
from endmark.drills.targets.answer import Answer
from endmark.drills.targets.client import ClientTarget, type_of

STREAM = Body(b"data: 1\n\ndata: 22\n\ndata: [DONE]\n\n", "text/event-stream")
# A client as they are written: it reads until there is no more, and is content. Or it looks for the last event.
CLIENT = """
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1] + "/v1/chat", timeout=10) as answer:
    data = answer.read()
sys.exit(0 if {test} else 1)
"""


def client(test, url="{url}"):
    argv = (sys.executable, "-I", "-S", "-c", CLIENT.replace("{test}", test), url)
    return ClientTarget(argv=argv, content_type="text/event-stream", limit=10.0)


def test_a_client_that_believes_everything():
    swept = drill(client("True"), STREAM, "events,terminal")
    assert holes(swept) == ["edge:0", "edge:1", "edge:2", "terminal-"]


def test_a_client_that_looks_for_the_end():
    swept = drill(client("b'[DONE]' in data"), STREAM, "events,dups,terminal")
    assert holes(swept) == ["dup:0", "dup:1", "dup:2"]
    assert counts(swept) == {"ACCEPTED": 3, "REFUSED": 4}


@pytest.mark.parametrize("end", ["short", "fin", "rst"])
def test_an_end_that_http_tells_is_told_by_the_client_too(end):
    swept = drill(client("True"), STREAM, only=f"cut:20/{end}")
    assert counts(swept) == {"REFUSED": 1}


def test_no_reset_is_taken_for_an_end():
    assert counts(drill(client("True"), Body(b"data: 1\n\n", "text/event-stream"), "rsts")) == {"REFUSED": 9}


def test_a_stall_hangs_a_client_without_a_time_limit():
    target = client("True")
    patient = ClientTarget(argv=target.argv, content_type=target.content_type, limit=1.0)
    swept = drill(patient, STREAM, only="stall:9")
    assert counts(swept) == {"HUNG": 1}


def test_a_client_that_asks_nobody_is_no_drill():
    target = ClientTarget(argv=("/bin/sh", "-c", "exit 0", "{url}"), content_type="text/plain")
    swept = drill(target, STREAM, "events")
    assert swept.control == "could not be asked (the client asked for nothing at {url})"


def test_what_does_not_fit_is_no_fault():
    swept = drill(client("True"), Body(b'{"a": 1}', "application/json"), only="edge:1")
    assert swept.count(Answer.NO_FAULT) == 1


def test_the_type_of_an_answer():
    assert type_of(Body(answers.ollama_text(), "", "ollama"), None) == "application/x-ndjson"
    assert type_of(Body(b"{}", "", "openai-chat"), None) == "application/json"
    assert type_of(Body(b"{}"), None) == "application/json"
    assert type_of(Body(b"{}"), "text/x") == "text/x"
