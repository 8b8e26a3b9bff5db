"""`python -m bench --only drills`: how fast a drill is, beside what it cannot be faster than."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from tests.core import payloads
from tests.support import answers

from bench.measure import Row
from endmark.drills import families
from endmark.drills.body import Body
from endmark.drills.sweep.lanes import Job
from endmark.drills.sweep.runner import Limits, Swept, sweep
from endmark.drills.sweep.world import Commands
from endmark.drills.targets.answer import Target
from endmark.drills.targets.command import CommandTarget
from endmark.drills.targets.http import HttpTarget
from endmark.drills.targets.inprocess import GateTarget

BODY = 3_400  # bytes
BATCH = 4_096
STATEMENTS = [statement.replace("\u2200", "x") for statement in answers.ELEVEN]


def run(target: Target, data: bytes, faults: str, workers: int | None, batch: int = 64) -> Swept:
    job = Job(
        target=target,
        body=Body(data),
        families=tuple(families.parse(faults, 0)),
        commands=Commands(),
        limit=30.0,
    )
    swept = sweep(job, Limits(workers=workers, batch=batch))
    if swept.control != "accepted":
        raise RuntimeError(f"the control failed: {swept.control}")
    return swept


def in_process(what: str, data: bytes, faults: str, limit: float, rounds: int) -> Row:
    """Faults a second of processor time, of one core."""
    best = 0.0
    for _ in range(rounds):
        start = time.process_time()
        swept = run(GateTarget(gate="plan"), data, faults, None, BATCH)
        best = max(best, swept.tried / (time.process_time() - start))
    return Row(f"{what}, per core", best, limit, best / limit, 1.0, "/s", at_least=True)


# --- commands


def start(argv: list[str], data: bytes, count: int) -> int:
    """Bare process starts with the same pipes."""
    for _ in range(count):
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.communicate(data)
    return count


def starts_a_second(argv: list[str], data: bytes, count: int) -> float:
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        list(pool.map(start, [argv] * cores, [data] * cores, [1] * cores))
        began = time.perf_counter()
        list(pool.map(start, [argv] * cores, [data] * cores, [count // cores] * cores))
        return count // cores * cores / (time.perf_counter() - began)


def commands(quick: bool) -> Row:
    """A gate that compares what comes with the whole: as little as a program can do that is a gate at all."""
    data = payloads.of_size(1_000)
    with tempfile.NamedTemporaryFile() as whole:
        whole.write(data)
        whole.flush()
        argv = [shutil.which("cmp") or "cmp", "-s", "-", whole.name]
        ours, floor = [], []
        for _ in range(1 if quick else 5):
            swept = run(CommandTarget(argv=tuple(argv)), data, "cuts" if quick else "cuts,flips", os.cpu_count())
            ours.append(swept.tried / swept.seconds)
            floor.append(starts_a_second(argv, data, swept.tried))
    best, bare = median(ours), median(floor)
    return Row("command target, all cores / bare process starts", best, bare, best / bare, 0.9, "/s", at_least=True)


# --- HTTP


def ask(port: int, data: bytes, count: int) -> None:
    """Requests that are ready made, one after the other on one kept connection."""
    request = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            connection.sendall(request)
            answer = b""
            while not answer.endswith(b"ok"):
                answer += connection.recv(4096)


def asks_a_second(port: int, data: bytes, count: int) -> float:
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        list(pool.map(ask, [port] * cores, [data] * cores, [1] * cores))
        began = time.perf_counter()
        list(pool.map(ask, [port] * cores, [data[:-1]] * cores, [count // cores] * cores))
        return count // cores * cores / (time.perf_counter() - began)


def http(quick: bool) -> Row:
    """An endpoint that does next to nothing, and as many connections as there are cores, for both."""
    data = payloads.of_size(BODY)
    cores, rounds = os.cpu_count() or 1, 1 if quick else 5
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("drilled_server.py")), data.hex()],
        stdout=subprocess.PIPE,
    )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        ours, floor = [], []
        for _ in range(rounds):
            swept = run(HttpTarget(url=f"http://127.0.0.1:{port}/"), data, "cuts,flips", cores, 512)
            ours.append(swept.tried / swept.seconds)
            floor.append(asks_a_second(port, data, swept.tried))
    finally:
        server.kill()
        server.communicate()
    best, bare = median(ours), median(floor)
    return Row("HTTP target / the endpoint's own rate", best, bare, best / bare, 0.8, "/s", at_least=True)


def measure(quick: bool) -> list[Row]:
    rounds = 1 if quick else 5
    sealed = payloads.of_size(BODY)
    bare = payloads.dump(payloads.document((STATEMENTS * 4)[:37]))
    return [
        in_process("MC1 cuts of 3.4 KB", sealed, "cuts", 300_000, rounds * 4),
        in_process("MC1 bit flips of 3.4 KB", sealed, "flips", 120_000, rounds),
        in_process(f"bare plan bit flips of {len(bare) / 1000:.1f} KB", bare, "flips", 60_000, rounds),
        commands(quick),
        http(quick),
    ]
