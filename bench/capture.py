"""The capture under an SDK: what the tee adds to a stream, and to its first byte."""

import argparse
import json
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anthropic
import httpx2
import openai

import endmark
from bench.measure import Row, as_json, show

MESSAGES: Any = [{"role": "user", "content": "make"}]
LIMIT, FIRST_BYTE_LIMIT = 1.10, 0.5e-3


def chat_stream(size: int) -> bytes:
    """About `size` bytes of an OpenAI chat stream with some forty characters of text an event."""
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def event(delta: dict[str, str], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return b"data: %s\n\n" % json.dumps(base | {"choices": [choice]}, separators=(",", ":")).encode()

    word = event({"content": "CREATE TABLE readings (id INTEGER, note"})
    return (
        event({"role": "assistant", "content": ""})
        + word * (size // len(word))
        + event({}, "stop")
        + b"data: [DONE]\n\n"
    )


def message_stream(size: int) -> bytes:
    """The same of an Anthropic message stream."""

    def event(document: dict[str, Any]) -> bytes:
        text = json.dumps(document, separators=(",", ":"))
        return f"event: {document['type']}\ndata: {text}\n\n".encode()

    start: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    message = start | {"stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    delta = {"type": "text_delta", "text": "CREATE TABLE readings (id INTEGER, note"}
    word = event({"type": "content_block_delta", "index": 0, "delta": delta})
    head = event({"type": "message_start", "message": message})
    head += event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    tail = event({"type": "content_block_stop", "index": 0})
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    tail += event({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 9}})
    return head + word * (size // len(word)) + tail + event({"type": "message_stop"})


@contextmanager
def server(body: bytes, piece: int) -> Iterator[str]:
    """Sends `body` to everybody who asks, in chunks of `piece` bytes, and closes the connection after it.

    An SDK that stops at the terminal event never uses a connection twice; with the tee it would, and look too good.
    """
    chunks = b"".join(
        b"%x\r\n%s\r\n" % (len(part), part) for part in (body[at : at + piece] for at in range(0, len(body), piece))
    )
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, suppress(OSError):
            asked = b""
            while not asked.endswith(b"}"):  # the end of the JSON that was posted
                asked += connection.recv(65536) or b"}"
            connection.sendall(head + chunks + b"0\r\n\r\n")

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _client(name: str, url: str, transport: Any) -> Any:
    http = httpx2.Client(transport=transport)
    if name == "openai":
        return openai.OpenAI(base_url=url, api_key="k", http_client=http, max_retries=0).chat.completions
    return anthropic.Anthropic(base_url=url, api_key="k", http_client=http, max_retries=0).messages


def _streamed(create: Any) -> tuple[float, float]:
    """Seconds of work until the first item, and seconds until the end of one stream.

    The tee never waits before the first byte, so what it adds there is work; unlike the time on the clock, that can be
    measured on a busy machine too.
    """
    start, work = time.perf_counter(), time.thread_time()
    first = 0.0
    for _ in create(model="m", messages=MESSAGES, max_tokens=4096, stream=True):
        first = first or time.thread_time() - work
    return first, time.perf_counter() - start


def _pairs(name: str, body: bytes, piece: int, count: int) -> tuple[list[float], list[float], list[float], list[float]]:
    """Times with and without the tee, in turn: until the end, and until the first item."""
    ends: tuple[list[float], list[float]] = ([], [])
    firsts: tuple[list[float], list[float]] = ([], [])
    with server(body, piece) as url, endmark.capture() as c:
        with_tee = _client(name, url, c.transport()).create
        plain = _client(name, url, httpx2.HTTPTransport()).create
        for turn in range(count + 1):
            for which, create in ((0, with_tee), (1, plain))[:: 1 if turn % 2 else -1]:
                c.reset()
                first, end = _streamed(create)
                if turn:
                    ends[which].append(end)
                    firsts[which].append(first)
    return ends[0], ends[1], firsts[0], firsts[1]


def measure(quick: bool) -> list[Row]:
    rows = []
    for name, make in (("openai", chat_stream), ("anthropic", message_stream)):
        for size, piece, what in ((1_000_000, 8192, "in 8 KiB chunks"), (200_000, 256, "in 256 byte chunks")):
            ours, floor, first, first_floor = _pairs(name, make(size), piece, 21 if quick else 41)
            ratio = statistics.median(a / b for a, b in zip(ours, floor, strict=True))
            a, b = statistics.median(ours), statistics.median(floor)
            rows.append(Row(f"{name} SDK, {size / 1e6:g} MB stream {what}, with the tee : without", a, b, ratio, LIMIT))
            a, b = statistics.median(first), statistics.median(first_floor)
            told = f"{name} SDK, {what}, first item with the tee : without (ratio: the difference : 0.5 ms)"
            rows.append(Row(told, a, b, (a - b) / FIRST_BYTE_LIMIT, 1.0))
    return rows


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m bench.capture", description=__doc__)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--json", action="store_true")
    wanted = options.parse_args()
    rows = measure(wanted.quick)
    print(as_json(rows) if wanted.json else show(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
