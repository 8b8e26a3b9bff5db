"""Whole answers as OpenAI and Anthropic send them, like `bodies`: the standard library alone, varied by `rng`."""

import random
from collections.abc import Iterator
from typing import Any

from tests.wires.bodies import Turn, dump, loaded, pieces, sse

OPENAI_HEAD = {"id": "chatcmpl-C9x", "object": "chat.completion.chunk", "created": 1764500000, "model": "gpt-5"}


def chance(rng: random.Random | None, odds: float) -> bool:
    return rng is not None and rng.random() < odds


def filler(rng: random.Random | None) -> dict[str, Any]:
    return {"obfuscation": "".join(rng.choices("abcXYZ09", k=rng.randint(1, 12)))} if chance(rng, 0.7) and rng else {}


# --- OpenAI chat completions


def chat_chunks(turn: Turn, rng: random.Random | None = None) -> list[dict[str, Any]]:
    """The chunks of one stream, without `[DONE]`."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None if turn.calls else "", "refusal": None}]
    reasoning = rng.choice(["reasoning", "reasoning_content"]) if rng else "reasoning_content"
    deltas += [{reasoning: piece} for piece in pieces(turn.thoughts, rng)]
    deltas += [{"content": piece} for piece in pieces(turn.text, rng)]
    calls = []
    for at, call in enumerate(turn.calls):
        opened = {"index": at, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        parts = [{"index": at, "function": {"arguments": piece}} for piece in pieces(call.arguments, rng)]
        if chance(rng, 0.3):  # everything in the first
            opened["function"], parts = {"name": call.name, "arguments": call.arguments}, []
        calls.append([opened, *parts])
    order = [part for parts in interleaved(calls, rng) for part in [parts]]
    deltas += [{"tool_calls": [part]} for part in order]
    every = chance(rng, 0.2)  # continuous usage
    usage_last = rng is None or rng.random() < 0.6
    reason = turn.reason or ("tool_calls" if turn.calls else "stop")
    chunks: list[dict[str, Any]] = []

    def chunk(delta: dict[str, Any] | None, finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        made: dict[str, Any] = OPENAI_HEAD | {"choices": [choice]} | filler(rng)
        if every:
            made["usage"] = {"prompt_tokens": 9, "completion_tokens": len(chunks), "total_tokens": 9 + len(chunks)}
        elif usage_last:
            made["usage"] = None
        return made

    if chance(rng, 0.2):
        first = {"id": "", "object": "", "created": 0, "model": "", "prompt_filter_results": [{"prompt_index": 0}]}
        chunks.append(first | {"choices": []})
    for delta in deltas:
        chunks.append(chunk(delta))
    if chance(rng, 0.2):
        chunks.append(chunk({}))
    if chance(rng, 0.3) and not turn.reason:
        chunks[-1]["choices"][0]["finish_reason"] = reason
    else:
        chunks.append(chunk({}, reason))
    if chance(rng, 0.1):  # said twice, with usage the second time
        chunks.append(chunk({"role": "assistant", "content": ""}, reason))
    usage = {"prompt_tokens": 9, "completion_tokens": turn.tokens, "total_tokens": 9 + turn.tokens}
    if usage_last or every:
        chunks.append(OPENAI_HEAD | {"choices": [], "usage": usage} | filler(rng))
    return [chunk | turn.extra for chunk in chunks]


def interleaved(rows: list[list[Any]], rng: random.Random | None) -> Iterator[Any]:
    """All of the rows' entries, each row's in order; the first of a row never before that of an earlier row."""
    if not chance(rng, 0.3) or rng is None:
        for row in rows:
            yield from row
        return
    left = [list(row) for row in rows]
    opened = 0
    while any(left):
        able = [at for at, row in enumerate(left) if row and at <= opened]
        at = rng.choice(able)
        opened = max(opened, at + 1)
        yield left[at].pop(0)


def chat_events(turn: Turn, rng: random.Random | None = None) -> list[tuple[str, str]]:
    events = [("", dump(chunk)) for chunk in chat_chunks(turn, rng)]
    if chance(rng, 0.2) and rng:
        events.insert(rng.randint(0, len(events)), ("", '{"type":"keepalive","sequence_number":3}'))
    return [*events, ("", "[DONE]")]


def openai_chat(turn: Turn, rng: random.Random | None = None) -> bytes:
    return sse(chat_events(turn, rng), rng)


def openai_chat_document(turn: Turn) -> bytes:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in turn.calls
    ]
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None, "annotations": []}
    choice = {"index": 0, "message": message | ({"tool_calls": calls} if calls else {}), "logprobs": None}
    choice["finish_reason"] = turn.reason or ("tool_calls" if calls else "stop")
    usage = {"prompt_tokens": 9, "completion_tokens": turn.tokens, "total_tokens": 9 + turn.tokens}
    return dump(OPENAI_HEAD | {"object": "chat.completion", "choices": [choice], "usage": usage} | turn.extra).encode()


# --- OpenAI Responses


def response(status: str, output: list[Any], turn: Turn, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 1764500000, "status": status}
    usage = {"input_tokens": 9, "output_tokens": turn.tokens, "total_tokens": 9 + turn.tokens}
    made |= {"error": None, "incomplete_details": None, "model": "gpt-5", "output": output}
    return made | {"usage": usage if status == "completed" else None} | more


def output_items(turn: Turn) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if turn.thoughts:
        items.append({"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": turn.thoughts}]})
    if turn.text:
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": turn.text}
        items.append({"id": "msg_1", "type": "message", "status": "completed", "content": [part], "role": "assistant"})
    for at, call in enumerate(turn.calls):
        item = {"id": f"fc_{at}", "type": "function_call", "status": "completed", "arguments": call.arguments}
        items.append(item | {"call_id": call.id, "name": call.name})
    return items


def item_events(at: int, item: dict[str, Any], rng: random.Random | None) -> list[dict[str, Any]]:
    """Everything that is said of one output item."""
    place = {"output_index": at, "item_id": item["id"]}
    made: list[dict[str, Any]] = []
    if item["type"] == "reasoning":
        inner = place | {"summary_index": 0}
        stem = "response.reasoning_summary_text"
        said = item["summary"][0]["text"]
        made += [{"type": f"{stem}.delta", **inner, "delta": piece} | filler(rng) for piece in pieces(said, rng)]
        made.append({"type": f"{stem}.done", **inner, "text": said})
        opened = item | {"summary": []}
    elif item["type"] == "message":
        inner = place | {"content_index": 0}
        part = item["content"][0]
        made.append({"type": "response.content_part.added", **inner, "part": part | {"text": ""}})
        for piece in pieces(part["text"], rng):
            delta = {"type": "response.output_text.delta", **inner, "delta": piece, "logprobs": []}
            made.append(delta | filler(rng))
        made.append({"type": "response.output_text.done", **inner, "text": part["text"], "logprobs": []})
        made.append({"type": "response.content_part.done", **inner, "part": part})
        opened = item | {"content": [], "status": "in_progress"}
    else:
        stem = "response.function_call_arguments"
        for piece in pieces(item["arguments"], rng):
            made.append({"type": f"{stem}.delta", **place, "delta": piece} | filler(rng))
        made.append({"type": f"{stem}.done", **place, "arguments": item["arguments"]})
        opened = item | {"arguments": "", "status": "in_progress"}
    made.insert(0, {"type": "response.output_item.added", "output_index": at, "item": opened})
    return [*made, {"type": "response.output_item.done", "output_index": at, "item": item}]


def responses_events(turn: Turn, rng: random.Random | None = None) -> list[dict[str, Any]]:
    """The events of one stream, numbered."""
    items = output_items(turn)
    begun = response("in_progress", [], turn)
    events = [{"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun}]
    events += interleaved([item_events(at, item, rng) for at, item in enumerate(items)], rng)
    if rng and rng.random() < 0.3:
        events.insert(rng.randint(1, len(events)), {"type": "keepalive"})
    if rng and rng.random() < 0.2:
        events.insert(rng.randint(1, len(events)), {"type": "response.later.thing", "what": "ever"})
    if turn.reason:
        details = {"incomplete_details": {"reason": turn.reason}}
        events.append({"type": "response.incomplete", "response": response("incomplete", items, turn, **details)})
    else:
        events.append({"type": "response.completed", "response": response("completed", items, turn, **turn.extra)})
    first = rng.choice([0, 0, 1]) if rng else 0
    return [event | {"sequence_number": first + at} for at, event in enumerate(events)]


def openai_responses(turn: Turn, rng: random.Random | None = None) -> bytes:
    named = rng is None or rng.random() < 0.8
    events = [(event["type"] if named else "", dump(event)) for event in responses_events(turn, rng)]
    return sse([*events, ("", "[DONE]")] if chance(rng, 0.2) else events, rng)


def openai_responses_document(turn: Turn) -> bytes:
    return dump(response("completed", output_items(turn), turn, **turn.extra)).encode()


# --- Anthropic


def anthropic_events(turn: Turn, rng: random.Random | None = None) -> list[dict[str, Any]]:
    blocks: list[list[dict[str, Any]]] = []

    def block(opened: dict[str, Any], deltas: list[dict[str, Any]]) -> None:
        at = {"index": len(blocks)}
        made = [{"type": "content_block_delta"} | at | {"delta": delta} for delta in deltas]
        blocks.append(
            [
                {"type": "content_block_start"} | at | {"content_block": opened},
                *made,
                {"type": "content_block_stop"} | at,
            ]
        )

    if turn.thoughts:
        said = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(turn.thoughts, rng)]
        block(
            {"type": "thinking", "thinking": "", "signature": ""},
            [*said, {"type": "signature_delta", "signature": "c2ln"}],
        )
        if chance(rng, 0.3):
            block({"type": "redacted_thinking", "data": "c2ln"}, [])
    if chance(rng, 0.2):
        asked = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", '{"query":', '"x"}')]
        block({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}, asked)
        block({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}, [])
    if turn.text:
        said = [{"type": "text_delta", "text": piece} for piece in pieces(turn.text, rng)]
        if chance(rng, 0.2):
            said.insert(0, {"type": "citations_delta", "citation": {"type": "char_location"}})  # type: ignore[dict-item]
        block({"type": "text", "text": ""}, said)
    for call in turn.calls:
        opened: dict[str, Any] = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        parts = ["", *pieces(call.arguments, rng)]
        block(opened, [{"type": "input_json_delta", "partial_json": piece} for piece in parts])
    usage = {"input_tokens": 9, "cache_read_input_tokens": 0, "output_tokens": 1}
    message: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5"}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    events = [{"type": "message_start", "message": message}, *interleaved(blocks, rng)]
    reason = turn.reason or ("tool_use" if turn.calls else "end_turn")
    stopped: dict[str, Any] = {"stop_reason": reason, "stop_sequence": None} | turn.extra
    events.append({"type": "message_delta", "delta": stopped, "usage": {"output_tokens": turn.tokens}})
    events.append({"type": "message_stop"})
    for extra in ({"type": "ping"}, {"type": "ping"}, {"type": "later_event", "what": "ever"}):
        if chance(rng, 0.4) and rng:
            events.insert(rng.randint(0, len(events) - 1), extra)
    return events


def anthropic(turn: Turn, rng: random.Random | None = None) -> bytes:
    return sse([(event["type"], dump(event)) for event in anthropic_events(turn, rng)], rng)


def anthropic_document(turn: Turn) -> bytes:
    content: list[Any] = [{"type": "text", "text": turn.text}] if turn.text else []
    for call in turn.calls:
        content.append({"type": "tool_use", "id": call.id, "name": call.name, "input": loaded(call.arguments)})
    made: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5"}
    reason = turn.reason or ("tool_use" if turn.calls else "end_turn")
    made |= {"content": content, "stop_reason": reason, "stop_sequence": None, "stop_details": None}
    return dump(made | {"usage": {"input_tokens": 9, "output_tokens": turn.tokens}} | turn.extra).encode()


STREAMS = {"openai-chat": openai_chat, "openai-responses": openai_responses, "anthropic": anthropic}
DOCUMENTS = {
    "openai-chat": openai_chat_document,
    "openai-responses": openai_responses_document,
    "anthropic": anthropic_document,
}
