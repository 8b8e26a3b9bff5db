"""How each provider's API is asked: URL, headers and body. The key stands in one header and nowhere else."""

from typing import Any
from urllib.parse import quote, urlsplit

from endmark.core import strictjson
from endmark.core.policy import Reviewer, url_of, wire_of

ANTHROPIC_VERSION = "2023-06-01"


def build(reviewer: Reviewer, text: str, key: str | None) -> tuple[str, dict[str, str], bytes]:
    """The URL, the headers and the body by which `reviewer` is asked `text`, with a streamed answer."""
    url = url_of(reviewer) or ""
    path, body, headers = _BUILDERS[reviewer.kind](reviewer, text, key)
    sent = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "endmark", **headers}
    return url + path, sent, strictjson.dumps(body)


def _openai(reviewer: Reviewer, text: str, key: str | None) -> tuple[str, dict[str, Any], dict[str, str]]:
    headers = _bearer(key)
    host = urlsplit(url_of(reviewer) or "").hostname or ""
    if wire_of(reviewer) == "openai-chat+azure":
        headers = {} if key is None else {"api-key": key}
    body: dict[str, Any] = {"model": reviewer.model, "stream": True}
    if wire_of(reviewer) == "openai-responses":
        body |= {"input": text, "store": False} | _given(reviewer, "max_output_tokens")
        return "/responses", body, headers
    # OpenAI's own newest models know only the second spelling, most servers like them only the first.
    newest = host == "api.openai.com" or host.endswith(".openai.azure.com")
    body |= {"messages": [{"role": "user", "content": text}]}
    body |= _given(reviewer, "max_completion_tokens" if newest else "max_tokens")
    if wire_of(reviewer) != "mistral":
        body |= {"stream_options": {"include_usage": True}}
    return "/chat/completions", body, headers


def _anthropic(reviewer: Reviewer, text: str, key: str | None) -> tuple[str, dict[str, Any], dict[str, str]]:
    headers = {"anthropic-version": ANTHROPIC_VERSION} | _bearer(key)
    body = {"model": reviewer.model, "stream": True, "messages": [{"role": "user", "content": text}]}
    return "/v1/messages", body | _given(reviewer, "max_tokens"), headers


def _gemini(reviewer: Reviewer, text: str, key: str | None) -> tuple[str, dict[str, Any], dict[str, str]]:
    headers = {} if key is None else {"x-goog-api-key": key}
    body: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    config = _given(reviewer, "maxOutputTokens")
    if config:
        body["generationConfig"] = config
    model = quote(reviewer.model or "", safe="")
    return f"/v1/models/{model}:streamGenerateContent?alt=sse", body, headers


def _ollama(reviewer: Reviewer, text: str, key: str | None) -> tuple[str, dict[str, Any], dict[str, str]]:
    headers = _bearer(key)
    body: dict[str, Any] = {
        "model": reviewer.model,
        "stream": True,
        "messages": [{"role": "user", "content": text}],
    }
    options = _given(reviewer, "num_predict")
    if options:
        body["options"] = options
    return "/api/chat", body, headers


def _bearer(key: str | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key}"}


def _given(reviewer: Reviewer, cap: str) -> dict[str, Any]:
    """What the policy sets, under the provider's name for the cap on output tokens; nothing for what it does not."""
    given = {"temperature": reviewer.temperature, cap: reviewer.max_output_tokens}
    return {name: value for name, value in given.items() if value is not None}


_BUILDERS = {"openai": _openai, "anthropic": _anthropic, "gemini": _gemini, "ollama": _ollama}
