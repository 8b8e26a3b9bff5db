"""Jobs over HTTP: delivered, looked at, approved, applied; each answer beside what stands in ledger and target."""

import base64
import gzip
import hashlib
import socket

import pytest
from tests.support.service import envelope, served
from tests.support.world import plan_bytes, query, witness_bytes

from endmark.core.outcome import Outcome
from endmark.faces.http.direct import Direct


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with served(tmp_path_factory.mktemp("service")) as found:
        yield found


@pytest.fixture
def working(tmp_path):
    with served(tmp_path, worker=True) as found:
        yield found


def digest(raw, kind="sha256"):
    name = {"sha256": "sha-256", "sha512": "sha-512"}[kind]
    return f"{name}=:{base64.b64encode(hashlib.new(kind, raw).digest()).decode()}:"


def test_a_delivery_is_on_record_before_it_is_answered(site):
    """H7"""
    before = site.world()
    said = site.submit(envelope("first"))
    assert said.status == 202
    assert list(said.json) == list(Outcome.__struct_fields__)
    assert (said.json["state"], said.json["exit_code"], said.json["next"]) == ("staged", 16, "wait")
    assert said.headers["location"] == f"/v1/jobs/{said.json['attempt_id']}"
    assert site.attempts()[-1][0] == "staged"
    assert site.world() == before
    assert site.ask("GET", said.headers["location"]).json == said.json


def test_the_same_again_does_nothing(site):
    raw = envelope("twice")
    first, again = site.submit(raw), site.submit(raw)
    assert (first.status, again.status) == (202, 200)
    assert again.json["attempt_id"] == first.json["attempt_id"]
    attempts = site.attempts()
    other = site.submit(envelope("twice", ["CREATE TABLE z (a)"]))
    elsewhere = site.submit(raw, target="other")
    assert [(a.status, a.json["signal"], a.json["exit_code"]) for a in (other, elsewhere)] == [
        (409, "id-reused", 12)
    ] * 2
    assert [state for state, _, _ in site.attempts()[len(attempts) :]] == ["rejected", "rejected"]


WHOLE = plan_bytes("x", ["SELECT 1"])
NACKS = {
    "nothing": (b"", (), 422, "truncated", "empty", 10),
    "half an envelope": (envelope("a")[:90], (), 422, "truncated", "body-cut", 10),
    "half a header": (envelope("a")[:20], (), 422, "truncated", "header-cut", 10),
    "a bare plan, where sealed is wanted": (WHOLE, (), 422, "incomplete", "weak-evidence", 13),
    "no plan": (b'{"a":1}', (), 422, "truncated", "no-trailer", 10),
    "a flipped bit": (envelope("a").replace(b"made", b"mbde"), (), 422, "quarantined", "envelope-digest", 11),
    "another digest": (envelope("b"), (f"Content-Digest: {digest(b'')}",), 422, "quarantined", "envelope-digest", 11),
    "another digest of the representation": (
        envelope("b"), (f"Repr-Digest: {digest(b'', 'sha512')}",), 422, "quarantined", "envelope-digest", 11,
    ),
    "one good digest and one bad": (
        envelope("b"), (f"Content-Digest: {digest(envelope('b'))}, {digest(b'x', 'sha512')}",),
        422, "quarantined", "envelope-digest", 11,
    ),
    "a digest that nobody knows": (envelope("b"), ("Content-Digest: md5=:aaaa:",), 422, "rejected", "wrong-value", 12),
    "a digest that is none": (envelope("b"), ("Content-Digest: sha-256=abc",), 422, "rejected", "wrong-value", 12),
    "half a gzip body": (
        gzip.compress(envelope("c"))[:-9], ("Content-Encoding: gzip",), 422, "truncated", "body-cut", 10,
    ),
    "a gzip body and a byte": (
        gzip.compress(envelope("c")) + b"x", ("Content-Encoding: gzip",), 422, "rejected", "bytes-after-end", 12,
    ),
    "a coding that nobody knows": (envelope("c"), ("Content-Encoding: zip",), 422, "rejected", "wrong-value", 12),
    "another id beside it": (envelope("d"), ("Endmark-Job-Id: e",), 422, "rejected", "bad-id", 12),
}  # fmt: skip


@pytest.mark.parametrize("name", NACKS)
def test_a_nack_is_a_problem_on_record(site, name):
    """H4 H5 H6 H8 H9"""
    body, fields, status, state, signal, code = NACKS[name]
    world, attempts = site.world(), site.attempts()
    said = site.submit(body, *fields)
    assert said.headers["content-type"] == "application/problem+json"
    assert said.json["type"] == f"urn:endmark:problem:{signal}"
    facts = (said.status, said.json["status"], said.json["state"], said.json["signal"], said.json["exit_code"])
    assert facts == (status, status, state, signal, code)
    assert said.json["received_bytes"] == len(body)
    assert site.attempts() == [*attempts, (state, signal, len(body))]
    assert said.json["attempt_id"].startswith("att_")
    assert site.world() == world


def test_what_is_sent_with_its_digests_is_whole(site):
    raw = envelope("digested")
    packed = gzip.compress(raw)
    fields = (
        "Content-Encoding: gzip",
        f"Content-Digest: md5=:aaaa:, {digest(packed)}",
        f"Repr-Digest: {digest(packed, 'sha512')}",
    )
    assert site.submit(packed, *fields).status == 202


def test_each_line_of_a_digest_counts(site):
    """H4"""
    raw, before = envelope("two-lines"), site.world()
    wrong = digest(b"another")
    for fields in ((digest(raw), wrong), (wrong, digest(raw))):
        said = site.submit(raw, *(f"Content-Digest: {one}" for one in fields))
        assert said.json["signal"] == "envelope-digest"
    assert site.submit(raw, f"Content-Digest: {digest(raw)}", f"Content-Digest: {digest(raw, 'sha512')}").status == 202
    assert site.world() == before


def test_an_id_beside_a_cut_body_is_spent(site):
    raw = envelope("spent")
    first = site.submit(raw[:-30], "Endmark-Job-Id: spent")
    assert (first.json["job_id"], first.json["state"]) == ("spent", "truncated")
    assert site.submit(raw).json["signal"] == "id-reused"


def test_a_witness_form_is_sealed_only_where_that_is_said(site, tmp_path):
    body = witness_bytes("witness", ["CREATE TABLE w (a)"])
    assert site.submit(body).json["signal"] == "missing-key"
    assert site.ask("POST", "/v1/jobs?target=prod&seal=true", body).json["signal"] == "weak-evidence"


CALLS = {
    "no target": ("POST", "/v1/jobs", 400, "usage"),
    "a target that nobody named": ("POST", "/v1/jobs?target=nobody", 404, "not-found"),
    "a URL": ("POST", "/v1/jobs?target=sqlite:///prod.db", 404, "not-found"),
    "a flag that is none": ("POST", "/v1/jobs?target=prod&seal=yes", 400, "usage"),
    "no such job": ("GET", "/v1/jobs/nothing", 404, "not-found"),
    "no such state": ("GET", "/v1/jobs?state=odd", 400, "usage"),
    "too many": ("GET", "/v1/jobs?limit=100000", 400, "usage"),
    "too long a wait": ("GET", "/v1/jobs/x?wait=31", 400, "usage"),
    "no such page": ("GET", "/v2", 404, "not-found"),
    "another method": ("PUT", "/v1/jobs", 405, "method-not-allowed"),
    "a fingerprint that is none": ("POST", "/v1/jobs/first/approve?fingerprint=1", 400, "usage"),
    "no downs to revert by": ("POST", "/v1/jobs/first/revert", 409, "conflict"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_makes_no_sense_leaves_no_record(site, name):
    """H10"""
    method, path, status, signal = CALLS[name]
    site.submit(envelope("first"))
    attempts = site.attempts()
    said = site.ask(method, path, b"x" if method != "GET" else None)
    assert (said.status, said.json["signal"], said.json["state"]) == (status, signal, "not-tried")
    assert site.attempts() == attempts


def test_pages_follow_one_another(site):
    for number in range(5):
        site.submit(envelope(f"page-{number}"), target="other")
    seen, cursor = [], ""
    while cursor is not None:
        page = site.ask(
            "GET",
            f"/v1/jobs?target=other&state=staged&limit=2&cursor={cursor}"
            if cursor
            else "/v1/jobs?target=other&state=staged&limit=2",
        ).json
        seen += [job["job_id"] for job in page["jobs"]]
        cursor = page["cursor"]
    assert seen == [f"page-{number}" for number in range(4, -1, -1)]


def test_approved_then_applied_then_reverted(working):
    """H26 H28"""
    raw = envelope("made", down=["DROP TABLE made"])
    working.submit(raw)
    before = working.world()
    assert working.ask("POST", "/v1/jobs/made/approve").json["state"] == "approved"
    done = working.ask("GET", "/v1/jobs/made?wait=20").json
    while done["state"] in ("approved", "applying"):
        done = working.ask("GET", "/v1/jobs/made?wait=20").json
    assert (done["state"], done["statements_run"], done["exit_code"]) == ("applied", 1, 0)
    assert query(working.folder / "prod.db", "SELECT count(*) FROM made") == [(0,)]
    stream = working.ask("GET", "/v1/jobs/made/events").body.decode()
    assert [line[7:] for line in stream.split("\n") if line.startswith("event: ")][-1] == "outcome"  # H29
    assert "id: 1\n" in stream
    later = working.ask("GET", "/v1/jobs/made/events", None, "Last-Event-ID: 2").body.decode()
    assert "id: 2\n" not in later
    assert "id: 3\n" in later
    undo = working.ask("POST", "/v1/jobs/made/revert")
    assert (undo.status, undo.json["job_id"], undo.json["state"]) == (202, "made.revert", "staged")
    assert working.world() != before


def test_a_target_without_review_needs_nobody(working):
    """H26"""
    said = working.submit(envelope("auto-1"), target="auto")
    assert said.status == 202
    done = working.ask("GET", "/v1/jobs/auto-1?wait=20").json
    while done["state"] in ("staged", "applying"):
        done = working.ask("GET", "/v1/jobs/auto-1?wait=20").json
    assert (done["state"], "review-none" in done["evidence"]) == ("applied", True)


def test_declined_is_the_end(site):
    site.submit(envelope("no"))
    assert site.ask("POST", "/v1/jobs/no/decline?reason=later").json["state"] == "declined"
    again = site.ask("POST", "/v1/jobs/no/approve")
    assert (again.status, again.json["state"]) == (200, "declined")


def test_it_says_how_it_is(site):
    """H30 H31"""
    assert site.ask("GET", "/healthz").status == 200
    assert site.ask("GET", "/readyz").json["checks"] == dict.fromkeys(
        ("ledger", "writer", "worker", "targets", "taking"), True
    )
    names = [target["name"] for target in site.ask("GET", "/v1/targets").json["targets"]]
    assert names == ["prod", "other", "auto"]


def test_the_description_names_every_answer(site):
    described = site.ask("GET", "/openapi.json").json
    assert described["openapi"].startswith("3.1")
    for path, methods in described["paths"].items():
        for method, said in methods.items():
            assert said["summary"], (path, method)
            for status, answer in said["responses"].items():
                for content in answer["content"].values():
                    assert "example" in content or content["schema"] == {"type": "string"}, (path, method, status)


def test_a_waiting_job_is_answered_when_time_is_up(site):
    site.submit(envelope("waits"))
    assert site.ask("GET", "/v1/jobs/waits?wait=0").json["state"] == "staged"
    assert site.service.limits.watchers == 0


def test_answers_are_sent_without_delay(site):
    """Head and body are two writes: with Nagle's algorithm the second would wait for the client's late ACK."""
    with site.connect() as wire:
        wire.sendall(site.head("GET", "/healthz"))
        wire.recv(65536)
        found = [each.transport.get_extra_info("socket") for each in site.server.server_state.connections]
        assert [each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0 for each in found] == [True] * len(found)
        assert found


def test_the_busiest_route_answers_as_the_framework_would(site, monkeypatch):
    """H40: what goes around FastAPI is what it describes."""
    raw = envelope("around")
    asked = (
        (raw, "?target=prod"),
        (raw, "?target=prod"),
        (raw[:-9], "?target=prod", "Endmark-Job-Id: around-cut"),
        (raw, "?target=nowhere"),
        (raw, ""),
        (raw, "?target=prod&seal=perhaps"),
        (raw, "?target=prod", f"Content-Digest: {digest(b'other')}"),
        (raw, "?target=prod", "X-Forwarded-For: 192.0.2.1"),
        (raw, "?target=prod", "Authorization: Basic eA=="),
    )
    changing = {"at", "attempt_id"}

    def answers():
        found = [site.ask("POST", f"/v1/jobs{query}", body, *fields) for body, query, *fields in asked]
        facts = [{name: value for name, value in one.json.items() if name not in changing} for one in found]
        return [(one.status, said, sorted(one.headers)) for one, said in zip(found, facts, strict=True)]

    answers()  # so that both of the next ones come again
    around, through = answers(), []

    def aside(self, *how):
        through.append(how)
        return self._app(*how)

    monkeypatch.setattr(Direct, "__call__", aside)
    assert answers() == around
    assert len(through) == len(asked)
    assert {status for status, _, _ in around} == {200, 400, 401, 403, 404, 422}


def test_an_answer_comes_in_one_piece_and_a_stream_begins_at_once(site):
    with socket.create_connection(site.address[:2]) as wire:
        wire.settimeout(20)
        for _ in range(5):
            wire.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            head, _, body = wire.recv(65536).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert body
    site.submit(envelope("streamed"))
    with socket.create_connection(site.address[:2]) as wire:
        wire.settimeout(20)
        wire.sendall(b"GET /v1/jobs/streamed/events HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: 99\r\n\r\n")
        assert wire.recv(65536).startswith(b"HTTP/1.1 200")


def test_who_is_alone_is_written_for_by_the_loop_and_a_crowd_by_the_thread(site, monkeypatch):
    writer, posted = site.service.writer, []
    post = writer.post
    monkeypatch.setattr(writer, "_quick", 60.0)  # no machine is too slow
    monkeypatch.setattr(writer, "_alone_from", 0.0)

    def noted(act, promise):
        posted.append((site.service.requests(), site.service.limits.watchers, writer._alone_from))
        post(act, promise)

    monkeypatch.setattr(writer, "post", noted)
    site.until(lambda: site.service.requests() == 0)
    assert site.submit(envelope("alone")).status == 202
    assert posted == []
    with site.connect() as other:  # it has begun, and stays
        other.sendall(site.head("POST", "/v1/jobs?target=prod", "Content-Length: 9"))
        site.until(lambda: site.service.requests() == 1)
        assert site.submit(envelope("beside")).status == 202
    assert len(posted) >= 1
