"""Reading captured streams: against the official SDKs, against the bare floor, in small portions, byte by byte."""

import json
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from bench.measure import Row, pairs, row, seconds
from bench.payloads import ELEVEN
from bench.streams import WIRES, WITNESS, openai_chat_logprobs, tokens
from endmark.core.ending import Ending
from endmark.core.refusal import Refused
from endmark.wires.answer import Answer
from endmark.wires.names import reader
from endmark.wires.sse import EventStream

PORTION = 16 * 1024  # what a socket hands over at a time
ENDPOINT = "http://localhost/v1"


def witness(size: int) -> str:
    """The witness form of a plan of about `size` bytes, as a model writes it."""
    statements = [f"{statement} -- {at}" for at in range(1 + size // 1_000) for statement in ELEVEN]
    document = {"job_id": "j", "stmt_count": len(statements), "statements": statements, "trailer": "END_APPLY"}
    return json.dumps(document, ensure_ascii=False)


def _data(event: dict[str, Any], name: str = "") -> bytes:
    line = f"event: {name}\n" if name else ""
    return f"{line}data: {json.dumps(event, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


def openai_chat(size: int) -> bytes:
    """A tool call streamed by OpenAI's chat completions, of about `size` bytes."""
    dice = random.Random(1)
    head = {
        "id": "chatcmpl-C9xGZ0mVxq0FQb8dQ3b5y2mYk3lqT",
        "object": "chat.completion.chunk",
        "created": 1_764_500_000,
        "model": "gpt-4.1-2025-04-14",
        "service_tier": "default",
        "system_fingerprint": "fp_04d3664870",
    }

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        filler = "".join(dice.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", k=dice.randrange(2, 14)))
        return _data(head | {"choices": [choice], "usage": None, "obfuscation": filler})

    opening = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "apply_schema", "arguments": ""}}
    out = [chunk({"role": "assistant", "content": None, "tool_calls": [opening], "refusal": None})]
    length = len(out[0])
    for piece in tokens(witness(size // 40), dice):
        out.append(chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}))
        length += len(out[-1])
        if length > size:
            break
    usage = {"prompt_tokens": 900, "completion_tokens": len(out), "total_tokens": 900 + len(out)}
    out += [chunk({}, "tool_calls"), _data(head | {"choices": [], "usage": usage}), b"data: [DONE]\n\n"]
    return b"".join(out)


def anthropic(size: int) -> bytes:
    """A tool use streamed by Anthropic's Messages, of about `size` bytes."""
    dice = random.Random(2)
    usage = {"input_tokens": 900, "output_tokens": 1}
    message: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5"}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    block = {"type": "tool_use", "id": "toolu_1", "name": "apply_schema", "input": {}}

    def event(kind: str, **more: Any) -> bytes:
        return _data({"type": kind, **more}, kind)

    out = [event("message_start", message=message), event("content_block_start", index=0, content_block=block)]
    length = sum(map(len, out))
    for at, piece in enumerate(tokens(witness(size // 20), dice)):
        delta = {"type": "input_json_delta", "partial_json": piece}
        out.append(event("content_block_delta", index=0, delta=delta))
        length += len(out[-1])
        if at % 500 == 0:
            out.append(event("ping"))
        if length > size:
            break
    out += [event("content_block_stop", index=0)]
    out += [
        event("message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None}, usage={"output_tokens": 9})
    ]
    return b"".join([*out, event("message_stop")])


def portions(raw: bytes, size: int = PORTION) -> list[bytes]:
    return [raw[at : at + size] for at in range(0, len(raw), size)]


def prove(wire: str, parts: list[bytes]) -> Answer:
    """The answer that `parts` are, from a fresh reader."""
    wired = reader(wire)
    for part in parts:
        wired.feed(part)
    return wired.finish(Ending.LAST_CHUNK)


def floor(raw: bytes) -> None:
    """The least that anybody does: lines, and the JSON of each event."""
    for line in raw.split(b"\n"):
        if line.startswith(b"data: {"):
            json.loads(line[6:])


def _served(raw: bytes) -> Any:
    """An HTTP client that answers every request with `raw`, from memory."""
    import httpx2  # type: ignore[import-not-found,unused-ignore]

    headers = {"content-type": "text/event-stream"}
    parts = portions(raw)
    return httpx2.Client(
        transport=httpx2.MockTransport(lambda _request: httpx2.Response(200, headers=headers, content=iter(parts)))
    )


def openai_sdk(raw: bytes) -> Callable[[], None]:
    """Iterates the events with the official SDK."""
    import openai  # type: ignore[import-not-found,unused-ignore]

    client = openai.OpenAI(api_key="none", base_url=ENDPOINT, http_client=_served(raw), max_retries=0)

    def iterate() -> None:
        stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], stream=True)
        for _chunk in stream:
            pass

    return iterate


def anthropic_sdk(raw: bytes) -> Callable[[], None]:
    """Iterates the events with the official SDK."""
    import anthropic as sdk  # type: ignore[import-not-found,unused-ignore]

    client = sdk.Anthropic(api_key="none", base_url=ENDPOINT, http_client=_served(raw), max_retries=0)

    def iterate() -> None:
        stream = client.messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}], stream=True
        )
        for _event in stream:
            pass

    return iterate


def _offsets(wire: str, raw: bytes, ending: Ending, count: int) -> float:
    """Offsets a second at which a reader is fed one byte and asked for its answer: the best of `count` passes."""
    parts = portions(raw, 1)

    def ask() -> None:
        wired = reader(wire)
        for part in parts:
            wired.feed(part)
            with suppress(Refused):
                wired.finish(ending)

    return len(raw) / min(seconds(ask) for _ in range(count))


def _streams(wire: str, raw: bytes, sdk: Callable[[bytes], Callable[[], None]], least: float, count: int) -> list[Row]:
    parts = portions(raw)
    ours = partial(prove, wire, parts)
    what = f"{wire}: a {len(raw) / 1e6:.0f} MB stream to its answer"
    rows = [row(f"{what}, floor: lines and json.loads", ours, partial(floor, raw), 1.5, count)]
    try:
        iterate = sdk(raw)
    except ImportError:
        return rows
    own, theirs = pairs(ours, iterate, max(3, count // 3))
    return [
        *rows,
        Row(f"{what}, the official SDK iterates it; times faster", own, theirs, theirs / own, least, at_least=True),
    ]


def _feed(parts: list[bytes]) -> None:
    stream = EventStream()
    for part in parts:
        stream.feed(part)


def measure(quick: bool) -> list[Row]:
    count, size = (5, 1_000_000) if quick else (15, 5_000_000)
    rows = _streams("openai-chat", openai_chat(size), openai_sdk, 12, count)
    rows += _streams("anthropic", anthropic(size), anthropic_sdk, 4, count)
    event = b'data: "' + b"x" * 2_000_000 + b'"\n\n'
    small, large = partial(_feed, portions(event, 1024)), partial(_feed, portions(event, 64 * 1024))
    rows.append(row("one 2 MB event in 1 KB portions, floor: in 64 KB portions", small, large, 3, count))
    for top, limit in ((0, 1.5), (5, 2)):
        raw = openai_chat_logprobs(WITNESS * (size // len(openai_chat_logprobs(WITNESS, top))), top)
        what = f"openai-chat, {1 + top} log probabilities a piece, {len(raw) / 1e6:.1f} MB, floor: lines and json.loads"
        rows.append(row(what, partial(prove, "openai-chat", portions(raw)), partial(floor, raw), limit, count))
    for wire, make in WIRES.items():
        raw = make(WITNESS)
        if len(raw) > 5_000:  # many small events: fewer of them say the same, and a pass is over sooner
            raw = make(WITNESS[:100])
        rate = min(_offsets(wire, raw, ending, 3 * count) for ending in (Ending.LAST_CHUNK, Ending.SHORT))
        what = f"{wire}: one byte fed, then asked, {len(raw):,} bytes; floor: 500,000 a second"
        rows.append(Row(what, rate, 5e5, rate / 5e5, 1, unit="/s", at_least=True))
    return rows
