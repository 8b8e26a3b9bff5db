"""The service against a bare endpoint: both read the same body, hash it and commit with a flush before they answer.

    python -m bench --only service

The floor is a FastAPI endpoint that hashes the body and inserts one row (its digest and the body) into one SQLite
table, WAL with `synchronous=FULL`. Ours proves the plan, and writes a row, two chained events and the body under every
rule of the book. Each runs in a process of its own; the client is the same, raw sockets with keep-alive.
"""

import asyncio
import hashlib
import multiprocessing
import os
import socket
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench.measure import Row
from bench.payloads import ELEVEN, plan
from endmark.core import mc1

LIMITS = {1: 0.75, 32: 1.2}
_TOML = "[targets.app]\nurl = 'sqlite:///{0}/app.db'\n[service]\nrate = 1e6\nburst = 1000000\nworker = false\n"


def _ours(folder: str, port: Any) -> None:
    from endmark.faces import config
    from endmark.faces.http.server import Server, listen
    from endmark.faces.http.service import Service
    from endmark.faces.http.settings import settings_of

    file = Path(folder, "endmark.toml")
    file.write_text(_TOML.format(folder))
    sqlite3.connect(Path(folder, "app.db")).close()
    Path(folder, "app.db").touch()
    found = config.load(f"{folder}/ledger.db", str(file), {})
    with listen("127.0.0.1", 0) as listener:
        number = listener.getsockname()[1]
        Server(Service(found, settings_of(found)), listener, lambda _address: port.put(number)).run_to_its_end()


def _bare(folder: str, port: Any) -> None:
    import uvicorn
    from fastapi import FastAPI, Request

    from endmark.faces.http.server import listen

    app = FastAPI()
    book = sqlite3.connect(f"{folder}/bare.db", isolation_level=None)
    book.execute("PRAGMA journal_mode=WAL")
    book.execute("PRAGMA synchronous=FULL")
    book.execute("CREATE TABLE bodies (n INTEGER PRIMARY KEY, sha256 TEXT, body BLOB)")

    @app.post("/v1/jobs")
    async def submit(request: Request) -> dict[str, str]:
        raw = await request.body()
        digest = hashlib.sha256(raw).hexdigest()
        book.execute("BEGIN IMMEDIATE")
        book.execute("INSERT INTO bodies (sha256, body) VALUES (?, ?)", (digest, raw))
        book.execute("COMMIT")
        return {"sha256": digest}

    listener = listen("127.0.0.1", 0)
    port.put(listener.getsockname()[1])
    config = uvicorn.Config(app, http="httptools", ws="none", access_log=False, log_level="error")
    asyncio.run(uvicorn.Server(config).serve([listener]))


def _post(port: int, count: int, barrier: threading.Barrier, bodies: list[bytes]) -> None:
    with socket.create_connection(("127.0.0.1", port)) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        barrier.wait()
        for raw in bodies[:count]:
            head = f"POST /v1/jobs?target=app HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(raw)}\r\n\r\n"
            wire.sendall(head.encode() + raw)
            answer = _answer(wire)
            if not answer.startswith((b"HTTP/1.1 202", b"HTTP/1.1 200")):
                print(f"not taken: {answer[:600]!r}", file=sys.stderr)
                barrier.abort()  # whoever measures is told, and waits no longer
                return
        barrier.wait()


def _answer(wire: socket.socket) -> bytes:
    """One answer with its length: head and body may come apart."""
    raw = b""
    while b"\r\n\r\n" not in raw and (piece := wire.recv(65536)):
        raw += piece
    head, _, body = raw.partition(b"\r\n\r\n")
    left = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0") - len(body)
    while left > 0 and (piece := wire.recv(65536)):
        raw, left = raw + piece, left - len(piece)
    return raw


def _rate(port: int, connections: int, each: int) -> float:
    """Deliveries a second."""
    barrier = threading.Barrier(connections + 1)
    made = [[mc1.seal(plan(f"job-{os.urandom(12).hex()}", ELEVEN)) for _ in range(each)] for _ in range(connections)]
    threads = [threading.Thread(target=_post, args=(port, each, barrier, bodies)) for bodies in made]
    for thread in threads:
        thread.start()
    barrier.wait(60)
    start = time.perf_counter()
    barrier.wait(600)
    seconds = time.perf_counter() - start
    for thread in threads:
        thread.join()
    return connections * each / seconds


def measure(quick: bool) -> list[Row]:
    """One connection, and thirty-two at once; medians of turns in pairs."""
    turns, few = (3, 20) if quick else (7, 300)
    context = multiprocessing.get_context("spawn")
    rows = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("ENDMARK_BENCH_FOLDER")) as folder:
        ports, workers = [], []
        for kind in (_ours, _bare):
            port = context.Queue()
            workers.append(context.Process(target=kind, args=(folder, port), daemon=True))
            workers[-1].start()
            ports.append(port.get(timeout=60))
        for connections, limit in LIMITS.items():
            each = few if connections == 1 else max(4, few // 8)
            for port in ports:
                _rate(port, connections, 2)
            pairs = []
            for turn in range(turns):
                order = ports if turn % 2 else ports[::-1]
                found = {port: _rate(port, connections, each) for port in order}
                pairs.append((found[ports[0]], found[ports[1]]))
            ours, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
            ratio = statistics.median(one / other for one, other in pairs)
            what = f"deliver a plan over HTTP, {connections} connection{'s' if connections > 1 else ''} : bare endpoint"
            rows.append(Row(what, ours, bare, ratio, limit, "/s", True))
        for worker in workers:
            worker.terminate()
            worker.join()
    return rows
