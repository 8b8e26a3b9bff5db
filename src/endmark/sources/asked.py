"""What a request asked for, as far as its answer is judged by it: which wire, how many tokens, which stops.

Read from the URL and the JSON body, and forgotten at once: no header, no prompt and no key is kept.
"""

from typing import Any

import msgspec

from endmark.core import strictjson
from endmark.core.refusal import Refused

# Where each provider's API takes the most tokens of one answer, and the texts it is to stop at.
_CAPS: tuple[tuple[str, ...], ...] = (
    ("max_tokens",),
    ("max_completion_tokens",),
    ("max_output_tokens",),
    ("generationConfig", "maxOutputTokens"),
    ("generation_config", "max_output_tokens"),
    ("options", "num_predict"),
    ("inferenceConfig", "maxTokens"),
)
_STOPS: tuple[tuple[str, ...], ...] = (
    ("stop",),
    ("stop_sequences",),
    ("generationConfig", "stopSequences"),
    ("generation_config", "stop_sequences"),
    ("options", "stop"),
    ("inferenceConfig", "stopSequences"),
)
# How many answers one request is to have, where nothing after the last of them says that it was the last.
_COUNTS: tuple[tuple[str, ...], ...] = (
    ("generationConfig", "candidateCount"),
    ("generation_config", "candidate_count"),
)
_MENTIONS = tuple(f'"{path[-1]}"'.encode() for path in _CAPS + _STOPS + _COUNTS)

UNREAD = "request-unread"
"""In the facts of a capture: the request's own cap is unknown, because its body could not be read."""


class Asked(msgspec.Struct, frozen=True):
    """`max_output_tokens`: the least of the caps that the request names. `stop_sequences`: whether it names any.

    `choices`: how many answers it asks for in one.
    """

    max_output_tokens: int | None = None
    stop_sequences: bool = False
    choices: int = 1
    facts: tuple[str, ...] = ()


def read(body: bytes | None) -> Asked:
    """What the JSON `body` of a request asked for; None for one that was streamed and is gone."""
    if body is None:
        return Asked(facts=(UNREAD,))
    if not any(mention in body for mention in _MENTIONS):
        return Asked()
    try:
        document = strictjson.loads(body)
    except Refused:
        return Asked(facts=(UNREAD,))
    caps = [cap for path in _CAPS if type(cap := _at(document, path)) is int and cap > 0]
    counts = [count for path in _COUNTS if type(count := _at(document, path)) is int and count > 0]
    return Asked(min(caps, default=None), any(_at(document, path) for path in _STOPS), max(counts, default=1))


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def wire_of(host: str, path: str, query: str = "") -> str | None:
    """The wire that answers a request for this URL, or None when the URL is no provider's known one."""
    path = path.rstrip("/")
    if path.endswith("/chat/completions"):
        return _chat_at(host)
    if path.endswith("/responses"):
        return "openai-responses"
    if path.endswith("/v1/messages") or (
        "/publishers/anthropic/" in path and path.endswith((":streamRawPredict", ":rawPredict"))
    ):
        return "anthropic"
    if path.endswith(":streamGenerateContent"):
        return "gemini" if "alt=sse" in query.split("&") else "gemini-array"
    if path.endswith(":generateContent"):
        return "gemini"
    if path.endswith(("/api/chat", "/api/generate")):
        return "ollama"
    if path.endswith("/v2/chat"):
        return "cohere"
    if "/model/" in path and path.endswith(("/converse-stream", "/converse")):
        return "bedrock"
    return None


def _chat_at(host: str) -> str:
    """Many serve this route. Those that are known by their host have a wire or a profile of their own."""
    for domain, wire in (
        ("mistral.ai", "mistral"),
        ("openai.azure.com", "openai-chat+azure"),
        ("openrouter.ai", "openai-chat+openrouter"),
        ("generativelanguage.googleapis.com", "openai-chat+gemini"),
    ):
        if host == domain or host.endswith(f".{domain}"):
            return wire
    return "openai-chat"
