"""The client against the real service, and against a wire that is cut."""

import asyncio
import contextlib
import hashlib
import socket
import threading
from contextlib import contextmanager

import pytest
from tests.support.service import PATIENCE, envelope, everything, reset, served
from tests.support.world import query

import endmark
from endmark.faces.client import client as clients


@pytest.fixture
def site(tmp_path):
    with served(tmp_path, worker=True) as found:
        yield found


def url(site):
    return f"http://127.0.0.1:{site.address[1]}"


def test_the_way_of_a_job(site):
    with endmark.Client(url(site)) as client:
        said = client.submit(envelope("job-1"), target="prod", job_id="job-1")
        assert (said.state, said.job_id, said.next) == ("staged", "job-1", "wait")
        assert client.submit(envelope("job-1"), target="prod").attempt_id == said.attempt_id
        assert client.job(said.attempt_id or "") == client.job("job-1")
        assert client.wait("job-1", 0).state == "staged"
        assert client.approve("job-1").state in ("approved", "applying", "applied")
        assert client.wait("job-1", PATIENCE).state == "applied"
        assert query(site.folder / "prod.db", "SELECT name FROM sqlite_master WHERE name = 'made'") == [("made",)]
        client.submit(envelope("job-2"), target="other")
        assert client.decline("job-2", "not ours & not now").state == "declined"
        assert [target.name for target in client.targets()] == ["prod", "other", "auto"]
        assert [job.job_id for job in client.jobs()] == ["job-2", "job-1"]
        assert [job.job_id for job in client.jobs(state="applied", target="prod")] == ["job-1"]
        assert client.page(limit=1).cursor is not None


def test_jobs_are_asked_for_page_by_page(site, monkeypatch):
    real = endmark.Client.page
    monkeypatch.setattr(endmark.Client, "page", lambda self, **how: real(self, **how | {"limit": 2}))
    with endmark.Client(url(site)) as client:
        for number in range(5):
            client.submit(envelope(f"j{number}"), target="prod")
        assert [job.job_id for job in client.jobs()] == ["j4", "j3", "j2", "j1", "j0"]


NACKS = {
    "cut": (envelope("a")[:90], "prod", 422, "truncated", "body-cut", "resend-new-job-id"),
    "empty": (b"", "prod", 422, "truncated", "empty", "resend-new-job-id"),
    "changed": (envelope("a").replace(b"made", b"mbde"), "prod", 422, "quarantined", "envelope-digest", None),
    "no such target": (envelope("a"), "nowhere", 404, "not-tried", "not-found", "none"),
}


@pytest.mark.parametrize(("raw", "target", "status", "state", "signal", "onward"), NACKS.values(), ids=NACKS)
def test_a_no_is_raised_with_its_counts_and_words(site, raw, target, status, state, signal, onward):
    before = site.world()
    with endmark.Client(url(site)) as client, pytest.raises(endmark.Nack) as refused:
        client.submit(raw, target=target)
    nack = refused.value
    assert (nack.status, nack.state, nack.signal) == (status, state, signal)
    assert nack.received_bytes == (len(raw) if state != "not-tried" else None)
    assert onward in (None, nack.next)
    assert "Nothing was" in str(nack)
    assert site.world() == before


def test_every_act_that_is_refused_is_raised(site):
    with endmark.Client(url(site), token="emk_wrong") as client:
        site.make_token("ann", "approve")
        for act in (client.job, client.approve, client.decline, client.revert):
            with pytest.raises(endmark.Nack) as refused:
                act("a")
            assert (refused.value.status, refused.value.signal) == (401, "unauthorized")
    assert "emk_wrong" not in repr(client)


@contextmanager
def faulty(site, *faults):
    """A wire in front of the service, one connection after the other: each fault ends its own, then all is passed on.

    `before`: closed before anything was read. `after`: the service has answered, and nothing of that is handed on.
    `half`: half of the answer is. `reset`: reset once half of the request was read.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    left, seen = list(faults), []

    def serve():
        while True:
            try:
                wire, _ = listener.accept()
            except OSError:
                return
            with wire:
                fault = left.pop(0) if left else None
                seen.append(fault)
                if fault == "before":
                    continue
                raw = b""
                while b"\r\n\r\n" not in raw:
                    raw += wire.recv(65536)
                head, _, body = raw.partition(b"\r\n\r\n")
                fields = {k.lower(): v for k, v in (line.split(b": ", 1) for line in head.split(b"\r\n")[1:])}
                length = int(fields.get(b"content-length", 0))
                if fault == "reset":
                    reset(wire)
                    continue
                while len(body) < length:
                    body += wire.recv(65536)
                with site.connect() as on:
                    on.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
                    answer = everything(on)
                if fault != "after":
                    wire.sendall(answer[: len(answer) // 2] if fault == "half" else answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", seen
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(PATIENCE)


@pytest.mark.parametrize("fault", ["before", "after", "half", "reset"])
def test_a_lost_connection_is_tried_again_under_the_same_id(site, monkeypatch, fault):
    monkeypatch.setattr(clients, "_PAUSE", 0)
    with faulty(site, fault) as (where, seen), endmark.Client(where) as client:
        said = client.submit(envelope("once"), target="auto")
        assert said.job_id == "once"
    assert seen == [fault, None]
    with endmark.Client(url(site)) as client:
        assert client.wait("once", PATIENCE).state == "applied"
        assert [job.job_id for job in client.jobs()] == ["once"]


def test_an_act_whose_answer_was_lost_is_done_once(site, monkeypatch):
    monkeypatch.setattr(clients, "_PAUSE", 0)
    made = {"down": ["DROP TABLE made"], "down_sha256": hashlib.sha256(b"DROP TABLE made").hexdigest()}
    with endmark.Client(url(site)) as client:
        client.submit(envelope("job", **made), target="prod")
        client.submit(envelope("no"), target="other")
    with faulty(site, "after", None, "after", None, None, "after") as (where, _), endmark.Client(where) as client:
        assert client.approve("job").state in ("approved", "applying", "applied")
        client.close()
        with contextlib.suppress(endmark.Nack):  # the second time there is nothing left to decline
            client.decline("no")
        client.close()
        assert client.wait("job", PATIENCE).state == "applied"
        client.close()
        client.revert("job")
    with endmark.Client(url(site)) as client:
        assert client.job("no").state == "declined"
        assert sorted(job.job_id or "" for job in client.jobs()) == ["job", "job.revert", "no"]


def test_there_is_an_end_to_trying(site, monkeypatch):
    monkeypatch.setattr(clients, "_PAUSE", 0)
    with faulty(site, *["after"] * 9) as (where, seen), endmark.Client(where) as client:
        with pytest.raises(endmark.CannotTry, match="same bytes again under the same id"):
            client.submit(envelope("once"), target="prod")
        assert seen == ["after"] * clients.TRIES
    assert [state for state, _, _ in site.attempts()] == ["staged"]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 5\r\n\r\n<html",
        b'HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n{"state":"applied"}',
        b'HTTP/1.1 200 OK\r\ncontent-length: 38\r\n\r\n{"state":"applied","state":"truncated"}',
        b"garbage\r\n\r\n",
    ],
)
def test_what_is_no_answer_is_no_success(monkeypatch, answer):
    monkeypatch.setattr(clients, "_PAUSE", 0)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with listener:
            for _ in range(clients.TRIES):
                try:
                    wire, _ = listener.accept()
                except OSError:
                    return
                with wire:
                    wire.recv(65536)
                    wire.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        where = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with endmark.Client(where) as client, pytest.raises(endmark.CannotTry):
            client.job("a")
    finally:
        if listener.fileno() != -1:
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)


@pytest.mark.parametrize("wrong", ["", "ftp://x", "http://", "http://ann:pw@host", "postgresql://x", "http://h/?a=b"])
def test_a_url_of_no_service(wrong):
    for kind in (endmark.Client, endmark.AsyncClient):
        with pytest.raises(ValueError, match="is no http"):
            kind(wrong)


def test_asyncio(site):
    async def way():
        client = endmark.AsyncClient(url(site))
        await asyncio.gather(*(client.submit(envelope(f"a{n}"), target="prod") for n in range(8)))
        await client.approve("a3")
        assert (await client.wait("a3", PATIENCE)).state == "applied"
        assert (await client.decline("a4")).state == "declined"
        assert (await client.job("a4")).state == "declined"
        assert len(await client.targets()) == 3
        with pytest.raises(endmark.Nack):
            await client.revert("a5")
        return sorted([job.job_id or "" async for job in client.jobs()])

    assert asyncio.run(way()) == [f"a{n}" for n in range(8)]
