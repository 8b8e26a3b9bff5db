"""What happened, end to end, with the SDKs as they are: a call that was cut is taken for a dict, and half of it runs.

The same bytes below the same SDK, with a capture: refused, and the database is what it was to the byte.
"""

import sqlite3
from contextlib import closing
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from tests.sources.sdks import MESSAGES
from tests.support import answers
from tests.support.server import CHUNK_FIN, CHUNKED, LENGTH, SHORT, Script, serving, sse_pieces
from tests.support.world import dump, files, make_database

import endmark

CALL = answers.messages_call()
CUT = CALL.index(b"order_lines") + 40  # inside the fourth statement
TOOL = "apply_schema"


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "shop.db"
    make_database(path)
    return path


def run_as_jobs_do(path, arguments):
    """One statement after another, each committed by itself."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        for statement in arguments["statements"]:
            conn.execute(statement)


def ask_anthropic(url, transport=None):
    """What the SDK's own helper hands to the program that asked."""
    with httpx2.Client(transport=transport) as http:
        client: Any = anthropic.Anthropic(base_url=url, api_key="k", http_client=http, max_retries=0)
        with client.messages.stream(model="m", messages=MESSAGES, max_tokens=4096) as stream:
            return next(block.input for block in stream.get_final_message().content if block.type == "tool_use")


def test_a_cut_call_is_a_dict_for_the_sdk_and_nothing_for_endmark(database, tmp_path):
    before = files(database)
    with serving(Script(CALL, CHUNKED, cut=CUT)) as server:
        arguments = ask_anthropic(server.url)
        assert isinstance(arguments, dict)
        assert 0 < len(arguments["statements"]) < 11
        assert arguments["stmt_count"] == 11

        with endmark.capture() as c, endmark.Gate(tmp_path / "ledger.db") as gate:
            assert ask_anthropic(server.url, c.transport()) == arguments  # the SDK still believes it
            with pytest.raises(endmark.AnswerRefused) as refused:
                gate.apply(c.seal(tool=TOOL), f"sqlite:///{database}")
    assert files(database) == before
    assert refused.value.received_bytes == CUT
    assert refused.value.for_model() == (
        f"Your last call of apply_schema was cut off after {CUT:,} bytes; nothing was executed. "
        "Send it again, smaller, in whole; do not continue the old one."
    )
    # The incident itself: run as it was handed over, some of the tables are there now, and the job says success.
    run_as_jobs_do(database, arguments)
    made = [line for line in dump(database) if "CREATE TABLE" in line]
    assert len(made) == 1 + len(arguments["statements"]) < 1 + 4


def test_the_whole_call_is_applied_and_the_record_says_what_stood_behind_it(database, tmp_path):
    with serving(Script(CALL)) as server, endmark.capture() as c, endmark.Gate(tmp_path / "ledger.db") as gate:
        ask_anthropic(server.url, c.transport())
        sealed = c.seal(tool=TOOL)
        job = gate.submit(sealed, job_id="job_1")
        outcome = job.apply(f"sqlite:///{database}")
    assert outcome.state == "applied"
    assert outcome.statements_run == 11
    for word in ("wire:anthropic", "transport:last-chunk", f"capture-sha256:{c.taken.sha256}", "envelope-sha256"):
        assert word in outcome.evidence
    assert outcome.evidence.count("sealed") == 1


def test_a_sealed_answer_delivered_twice_is_one_job(database, tmp_path):
    with serving(Script(CALL)) as server, endmark.capture() as c, endmark.Gate(tmp_path / "ledger.db") as gate:
        ask_anthropic(server.url, c.transport())
        first = gate.apply(c.seal(tool=TOOL), f"sqlite:///{database}")
        again = gate.apply(c.seal(tool=TOOL), f"sqlite:///{database}")
        by_bytes = gate.apply(bytes(c.seal(tool=TOOL)), f"sqlite:///{database}")
    assert first.state == again.state == by_bytes.state == "applied"
    assert first.attempt_id == again.attempt_id == by_bytes.attempt_id


SWEPT = {
    "openai": (answers.chat_call(), "openai-chat"),
    "anthropic": (CALL, "anthropic"),
}


@pytest.mark.parametrize("name", SWEPT)
@pytest.mark.parametrize("ending", [CHUNKED, LENGTH, CHUNK_FIN, SHORT])
def test_over_real_sockets_no_cut_at_an_event_edge_is_sealed(name, ending):
    body, _ = SWEPT[name]
    edges = [0]
    for piece in sse_pieces(body):
        edges.append(edges[-1] + len(piece))
    believed = 0
    with serving() as server, endmark.capture() as c, httpx2.Client(transport=c.transport()) as http:
        client: Any
        if name == "openai":
            client = openai.OpenAI(base_url=server.url, api_key="k", http_client=http, max_retries=0)
            create = client.chat.completions.create
        else:
            client = anthropic.Anthropic(base_url=server.url, api_key="k", http_client=http, max_retries=0)
            create = client.messages.create
        for edge in edges:
            c.reset()
            server.play(Script(body, ending, cut=edge))
            try:
                list(create(model="m", messages=MESSAGES, max_tokens=4096, stream=True))
                believed += 1
            except (openai.APIError, httpx2.TransportError):
                assert ending in (CHUNK_FIN, SHORT)
            if edge == len(body) and ending in (CHUNKED, LENGTH):
                assert c.seal(tool=TOOL).plan.statements == answers.ELEVEN
            else:
                with pytest.raises(endmark.AnswerRefused):
                    c.seal(tool=TOOL)
            assert c.taken.raw == body[:edge]
    assert believed == (len(edges) if ending in (CHUNKED, LENGTH) else 1 if name == "openai" else 0)


@pytest.mark.soak
@pytest.mark.parametrize("ending", [CHUNKED, CHUNK_FIN, SHORT])
def test_over_real_sockets_no_cut_at_any_byte_is_sealed(ending):
    body = answers.chat_call()
    with serving() as server, endmark.capture() as c, httpx2.Client(transport=c.transport()) as http:
        client: Any = openai.OpenAI(base_url=server.url, api_key="k", http_client=http, max_retries=0)
        for at in range(len(body)):
            c.reset()
            server.play(Script(body, ending, cut=at))
            try:
                for _ in client.chat.completions.create(model="m", messages=MESSAGES, stream=True):
                    pass
            except (openai.APIError, ValueError):
                pass
            with pytest.raises(endmark.AnswerRefused):
                c.seal(tool=TOOL)
