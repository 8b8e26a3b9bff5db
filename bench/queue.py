"""The way of a job through the queue, against bare Procrastinate: deferred, fetched, run, acknowledged.

    python -m bench --only queue

Asks the server at 127.0.0.1:5432 (or ENDMARK_BENCH_POSTGRES) for two databases of its own, alike but for what is in
them. Ours: each row is written over the ledger's own connection in a transaction of its own, as an approval writes it,
for one of eight targets; then a worker with endmark's own tasks empties the queue. Bare: each row is written by
`task.defer` over Procrastinate's own synchronous connector, with a lock of eight; then a worker with a task of the same
arguments empties the queue. In both the task does nothing: what a job does in the ledger and in its target is measured
elsewhere. Both workers delete what is done, run one at a time, and flush every commit. The ratio is of speeds.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import msgspec
import procrastinate
import psycopg

from bench.ledger_postgres import database
from bench.measure import Row
from endmark.faces.config import Config
from endmark.faces.worker.outbox import Deferring, Queue, QueueTable, line_of, queue_at
from endmark.faces.worker.queue import Tasks, make_app, parameters
from endmark.faces.worker.queue_schema import set_up
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry

TARGETS = [f"postgresql://db:5432/target{n}" for n in range(8)]
_HOW: dict[str, Any] = {
    "wait": False, "concurrency": 1, "delete_jobs": "always", "install_signal_handlers": False, "listen_notify": False,
}  # fmt: skip


class _Nothing(Tasks):
    """endmark's tasks, whose job is nothing."""

    done = 0

    def run(self, context: Any, attempt: str) -> None:
        self.done += 1


class Ours:
    def __init__(self, url: str) -> None:
        self.queue = queue_at(QueueTable(url=url), url, url, "bench")
        set_up(self.queue)
        self.ledger = Ledger.open(url, create=False, outbox=Deferring(self.queue.schema))
        self.tasks = _Nothing(cast(Config, None), self.queue, {}, lambda _line: None)
        self._entries = [msgspec.structs.replace(_entry(), target=target) for target in TARGETS]

    def defer(self, count: int) -> None:
        for n in range(count):
            entry = msgspec.structs.replace(self._entries[n % 8], attempt_id=f"att_{n:026}")
            self.ledger.send([entry])

    def run(self) -> int:
        app = make_app(self.queue, self.tasks, None)
        asyncio.run(_emptied(app, [line_of(target) for target in TARGETS]))
        done, self.tasks.done = self.tasks.done, 0
        return done


class Bare:
    def __init__(self, url: str) -> None:
        queue = queue_at(QueueTable(url=url), url, url, "bench")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA endmark_queue")
            connection.execute("SET search_path = endmark_queue")
            connection.execute(procrastinate.schema.SchemaManager.get_schema())
        self.done = 0
        self._lines = [line_of(target) for target in TARGETS]
        self._app = self._made(queue)
        self._app.open()
        self._queue = queue

    def _made(self, queue: Queue) -> Any:
        app = procrastinate.App(
            connector=procrastinate.PsycopgConnector(min_size=1, max_size=4, kwargs=parameters(queue))
        )

        @app.task(name="bare.run")
        def run(attempt: str) -> None:
            self.done += 1

        return app

    def defer(self, count: int) -> None:
        for n in range(count):
            where = {"queue": self._lines[n % 8], "lock": TARGETS[n % 8]}
            self._app.configure_task("bare.run", **where).defer(attempt=f"att_{n:026}")

    def run(self) -> int:
        asyncio.run(_emptied(self._made(self._queue), self._lines))
        done, self.done = self.done, 0
        return done


async def _emptied(app: Any, lines: list[str]) -> None:
    async with app.open_async():
        await app.run_worker_async(queues=lines, **_HOW)


def _entry() -> Entry:
    """An approved job, as the outbox is told of it."""
    from bench.ledger_scale import DIGEST
    from endmark.core.refusal import Signal
    from endmark.core.states import State

    at = "2026-11-30T12:00:00.000000Z"
    none = dict.fromkeys(Entry.__struct_fields__)
    known = {
        "attempt_id": "att_", "state": State.APPROVED, "signal": Signal.COMPLETE, "received_bytes": 1, "owner": True,
        "kind": "plan", "body_sha256": DIGEST, "evidence": (), "received_at": at, "changed_at": at, "detail": "",
    }  # fmt: skip
    return Entry(**{**none, **known})  # type: ignore[arg-type]


@contextmanager
def _timed(wall: list[float], own: list[float]) -> Iterator[None]:
    start, used = time.perf_counter(), os.times()
    yield
    now = os.times()
    wall.append(time.perf_counter() - start)
    own.append(now.user + now.system - used.user - used.system)


def measure(quick: bool) -> list[Row]:
    """Three lines: the whole way in time and in this process's processor time, and the deferring alone."""
    count, turns = (150, 3) if quick else (300, 7)
    with ExitStack() as stack:
        sides: list[Any] = [Ours(stack.enter_context(database())), Bare(stack.enter_context(database()))]
        whole, own, deferred, unused = _sides(), _sides(), _sides(), _sides()
        for turn in range(turns + 1):
            for which in (0, 1) if turn % 2 else (1, 0):
                side = sides[which]
                with _timed(whole[which], own[which]):
                    with _timed(deferred[which], unused[which]):
                        side.defer(count)
                    done = side.run()
                if done != count:
                    raise SystemExit(f"{done} of {count} jobs were run")
        sides[0].ledger.close()
        sides[1]._app.close()
    return [
        _row("a job through the queue (deferred, fetched, run) : bare Procrastinate", whole, count, 0.8),
        _row("the same, in this process's processor time", own, count, 0.8),
        _row("of that, the deferring alone", deferred, count, None),
    ]


def _sides() -> tuple[list[float], list[float]]:
    return [], []


def _row(what: str, times: tuple[list[float], list[float]], count: int, limit: float | None) -> Row:
    ours, bare = (statistics.median(side[1:]) for side in times)
    return Row(what, count / ours, count / bare, bare / ours, limit, "/s", True)
