"""Many agents at once against a server process: whole deliveries have one effect each, cut ones none, nothing grows."""

import asyncio
import os
import random
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress

import pytest
from tests.support.service import answer_in, envelope
from tests.support.world import make_database, query

from endmark.ledger.book import Ledger

SOAK_SECONDS = float(os.environ.get("ENDMARK_TEST_SOAK_SECONDS", "60"))  # 1800 is what a release is tried with
PATIENCE = 120.0  # seconds
TOML = """\
[targets.auto]
url = "sqlite:///{0}/auto.db"
review = "none"
backup = "none"
[service]
rate = 1000000
burst = 10000000
"""
FIN, RST, NO_END = "FIN", "RST", "no last chunk"


class Running:
    """A server process, and what the kernel says of it."""

    def __init__(self, folder, process, port):
        self.folder, self.process, self.port = folder, process, port

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def entries(self):
        with Ledger.open(self.folder / "ledger.db", create=False) as ledger:
            return ledger.page(1_000_000)

    def settled(self):
        """Every attempt on record, once nothing waits any more."""
        end = time.monotonic() + PATIENCE
        while True:
            found = self.entries()
            states = Counter(one.state.value for one in found)
            if not states.keys() & {"staged", "approved", "applying"}:
                return found
            assert time.monotonic() < end, states
            threading.Event().wait(0.2)

    def until_applied(self, jobs):
        """Wait until so many have had their effect: what is delivered faster than it is applied waits, and grows."""
        end = time.monotonic() + PATIENCE
        while query(self.folder / "auto.db", "SELECT count(*) FROM done") != [(jobs,)]:
            assert time.monotonic() < end
            threading.Event().wait(0.1)


@contextmanager
def running(folder):
    make_database(folder / "auto.db", statements=("CREATE TABLE done (job TEXT)",))
    (folder / "endmark.toml").write_text(TOML.format(folder))
    command = [sys.executable, "-m", "endmark", "serve", "--port", "0"]
    command += ["--config", str(folder / "endmark.toml"), "--ledger", str(folder / "ledger.db")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stderr is not None
        port = 0
        while not port:
            line = process.stderr.readline()
            assert line, "the server ended"
            found = re.search(rb"Serving on http://127\.0\.0\.1:(\d+)", line)
            port = int(found[1]) if found else 0
        with open(folder / "log", "wb") as log, subprocess.Popen(["cat"], stdin=process.stderr, stdout=log):
            try:
                yield Running(folder, process, port)
            finally:
                process.send_signal(signal.SIGTERM)
                code = process.wait(PATIENCE)
    assert code == 0, (folder / "log").read_text()[-2000:]
    assert b"our-fault" not in (folder / "log").read_bytes()


async def deliver(port, job, cut, chance):
    """One agent: the answer, and the seconds until it was there; None for one that cut its body."""
    raw = envelope(job, [f"INSERT INTO done VALUES ('{job}')"])
    chunked = cut == NO_END
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(raw)}"
    head = f"POST /v1/jobs?target=auto HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
    head += f"Endmark-Job-Id: {job}\r\n{framing}\r\n\r\n"
    sent = raw if cut is None else raw[: chance.randrange(len(raw))]
    body = b"%x\r\n%s\r\n" % (len(sent), sent) if chunked and sent else sent
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(head.encode() + body)
        if cut is not None:
            await writer.drain()
            if cut == RST:
                await asyncio.sleep(chance.random() / 10)
                where = writer.get_extra_info("socket")
                where.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return None
        said = await reader.read()
        return answer_in(said), time.perf_counter() - began
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def crowd(server, agents, chance, prefix="job"):
    """All of them at once: which jobs were sent whole, which were cut and how, and the seconds of the whole ones."""
    cuts: dict[str, str | None] = {f"{prefix}-{number}": None for number in range(agents)}
    for number, job in enumerate(chance.sample(sorted(cuts), agents // 10)):
        cuts[job] = (FIN, RST, NO_END)[number % 3]

    async def run():
        return await asyncio.gather(*(deliver(server.port, job, cut, chance) for job, cut in cuts.items()))

    took = []
    for (job, cut), said in zip(cuts.items(), asyncio.run(run()), strict=True):
        if cut is None:
            assert said is not None
            answer, seconds = said
            assert answer is not None, job
            assert (answer.status, answer.json["state"]) == (202, "staged"), job
            took.append(seconds)
        else:
            assert said is None
    return [job for job, cut in cuts.items() if cut is None], {job: cut for job, cut in cuts.items() if cut}, took


def is_accounted_for(server, whole, cut):
    """One final state and one effect of each whole one; of a cut one a refusal, and no effect."""
    found = server.settled()
    by_job = Counter((one.job_id, one.state.value) for one in found)
    assert {job: by_job[job, "applied"] for job in whole} == dict.fromkeys(whole, 1)
    effects = Counter(job for (job,) in query(server.folder / "auto.db", "SELECT job FROM done"))
    assert effects == Counter(whole)
    receipts = query(server.folder / "auto.db", "SELECT job_id, status FROM schema_jobs")
    assert sorted(receipts) == sorted((job, "applied") for job in whole)
    for job, how in cut.items():
        states = [one.state.value for one in found if one.job_id == job]
        assert set(states) <= {"truncated", "incomplete"}
        assert len(states) == 1 or (how == RST and not states)  # an RST can take the very request back
    assert len(found) == len(whole) + sum(any(one.job_id == job for one in found) for job in cut)


def measure(server, agents, seed, record_property):
    chance = random.Random(seed)
    idle = server.descriptors()
    whole, cut, took = crowd(server, agents, chance)
    peak = server.memory()
    is_accounted_for(server, whole, cut)
    p50, p99 = statistics.median(took), statistics.quantiles(took, n=100)[98]
    facts = {
        "agents": agents,
        "whole": len(whole),
        "cut": len(cut),
        "p50 ms": round(p50 * 1000),
        "p99 ms": round(p99 * 1000),
        "resident MiB": round(peak / 2**20, 1),
        "descriptors before and after": (idle, server.descriptors()),
    }
    for name, value in facts.items():
        record_property(name, value)
    print(facts)
    assert peak < 512 * 2**20
    assert server.descriptors() <= idle + 20  # connections of the worker's; none of a client's
    with Ledger.open(server.folder / "ledger.db", create=False) as ledger:
        assert ledger.verify().ok


def test_agents_at_once(tmp_path, record_property):
    with running(tmp_path) as server:
        measure(server, 60, 7, record_property)


@pytest.mark.soak
def test_a_thousand_agents_at_once(tmp_path, record_property):
    with running(tmp_path) as server:
        measure(server, 1_000, 7, record_property)


@pytest.mark.soak
def test_nothing_grows(tmp_path, record_property):
    """Crowds, one after another, for as long as ENDMARK_TEST_SOAK_SECONDS says: memory and descriptors stay."""
    chance = random.Random(11)
    with running(tmp_path) as server:
        end = time.monotonic() + SOAK_SECONDS
        samples, jobs, number = [], 0, 0
        while time.monotonic() < end or number < 8:
            whole, _, _ = crowd(server, 50, chance, f"soak-{number}")
            jobs += len(whole)
            server.until_applied(jobs)
            number += 1
            samples.append((server.memory(), server.descriptors()))
        warm = samples[len(samples) // 4 :]  # what is kept once is not what grows
        half = len(warm) // 2
        before, after = (statistics.median(one[0] for one in part) for part in (warm[:half], warm[half:]))
        record_property("resident MiB, first and second half", (round(before / 2**20, 1), round(after / 2**20, 1)))
        record_property("descriptors, least and most", (min(one[1] for one in warm), max(one[1] for one in warm)))
        record_property("jobs applied", jobs)
        print(samples[:: max(1, len(samples) // 10)], jobs)
        assert after < before * 1.05 + 2**20
        assert max(one[1] for one in warm[half:]) <= max(one[1] for one in warm[:half]) + 8
        assert len(query(tmp_path / "auto.db", "SELECT job FROM done")) == jobs
