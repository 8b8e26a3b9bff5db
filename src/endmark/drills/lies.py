"""What a server does that wants a cut not to be seen: it closes the JSON, claims a normal stop and ends the stream.

Such servers exist: they enforce a JSON format, or sit before a model that was cut. A lie is made to attack clients
with; nothing here ever reads what is meant to be true.
"""

from collections.abc import Callable
from typing import Any

from endmark.core import strictjson
from endmark.core.refusal import Refused
from endmark.drills import block_lies, edges
from endmark.drills.closing import NoLie as NoLie
from endmark.drills.closing import closed, closed_object, data, sse
from endmark.drills.closing import closing as closing
from endmark.drills.edges import Shape


def tell(body: bytes, at: int, wire: str | None, shape: Shape) -> bytes:
    """The events that are whole in the first `at` bytes of `body`, closed as `wire` wants it. Raises NoLie.

    Of one document, its text or its arguments keep the share that `at` is of the body.
    """
    name = (wire or "").partition("+")[0]
    streamed, document = _TELLERS.get(name, (None, None))
    if streamed is None or document is None:
        raise NoLie(f"no lie is known for the wire {wire}" if wire else "a lie needs to know the wire; name it")
    try:
        if name == "gemini-array" and body.lstrip().startswith(b"["):
            return _gemini_array(body, at)
        if shape is Shape.DOCUMENT:
            return strictjson.dumps(document(strictjson.loads(body), at / max(1, len(body))))
        return streamed(edges.events(body, shape), edges.events(body[:at], shape), _whole(body[:at], shape))
    except (Refused, KeyError, IndexError, TypeError, ValueError) as fault:
        if isinstance(fault, NoLie):
            raise
        raise NoLie(f"the body is no whole answer of the wire {wire}") from None


def _whole(part: bytes, shape: Shape) -> int:
    return len(edges.edges(part, shape)) - 1


def _line(document: dict[str, Any]) -> bytes:
    return strictjson.dumps(document) + b"\n"


# --- OpenAI chat


def _chat(events: list[bytes], _cut: list[bytes], count: int) -> bytes:
    count = max(1, count)
    kept = [document for event in events[:count] if (document := data(event)) is not None]
    if any(choice.get("finish_reason") for chunk in kept for choice in chunk["choices"]):
        return b"".join(events)
    text = ""
    calls: dict[int, str] = {}
    for chunk in kept:
        for choice in chunk["choices"]:
            text += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls") or []:
                piece = (call.get("function") or {}).get("arguments") or ""
                calls[call["index"]] = calls.get(call["index"], "") + piece
    base = {key: value for key, value in kept[0].items() if key not in ("choices", "usage", "obfuscation")}

    def made(delta: dict[str, Any], finish: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return b"data: " + strictjson.dumps({**base, "choices": [choice]}) + b"\n\n"

    last = b""
    if calls:
        index = max(calls)
        end = closing(calls[index]) if calls[index] else "{}"
        last = made({"tool_calls": [{"index": index, "function": {"arguments": end}}]}, None) if end else b""
    elif end := closing(text):
        last = made({"content": end}, None)
    stop = made({}, "tool_calls" if calls else "stop")
    return b"".join(events[:count]) + last + stop + b"data: [DONE]\n\n"


def _chat_document(document: dict[str, Any], share: float) -> dict[str, Any]:
    message = document["choices"][0]["message"]
    calls = message.get("tool_calls") or []
    if calls:
        function = calls[-1]["function"]
        function["arguments"] = closed(function["arguments"], share) or "{}"
    else:
        message["content"] = closed(message["content"], share)
    return document


def _mistral(events: list[bytes], cut: list[bytes], count: int) -> bytes:
    """A call comes in one piece, so the event inside which the cut falls is sent too, in part."""
    documents = [data(event) for event in events]
    if count >= len(events) or documents[count] is None:
        return b"".join(events)
    share = len(cut[count]) / len(events[count]) if len(cut) > count else 0.0
    text = ""
    calls: dict[int, str] = {}
    for delta in [document["choices"][0]["delta"] for document in documents[:count] if document is not None]:
        text += delta.get("content") or ""
        calls |= {call["index"]: call["function"]["arguments"] for call in delta.get("tool_calls") or []}
    last = documents[count] or {}
    choice = last["choices"][0]
    if isinstance(choice["delta"].get("content"), str):
        choice["delta"]["content"] = closed(choice["delta"]["content"], share, text)
    for call in choice["delta"].get("tool_calls") or []:
        calls[call["index"]] = ""
        call["function"]["arguments"] = closed(call["function"]["arguments"], share) or "{}"
    choice["finish_reason"] = "tool_calls" if calls else "stop"
    return b"".join(events[:count]) + b"data: " + strictjson.dumps(last) + b"\n\ndata: [DONE]\n\n"


# --- Anthropic


def _anthropic(events: list[bytes], _cut: list[bytes], count: int) -> bytes:
    count = max(1, count)
    kept = [document for event in events[:count] if (document := data(event)) is not None]
    if any(document["type"] == "message_delta" for document in kept):
        return b"".join(events)
    kinds: dict[int, str] = {}
    texts: dict[int, str] = {}
    closed: set[int] = set()
    for document in kept:
        index = document.get("index", 0)
        if document["type"] == "content_block_start":
            kinds[index], texts[index] = document["content_block"]["type"], ""
        elif document["type"] == "content_block_delta":
            delta = document["delta"]
            texts[index] += delta.get("text") or delta.get("partial_json") or ""
        elif document["type"] == "content_block_stop":
            closed.add(index)
    more = b""
    for index in sorted(set(kinds) - closed):
        end = closing(texts[index])
        if end and kinds[index] in ("tool_use", "text"):
            delta = {"type": "text_delta", "text": end}
            if kinds[index] == "tool_use":
                delta = {"type": "input_json_delta", "partial_json": end}
            more += sse({"type": "content_block_delta", "index": index, "delta": delta})
        more += sse({"type": "content_block_stop", "index": index})
    reason = "tool_use" if "tool_use" in kinds.values() else "end_turn"
    stopped = {"stop_reason": reason, "stop_sequence": None}
    more += sse({"type": "message_delta", "delta": stopped, "usage": {"output_tokens": len(kept)}})
    return b"".join(events[:count]) + more + sse({"type": "message_stop"})


def _anthropic_document(document: dict[str, Any], share: float) -> dict[str, Any]:
    block = document["content"][-1]
    if block["type"] == "tool_use":
        block["input"] = closed_object(block["input"], share)
    else:
        block["text"] = closed(block["text"], share)
    return document


# --- Gemini and Ollama, which send a call as an object


def _gemini(events: list[bytes], cut: list[bytes], count: int) -> bytes:
    """The event inside which the cut falls is sent too: of its call, the arguments keep the share that came."""
    if count == len(events):
        return b"".join(events)
    share = len(cut[count]) / len(events[count]) if len(cut) > count else 0.0
    parts = [part for event in events[:count] for part in _parts(data(event) or {})]
    said = "".join(part.get("text", "") for part in parts if not part.get("thought"))
    last = _gemini_document(data(events[count]) or {}, share, said)
    last["candidates"][0]["finishReason"] = "STOP"
    return b"".join(events[:count]) + b"data: " + strictjson.dumps(last) + b"\n\n"


def _parts(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for one in document.get("candidates", []) for part in one.get("content", {}).get("parts") or []]


def _gemini_document(document: dict[str, Any], share: float, before: str = "") -> dict[str, Any]:
    for part in _parts(document):
        if "functionCall" in part:
            part["functionCall"]["args"] = closed_object(part["functionCall"]["args"], share)
        elif "text" in part:
            part["text"] = closed(part["text"], share, before)
    return document


def _gemini_array(body: bytes, at: int) -> bytes:
    """Of an array, so many responses as `at` is of the body, the last of them in part."""
    if at >= len(body):
        return body
    responses = strictjson.loads(b'{"":%b}' % body)[""]
    place = len(responses) * at / len(body)
    count = int(place)
    said = "".join(part.get("text", "") for one in responses[:count] for part in _parts(one) if not part.get("thought"))
    last = _gemini_document(responses[count], place - count, said)
    last["candidates"][0]["finishReason"] = "STOP"
    return b"[" + b",\r\n".join(strictjson.dumps(one) for one in [*responses[:count], last]) + b"]"


def _ollama(events: list[bytes], cut: list[bytes], count: int) -> bytes:
    if count == len(events):
        return b"".join(events)
    share = len(cut[count]) / len(events[count]) if len(cut) > count else 0.0
    last = data(events[count]) or {}
    ended = last.get("done") is True
    said = "".join(_said(data(event) or {}) for event in events[:count])
    partly = _line(_ollama_document(last, share, said))
    return b"".join(events[:count]) + partly + (b"" if ended else events[-1])


def _said(document: dict[str, Any]) -> str:
    return str(document.get("response") or (document.get("message") or {}).get("content") or "")


def _ollama_document(document: dict[str, Any], share: float, before: str = "") -> dict[str, Any]:
    if "message" not in document:
        document["response"] = closed(document["response"], share, before)
        return document
    message = document["message"]
    message["content"] = closed(message.get("content") or "", share, before)
    for call in message.get("tool_calls") or []:
        call["function"]["arguments"] = closed_object(call["function"]["arguments"], share)
    return document


_Streamed = Callable[[list[bytes], list[bytes], int], bytes]
_Document = Callable[[dict[str, Any], float], dict[str, Any]]

_TELLERS: dict[str, tuple[_Streamed, _Document]] = {
    "openai-chat": (_chat, _chat_document),
    "anthropic": (_anthropic, _anthropic_document),
    "gemini": (_gemini, _gemini_document),
    "gemini-array": (_gemini, _gemini_document),
    "ollama": (_ollama, _ollama_document),
    "mistral": (_mistral, _chat_document),
    "openai-responses": (block_lies.responses, block_lies.responses_document),
    "cohere": (block_lies.cohere, block_lies.cohere_document),
    "bedrock": (block_lies.bedrock, block_lies.bedrock_document),
}
