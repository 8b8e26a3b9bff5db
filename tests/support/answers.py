"""Whole answers of each provider, as their servers send them: streams and single documents, plans and texts."""

import json
from typing import Any

ELEVEN = [
    "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT UNIQUE)",
    "CREATE TABLE products (id INTEGER PRIMARY KEY, sku TEXT NOT NULL UNIQUE, title TEXT, cents INTEGER)",
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers (id), placed_at TEXT)",
    "CREATE TABLE order_lines (order_id INTEGER REFERENCES orders (id), product_id INTEGER, quantity INTEGER)",
    "CREATE INDEX orders_by_customer ON orders (customer_id)",
    "CREATE INDEX lines_by_order ON order_lines (order_id)",
    "CREATE VIEW open_orders AS SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id",
    "ALTER TABLE orders ADD COLUMN shipped_at TEXT",
    "INSERT INTO products (sku, title, cents) VALUES ('A-1', 'Lamp', 1900), ('A-2', 'Größe \u2200', 24900)",
    "INSERT INTO customers (name, email) VALUES ('Ada', 'ada@example.org'), ('Linus', 'linus@example.org')",
    "UPDATE products SET cents = cents - 100 WHERE sku = 'A-1'",
]


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def witness(job_id="job_1", statements=ELEVEN):
    """The witness form, spelled as models spell it."""
    made = {"job_id": job_id, "stmt_count": len(statements), "statements": statements, "trailer": "END_APPLY"}
    return json.dumps(made, ensure_ascii=False)


def verdict(**changes):
    made = {
        "verdict": "pass",
        "diff_sha": "d" * 64,
        "policy_version": "2026-11",
        "findings": [
            {"severity": "advisory", "path": "app/models.py", "line": 12, "message": "a name says little — ok"}
        ],
    }
    return json.dumps(made | changes, ensure_ascii=False, indent=1)


def pieces(text, size=40):
    return [text[at : at + size] for at in range(0, len(text), size)]


def sse(events, done=True, named=False):
    """Server-sent events; `named` writes the `event:` field from each one's type."""
    lines = []
    for event in events:
        name = f"event: {event['type']}\n" if named else ""
        lines.append(f"{name}data: {dump(event)}\n\n")
    return ("".join(lines) + ("data: [DONE]\n\n" if done else "")).encode()


# --- OpenAI chat completions, and Mistral, which is close to it


def _chunk(delta, finish=None, usage=None, **more):
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    made = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return made | ({"usage": usage} if usage else {}) | more


USAGE = {"prompt_tokens": 40, "completion_tokens": 700, "total_tokens": 740}


def chat_call(arguments=None, name="apply_schema", usage=True, finish="tool_calls"):
    arguments = witness() if arguments is None else arguments
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}
    events = [_chunk({"role": "assistant", "content": None, "tool_calls": [call]})]
    for piece in pieces(arguments):
        events.append(_chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}))
    events.append(_chunk({}, finish))
    if usage:
        events.append(_chunk({}, usage=USAGE) | {"choices": []})
    return sse(events)


def chat_text(text=None, finish="stop"):
    text = verdict() if text is None else text
    events = [_chunk({"role": "assistant", "content": ""})]
    events += [_chunk({"content": piece}) for piece in pieces(text)]
    return sse([*events, _chunk({}, finish)])


def chat_document(arguments=None, finish="tool_calls"):
    arguments = witness() if arguments is None else arguments
    call = {"id": "call_1", "type": "function", "function": {"name": "apply_schema", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    made = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return dump(made | {"usage": USAGE}).encode()


def mistral_call(arguments=None):
    """Mistral sends a call in one piece, with the last event's reason and usage beside it."""
    arguments = witness() if arguments is None else arguments
    call = {"id": "D681PevKs", "function": {"name": "apply_schema", "arguments": arguments}, "index": 0}
    first = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    last = {"index": 0, "delta": {"content": "", "tool_calls": [call]}, "finish_reason": "tool_calls"}
    base = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "mistral-small-latest"}
    return sse([base | {"choices": [first]}, base | {"choices": [last], "usage": USAGE}])


# --- Anthropic messages


def _message(blocks, stop):
    usage = {"input_tokens": 40, "output_tokens": 1}
    start: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    events = [{"type": "message_start", "message": start | {"stop_sequence": None, "usage": usage}}, {"type": "ping"}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": stop, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 700}})
    return sse([*events, {"type": "message_stop"}], done=False, named=True)


def messages_call(arguments=None, stop="tool_use"):
    arguments = witness() if arguments is None else arguments
    said = {"type": "text", "text": ""}, [{"type": "text_delta", "text": "I will apply the schema."}]
    call = {"type": "tool_use", "id": "toolu_1", "name": "apply_schema", "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(arguments)]]
    return _message([said, (call, deltas)], stop)


def messages_text(text=None, stop="end_turn"):
    text = verdict() if text is None else text
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces(text)]
    return _message([({"type": "text", "text": ""}, deltas)], stop)


def messages_document(arguments=None):
    """One document: the call's input is an object here."""
    block = {"type": "tool_use", "id": "toolu_1", "name": "apply_schema", "input": {"plan": arguments or witness()}}
    made = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [block]}
    ended = {"stop_reason": "tool_use", "stop_sequence": None, "usage": {"input_tokens": 40, "output_tokens": 700}}
    return dump(made | ended).encode()


# --- OpenAI responses


def responses_call(arguments=None):
    arguments = witness() if arguments is None else arguments
    item: dict[str, Any] = {"id": "fc_1", "type": "function_call", "status": "in_progress", "arguments": ""}
    item["call_id"] = "call_1"
    item["name"] = "apply_schema"
    done = item | {"status": "completed", "arguments": arguments}
    base: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "output": [],
        "status": "in_progress",
    }
    base |= {
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
    }
    base |= {"instructions": None, "metadata": {}, "temperature": 1.0, "top_p": 1.0, "usage": None}
    usage = {
        "input_tokens": 40,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 700,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 740,
    }
    where = {"output_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": base},
        {"type": "response.in_progress", "response": base},
        {"type": "response.output_item.added", **where, "item": item},
    ]
    for piece in pieces(arguments):
        event = {"type": "response.function_call_arguments.delta", "item_id": "fc_1", **where, "delta": piece}
        events.append(event)
    finished = {"type": "response.function_call_arguments.done", "item_id": "fc_1", **where, "arguments": arguments}
    events.append(finished | {"name": "apply_schema"})
    events.append({"type": "response.output_item.done", **where, "item": done})
    final = base | {"status": "completed", "output": [done], "usage": usage}
    events.append({"type": "response.completed", "response": final})
    numbered = [{**event, "sequence_number": at} for at, event in enumerate(events)]
    return sse(numbered, done=False, named=True)


# --- Gemini and Ollama, which hand arguments over as an object


def _candidate(parts, **more):
    return {"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0, **more}]}


GEMINI_USAGE = {"usageMetadata": {"promptTokenCount": 40, "candidatesTokenCount": 700, "totalTokenCount": 740}}


def gemini_call(text=None):
    call = {"functionCall": {"name": "apply_schema", "args": {"plan": witness() if text is None else text}}}
    ending = _candidate([{"text": ""}], finishReason="STOP") | GEMINI_USAGE
    events = [_candidate([call]), ending]
    return "".join(f"data: {dump(event | {'modelVersion': 'm'})}\r\n\r\n" for event in events).encode()


def gemini_text(text=None):
    text = verdict() if text is None else text
    events = [_candidate([{"text": piece}]) for piece in pieces(text)]
    events.append(_candidate([{"text": ""}], finishReason="STOP") | GEMINI_USAGE)
    return "".join(f"data: {dump(event | {'modelVersion': 'm'})}\r\n\r\n" for event in events).encode()


def ollama_call(text=None):
    call = {"function": {"name": "apply_schema", "arguments": {"plan": witness() if text is None else text}}}
    base = {"model": "m", "created_at": "2026-11-30T00:00:00.000000Z"}
    first = base | {"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": False}
    counted = {"prompt_eval_count": 40, "eval_count": 700, "total_duration": 1, "eval_duration": 1}
    last = base | {"message": {"role": "assistant", "content": ""}, "done_reason": "stop", "done": True} | counted
    return "".join(f"{dump(line)}\n" for line in (first, last)).encode()


def ollama_text(text=None):
    text = verdict() if text is None else text
    base = {"model": "m", "created_at": "2026-11-30T00:00:00.000000Z"}
    lines = [base | {"message": {"role": "assistant", "content": piece}, "done": False} for piece in pieces(text)]
    counted = {"prompt_eval_count": 40, "eval_count": 700, "total_duration": 1, "eval_duration": 1}
    lines.append(
        base | {"message": {"role": "assistant", "content": ""}, "done_reason": "stop", "done": True} | counted
    )
    return "".join(f"{dump(line)}\n" for line in lines).encode()
