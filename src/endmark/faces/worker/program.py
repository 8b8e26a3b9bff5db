"""`endmark worker`: takes rows of the queue until it is told to end, and finds the queue again when it was lost."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any

from endmark.faces.config import Config
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import safe
from endmark.faces.worker.metrics import Metrics
from endmark.faces.worker.outbox import Queue, line_of
from endmark.faces.worker.queue import UPKEEP, Say, Tasks, make_app
from endmark.faces.worker.queue_schema import check
from endmark.faces.worker.upkeep import Upkeep
from endmark.faces.worker.work import usable_places

_POLLS = 1.0  # seconds: a row is told of at once, but for one that comes while another is fetched
_LONGEST_PAUSE = 15.0  # seconds between two tries to reach the queue; the first is 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Program:
    """One worker process. Raises Misuse and CannotTry before anything is taken."""

    def __init__(self, config: Config, concurrency: int, say: Say, metrics: tuple[str, int] | None = None) -> None:
        if config.queue is None:
            raise Misuse(
                f"{config.file or 'endmark.toml'}: there is no [queue], and a worker needs one; its url is that of the "
                "ledger's database. Without a queue 'endmark serve' applies what is approved by itself."
            )
        places, unusable = usable_places(config)
        for name, why in unusable.items():
            say(f"The target {safe(name)} cannot be used: {safe(why)}")
        if not places:
            raise Misuse(f"{config.file}: there is no target that this worker could apply anything to.")
        self._queue: Queue = config.queue
        check(self._queue)
        self._concurrency = concurrency
        self._say = say
        self._stop = threading.Event()
        self._metrics = None if metrics is None else Metrics(places, *metrics)
        ran = {} if self._metrics is None else {"ran": self._metrics.figures.ran}
        self._tasks = Tasks(config, self._queue, places, say, **ran)
        self._upkeep = Upkeep(config, self._queue, places, self._tasks, say, self._stop)
        self._lines = sorted({line_of(place.target.identity) for place in places.values()})

    def run(self) -> None:
        """Work until SIGTERM or Ctrl-C. What runs then is finished within the drain time, or rolled back."""
        try:
            with nullcontext() if self._metrics is None else self._metrics.served() as address:
                if address is not None:
                    self._say(f"Figures on {address}/metrics")
                asyncio.run(self._run())
        finally:
            for number in _SIGNALS:  # the interpreter takes handlers away before its end, and leaves what is ignored
                signal.signal(number, signal.SIG_IGN)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(self._concurrency + 4, "endmark-task"))
        told = asyncio.Event()

        def on_signal(name: str) -> None:
            if told.is_set():  # said twice: what runs is rolled back now
                self._tasks.ended_by = name
            self._stop.set()
            told.set()

        def on_number(number: int, _frame: object) -> None:
            with suppress(RuntimeError):  # the loop has ended, and the process is about to
                loop.call_soon_threadsafe(on_signal, signal.Signals(number).name)

        for number in _SIGNALS:  # to the end of the process: one more signal must not cut its last steps
            signal.signal(number, on_number)
        chores = self._upkeep.start()
        self._say(f"Working: {self._concurrency} at a time, {len(self._lines)} targets")
        pause = 0.5
        while not told.is_set():
            began = time.monotonic()
            why = await self._once(told)
            if told.is_set():
                break
            pause = 0.5 if time.monotonic() - began > 60 else min(_LONGEST_PAUSE, pause * 2)
            self._say(f"The queue was lost ({safe(why)}); trying again in {pause:g} s")
            await _set_within(told, pause)
        self._tasks.ended_by = self._tasks.ended_by or "SIGTERM"  # a chore that goes on ends too
        for chore in chores:
            await asyncio.to_thread(chore.join, self._queue.table.drain_timeout)

    async def _once(self, told: asyncio.Event) -> str:
        """Work until told to end, or until the queue is lost; why."""
        table = self._queue.table
        app = make_app(self._queue, self._tasks, self._upkeep.replay if table.replay else None)
        how: dict[str, Any] = {
            "fetch_job_polling_interval": _POLLS,
            "shutdown_graceful_timeout": table.drain_timeout,
            "delete_jobs": "always",  # the ledger is the record
            "install_signal_handlers": False,
            "update_heartbeat_interval": table.heartbeat,
            "stalled_worker_timeout": table.stalled_after,
        }
        try:
            async with app.open_async():
                wanted = [(self._lines, self._concurrency), *([([UPKEEP], 1)] if table.replay else [])]
                runs = [
                    asyncio.create_task(app.run_worker_async(queues=queues, concurrency=many, **how))
                    for queues, many in wanted
                ]
                waits = asyncio.create_task(told.wait())
                await asyncio.wait([*runs, waits], return_when=asyncio.FIRST_COMPLETED)
                for task in (*runs, waits):
                    task.cancel()
                done = await asyncio.gather(*runs, return_exceptions=True)
        except Exception as fault:  # noqa: BLE001  # whatever it was: the rows stand, and it is tried again
            return _said(fault)
        return next((_said(one) for one in done if isinstance(one, Exception)), "its connection ended")


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def _said(fault: BaseException) -> str:
    """The first cause in words: Procrastinate's own say nothing."""
    while fault.__cause__ is not None:
        fault = fault.__cause__
    return " ".join(str(fault).split()) or type(fault).__name__
