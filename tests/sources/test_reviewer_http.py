"""Models are asked over real sockets: as the official SDKs ask, once, within limits, with a key that shows nowhere."""

import datetime
import ipaddress
import json
import logging
import pickle
import socket
import ssl
import threading
import time
import traceback
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from google import genai
from google.genai import types
from tests.core.test_prompt import assemble
from tests.support import answers
from tests.support.server import CHUNK_FIN, CHUNKED, CLOSE, LENGTH, RST, SHORT, STALL, Script, serving

from endmark.core import binding, policy, prompt, strictjson
from endmark.core.ending import WHOLE
from endmark.core.refusal import CannotTry, Refused
from endmark.seal import seal
from endmark.sources.reviewer import asking
from endmark.sources.reviewer.asking import Limits, NoAnswer

SECRET = "sk-a-secret-that-is-kept-nowhere"
ENVIRON = {"REVIEW_KEY": SECRET, "PATH": "/usr/bin:/bin", "HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://x"}
HERE = "d" * 64
SHOWN = assemble([b"diff --git a/a b/a\n+\xc3\xa9\n", b"+2\xff\n"], diff_sha=HERE, policy_version="gate-1")
WANTED = binding.Wanted(diff_sha=HERE, policy_version="gate-1", marks=SHOWN.marks)
LIMITS = Limits(idle_seconds=5, total_seconds=10, answer_bytes=1_000_000)
VERDICT = json.dumps(
    {"verdict": "pass", "diff_sha": HERE, "policy_version": "gate-1", "findings": [], "marks": list(SHOWN.marks)}
)
BODIES = {
    "openai": (answers.chat_text(VERDICT), "text/event-stream"),
    "anthropic": (answers.messages_text(VERDICT), "text/event-stream"),
    "gemini": (answers.gemini_text(VERDICT), "text/event-stream"),
    "ollama": (answers.ollama_text(VERDICT), "application/x-ndjson"),
}
KINDS = tuple(BODIES)


def reviewer(kind="openai", url="http://127.0.0.1:1", **changes):
    made = {"name": "deep", "kind": kind, "capacity": "dedicated", "model": "m-1", "url": url, "key": "env:REVIEW_KEY"}
    made |= {"temperature": 0.0, "max_output_tokens": 4_000}
    return policy.Reviewer(**{**made, **changes})


def script(kind="openai", ending=CHUNKED, **more):
    body, content_type = BODIES[kind]
    return Script(body, ending, content_type=content_type, **more)


def ask(server, kind="openai", limits=LIMITS, **changes):
    url = f"{server.url}/v1" if kind == "openai" else server.url
    return asking.ask(reviewer(kind, url, **changes), SHOWN, limits, environ=ENVIRON)


def no_answer(server, kind="openai", limits=LIMITS, **changes):
    with pytest.raises(NoAnswer) as refused:
        ask(server, kind, limits, **changes)
    return refused.value


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_answer_becomes_a_verdict(server, kind):
    server.play(script(kind))
    reply = ask(server, kind)
    sealed = seal(reply.capture, marks=list(SHOWN.marks))
    assert binding.read(bytes(sealed), WANTED).verdict.verdict == "pass"
    assert "output-cap:4000" in sealed.evidence
    how = reply.how
    assert (how.reviewer, how.kind, how.model, how.temperature, how.capacity) == ("deep", kind, "m-1", 0.0, "dedicated")
    assert (how.prompt_sha256, how.shown_sha256) == (SHOWN.instructions_sha256, SHOWN.sha256)
    assert (how.wire, how.max_output_tokens) == (policy.WIRES[kind][0], 4_000)
    ((head, body),) = server.requests
    assert head.count(SECRET.encode()) == 1
    assert SECRET.encode() not in head.splitlines()[0]
    assert SECRET.encode() not in body
    assert json.dumps(SHOWN.text.decode(), ensure_ascii=False).encode() in body, "exactly what was shown"
    assert prompt.check_input_tokens(SHOWN, sealed.answer.usage.input_tokens, 1).startswith("input-tokens:")


def by_sdk(kind, url):
    """The same question, asked with the provider's own client. That of Anthropic takes no temperature any more."""
    text = SHOWN.text.decode()
    messages: Any = [{"role": "user", "content": text}]
    client: Any
    if kind == "openai":
        with openai.OpenAI(base_url=f"{url}/v1", api_key=SECRET, max_retries=0) as client:
            list(
                client.chat.completions.create(
                    model="m-1",
                    messages=messages,
                    stream=True,
                    stream_options={"include_usage": True},
                    temperature=0.0,
                    max_tokens=4_000,
                )
            )
    elif kind == "anthropic":
        with anthropic.Anthropic(base_url=url, api_key=SECRET, max_retries=0) as client:
            list(client.messages.create(model="m-1", messages=messages, stream=True, max_tokens=4_000))
    elif kind == "gemini":
        config = types.GenerateContentConfig(temperature=0.0, max_output_tokens=4_000)
        with genai.Client(api_key=SECRET, http_options=types.HttpOptions(base_url=url)) as client:
            list(client.models.generate_content_stream(model="m-1", contents=text, config=config))
    else:
        with ollama.Client(host=url, headers={"authorization": f"Bearer {SECRET}"}) as client:
            options = {"temperature": 0.0, "num_predict": 4_000}
            list(client.chat(model="m-1", messages=messages, stream=True, options=options))


def sent(request):
    head, body = request
    method, target, _ = head.splitlines()[0].decode().split(" ")
    named = [line for line in head.splitlines()[1:] if SECRET.encode() in line]
    return method, target, [line.decode().lower() for line in named], strictjson.loads(body)


@pytest.mark.parametrize("kind", KINDS)
def test_the_request_is_the_official_sdks(server, kind):
    """Same method, same URL, same header for the key, and a body that says the same."""
    server.play(script(kind))
    ask(server, kind, temperature=None if kind == "anthropic" else 0.0)
    by_sdk(kind, server.url)
    ours, theirs = map(sent, server.requests)
    assert {key: value for key, value in ours[3].items() if value} == {
        key: value for key, value in theirs[3].items() if value
    }
    assert ours[:3] == theirs[:3]


def test_newer_spellings_where_they_are_needed():
    from endmark.sources.reviewer import requests

    def body(**changes):
        url, headers, raw = requests.build(reviewer(**changes), "x", SECRET)
        return url, headers, strictjson.loads(raw)

    url, _, made = body(url=None)
    assert url == "https://api.openai.com/v1/chat/completions"
    assert (made["max_completion_tokens"], "max_tokens" in made) == (4_000, False)
    url, _, made = body(wire="openai-responses", url="https://x/v1/")
    assert (url, made["input"], made["max_output_tokens"]) == ("https://x/v1/responses", "x", 4_000)
    _, headers, _ = body(wire="openai-chat+azure", url="https://x.openai.azure.com/openai/v1")
    assert headers["api-key"] == SECRET
    assert "authorization" not in headers
    _, _, made = body(temperature=None, max_output_tokens=None)
    assert set(made) == {"model", "stream", "messages", "stream_options"}
    url, _, _ = body(kind="gemini", url=None, model="a/b?c")
    assert "/models/a%2Fb%3Fc:stream" in url


# --- endings


@pytest.mark.parametrize(
    ("ending", "signal"),
    [(CLOSE, "weak-evidence"), (CHUNK_FIN, "body-cut"), (SHORT, "body-cut"), (STALL, "idle")],
)
@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_did_not_end_is_none(server, kind, ending, signal):
    server.play(script(kind, ending))
    reply = ask(server, kind, Limits(idle_seconds=0.3, total_seconds=10, answer_bytes=1_000_000))
    assert reply.capture.ending not in WHOLE
    with pytest.raises(Refused) as refused:
        seal(reply.capture, marks=list(SHOWN.marks))
    assert refused.value.signal == signal
    assert len(server.requests) == 1, "nothing is asked a second time"


@pytest.mark.parametrize("kind", KINDS)
def test_no_cut_answer_decides_however_politely_it_ended(kind):
    whole = BODIES[kind][0]
    places = sorted({*range(0, len(whole), max(1, len(whole) // 25)), len(whole) - 1})
    with serving(*(script(kind, CHUNKED, cut=at) for at in places)) as server:
        for _ in places:
            with pytest.raises(Refused):
                seal(ask(server, kind).capture, marks=list(SHOWN.marks))


def test_a_server_that_says_nothing(server):
    server.play(script(before_head=5))
    began = time.monotonic()
    refused = no_answer(server, limits=Limits(idle_seconds=0.3, total_seconds=10, answer_bytes=1_000))
    assert refused.signal == "unreachable"
    assert "ReadTimeout" in refused.detail
    assert time.monotonic() - began < 3


def dripping(stop, listener, head, drop):
    with listener:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(head)
            for _ in range(100):  # an end, so that a test can fail
                if stop.wait(0.05):
                    return
                try:
                    connection.sendall(drop)
                except OSError:
                    return


@pytest.mark.parametrize(
    ("head", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"3\r\n: \n\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"X"),
    ],
    ids=["in the body", "in the head"],
)
def test_one_byte_now_and_then_ends_with_the_total_time(head, drop):
    """Each byte renews the idle limit; only a limit on the whole ends it."""
    stop, listener = threading.Event(), socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=dripping, args=(stop, listener, head, drop))
    thread.start()
    try:
        began = time.monotonic()
        made = reviewer(url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        with pytest.raises(NoAnswer, match=r"its 0\.5 s were over") as refused:
            asking.ask(made, SHOWN, Limits(idle_seconds=5, total_seconds=0.5, answer_bytes=1_000_000), environ=ENVIRON)
        assert refused.value.signal == "idle"
        assert time.monotonic() - began < 3
    finally:
        stop.set()
        thread.join(5)


def test_more_than_the_cap_is_not_read(server):
    server.play(Script(b": x\n\n" * 400_000, CHUNKED))
    reply = ask(server, limits=Limits(idle_seconds=5, total_seconds=10, answer_bytes=50_000))
    assert reply.capture.raw == b""
    with pytest.raises(Refused) as refused:
        seal(reply.capture, marks=list(SHOWN.marks))
    assert refused.value.signal == "over-cap"


# --- not reached


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(NoAnswer) as refused:
        asking.ask(reviewer(url=f"http://127.0.0.1:{port}/v1"), SHOWN, LIMITS, environ=ENVIRON)
    assert (refused.value.signal, refused.value.received_bytes) == ("unreachable", 0)
    assert "deep was not reached" in refused.value.detail
    assert "Connect" in refused.value.detail
    assert refused.value.how.reviewer == "deep"


@pytest.mark.parametrize("status", ["401 Unauthorized", "404 Not Found", "429 Too Many Requests", "500 Oh", "204 No"])
def test_an_error_is_no_answer_and_its_body_is_not_kept(server, status):
    server.play(Script(f'{{"error":"bad key {SECRET}"}}'.encode(), LENGTH if status[:3] != "204" else CLOSE, status))
    if status.startswith("204"):
        with pytest.raises(Refused):
            seal(ask(server).capture, marks=list(SHOWN.marks))
        return
    refused = no_answer(server)
    assert refused.signal == "unreachable"
    assert f"HTTP {status[:3]}" in refused.detail
    assert len(server.requests) == 1


def test_a_redirect_is_not_followed(server):
    with serving(script()) as other:
        for status in ("301 Moved", "302 Found", "307 Temporary", "308 Permanent"):
            server.play(Script(b"", LENGTH, status, headers={"Location": f"{other.url}/v1/chat/completions"}))
            refused = no_answer(server)
            assert refused.signal == "unreachable"
            assert f"HTTP {status[:3]}" in refused.detail
        assert other.requests == [], "neither the diff nor the key went there"


# --- TLS


def whole_request(connection):
    """All of it: a server that closes on what it has not read resets the connection, and its answer may be lost."""
    data = b""
    while more := connection.recv(65_536):
        data += more
        head, ended, body = data.partition(b"\r\n\r\n")
        if ended and len(body) >= int(head.lower().partition(b"content-length:")[2].split()[0]):
            break
    return data


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """A server with a certificate of its own making, for the address 127.0.0.1; yields its port and the file."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    day = datetime.timedelta(days=1)
    now = datetime.datetime.now(datetime.UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
    signed = made.add_extension(alternative, False).add_extension(x509.BasicConstraints(True, 0), True)
    certificate = signed.sign(key, hashes.SHA256())
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "both.pem").write_bytes(private + pem)
    (folder / "ca.pem").write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    listener = socket.create_server(("127.0.0.1", 0))
    body = BODIES["openai"][0]
    seen = []

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(connection, server_side=True) as secure:
                    seen.append(whole_request(secure))
                    secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            except OSError:
                connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1], folder / "ca.pem", seen
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


def test_certificates_are_checked(tls, monkeypatch):
    port, ca_file, seen = tls
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))  # what the environment trusts is not what the policy trusts
    for url in (f"https://127.0.0.1:{port}/v1", f"https://localhost:{port}/v1"):
        with pytest.raises(NoAnswer, match="CERTIFICATE_VERIFY_FAILED") as refused:
            asking.ask(reviewer(url=url), SHOWN, LIMITS, environ=ENVIRON)
        assert refused.value.signal == "unreachable"
    with pytest.raises(NoAnswer, match="CERTIFICATE_VERIFY_FAILED"):  # trusted, and for another name
        asking.ask(reviewer(url=f"https://localhost:{port}/v1", ca_file=str(ca_file)), SHOWN, LIMITS, environ=ENVIRON)
    assert seen == [], "no byte of the request went to a server that was not checked"
    made = reviewer(url=f"https://127.0.0.1:{port}/v1", ca_file=str(ca_file))
    reply = asking.ask(made, SHOWN, LIMITS, environ=ENVIRON)
    assert seal(reply.capture, marks=list(SHOWN.marks)).verdict.verdict == "pass"
    with pytest.raises(CannotTry, match="Nobody was asked"):
        asking.ask(reviewer(url="https://x", ca_file="/nowhere.pem"), SHOWN, LIMITS, environ=ENVIRON)


# --- the key


def everything(fault):
    """All that can be found from an exception: its words, its causes, its frames' names and what it holds."""
    seen, text = [], []
    while fault is not None and fault not in seen:
        seen.append(fault)
        text += [repr(fault), str(fault), *traceback.format_exception(fault)]
        text += [repr(getattr(fault, name, "")) for name in dir(fault) if not name.startswith("__")]
        assert not isinstance(fault, httpx.HTTPError), "it holds the request, and that the key"
        fault = fault.__cause__ or fault.__context__
    return "\n".join(text)


@pytest.mark.parametrize("kind", KINDS)
def test_the_key_shows_nowhere(server, kind, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    places = []
    for made in (
        script(kind),
        script(kind, STALL),
        script(kind, RST),
        Script(SECRET.encode(), LENGTH, "401 No"),
        Script(b"", LENGTH, "302 No", headers={"Location": "http://127.0.0.1:1/"}),
        Script(drop=True),
    ):
        server.play(made)
        try:
            reply = ask(server, kind, Limits(idle_seconds=0.2, total_seconds=5, answer_bytes=10_000))
        except NoAnswer as refused:
            places += [everything(refused), repr(pickle.loads(pickle.dumps(refused)).how)]
        else:
            places += [repr(reply), str(reply.how), reply.capture.raw.decode()]
    places += [repr(reviewer(kind)), *(record.getMessage() for record in caplog.records), *capfd.readouterr()]
    places += [repr(record.args) for record in caplog.records]
    assert len(places) > 20, "it was logged, and looked at"
    assert [place for place in places if SECRET in place or SECRET[:12] in place] == []


@pytest.mark.parametrize("zipped", [False, True])
def test_an_answer_that_holds_the_key_is_not_kept(server, zipped):
    server.play(Script(answers.chat_text(f"{SECRET} is the key"), CHUNKED, zipped=zipped, pieces=None))
    refused = no_answer(server)
    assert refused.signal in ("wrong-value",)
    assert "key" in refused.detail
    assert SECRET not in everything(refused)


@pytest.mark.parametrize("value", [None, "", "short", "with space in it", "sk-secret\n", "sk-sécret-123", "x" * 5_000])
def test_a_key_that_is_none_asks_nobody(server, value):
    server.play(script())
    environ = {} if value is None else {"REVIEW_KEY": value}
    with pytest.raises(CannotTry, match="Nobody was asked") as fault:
        asking.ask(reviewer(url=f"{server.url}/v1"), SHOWN, LIMITS, environ=environ)
    assert not value or value not in everything(fault.value)
    assert server.requests == []


def test_a_reviewer_without_a_key(server):
    server.play(script("ollama"))
    reply = ask(server, "ollama", key=None)
    assert seal(reply.capture, marks=list(SHOWN.marks)).verdict.verdict == "pass"
    assert b"authorization" not in server.requests[0][0].lower()
