"""The queue, on Procrastinate: what a worker does with a row, and when it has another try.

A row is a hint that something may be due. Whether it is, the ledger says; that it happens once, the target's lock and
receipt see to. So a row may be lost, doubled or run by two at once, and nothing is wrong but time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import procrastinate
from procrastinate import JobContext, RetryDecision
from procrastinate.jobs import Job

from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry, NotThere
from endmark.core.states import State
from endmark.faces import api
from endmark.faces.config import Config, Place
from endmark.faces.terminal import safe
from endmark.faces.words import sentence
from endmark.faces.worker.outbox import RUN, SHOW, Queue, line_of
from endmark.faces.worker.work import places_by_identity, rehearse_job, run_job, settle_job
from endmark.ledger.book import Ledger

UPKEEP = "upkeep"  # the line of what is done for everybody
REPLAY = "endmark.replay"
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 120.0  # seconds between two tries; each is twice the one before
_LATE = 6 * 3600  # seconds: a night's replay that nobody was there for is made up for so long
_CLOSING = "SIGTERM"

Say = Callable[[str], None]
Ran = Callable[[str, Outcome | None, float], None]
"""Told of each job: its target's name, what became of it (None: could not be reached), and the seconds it took."""


class Again(Exception):
    """The target could not be reached before anything was begun: later again, in `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class _Later(procrastinate.BaseRetryStrategy):
    """Only what was raised for it is tried again, and behind the other jobs of its target."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        if not isinstance(exception, Again):
            return None
        return RetryDecision(retry_in={"milliseconds": round(exception.seconds * 1000)}, priority=-1)


class Tasks:
    """What the rows of the queue mean. Its methods run in threads."""

    def __init__(
        self, config: Config, queue: Queue, places: Mapping[str, Place], say: Say, ran: Ran = lambda *_facts: None
    ) -> None:
        self._config = config
        self._queue = queue
        self._place_of = places_by_identity(places)
        self._say = say
        self._ran = ran
        self._names = {line_of(place.target.identity): place.name or "other" for place in places.values()}
        self.ended_by: str | None = None  # what still runs is asked to end between two statements

    def run(self, context: JobContext, attempt: str) -> None:
        """Apply the job, if it is to be applied. Raises Again."""

        def stop() -> str | None:
            return self.ended_by or (_CLOSING if context.should_abort() else None)

        name, began = self._names.get(context.job.queue, "other"), time.monotonic()
        try:
            done = run_job(self._config, self._place_of, attempt, stop=stop)
            if not done.ran and done.outcome.state == State.APPLYING.value:  # whoever was at it may be dead
                settle_job(self._config, self._place_of, attempt)
        except NotThere:
            return  # the ledger has no such job: the row means nothing
        except CannotTry as fault:
            self._ran(name, None, time.monotonic() - began)
            self._put_off(attempt, context.job.attempts + 1, fault.detail)
        except Exception as fault:  # noqa: BLE001  # a mistake of ours is no better the second time
            self.park(attempt, context.job.attempts + 1, f"{type(fault).__name__}: {fault}")
        else:
            if done.ran:
                self._ran(name, done.outcome, time.monotonic() - began)
                self._say(f"{safe(done.outcome.job_id or attempt)}: {sentence(done.outcome)}")

    def show(self, context: JobContext, attempt: str) -> None:
        """Rehearse a staged job for whoever is to approve it; where that fails it waits without."""
        try:
            with Ledger.open(self._config.ledger, create=False) as ledger:
                entry = ledger.get(attempt)
            place = None if entry is None else self._place_of(entry.target)
            if place is not None:
                rehearse_job(self._config, place, attempt, stop=lambda: self.ended_by)
        except Exception as fault:  # noqa: BLE001  # it is rehearsed again before it is applied
            self._say(f"{safe(attempt)} is not rehearsed: {safe(str(fault))}")

    def _put_off(self, attempt: str, tries: int, why: str) -> None:
        if self.ended_by is None and tries >= self._queue.table.tries:
            self.park(attempt, tries, why)
            return
        seconds = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(tries - 1, 30))
        self._say(f"{safe(attempt)} is tried again in {seconds:g} s: {safe(why)}")
        raise Again(seconds)

    def park(self, attempt: str, tries: int, why: str) -> None:
        """No worker tries this job again until somebody says so: its record says why. Raises Again without a ledger."""
        try:
            with Ledger.open(self._config.ledger, create=False) as ledger:
                ledger.note(attempt, "parked", api.now(), {"tries": tries, "why": why})
        except KeyError:
            return
        except CannotTry:
            raise Again(_LONGEST_PAUSE) from None
        self._say(f"{safe(attempt)} is parked after {tries} tries: {safe(why)}")


def make_app(queue: Queue, tasks: Tasks, replay: Callable[[], object] | None, *, connections: int = 4) -> Any:
    """Procrastinate's App over the queue's schema. `replay` is done on the queue's timetable, where it is given."""
    logging.getLogger("procrastinate").setLevel(logging.CRITICAL + 1)  # what matters is said here, or on record
    app = procrastinate.App(
        connector=procrastinate.PsycopgConnector(
            min_size=1,
            max_size=connections,
            timeout=10.0,  # seconds for a connection
            kwargs=parameters(queue),
        ),
        periodic_defaults={"max_delay": _LATE},
    )
    later = _Later()

    @app.task(name=RUN, pass_context=True, retry=later)
    def run(context: JobContext, attempt: str) -> None:
        tasks.run(context, attempt)

    @app.task(name=SHOW, pass_context=True)
    def show(context: JobContext, attempt: str) -> None:
        tasks.show(context, attempt)

    if replay is not None:

        @app.periodic(cron=queue.table.replay_at)
        @app.task(name=REPLAY, queue=UPKEEP, lock=REPLAY)
        def nightly(timestamp: int) -> None:
            replay()

    return app


def parameters(queue: Queue) -> dict[str, str]:
    """For libpq: the queue's own schema is where Procrastinate looks."""
    return {**queue.place.parameters, "options": f"-c search_path={queue.schema}"}
