"""A ledger in PostgreSQL: a plan is proven and recorded with its chain, against bare inserts of the same rows.

    python -m bench --only ledger-postgres

Asks the server at 127.0.0.1:5432 (or ENDMARK_BENCH_POSTGRES, an administrator's URL) for a database of its own. The
floor inserts the same four rows (the attempt, two events, the body) into tables of the same columns and indexes without
any rule, in one transaction whose statements go out together; both are flushed by each commit.
"""

import multiprocessing
import os
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg

from bench.ledger_scale import DIGEST
from bench.measure import Row
from bench.payloads import ELEVEN, plan
from endmark.apply_gate import ApplyGate, Delivery, Options
from endmark.ledger.book import Ledger
from endmark.ledger.postgres import tables

ADMIN = os.environ.get("ENDMARK_BENCH_POSTGRES") or "postgresql://root@127.0.0.1:5432/postgres"
CONNECTIONS = 16
BODY = plan(f"job-{24 * '0'}", ELEVEN)
_AT = "2026-11-30T12:00:00.000000Z"
_DATA = '{"set":{' + ",".join(f'"fact{n}":"a value of some length"' for n in range(14)) + '},"body_kept":true}'
_ATTEMPT = {
    "owner": 1, "kind": "plan", "state": "staged", "signal": "complete", "received_bytes": 400, "expected_bytes": 400,
    "body_sha256": DIGEST, "sha256": DIGEST, "stmt_count": 3, "level": "sealed", "submitter": "bench",
    "target": "orders", "evidence": "envelope-length\nenvelope-sha256\nsentinel\nstmt-count\ntrailer", "detail": "",
    "received_at": _AT, "changed_at": _AT, "events": 2, "head": bytes(32),
}  # fmt: skip
_COLUMNS = ("attempt_id", "job_id", *_ATTEMPT)
_INSERT = f"INSERT INTO attempts ({', '.join(_COLUMNS)}) VALUES ({', '.join(['%s'] * len(_COLUMNS))}) RETURNING n"
_EVENT = (
    "INSERT INTO events (attempt, seq, hash, at, event, from_state, to_state, data) "
    "VALUES (currval('bare.attempts_n_seq'), %s, %s, %s, %s, %s, %s, %s)"
)
_BODY = "INSERT INTO bodies VALUES (currval('bare.attempts_n_seq'), %s)"


@contextmanager
def database() -> Iterator[str]:
    """A database with a book, and beside it the same tables without rules. Raises SystemExit without a server."""
    name = f"endmark_bench_{uuid.uuid4().hex[:12]}"
    try:
        admin = psycopg.connect(ADMIN, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError as error:
        raise SystemExit(f"no PostgreSQL to measure with: {error}") from None
    with admin:
        admin.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0".encode())
        url = f"{ADMIN.rpartition('/')[0]}/{name}"
        try:
            Ledger.open(url, create=True).close()
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("CREATE SCHEMA bare")
                for statement in tables.made():
                    connection.execute(statement.replace("@.", "bare.").encode())
            yield url
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


class Ours:
    def __init__(self, url: str) -> None:
        self.ledger = Ledger.open(url, create=False, timeout=60)
        self.gate = ApplyGate(self.ledger, lambda: datetime.now(UTC))

    def __call__(self) -> None:
        raw = plan(f"job-{os.urandom(12).hex()}", ELEVEN)
        if self.gate.submit(Delivery(raw=raw, submitter="bench"), None, Options())[0].state != "staged":
            raise SystemExit("a plan was not staged")

    def close(self) -> None:
        self.ledger.close()


class Bare:
    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True, options="-c search_path=bare")

    def __call__(self) -> None:
        name = os.urandom(12).hex()
        with self.connection.pipeline(), self.connection.transaction():
            self.connection.execute(_INSERT, (f"att_{name}", f"job-{name}", *_ATTEMPT.values()))
            self.connection.execute(_EVENT, (1, bytes(32), _AT, "received", None, "received", _DATA))
            self.connection.execute(_BODY, (BODY,))
            self.connection.execute(_EVENT, (2, bytes(32), _AT, "moved", "received", "staged", "{}"))

    def close(self) -> None:
        self.connection.close()


def _one(url: str, count: int) -> tuple[float, float]:
    """Median seconds of an act, ours and bare, in turn."""
    acts: tuple[Any, Any] = (Ours(url), Bare(url))
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(count + 50):
        for which in (0, 1) if turn % 2 else (1, 0):
            start = time.perf_counter()
            acts[which]()
            if turn >= 50:
                times[which].append(time.perf_counter() - start)
    for act in acts:
        act.close()
    return statistics.median(times[0]), statistics.median(times[1])


def _worker(url: str, kind: Callable[[str], Any], count: int, barrier: Any) -> None:
    act = kind(url)
    for _ in range(20):
        act()
    barrier.wait()
    for _ in range(count):
        act()
    barrier.wait()
    act.close()


def _many(url: str, kind: Callable[[str], Any], count: int) -> float:
    """Seconds a record, when CONNECTIONS processes write at once."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(CONNECTIONS + 1)
    workers = [context.Process(target=_worker, args=(url, kind, count, barrier)) for _ in range(CONNECTIONS)]
    for worker in workers:
        worker.start()
    barrier.wait(120)
    start = time.perf_counter()
    barrier.wait(600)
    seconds = time.perf_counter() - start
    for worker in workers:
        worker.join()
    return seconds / (count * CONNECTIONS)


def measure(quick: bool) -> list[Row]:
    """Two lines: one connection, and sixteen at once. The ratio is of speeds: bare seconds to ours."""
    few, turns = (200, 1) if quick else (2000, 3)
    rows = []
    with database() as url:
        ours, bare = _one(url, few)
        rows.append(
            Row(
                "submit a plan to a ledger in PostgreSQL, one connection : bare inserts",
                1 / ours,
                1 / bare,
                bare / ours,
                0.7,
                "/s",
                True,
            )
        )
        pairs = [(_many(url, Ours, few // 4), _many(url, Bare, few // 4)) for _ in range(turns)]
        ours, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
        what = f"the same, {CONNECTIONS} connections"
        rows.append(Row(what, 1 / ours, 1 / bare, bare / ours, 0.7, "/s", True))
    return rows
