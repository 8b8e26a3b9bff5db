"""What one worker of all does for the queue: stalled rows go to others, lost rows are made anew, crashes are settled.

Whoever holds an advisory lock of PostgreSQL does it. The lock ends with its connection: no dead worker keeps it, which
is why none of this is a row of the queue itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

import psycopg
from procrastinate.sql import queries

from endmark.core.refusal import CannotTry
from endmark.faces import api
from endmark.faces.alerts import document_of, tell
from endmark.faces.config import Config, Place
from endmark.faces.patches import Patches
from endmark.faces.terminal import safe
from endmark.faces.words import many, sentence
from endmark.faces.worker.outbox import RUN, Queue
from endmark.faces.worker.queue import Again, Say, Tasks
from endmark.faces.worker.work import settle_decisions
from endmark.ledger.book import Ledger
from endmark.ledger.postgres.connection import Connection, connect
from endmark.ledger.work_queries import due_after

_ROWS = (
    "SELECT args->>'attempt' FROM procrastinate_jobs WHERE status IN ('todo', 'doing') AND task_name = %s "
    "AND args->>'attempt' = ANY(%s)"
)


class Upkeep:
    """The chores of one queue; each is done by one worker at a time, over all machines."""

    def __init__(
        self, config: Config, queue: Queue, places: Mapping[str, Place], tasks: Tasks, say: Say, stop: threading.Event
    ) -> None:
        self._config = config
        self._queue = queue
        self._targets = tuple({place.target.identity for place in places.values()})
        reviewed = {place.target.identity for place in places.values() if place.review == "required"}
        self._free = tuple(set(self._targets) - reviewed)
        self._tasks = tasks
        self._say = say
        self._stop = stop

    def start(self) -> list[threading.Thread]:
        """A thread for each chore, until `stop` is set."""
        table = self._queue.table
        chores: tuple[tuple[str, float, Callable[[], object]], ...] = (
            ("reap", table.heartbeat, self.reap),
            ("sweep", table.sweep_every, self.sweep),
            ("reconcile", table.reconcile_every, self.reconcile),
        )
        threads = [
            threading.Thread(target=self._repeat, args=chore, name=f"endmark-{chore[0]}", daemon=True)
            for chore in chores
        ]
        for thread in threads:
            thread.start()
        return threads

    def _repeat(self, name: str, seconds: float, act: Callable[[], object]) -> None:
        said = ""
        while not self._stop.is_set():
            why = ""
            try:
                act()
            except (CannotTry, Again, psycopg.Error) as fault:  # the next time finds more
                why = f"cannot {name} now: {safe(str(fault))}"
            except Exception as fault:  # noqa: BLE001  # a chore that ended would be missed by nobody
                why = f"{name}: {type(fault).__name__}: {safe(str(fault))}. This is a mistake in endmark."
            if why and why != said:
                self._say(why)
            said = why
            self._stop.wait(seconds)

    @contextmanager
    def alone(self, name: str) -> Iterator[Connection | None]:
        """A connection to the queue that holds this name's lock; None where another worker has it."""
        with connect(self._queue.place, 10.0) as connection:
            about = f"endmark queue {self._queue.schema} {name}"
            row = connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (about,)).fetchone()
            yield connection if row is not None and row[0] else None

    def reap(self) -> int:
        """Rows of workers that went silent go to others, or are parked after too many tries. Returns how many."""
        silent = self._queue.table.stalled_after
        with self.alone("reap") as connection:
            if connection is None:
                return 0
            asked = {"queue": None, "task_name": None, "seconds_since_heartbeat": silent}
            with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
                rows = cursor.execute(queries["select_stalled_jobs_by_heartbeat"], asked).fetchall()
            for row in rows:
                self._taken_back(connection, row)
            connection.execute(queries["prune_stalled_workers"], {"seconds_since_heartbeat": silent})
            return len(rows)

    def _taken_back(self, connection: Connection, row: dict[str, object]) -> None:
        tries, attempt = int(str(row["attempts"])) + 1, str(dict(row["args"]).get("attempt"))  # type: ignore[call-overload]
        over = tries >= self._queue.table.tries
        self._say(f"row {row['id']} ({row['task_name']}) was left by a worker that is silent")
        if over and row["task_name"] == RUN:
            self._tasks.park(attempt, tries, "each worker that took it ended")
        try:
            if over:
                connection.execute(queries["finish_job"], {"job_id": row["id"], "status": "failed", "delete_job": True})
            else:
                again = {"job_id": row["id"], "retry_at": None, "new_priority": None}
                connection.execute(queries["retry_job"], {**again, "new_queue_name": None, "new_lock": None})
        except psycopg.errors.RaiseException:  # it was finished in this moment
            pass

    def sweep(self) -> int:
        """What is due in the ledger and has no row gets one. Returns how many."""
        sent = after = 0
        with self.alone("sweep") as connection:
            if connection is None:
                return 0
            with Ledger.open(self._config.ledger, create=False, outbox=self._config.outbox) as ledger:
                while found := due_after(ledger, self._targets, self._free, after):
                    # After the ledger was asked: what got its row meanwhile has it.
                    ids = [due.entry.attempt_id for due in found]
                    known = {row[0] for row in connection.execute(_ROWS, (RUN, ids))}
                    missing = [due.entry for due in found if due.entry.attempt_id not in known]
                    if missing:
                        ledger.send(missing)
                    sent += len(missing)
                    after = found[-1].n
        if sent:
            self._say(f"{many(sent, 'job')} had no row, and got one")
        return sent

    def reconcile(self) -> int:
        """Settle what a crash left, jobs and merges. Returns how many."""
        with self.alone("reconcile") as connection:
            if connection is None:
                return 0
            config = self._config
            with api.Gate(config.ledger, create=False, reconcile=False, target_of=config.target_of) as gate:
                settled = gate.reconcile(lock_timeout=0.0).settled
            for outcome in settled:
                self._say(f"settled {safe(outcome.job_id or '?')}: {sentence(outcome)}")
            decisions = settle_decisions(config, self._queue.table.replay)
            for problem in decisions.problems:
                self._say(safe(problem))
            for alarm in decisions.alarms:
                self._say(f"ALARM {safe(alarm.decision_id or '?')}: {safe(alarm.detail)}")
            return len(settled) + decisions.count

    def replay(self) -> bool:
        """Ask again about what was judged in the last day; false where another worker is at it."""
        with self.alone("replay") as connection:
            if connection is None:
                return False
            for repository in self._queue.table.replay:
                with Patches(
                    self._config.ledger,
                    repository,
                    trusted_keys=self._config.trusted_keys,
                    stop=lambda: self._tasks.ended_by,
                ) as patches:
                    done = patches.replay(api.now() - timedelta(days=1))
                flipped = sum(pair.flipped for pair in done.pairs)
                self._say(
                    f"replay of {safe(repository)}: {many(len(done.pairs), 'repetition')}, {many(flipped, 'flip')}, "
                    f"{many(len(done.incidents), 'incident')}"
                )
                if done.incidents:
                    for problem in tell(document_of(done), self._config.alerts, self._config.environ):
                        self._say(safe(problem))
            return True
