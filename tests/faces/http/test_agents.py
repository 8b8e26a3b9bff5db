"""Agents on the official SDKs: what the model's answer proves is staged and applied, what was cut is told the model."""

from typing import Any, NamedTuple

import anthropic
import httpx2
import openai
import pytest
from tests.support import answers
from tests.support.server import CHUNKED, RST, Script, serving
from tests.support.service import TOML, served
from tests.support.world import query

import endmark

STATEMENTS = ["CREATE TABLE a (id INTEGER)", "CREATE TABLE b (id INTEGER)", "INSERT INTO a VALUES (1)"]
WITNESS = answers.witness("job-1", STATEMENTS)
SDKS = ("openai", "anthropic")
MADE = {"openai": answers.chat_call, "anthropic": answers.messages_call}
# What the first answer of the model is: cut by the wire, or cut and closed by a server that then says all is well.
FIRST = {
    "cut after two thirds": lambda made: Script(made(WITNESS), CHUNKED, cut=2 * len(made(WITNESS)) // 3),
    "cut before its last event": lambda made: Script(made(WITNESS)[: made(WITNESS).rstrip().rindex(b"\n\n") + 2]),
    "reset": lambda made: Script(made(WITNESS), RST, cut=2 * len(made(WITNESS)) // 3),
    "cut and closed by the server": lambda made: Script(made(WITNESS[: WITNESS.index(', "INSERT')] + "]}")),
    "a statement lost": lambda made: Script(made(WITNESS.replace(', "CREATE TABLE b (id INTEGER)"', ""))),
}
ERRORS = (openai.APIError, anthropic.APIError, httpx2.TransportError)


class Turn(NamedTuple):
    """What the SDK handed over of one answer, and what the capture below it proves: an envelope or its refusal."""

    text: str
    proof: bytes | endmark.AnswerRefused


def ask(sdk, url, said: Any):
    """One turn of the model, as a user of the SDK streams it."""
    text = ""
    with endmark.capture() as capture, httpx2.Client(transport=capture.transport(verify=False)) as http:
        try:
            if sdk == "openai":
                client: Any = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, http_client=http)
                tools = [endmark.tool("openai")]
                for chunk in client.chat.completions.create(model="m", messages=said, tools=tools, stream=True):
                    for choice in chunk.choices:
                        for call in choice.delta.tool_calls or []:
                            text += call.function.arguments or ""
            else:
                client = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0, http_client=http)
                asked = {"model": "m", "messages": said, "tools": [endmark.tool("anthropic")], "max_tokens": 4096}
                for event in client.messages.create(**asked, stream=True):
                    if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                        text += event.delta.partial_json
        except ERRORS:
            pass  # the SDK noticed; a naive agent goes on with what it has
        try:
            return Turn(text, capture.seal(tool="apply_schema").envelope)
        except endmark.AnswerRefused as refused:
            return Turn(text, refused)


def model(first, made):
    """The model's server: the first answer, and the whole one to whoever was told that the first was not."""

    def answer(_head, body):
        told = b"Nothing was" in body or b"nothing was" in body
        return Script(made(WITNESS)) if told else first

    return serving(answer)


def agent(sdk, url, submit):
    """Ask until what came is taken, and tell the model each time why it was not: (the last answer, what was told)."""
    said: Any = [{"role": "user", "content": "apply the schema"}]
    told: list[str] = []
    for _ in range(3):
        took = submit(ask(sdk, url, said))
        if not isinstance(took, str):
            return took, told
        told.append(took)
        said = [*said, {"role": "assistant", "content": "(a call of apply_schema)"}, {"role": "user", "content": took}]
    raise AssertionError(told)


@pytest.fixture(scope="module", params=SDKS)
def sdk(request):
    return request.param


@pytest.fixture
def site(tmp_path):
    toml = TOML.replace('/prod.db"\n', '/prod.db"\nmin_evidence = "witness"\n')
    with served(tmp_path, toml=toml, worker=True) as found:
        yield found


def approved_and_applied(site, job):
    assert site.ask("POST", f"/v1/jobs/{job}/approve", b"").json["state"] in ("approved", "applying", "applied")
    done: Any = {"state": "approved"}
    while done["state"] in ("approved", "applying"):
        done = site.ask("GET", f"/v1/jobs/{job}?wait=20").json
    assert (done["state"], done["statements_run"]) == ("applied", len(STATEMENTS))
    assert query(site.folder / "prod.db", "SELECT id FROM a") == [(1,)]
    assert query(site.folder / "prod.db", "SELECT count(*) FROM schema_jobs") == [(1,)]


@pytest.mark.parametrize("name", FIRST)
def test_an_agent_that_seals_what_was_captured(site, sdk, name):
    """What the capture cannot prove never reaches the service; or the service refuses what a server closed."""
    world = site.world()

    def submit(turn):
        if isinstance(turn.proof, endmark.AnswerRefused):
            return turn.proof.for_model()
        said = site.submit(turn.proof)
        return said.json["detail"] if said.status == 422 else said

    with model(FIRST[name](MADE[sdk]), MADE[sdk]) as server:
        took, told = agent(sdk, server.url, submit)
    assert len(told) == 1
    assert "othing was" in told[0]
    assert (took.status, took.json["state"], took.json["stmt_count"]) == (202, "staged", 3)
    assert "sealed" in took.json["evidence"] or "witness" in str(took.json["evidence"])
    assert site.world() == world
    approved_and_applied(site, "job-1")


@pytest.mark.parametrize("name", FIRST)
def test_an_agent_that_sends_what_its_sdk_handed_over(site, sdk, name):
    """The service is the first that looks: it refuses with words for the model, and takes what comes whole."""
    world = site.world()
    path = "/v1/jobs?target=prod&seal=true"

    def submit(turn):
        said = site.ask("POST", path, turn.text.encode())
        if said.status in (200, 202):
            return said
        assert said.json["state"] in ("truncated", "rejected", "incomplete")
        assert site.world() == world
        return said.json["detail"]

    with model(FIRST[name](MADE[sdk]), MADE[sdk]) as server:
        took, told = agent(sdk, server.url, submit)
    # Where only the provider's ending is missing the arguments are whole by their own witness, and nobody is the wiser.
    assert len(told) == (0 if name == "cut before its last event" else 1)
    assert all("Nothing was written" in words for words in told)
    assert (took.status, took.json["state"], took.json["stmt_count"]) == (202, "staged", 3)
    assert site.world() == world
    approved_and_applied(site, "job-1")


def test_an_upload_that_is_cut_is_refused_and_sent_again(site, sdk):
    """The answer was whole and proven, and the way to the service was not."""
    with model(None, MADE[sdk]) as server:
        turn = ask(sdk, server.url, [{"role": "user", "content": "Nothing was applied yet"}])
    raw = turn.proof
    world = site.world()
    for cut in (1, len(raw) // 2, len(raw) - 1):
        said = site.submit(raw[:cut])
        assert (said.status, said.json["state"], said.json["received_bytes"]) == (422, "truncated", cut)
        assert "Nothing was written." in said.json["detail"]
    assert site.world() == world
    assert site.submit(raw).status == 202
    approved_and_applied(site, "job-1")
