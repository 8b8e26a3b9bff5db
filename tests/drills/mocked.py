"""Upstreams that the SDKs know: llmock, an independent server, where it speaks the format; our own for Ollama's.

`asking(name, url)` asks as the SDK's user does and returns the call's arguments and the text that came.
"""

import json
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx
import httpx2
import ollama
import openai
from google import genai
from google.genai import types
from llmock.scenarios import Reply, ToolCall
from llmock.testing import LLMockServer
from tests.support import answers
from tests.support.server import CHUNKED, LENGTH, Script, serving

import endmark

STATEMENTS = ["CREATE TABLE a (id INTEGER)", "CREATE TABLE b (id INTEGER)", "INSERT INTO a VALUES (1)"]
WITNESS = json.loads(answers.witness("job-1", STATEMENTS))  # noqa: TID251
PREFIXES = {"openai": "", "anthropic": "/anthropic", "gemini": "/gemini", "ollama": ""}
SDKS = tuple(PREFIXES)
TOOL = "apply_schema"
SAID: Any = [{"role": "user", "content": "apply the schema"}]

# What an SDK may raise for a connection that ends before its answer; nothing else counts as an error that was seen.
ERRORS: tuple[type[Exception], ...] = (
    *(openai.APIError, anthropic.APIError, genai.errors.APIError, ollama.ResponseError),
    *(httpx.TransportError, httpx2.TransportError, ConnectionError),
    AssertionError,  # how two helpers find no event at all
)


@contextmanager
def upstream(name):
    """A server for one SDK, which answers every request with a call of apply_schema; its URL."""
    if name == "ollama":
        body = answers.ollama_call(answers.witness("job-1", STATEMENTS))
        with serving(Script(body, CHUNKED, content_type="application/x-ndjson")) as server:
            yield server.url
        return
    with LLMockServer() as server:
        server.state.scenarios.add(Reply(text="I apply the schema.", tool_calls=(ToolCall(TOOL, WITNESS),), times=None))
        yield server.url + PREFIXES[name]


@contextmanager
def whole_upstream(name):
    """The same, for requests that do not stream."""
    if name == "ollama":
        line = answers.ollama_call(answers.witness("job-1", STATEMENTS)).splitlines()
        call, done = (json.loads(line[0]), json.loads(line[-1]))  # noqa: TID251
        body = answers.dump(done | {"message": call["message"]}).encode()
        with serving(Script(body, LENGTH, content_type="application/json")) as server:
            yield server.url
    else:
        with upstream(name) as url:
            yield url


def asking(name, url, stream=True, transport=None):
    """(arguments, text), as the SDK's own helpers put them together. Raises what the SDK raises."""
    with httpx2.Client(transport=transport or httpx2.HTTPTransport(verify=False)) as http:  # no TLS here to set up
        if name == "openai":
            return _openai(openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, http_client=http), stream)
        if name == "anthropic":
            return _anthropic(anthropic.Anthropic(base_url=url, api_key="k", max_retries=0, http_client=http), stream)
        if name == "gemini":
            options = types.HttpOptions(base_url=url, api_version="v1beta", httpx_client=http)
            return _gemini(genai.Client(api_key="k", http_options=options), stream)
    with ollama.Client(host=url, verify=False) as client:
        return _ollama(client, stream)


def _openai(client: Any, stream):
    asked: Any = {"model": "m", "messages": SAID, "tools": [endmark.tool("openai")], "max_tokens": 4096}
    if stream:
        with client.chat.completions.stream(**asked) as events:
            message = events.get_final_completion().choices[0].message
    else:
        message = client.chat.completions.create(**asked).choices[0].message
    calls = message.tool_calls or []
    return (json.loads(calls[0].function.arguments) if calls else None), message.content  # noqa: TID251


def _anthropic(client: Any, stream):
    asked: Any = {"model": "m", "messages": SAID, "tools": [endmark.tool("anthropic")], "max_tokens": 4096}
    if stream:
        with client.messages.stream(**asked) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**asked)
    calls = [block.input for block in message.content if block.type == "tool_use"]
    return (calls[0] if calls else None), "".join(b.text for b in message.content if b.type == "text")


def _gemini(client: Any, stream):
    models, asked = client.models, {"model": "m", "contents": "apply the schema"}
    chunks = list(models.generate_content_stream(**asked)) if stream else [models.generate_content(**asked)]
    parts = [part for chunk in chunks for one in chunk.candidates or [] for part in one.content.parts or []]
    calls = [part.function_call.args for part in parts if part.function_call]
    return (calls[0] if calls else None), "".join(part.text or "" for part in parts)


def _ollama(client: Any, stream):
    got = client.chat(model="m", messages=SAID, stream=stream)
    messages = [chunk.message for chunk in got] if stream else [got.message]
    calls = [call.function.arguments for message in messages for call in message.tool_calls or []]
    return (dict(calls[0]) if calls else None), "".join(message.content or "" for message in messages)
