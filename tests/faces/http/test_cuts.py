"""A body cut in every way HTTP has: never a job beyond truncated or incomplete, and the service goes on."""

import gzip
import threading

import pytest
from tests.support.service import answer_in, envelope, everything, reset, served

from endmark.faces.http import openapi
from endmark.faces.http.protocol import TO_BE_TOLD

RAW = envelope("cut", ["CREATE TABLE a (x)"] * 8)
PATH = "/v1/jobs?target=auto"  # what is whole would be applied there at once
HALF = len(RAW) // 2
CHUNKED = b"%x\r\n%s\r\n" % (HALF, RAW[:HALF])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cuts")
    with served(folder, worker=True, idle_timeout=0.3, header_timeout=0.3, body_timeout=0.8, max_body=100_000) as found:
        yield found


def length(number):
    return f"Content-Length: {number}"


def fin(wire):
    wire.close()


def stay(wire):
    """Say nothing more, and wait for the answer."""


ENDS = {"FIN": fin, "RST": reset}
CUTS = {
    "a short body, FIN": ((length(len(RAW)),), RAW[:HALF], fin, ("truncated", "body-cut", HALF)),
    "a short body, RST": ((length(len(RAW)),), RAW[:HALF], reset, ("truncated", "body-cut", HALF)),
    "no byte of it, FIN": ((length(len(RAW)),), b"", fin, ("truncated", "body-cut", 0)),
    "all but one byte, FIN": ((length(len(RAW)),), RAW[:-1], fin, ("truncated", "body-cut", len(RAW) - 1)),
    "all of it, and a longer length, FIN": ((length(len(RAW) + 1),), RAW, fin, ("truncated", "body-cut", len(RAW))),
    "no last chunk, FIN": (("Transfer-Encoding: chunked",), CHUNKED, fin, ("incomplete", "reset", HALF)),
    "no last chunk, RST": (("Transfer-Encoding: chunked",), CHUNKED, reset, ("incomplete", "reset", HALF)),
    "all of it but the last chunk": (
        ("Transfer-Encoding: chunked",), b"%x\r\n%s\r\n" % (len(RAW), RAW), fin, ("incomplete", "reset", len(RAW)),
    ),
    "a bad chunk": (
        ("Transfer-Encoding: chunked",), CHUNKED + b"zz\r\n", stay, ("incomplete", "reset", HALF),
    ),
    "silence within": ((length(len(RAW)),), RAW[:HALF], stay, ("incomplete", "idle", HALF)),
    "silence before": ((length(len(RAW)),), b"", stay, ("incomplete", "idle", 0)),
    "silence between chunks": (("Transfer-Encoding: chunked",), CHUNKED, stay, ("incomplete", "idle", HALF)),
    "too long, by its own word": ((length(200_000),), RAW, stay, ("rejected", "over-cap", 0)),
    "too short a length": ((length(HALF), "Connection: close"), RAW[:HALF], stay, ("truncated", "body-cut", HALF)),
    "half of a gzip body": (
        (length(40), "Content-Encoding: gzip"), gzip.compress(RAW)[:40], stay, ("truncated", "body-cut", 40),
    ),
    "0 bytes": ((length(0), "Connection: close"), b"", stay, ("truncated", "empty", 0)),
    "no body at all": (("Connection: close",), b"", stay, ("truncated", "empty", 0)),
}  # fmt: skip


def written(site, count):
    """The attempts on record once there are `count`: of a client that has gone nobody is answered."""
    site.until(lambda: len(site.attempts()) >= count and site.service.limits.uploads == 0)
    return site.attempts()


@pytest.mark.parametrize("name", CUTS)
def test_what_is_cut_is_never_a_job(site, name):
    """H1 H2 H3"""
    fields, body, end, expected = CUTS[name]
    world, attempts = site.world(), site.attempts()
    with site.connect() as wire:
        wire.sendall(site.head("POST", PATH, *fields) + body)
        if end is reset:  # an RST takes back what was not read yet
            site.until(lambda: site.service.limits.in_flight >= expected[2])
        end(wire)
        said = None if end in ENDS.values() else answer_in(everything(wire))
    found = written(site, len(attempts) + 1)
    if end is reset:
        assert found[-1][2] <= expected[2]
        found[-1] = (*found[-1][:2], expected[2])
    assert found == [*attempts, expected]
    if said is not None and "bad chunk" not in name:
        assert said.status in (408, 413, 422)
        assert said.json["signal"] == expected[1]
    assert site.world() == world
    assert site.ask("GET", "/healthz").status == 200
    assert (site.service.limits.in_flight, site.service.limits.uploads) == (0, 0)


def problem(said, status, signal, exit_code):
    """H8 H10 H11 H37: what no route saw is answered as everything else is."""
    assert said.headers["content-type"] == "application/problem+json"
    assert int(said.headers["content-length"]) == len(said.body)
    assert said.headers["connection"] == "close"
    assert said.headers["x-request-id"]
    document = said.json
    assert (said.status, document["status"], document["signal"]) == (status, status, signal)
    assert (document["type"], document["exit_code"]) == (f"urn:endmark:problem:{signal}", exit_code)
    assert set(openapi._PROBLEM_KEYS) <= set(document)
    assert ("retry-after" in said.headers) is (status == 503)


SMUGGLED = {
    "two lengths": (length(len(RAW)), length(HALF)),
    "two equal lengths": (length(len(RAW)), length(len(RAW))),
    "two lengths in one field": (f"Content-Length: {len(RAW)}, {HALF}",),
    "a length beside chunks": (length(len(RAW)), "Transfer-Encoding: chunked"),
    "chunks beside a length": ("Transfer-Encoding: chunked", length(len(RAW))),
    "a length that is none": (length("+5"),),
    "a negative length": (length(-1),),
    "another coding last": ("Transfer-Encoding: chunked, gzip",),
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_framing_that_contradicts_itself_is_not_read(site, name):
    """H2"""
    world, attempts = site.world(), site.attempts()
    with site.connect() as wire:
        wire.sendall(site.head("POST", PATH, *SMUGGLED[name]) + RAW)
        said = answer_in(everything(wire))
    problem(said, 400, "bad-framing", 2)
    assert site.attempts() == attempts
    assert site.world() == world
    assert site.ask("GET", "/healthz").status == 200


def test_a_head_that_does_not_end_is_ended(site):
    """H23 H24"""
    with site.connect() as wire:
        wire.sendall(b"POST /v1/jobs?target=auto HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        problem(answer_in(everything(wire)), 408, "head-stalled", 20)
    with site.connect() as wire:
        problem(answer_in(everything(wire)), 408, "head-stalled", 20)  # not a byte came
    with site.connect() as wire:
        try:
            for _ in range(40):
                wire.sendall(b"X-Long: " + b"a" * 4096 + b"\r\n" if _ else b"GET / HTTP/1.1\r\n")
        except ConnectionError:
            pass
        problem(answer_in(everything(wire)), 431, "head-too-large", 2)
    assert site.ask("GET", "/healthz").status == 200


def test_a_connection_too_many_is_told_in_a_problem_document(tmp_path):
    """H25"""
    with served(tmp_path, max_connections=1) as other:
        wires = [other.connect() for _ in range(1 + TO_BE_TOLD)]
        try:
            with other.connect() as wire:
                problem(answer_in(everything(wire)), 503, "busy", 20)  # not a byte of it was read
            other.until(lambda: len(other.server.server_state.connections) == len(wires))
            wires[0].sendall(other.head("GET", "/healthz", "Connection: close"))
            problem(answer_in(everything(wires[0])), 503, "busy", 20)
        finally:
            for wire in wires:
                wire.close()


def test_a_body_that_drips_is_ended(site):
    """Each piece in time, and all of them too late."""
    attempts = site.attempts()
    with site.connect() as wire:
        wire.sendall(site.head("POST", PATH, length(len(RAW))))
        try:
            for at in range(len(RAW)):
                wire.sendall(RAW[at : at + 1])
                threading.Event().wait(0.1)
        except ConnectionError:
            pass
    assert written(site, len(attempts) + 1)[-1][:2] == ("incomplete", "idle")


def test_what_is_whole_goes_through_after_all_that(site):
    with site.connect() as wire:
        pieces = [RAW[at : at + 7] for at in range(0, len(RAW), 7)]
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        wire.sendall(site.head("POST", PATH, "Transfer-Encoding: chunked", "Connection: close") + chunks)
        assert answer_in(everything(wire)).status in (200, 202)
