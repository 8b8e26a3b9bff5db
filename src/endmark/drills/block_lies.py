"""Lies on the wires that open and close each block of an answer by events of their own: Responses, Cohere, Bedrock."""

import struct
import zlib
from typing import Any

from endmark.core import strictjson
from endmark.drills.closing import closed, closed_object, closing, data, sse
from endmark.wires.eventstream import FrameStream

# --- OpenAI Responses

_STEMS = {
    "response.function_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
    "response.output_text": "text",
}
_CALLS = {"function_call": "response.function_call_arguments", "custom_tool_call": "response.custom_tool_call_input"}


def responses(events: list[bytes], _cut: list[bytes], count: int) -> bytes:
    """The events kept, each open block closed with its copies, and the final copy of all that was sent."""
    count = max(1, count)
    kept = [document for event in events[:count] if (document := data(event)) is not None]
    if any(document["type"] == "response.completed" for document in kept):
        return b"".join(events)
    items: dict[int, dict[str, Any]] = {}
    finished: set[tuple[int, int, str]] = set()
    for document in kept:
        stem, _, verb = document["type"].rpartition(".")
        item, part = document.get("output_index", 0), document.get("content_index", 0)
        if stem == "response.output_item":
            items[item] = document["item"]
        elif stem == "response.content_part" and verb == "added":
            items[item].setdefault("content", []).append(document["part"])
        elif stem in _STEMS and verb == "delta":
            holder = items[item]["content"][part] if stem == "response.output_text" else items[item]
            holder[_STEMS[stem]] += document["delta"]
        if verb == "done":
            finished.add((item, part, stem))
    more: list[dict[str, Any]] = []
    for at, item in sorted(items.items()):
        if (at, 0, "response.output_item") not in finished:
            more += _rest_of_item(at, item, finished)
    final = {"status": "completed", "output": [item for _, item in sorted(items.items())]}
    usage = {"input_tokens": 1, "output_tokens": len(kept), "total_tokens": 1 + len(kept)}
    more.append({"type": "response.completed", "response": kept[0]["response"] | final | {"usage": usage}})
    number = max(document.get("sequence_number", 0) for document in kept) + 1
    return b"".join(events[:count]) + b"".join(sse(m | {"sequence_number": number + n}) for n, m in enumerate(more))


def _rest_of_item(at: int, item: dict[str, Any], finished: set[tuple[int, int, str]]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    place = {"output_index": at, "item_id": item.get("id", "")}
    if item["type"] in _CALLS:
        made += _rest_of_text(_CALLS[item["type"]], item, place, (at, 0), finished)
    for number, part in enumerate(item.get("content") or []):
        if item["type"] != "message" or (at, number, "response.content_part") in finished:
            continue
        inner = place | {"content_index": number}
        if part["type"] == "output_text":
            made += _rest_of_text("response.output_text", part, inner, (at, number), finished)
        made.append({"type": "response.content_part.done", **inner, "part": part})
    if "status" in item:
        item["status"] = "completed"
    return [*made, {"type": "response.output_item.done", "output_index": at, "item": item}]


def _rest_of_text(
    stem: str, holder: dict[str, Any], place: dict[str, Any], at: tuple[int, int], finished: set[tuple[int, int, str]]
) -> list[dict[str, Any]]:
    if (*at, stem) in finished:
        return []
    key = _STEMS[stem]
    end = "{}" if key == "arguments" and not holder[key] else closing(holder[key])
    holder[key] += end
    delta = [{"type": f"{stem}.delta", **place, "delta": end}] if end else []
    return [*delta, {"type": f"{stem}.done", **place, key: holder[key]}]


def responses_document(document: dict[str, Any], share: float) -> dict[str, Any]:
    """Of the last item, the share, closed."""
    item = document["output"][-1]
    if item["type"] == "function_call":
        item["arguments"] = closed(item["arguments"], share) or "{}"
    else:
        item["content"][-1]["text"] = closed(item["content"][-1]["text"], share)
    return document


# --- Cohere


def cohere(events: list[bytes], _cut: list[bytes], count: int) -> bytes:
    """The events kept, each open block closed, and a normal end."""
    count = max(1, count)
    kept = [document for event in events[:count] if (document := data(event)) is not None]
    if any(document["type"] == "message-end" for document in kept):
        return b"".join(events)
    texts: dict[tuple[str, int], str] = {}
    open_blocks: set[tuple[str, int]] = set()
    thought: set[tuple[str, int]] = set()
    for document in kept:
        stem, _, verb = document["type"].rpartition("-")
        key = (stem, document.get("index", 0))
        if stem not in ("content", "tool-call"):
            continue
        message = (document.get("delta") or {}).get("message", {})
        block = message.get("content") or message.get("tool_calls") or {}
        if verb == "start":
            open_blocks.add(key)
            thought |= {key} if block.get("type") == "thinking" else set()
        texts[key] = texts.get(key, "") + (block.get("text") or block.get("function", {}).get("arguments") or "")
        if verb == "end":
            open_blocks.discard(key)
    more = b""
    for stem, index in sorted(open_blocks):
        text = texts[stem, index]
        end = "{}" if stem == "tool-call" and not text else closing(text)
        said: dict[str, Any] = {"content": {"text": end}}
        if stem == "tool-call":
            said = {"tool_calls": {"function": {"arguments": end}}}
        if end and (stem, index) not in thought:
            more += sse({"type": f"{stem}-delta", "index": index, "delta": {"message": said}})
        more += sse({"type": f"{stem}-end", "index": index})
    reason = "TOOL_CALL" if any(stem == "tool-call" for stem, _ in texts) else "COMPLETE"
    usage = {"tokens": {"input_tokens": 1, "output_tokens": len(kept)}}
    return (
        b"".join(events[:count])
        + more
        + sse({"type": "message-end", "delta": {"finish_reason": reason, "usage": usage}})
    )


def cohere_document(document: dict[str, Any], share: float) -> dict[str, Any]:
    """Of the last call or the last text, the share, closed."""
    message = document["message"]
    if message.get("tool_calls"):
        function = message["tool_calls"][-1]["function"]
        function["arguments"] = closed(function["arguments"], share) or "{}"
    else:
        message["content"][-1]["text"] = closed(message["content"][-1]["text"], share)
    return document


# --- Bedrock


def bedrock(events: list[bytes], _cut: list[bytes], count: int) -> bytes:
    """The frames kept, each open block closed, then a normal end with its count."""
    count = max(1, count)
    messages = FrameStream().feed(b"".join(events[:count]))
    if any(message.name == "messageStop" for message in messages):
        return b"".join(events)
    texts: dict[int, str] = {}
    calls: set[int] = set()
    stopped: set[int] = set()
    for message in messages:
        document = strictjson.loads(message.payload)
        index = document.get("contentBlockIndex", -1)
        if message.name == "contentBlockStart" and "toolUse" in document["start"]:
            calls.add(index)
            texts[index] = ""
        elif message.name == "contentBlockDelta":
            delta = document["delta"]
            texts[index] = texts.get(index, "") + (delta.get("text") or delta.get("toolUse", {}).get("input") or "")
        elif message.name == "contentBlockStop":
            stopped.add(index)
    more = b""
    for index in sorted(set(texts) - stopped):
        end = "{}" if index in calls and not texts[index] else closing(texts[index])
        if end:
            delta = {"toolUse": {"input": end}} if index in calls else {"text": end}
            more += _frame("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})
        more += _frame("contentBlockStop", {"contentBlockIndex": index})
    more += _frame("messageStop", {"stopReason": "tool_use" if calls else "end_turn"})
    usage = {"inputTokens": 1, "outputTokens": len(messages), "totalTokens": 1 + len(messages)}
    return b"".join(events[:count]) + more + _frame("metadata", {"usage": usage, "metrics": {"latencyMs": 1}})


def bedrock_document(document: dict[str, Any], share: float) -> dict[str, Any]:
    """Of the last block, the share, closed."""
    block = document["output"]["message"]["content"][-1]
    if "toolUse" in block:
        block["toolUse"]["input"] = closed_object(block["toolUse"]["input"], share)
    else:
        block["text"] = closed(block["text"], share)
    return document


def _frame(name: str, document: dict[str, Any]) -> bytes:
    """One event-stream frame (rules ES1 and ES5 of spec/wires.md)."""
    said = ((":event-type", name), (":content-type", "application/json"), (":message-type", "event"))
    headers = b"".join(b"%c%b\x07%b%b" % (len(k), k.encode(), struct.pack(">H", len(v)), v.encode()) for k, v in said)
    payload = strictjson.dumps(document)
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    made = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + payload
    return made + struct.pack(">I", zlib.crc32(made))
