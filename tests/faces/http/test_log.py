"""The log: a line an event, the received bytes beside every nack, and nothing secret."""

import io
import re

import pytest
from tests.support.service import envelope, served

from endmark.core import strictjson
from endmark.faces.http import service
from endmark.faces.http.log import logger

URL_SECRET = "hunter2-in-a-url"


@pytest.fixture
def told():
    """Everything that is logged."""
    return io.StringIO()


@pytest.fixture
def logging(tmp_path, monkeypatch, told):
    """A served site that logs in one of the two forms."""

    def make(form="json", **flags):
        real = service.Service.__init__

        def with_log(self, *args, **how):
            real(self, *args, **how | {"log": logger(form, told)})

        monkeypatch.setattr(service.Service, "__init__", with_log)
        return served(tmp_path, **flags)

    return make


def lines(told):
    return [strictjson.loads(line.encode()) for line in told.getvalue().splitlines()]


def test_a_line_an_event(logging, told):
    cut = envelope("b")[:90]
    with logging(worker=True) as site:
        whole = site.submit(envelope("a"))
        nack = site.submit(cut)
        site.ask("POST", "/v1/jobs/a/approve")
        site.until(lambda: site.ask("GET", "/v1/jobs/a").json["state"] == "applied")
        site.submit(envelope("c"))
        site.ask("POST", "/v1/jobs/c/decline?reason=no")
        site.ask("POST", "/v1/jobs/a/approve")
    found = lines(told)
    assert [line["event"] for line in found if line["event"] != "ran"] == [
        "started", "delivered", "nack", "approved", "delivered", "declined", "approved", "ended",
    ]  # fmt: skip
    (ran,) = [line for line in found if line["event"] == "ran"]
    assert (ran["target"], ran["state"], ran["job_id"]) == ("prod", "applied", "a")
    assert 0 < ran["seconds"] < 60
    refused = found[2]
    assert (refused["signal"], refused["received_bytes"], refused["expected_bytes"]) == (
        "body-cut", nack.json["received_bytes"], nack.json["expected_bytes"],
    )  # fmt: skip
    assert refused["received_bytes"] == 90
    assert (refused["request_id"], found[1]["request_id"]) == (
        nack.headers["x-request-id"], whole.headers["x-request-id"],
    )  # fmt: skip
    assert (found[1]["caller"], found[1]["is_new"], found[1]["received_bytes"]) == ("local", True, len(envelope("a")))
    assert all(re.fullmatch(r"20\d\d-.*Z", line["at"]) for line in found)
    assert "request_id" not in found[0] and "request_id" not in ran  # noqa: PT018


@pytest.mark.parametrize("form", ["json", "text"])
def test_what_is_never_in_it(logging, told, form):
    """Tokens, passwords in URLs, headers, bodies, queries: each was sent, none is in the log."""
    toml = (
        '[targets.prod]\nurl = "sqlite:///{0}/prod.db"\n'
        f'[targets.other]\nurl = "postgresql://ann:{URL_SECRET}@127.0.0.1:1/none"\nreview = "none"\n'
    )
    with logging(form, toml=toml, worker=True) as site:
        token = site.make_token("agent", "admin")
        body = envelope("a", ["CREATE TABLE secret_in_the_body (id INTEGER)"])
        sent = {
            "an accepted body": (body, ()),
            "a cut one": (body[:-40], ()),
            "no JSON": (b'{"secret_in_the_body": "', ()),
            "a key that is unknown": (envelope("k", secret_in_the_body=1), ()),
            "a bad digest": (body, ("Content-Digest: secret-in-a-header",)),
            "a bad id": (body, ("Endmark-Job-Id: secret in a header",)),
            "a cookie": (body, ("Cookie: secret-in-a-header",)),
            "a strange request id": (body, ("X-Request-Id: secret in a header\x01",)),
        }
        for raw, fields in sent.values():
            site.submit(raw, *fields, token=token)
        site.submit(envelope("b"), token=token, target="other")
        site.submit(body, token="emk_secret-token-that-is-wrong")
        site.submit(body, "Authorization: Basic secret-in-a-header")
        site.ask("POST", "/v1/jobs/a/decline?reason=secret-in-a-query", token=token)
        site.ask("GET", "/v1/jobs?cursor=secret-in-a-query", token=token)
    said = told.getvalue()
    assert said.count("nack") >= 6
    for word in (token, "emk_", URL_SECRET, "secret", "CREATE", "Authorization", "Bearer", "Basic"):
        assert word not in said, word


def test_a_fault_of_ours_says_where_and_not_what(logging, told, monkeypatch, capsys):
    word = "secret"

    def fails(_service, *_rest, **_more):
        raise RuntimeError(f"{word}-of-a-body")

    with logging() as site:
        monkeypatch.setattr("endmark.faces.http.jobs.deliver", fails)
        said = site.submit(envelope("a"))
    assert (said.status, said.json["signal"]) == (500, "our-fault")
    (line,) = [line for line in lines(told) if line["event"] == "our-fault"]
    assert "RuntimeError" in line["trace"]
    assert "in submit" in line["trace"]
    assert "secret-of-a-body" not in told.getvalue() + said.body.decode()


def test_text_cannot_drive_a_terminal(logging, told):
    with logging("text") as site:
        site.ask("GET", "/v1/jobs/%1b%5b31m%0aevent=forged")
    said = told.getvalue()
    assert len(said.splitlines()) == 3  # started, nack, ended
    assert "\x1b" not in said
    assert said.splitlines()[1].startswith("at=20")
    assert "event=nack" in said


@pytest.mark.parametrize(
    ("sent", "kept"), [("abc-1.2_Z", True), ("x" * 64, True), ("x" * 65, False), ("a b", False), ("", False)]
)
def test_a_request_id_is_taken_over_where_it_is_plain(logging, sent, kept):
    """H37"""
    with logging() as site:
        said = site.ask("GET", "/healthz", None, f"X-Request-Id: {sent}").headers["x-request-id"]
    assert (said == sent) is kept
    assert kept or re.fullmatch(r"[0-9a-f]{16}", said)
