"""Whole answers as six providers send them, written with the standard library alone: no code of ours, no bug of ours.

A `Turn` says what the model answered. Each provider's function spells it; `rng`, where given, varies everything that
may vary in a good stream: portions, comments, pings, unknown events, empty pieces, reasoning, interleaving, line ends.
"""

import json
import random
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """A tool call: its arguments as the model wrote them."""

    name: str
    arguments: str
    id: str = "call_1"


@dataclass(frozen=True)
class Turn:
    """An answer. `reason` is the provider's own word; "" stands for the normal one."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reason: str = ""
    tokens: int = 321
    thoughts: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def loaded(text: str) -> Any:
    """What a server does that hands arguments over as an object."""
    return json.loads(text)  # noqa: TID251


def pieces(text: str, rng: random.Random | None, size: int = 48) -> list[str]:
    """`text` in portions; with `rng` of any length, some of them empty."""
    if rng is None:
        return [text[at : at + size] for at in range(0, len(text), size)]
    found, at = [], 0
    longest = max(2, len(text) // rng.randint(3, 60))
    while at < len(text):
        step = rng.randint(0, longest)
        found.append(text[at : at + step])
        at += step
    return found


def sse(events: list[tuple[str, str]], rng: random.Random | None = None) -> bytes:
    """Events with their names, "" for none."""
    end = rng.choice(["\n", "\n", "\r\n"]) if rng else "\n"
    space = rng.choice([" ", " ", ""]) if rng else " "
    made = []
    for name, data in events:
        if rng and rng.random() < 0.1:
            made.append(rng.choice([": keep-alive", ":", ": ping - 2026-11-30", "retry: 3000", "id: 7"]) + end)
            made.append(end if rng.random() < 0.5 else "")
        made.append((f"event:{space}{name}{end}" if name else "") + f"data:{space}{data}{end}{end}")
    return "".join(made).encode()


# --- AWS event streams


def header(name: str, value: str) -> bytes:
    return (
        bytes([len(name.encode())]) + name.encode() + b"\x07" + struct.pack(">H", len(value.encode())) + value.encode()
    )


def frame(headers: bytes, payload: bytes) -> bytes:
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    made = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + payload
    return made + struct.pack(">I", zlib.crc32(made))


def message(name: str, payload: Any, kind: str = "event", key: str = ":event-type") -> bytes:
    named = header(key, name) + header(":content-type", "application/json") + header(":message-type", kind)
    return frame(named, payload if isinstance(payload, bytes) else dump(payload).encode())


# --- Gemini


def gemini_responses(turn: Turn, rng: random.Random | None = None) -> list[dict[str, Any]]:
    """The responses of one stream; the last one carries the finish reason."""
    parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in pieces(turn.thoughts, rng)]
    parts += [{"text": piece} for piece in pieces(turn.text, rng)]
    for call in turn.calls:
        made: dict[str, Any] = {"functionCall": {"name": call.name, "args": loaded(call.arguments)}}
        if rng and rng.random() < 0.5:
            made["functionCall"]["id"] = call.id
        if rng and rng.random() < 0.5:
            made["thoughtSignature"] = "c2ln"
        parts.append(made)
    if rng and rng.random() < 0.3:
        parts.append({"text": "", "thoughtSignature": "c2ln"})
    if rng and rng.random() < 0.2:
        parts.insert(0, {"executableCode": {"language": "PYTHON", "code": "print(1)"}})
    if rng is None or rng.random() < 0.6:
        groups = [[part] for part in parts]
    else:
        groups = [parts[at : at + 3] for at in range(0, len(parts), 3)]
    alone = not groups or (rng is not None and rng.random() < 0.4)
    groups += [[]] if alone else []
    responses = []
    for at, group in enumerate(groups):
        last = at == len(groups) - 1
        candidate: dict[str, Any] = {"content": {"parts": group, "role": "model"}, "index": 0}
        if last and not group:
            candidate = rng.choice([{}, {"content": {"role": "model"}}, {"content": {}}]) if rng else {"content": {}}
        if rng and rng.random() < 0.3:
            candidate.pop("index", None)
        if last:
            candidate["finishReason"] = turn.reason or "STOP"
        usage = {"promptTokenCount": 99, "totalTokenCount": 99 + turn.tokens}
        if last or rng is None or rng.random() < 0.5:
            usage |= {"candidatesTokenCount": turn.tokens - 20 if last else at, "thoughtsTokenCount": 20 if last else 0}
        response: dict[str, Any] = {"candidates": [candidate], "usageMetadata": usage}
        if rng and not last and rng.random() < 0.3:
            del response["usageMetadata"]
        responses.append(response | {"modelVersion": "gemini-3-pro", "responseId": "mAitaLmk"} | turn.extra)
    if rng and rng.random() < 0.2:
        responses.insert(0, {"promptFeedback": {"safetyRatings": []}, "responseId": "mAitaLmk"})
    if rng and rng.random() < 0.1:
        responses.append({"usageMetadata": responses[-1]["usageMetadata"], "responseId": "mAitaLmk"})
    return responses


def gemini(turn: Turn, rng: random.Random | None = None) -> bytes:
    return sse([("", dump(response)) for response in gemini_responses(turn, rng)], rng and random.Random(rng.random()))


def gemini_array(turn: Turn, rng: random.Random | None = None) -> bytes:
    indent = 2 if rng and rng.random() < 0.5 else None
    made = [
        "[",
        ",\r\n".join(json.dumps(r, ensure_ascii=bool(indent), indent=indent) for r in gemini_responses(turn, rng)),
    ]
    return ("".join(made) + ("\n]" if rng else "]")).encode()


def gemini_document(turn: Turn) -> bytes:
    merged: list[Any] = []
    responses = gemini_responses(turn)
    for response in responses:
        merged += response["candidates"][0]["content"].get("parts", [])
    last = responses[-1]
    last["candidates"][0]["content"] = {"parts": merged, "role": "model"}
    return json.dumps(last, indent=2).encode()


# --- Ollama


def ollama_lines(turn: Turn, rng: random.Random | None = None, route: str = "chat") -> list[dict[str, Any]]:
    base = {"model": "qwen3", "created_at": "2026-11-30T10:00:00.123456789Z"}

    def piece(text: str = "", thinking: str = "", calls: list[Any] | None = None) -> dict[str, Any]:
        said: dict[str, Any] = {"thinking": thinking} if thinking else {}
        if calls:
            said["tool_calls"] = calls
        if route == "chat":
            return {"message": {"role": "assistant", "content": text} | said}
        return {"response": text} | said

    lines = [piece(thinking=part) for part in pieces(turn.thoughts, rng) if part]
    lines += [piece(part) for part in pieces(turn.text, rng)]
    calls = []
    for at, call in enumerate(turn.calls):
        made: dict[str, Any] = {"function": {"name": call.name, "arguments": loaded(call.arguments)}}
        if rng and rng.random() < 0.5:
            made |= {"id": call.id}
            made["function"]["index"] = at
        calls.append(made)
    together = rng is None or rng.random() < 0.5
    lines += ([piece(calls=calls)] if calls else []) if together else [piece(calls=[call]) for call in calls]
    if rng and rng.random() < 0.2:
        lines.insert(0, {"status": "loading"})
    last = piece() | {"done": True, "done_reason": turn.reason or "stop"}
    last |= {"total_duration": 4883583458, "prompt_eval_count": 26, "eval_count": turn.tokens, "eval_duration": 42}
    if route == "generate":
        last["context"] = [1, 2, 3]
    if rng and lines and rng.random() < 0.2:
        last = lines.pop() | {key: value for key, value in last.items() if key not in ("message", "response")}
    return [base | line | {"done": False} for line in lines] + [base | last | turn.extra]


def ollama(turn: Turn, rng: random.Random | None = None, route: str = "chat") -> bytes:
    end = "\r\n" if rng and rng.random() < 0.2 else "\n"
    made = []
    for line in ollama_lines(turn, rng, route):
        if rng and rng.random() < 0.05:
            made.append(end)
        made.append(json.dumps(line, ensure_ascii=bool(rng and rng.random() < 0.3)) + end)
    return "".join(made).encode()


def ollama_document(turn: Turn, route: str = "chat") -> bytes:
    joined: dict[str, Any] = {"content": turn.text, "role": "assistant"}
    if turn.calls:
        joined["tool_calls"] = [
            {"function": {"name": call.name, "arguments": loaded(call.arguments)}} for call in turn.calls
        ]
    last = ollama_lines(turn, None, route)[-1]
    return dump(last | ({"message": joined} if route == "chat" else {"response": turn.text})).encode()


# --- Bedrock


def bedrock_messages(turn: Turn, rng: random.Random | None = None) -> list[tuple[str, dict[str, Any]]]:
    blocks: list[list[tuple[str, dict[str, Any]]]] = []

    def block(start: dict[str, Any] | None, deltas: list[dict[str, Any]]) -> None:
        at = {"contentBlockIndex": len(blocks)}
        made = [("contentBlockStart", {"start": start} | at)] if start is not None else []
        made += [("contentBlockDelta", {"delta": delta} | at) for delta in deltas]
        blocks.append([*made, ("contentBlockStop", at)])

    if turn.thoughts:
        said = [{"reasoningContent": {"text": piece}} for piece in pieces(turn.thoughts, rng)]
        block(None, [*said, {"reasoningContent": {"signature": "c2ln"}}])
    if turn.text:
        cited: list[dict[str, Any]] = [{"citation": {"title": "page"}}] if rng and rng.random() < 0.2 else []
        empty: dict[str, Any] | None = {} if rng and rng.random() < 0.2 else None
        block(empty, [{"text": piece} for piece in pieces(turn.text, rng)] + cited)
    for call in turn.calls:
        start = {"toolUse": {"toolUseId": call.id, "name": call.name}}
        block(start, [{"toolUse": {"input": piece}} for piece in pieces(call.arguments, rng)])
    if rng and rng.random() < 0.2:
        block(
            {"toolUse": {"toolUseId": "s", "name": "search", "type": "server_tool_use"}}, [{"toolUse": {"input": "{}"}}]
        )
    events: list[tuple[str, dict[str, Any]]] = []
    if rng and rng.random() < 0.3:  # interleaved
        while any(blocks):
            events.append(rng.choice([block for block in blocks if block]).pop(0))
    else:
        events = [event for block in blocks for event in block]
    padding = {"p": "abcdefgh"} if rng and rng.random() < 0.5 else {}
    reason = turn.reason or ("tool_use" if turn.calls else "end_turn")
    usage = {"inputTokens": 30, "outputTokens": turn.tokens, "totalTokens": 30 + turn.tokens}
    ends: list[tuple[str, dict[str, Any]]] = [("messageStop", {"stopReason": reason})]
    ends.append(("metadata", {"usage": usage, "metrics": {"latencyMs": 1}}))
    if rng and rng.random() < 0.1:
        ends.reverse()
    if rng and rng.random() < 0.2:
        events.insert(rng.randint(0, len(events)), ("laterEvent", {"what": "ever"}))
    events = [("messageStart", {"role": "assistant"}), *events, *ends]
    return [(name, payload | padding | (turn.extra if name == "messageStop" else {})) for name, payload in events]


def bedrock(turn: Turn, rng: random.Random | None = None) -> bytes:
    return b"".join(message(name, payload) for name, payload in bedrock_messages(turn, rng))


def bedrock_document(turn: Turn) -> bytes:
    content: list[Any] = [{"text": turn.text}] if turn.text else []
    for call in turn.calls:
        use = {"toolUseId": call.id, "name": call.name, "input": loaded(call.arguments)}
        content.append({"toolUse": use})
    reason = turn.reason or ("tool_use" if turn.calls else "end_turn")
    usage = {"inputTokens": 30, "outputTokens": turn.tokens, "totalTokens": 30 + turn.tokens}
    made = {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": reason, "usage": usage}
    return dump(made | {"metrics": {"latencyMs": 1}}).encode()


# --- Mistral


def mistral_chunks(turn: Turn, rng: random.Random | None = None) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for piece in pieces(turn.thoughts, rng):
        deltas.append({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": piece}]}]})
    for piece in pieces(turn.text, rng):
        listed = rng is not None and rng.random() < 0.3
        deltas.append({"content": [{"type": "text", "text": piece}] if listed else piece})
    for at, call in enumerate(turn.calls):
        known = {"id": call.id, "type": "function"} if rng and rng.random() < 0.5 else {"id": call.id}
        index = {"index": 0} if rng and rng.random() < 0.2 else {"index": at}
        if rng is None or rng.random() < 0.5:
            deltas.append(
                {"tool_calls": [known | index | {"function": {"name": call.name, "arguments": call.arguments}}]}
            )
            continue
        deltas.append({"tool_calls": [known | index | {"function": {"name": call.name, "arguments": ""}}]})
        for piece in pieces(call.arguments, rng):
            again: dict[str, Any] = {"id": "null"} if rng.random() < 0.3 else {}
            deltas.append({"tool_calls": [again | index | {"function": {"name": "", "arguments": piece}}]})
    reason = turn.reason or ("tool_calls" if turn.calls else "stop")
    base: dict[str, Any] = {
        "id": "cmpl-e5cc70bb",
        "object": "chat.completion.chunk",
        "created": 1764500000,
        "model": "mistral-large",
    }
    chunks = [base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    usage = {"usage": {"prompt_tokens": 9, "completion_tokens": turn.tokens, "total_tokens": 9 + turn.tokens}}
    if rng and rng.random() < 0.5:
        chunks[-1]["choices"][0]["finish_reason"] = reason
        chunks[-1] |= usage
    else:
        chunks.append(base | {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": reason}]} | usage)
    return [chunk | turn.extra for chunk in chunks]


def mistral(turn: Turn, rng: random.Random | None = None) -> bytes:
    events = [("", dump(chunk)) for chunk in mistral_chunks(turn, rng)]
    return sse([*events, ("", "[DONE]")], rng)


def mistral_document(turn: Turn) -> bytes:
    said: dict[str, Any] = {"role": "assistant", "content": turn.text, "tool_calls": None}
    if turn.calls:
        said["tool_calls"] = [
            {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}} for call in turn.calls
        ]
    reason = turn.reason or ("tool_calls" if turn.calls else "stop")
    made = {"id": "cmpl-1", "object": "chat.completion", "created": 1764500000, "model": "mistral-large"}
    usage = {"prompt_tokens": 9, "completion_tokens": turn.tokens, "total_tokens": 9 + turn.tokens}
    choice = {"index": 0, "message": said, "finish_reason": reason}
    return dump(made | {"choices": [choice], "usage": usage}).encode()


# --- Cohere


def cohere_events(turn: Turn, rng: random.Random | None = None) -> list[dict[str, Any]]:
    blocks: list[list[dict[str, Any]]] = []
    at = 0
    for kind, text in (("thinking", turn.thoughts), ("text", turn.text)):
        if not text:
            continue
        opened: dict[str, Any] = {"message": {"content": {"type": kind, kind: ""}}}
        made: list[dict[str, Any]] = [{"type": "content-start", "index": at, "delta": opened}]
        for piece in pieces(text, rng):
            made.append({"type": "content-delta", "index": at, "delta": {"message": {"content": {kind: piece}}}})
            if rng and rng.random() < 0.1:
                made.append({"type": "citation-start", "index": 0, "delta": {"message": {"citations": {"start": 0}}}})
                made.append({"type": "citation-end", "index": 0})
        blocks.append([*made, {"type": "content-end", "index": at}])
        at += 1
    events = [event for block in blocks for event in block]
    if turn.calls:
        for piece in pieces("First the schema, then the rows.", rng, 8):
            events.append({"type": "tool-plan-delta", "delta": {"message": {"tool_plan": piece}}})
    for number, call in enumerate(turn.calls):
        opened = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        made = [{"type": "tool-call-start", "index": number, "delta": {"message": {"tool_calls": opened}}}]
        for piece in pieces(call.arguments, rng):
            said: dict[str, Any] = {"message": {"tool_calls": {"function": {"arguments": piece}}}}
            made.append({"type": "tool-call-delta", "index": number, "delta": said})
        events += [*made, {"type": "tool-call-end", "index": number}]
    if rng and rng.random() < 0.2:
        events.insert(0, {"type": "debug", "prompt": "..."})
    usage = {"billed_units": {"input_tokens": 5, "output_tokens": turn.tokens}}
    if rng is None or rng.random() < 0.8:
        usage["tokens"] = {"input_tokens": 71, "output_tokens": turn.tokens}
    reason = turn.reason or ("TOOL_CALL" if turn.calls else "COMPLETE")
    opening = {"id": "29f14a5a", "type": "message-start", "delta": {"message": {"role": "assistant", "content": []}}}
    return [opening, *events, {"type": "message-end", "delta": {"finish_reason": reason, "usage": usage} | turn.extra}]


def cohere(turn: Turn, rng: random.Random | None = None) -> bytes:
    named = rng is None or rng.random() < 0.8
    events = [(event["type"] if named else "", dump(event)) for event in cohere_events(turn, rng)]
    return sse([*events, ("", "[DONE]")] if rng and rng.random() < 0.5 else events, rng)


def cohere_document(turn: Turn) -> bytes:
    said: dict[str, Any] = {"role": "assistant"}
    if turn.text:
        said["content"] = [{"type": "text", "text": turn.text}]
    if turn.calls:
        said["tool_plan"] = "First the schema."
        said["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.calls
        ]
    reason = turn.reason or ("TOOL_CALL" if turn.calls else "COMPLETE")
    usage = {"tokens": {"input_tokens": 71.0, "output_tokens": float(turn.tokens)}}
    return dump({"id": "29f14a5a", "finish_reason": reason, "message": said, "usage": usage}).encode()


STREAMS = {
    "gemini": gemini,
    "gemini-array": gemini_array,
    "ollama": ollama,
    "bedrock": bedrock,
    "mistral": mistral,
    "cohere": cohere,
}
DOCUMENTS = {
    "gemini": gemini_document,
    "gemini-array": gemini_document,
    "ollama": ollama_document,
    "bedrock": bedrock_document,
    "mistral": mistral_document,
    "cohere": cohere_document,
}
