"""The official SDKs, each asked in its own way for one answer: sync and async, over httpx and httpx2.

`ask(sdk, url, transport)` returns what the SDK's user gets to see, as plain values; `None` as transport is the SDK as
it comes, over the same library.
"""

from dataclasses import dataclass
from typing import Any

import anthropic
import httpx
import httpx2
import mistralai.client
import ollama
import openai
from google import genai
from google.genai import types
from tests.support import answers

MESSAGES: Any = [{"role": "user", "content": "make the shop's schema"}]
KEY = "sk-a-secret-that-is-kept-nowhere"


@dataclass(frozen=True)
class Sdk:
    """`body`: what its provider sends for a call of apply_schema; `path`: where the SDK asks for it."""

    name: str
    library: Any
    wire: str
    body: bytes
    content_type: str = "text/event-stream"

    def __str__(self):
        return f"{self.name}-{self.library.__name__}"


SDKS = [
    Sdk("openai", httpx2, "openai-chat", answers.chat_call()),
    Sdk("openai", httpx, "openai-chat", answers.chat_call()),
    Sdk("responses", httpx2, "openai-responses", answers.responses_call()),
    Sdk("responses", httpx, "openai-responses", answers.responses_call()),
    Sdk("anthropic", httpx2, "anthropic", answers.messages_call()),
    Sdk("gemini", httpx2, "gemini", answers.gemini_call()),
    Sdk("gemini", httpx, "gemini", answers.gemini_call()),
    Sdk("ollama", httpx, "ollama", answers.ollama_call(), "application/x-ndjson"),
    Sdk("mistral", httpx2, "mistral", answers.mistral_call()),
]


def _client(sdk, url, http, kind="") -> Any:
    made: Any
    if sdk.name in ("openai", "responses"):
        made = openai.AsyncOpenAI if kind else openai.OpenAI
        return made(base_url=f"{url}/v1", api_key=KEY, http_client=http, max_retries=0)
    if sdk.name == "anthropic":
        made = anthropic.AsyncAnthropic if kind else anthropic.Anthropic
        return made(base_url=url, api_key=KEY, http_client=http, max_retries=0)
    if sdk.name == "gemini":
        given = {"httpx_async_client": http} if kind else {"httpx_client": http}
        return genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=url, **given))
    named = {"async_client": http} if kind else {"client": http}
    return mistralai.client.Mistral(api_key=KEY, server_url=url, retry_config=None, **named)


def _dump(items):
    return [item.model_dump() for item in items]


def _request(sdk, client):
    """The SDK's own streaming call, made but not yet iterated."""
    if sdk.name == "openai":
        return client.chat.completions.create(model="m", messages=MESSAGES, stream=True, max_tokens=4096)
    if sdk.name == "responses":
        return client.responses.create(model="m", input="make", stream=True, max_output_tokens=4096)
    if sdk.name == "anthropic":
        return client.messages.create(model="m", messages=MESSAGES, stream=True, max_tokens=4096)
    raise AssertionError(sdk.name)


CONFIG = types.GenerateContentConfig(max_output_tokens=4096)
OPTIONS = {"num_predict": 4096}


def ask(sdk, url, transport=None, first=None):
    """All that the SDK yields. `first` is called after the first item."""
    seen = []

    def take(stream):
        for item in stream:
            seen.append(item)
            if first is not None and len(seen) == 1:
                first()

    if sdk.name == "ollama":
        with ollama.Client(host=url, **({"transport": transport} if transport else {})) as client:
            take(client.chat(model="m", messages=MESSAGES, stream=True, options=OPTIONS))
        return _dump(seen)
    with sdk.library.Client(transport=transport or sdk.library.HTTPTransport()) as http:
        client = _client(sdk, url, http)
        if sdk.name == "gemini":
            take(client.models.generate_content_stream(model="m", contents="make", config=CONFIG))
        elif sdk.name == "mistral":
            with client.chat.stream(model="m", messages=MESSAGES, max_tokens=4096) as stream:
                take(stream)
        else:
            take(_request(sdk, client))
    return _dump(seen)


async def ask_async(sdk, url, transport=None, first=None):
    """The same, async."""
    seen = []

    async def take(stream):
        async for item in stream:
            seen.append(item)
            if first is not None and len(seen) == 1:
                first()

    if sdk.name == "ollama":
        client = ollama.AsyncClient(host=url, **({"transport": transport} if transport else {}))
        await take(await client.chat(model="m", messages=MESSAGES, stream=True, options=OPTIONS))
        await client.close()
        return _dump(seen)
    async with sdk.library.AsyncClient(transport=transport or sdk.library.AsyncHTTPTransport()) as http:
        client = _client(sdk, url, http, "async")
        if sdk.name == "gemini":
            await take(await client.aio.models.generate_content_stream(model="m", contents="make", config=CONFIG))
        elif sdk.name == "mistral":
            async with await client.chat.stream_async(model="m", messages=MESSAGES, max_tokens=4096) as stream:
                await take(stream)
        else:
            await take(await _request(sdk, client))
    return _dump(seen)
