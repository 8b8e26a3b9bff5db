"""One answer of each provider as its server streams it: the eleven-statement plan as a tool call, or a text."""

import json
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from bench.payloads import ELEVEN

TOOL = "apply_schema"
WITNESS = json.dumps(
    {"job_id": "job_1", "stmt_count": len(ELEVEN), "statements": ELEVEN, "trailer": "END_APPLY"}, ensure_ascii=False
)
Events = list[tuple[str, dict[str, Any]]]


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def tokens(text: str, dice: random.Random) -> Iterator[str]:
    """Pieces as long as those that models send."""
    at = 0
    while at < len(text):
        size = dice.choice((1, 2, 3, 4, 5, 6, 8))
        yield text[at : at + size]
        at += size


def pieces(text: str) -> list[str]:
    return list(tokens(text, random.Random(3)))


def sse(events: Events, end: bytes = b"") -> bytes:
    """Server-sent events, with names where there are any."""
    lines = [(f"event: {name}\n" if name else "") + f"data: {dump(event)}\n\n" for name, event in events]
    return "".join(lines).encode() + end


DONE = b"data: [DONE]\n\n"


def _chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[str, dict[str, Any]]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_764_500_000, "model": "m"}
    return "", head | {"choices": [choice]}


def openai_chat(arguments: str) -> bytes:
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": TOOL, "arguments": ""}}
    events = [_chunk({"role": "assistant", "content": None, "tool_calls": [call]})]
    events += [_chunk({"tool_calls": [{"index": 0, "function": {"arguments": p}}]}) for p in pieces(arguments)]
    return sse([*events, _chunk({}, "tool_calls")], DONE)


def openai_chat_logprobs(text: str, top: int = 0) -> bytes:
    """A text with the log probability of each piece, and of `top` others."""
    dice = random.Random(4)

    def weighed(piece: str) -> dict[str, Any]:
        return {"token": piece, "logprob": -dice.random() * 5, "bytes": list(piece.encode())}

    events = [_chunk({"role": "assistant", "content": "", "refusal": None})]
    for piece in pieces(text):
        event = _chunk({"content": piece})
        others = [weighed(piece + "x" * at) for at in range(top)]
        event[1]["choices"][0]["logprobs"] = {"content": [weighed(piece) | {"top_logprobs": others}], "refusal": None}
        events.append(event)
    return sse([*events, _chunk({}, "stop")], DONE)


def openai_responses(arguments: str) -> bytes:
    item: dict[str, Any] = {"id": "fc_1", "type": "function_call", "status": "in_progress", "arguments": ""}
    item |= {"call_id": "call_1", "name": TOOL}
    done = item | {"status": "completed", "arguments": arguments}
    base: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
    base |= {"status": "in_progress", "parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "error": None}
    base |= {"incomplete_details": None, "instructions": None, "metadata": {}, "temperature": 1.0, "top_p": 1.0}
    usage = {"input_tokens": 40, "output_tokens": 700, "total_tokens": 740}
    usage_more = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    where = {"item_id": "fc_1", "output_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": base},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({"type": "response.function_call_arguments.delta", **where, "delta": piece} for piece in pieces(arguments)),
        {"type": "response.function_call_arguments.done", **where, "arguments": arguments, "name": TOOL},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
    ]
    final = base | {"status": "completed", "output": [done], "usage": usage | usage_more}
    events.append({"type": "response.completed", "response": final})
    return sse([(event["type"], event | {"sequence_number": at}) for at, event in enumerate(events)])


def anthropic(arguments: str) -> bytes:
    message: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 40, "output_tokens": 1}}
    block = {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
    ]
    for piece in ["", *pieces(arguments)]:
        delta = {"type": "input_json_delta", "partial_json": piece}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    stop = {"stop_reason": "tool_use", "stop_sequence": None}
    events += [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 700}},
        {"type": "message_stop"},
    ]
    return sse([(event["type"], event) for event in events])


def _gemini(arguments: str) -> list[dict[str, Any]]:
    def response(parts: list[Any], **more: Any) -> dict[str, Any]:
        return {"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0, **more}], "modelVersion": "m"}

    called = response([{"functionCall": {"name": TOOL, "args": {"plan": arguments}}}])
    usage = {"promptTokenCount": 40, "candidatesTokenCount": 700, "totalTokenCount": 740}
    return [called, response([{"text": ""}], finishReason="STOP") | {"usageMetadata": usage}]


def gemini(arguments: str) -> bytes:
    return sse([("", response) for response in _gemini(arguments)])


def gemini_array(arguments: str) -> bytes:
    return ("[" + ",\r\n".join(dump(response) for response in _gemini(arguments)) + "]").encode()


def ollama(arguments: str) -> bytes:
    call = {"function": {"name": TOOL, "arguments": {"plan": arguments}}}
    base = {"model": "m", "created_at": "2026-11-30T00:00:00.000000Z"}
    first = base | {"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": False}
    counted = {"prompt_eval_count": 40, "eval_count": 700, "total_duration": 1, "eval_duration": 1}
    last = base | {"message": {"role": "assistant", "content": ""}, "done_reason": "stop", "done": True} | counted
    return f"{dump(first)}\n{dump(last)}\n".encode()


def _frame(name: str, payload: dict[str, Any]) -> bytes:
    headers = b""
    for key, value in ((":event-type", name), (":content-type", "application/json"), (":message-type", "event")):
        headers += bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    body = dump(payload).encode()
    lengths = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    made = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + body
    return made + struct.pack(">I", zlib.crc32(made))


def bedrock(arguments: str) -> bytes:
    at = {"contentBlockIndex": 0}
    events: Events = [
        ("messageStart", {"role": "assistant"}),
        ("contentBlockStart", {"start": {"toolUse": {"toolUseId": "t", "name": TOOL}}} | at),
        *(("contentBlockDelta", {"delta": {"toolUse": {"input": piece}}} | at) for piece in pieces(arguments)),
        ("contentBlockStop", at),
        ("messageStop", {"stopReason": "tool_use"}),
        (
            "metadata",
            {"usage": {"inputTokens": 40, "outputTokens": 700, "totalTokens": 740}, "metrics": {"latencyMs": 1}},
        ),
    ]
    return b"".join(_frame(name, payload) for name, payload in events)


def mistral(arguments: str) -> bytes:
    call = {"id": "D681PevKs", "function": {"name": TOOL, "arguments": arguments}, "index": 0}
    usage = {"prompt_tokens": 40, "completion_tokens": 700, "total_tokens": 740}
    first, last = (
        _chunk({"role": "assistant", "content": ""}),
        _chunk({"content": "", "tool_calls": [call]}, "tool_calls"),
    )
    return sse([first, (last[0], last[1] | {"usage": usage})], DONE)


def cohere(arguments: str) -> bytes:
    opened = {"id": "c", "type": "function", "function": {"name": TOOL, "arguments": ""}}
    events: list[dict[str, Any]] = [
        {"type": "message-start", "id": "29f14a5a", "delta": {"message": {"role": "assistant", "content": []}}},
        {"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": opened}}},
    ]
    for piece in pieces(arguments):
        said = {"message": {"tool_calls": {"function": {"arguments": piece}}}}
        events.append({"type": "tool-call-delta", "index": 0, "delta": said})
    usage = {"tokens": {"input_tokens": 40, "output_tokens": 700}}
    events.append({"type": "tool-call-end", "index": 0})
    events.append({"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": usage}})
    return sse([(event["type"], event) for event in events])


WIRES: dict[str, Callable[[str], bytes]] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "gemini-array": gemini_array,
    "ollama": ollama,
    "bedrock": bedrock,
    "mistral": mistral,
    "cohere": cohere,
}
