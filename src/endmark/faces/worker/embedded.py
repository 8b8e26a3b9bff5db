"""The worker in the service's own process: it looks into the ledger, and applies what may be applied."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping

from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry
from endmark.faces import api
from endmark.faces.config import Config, Place
from endmark.faces.worker.work import places_by_identity, rehearse_job, run_job, settle_decisions
from endmark.ledger.entry import Entry
from endmark.ledger.work_queries import due_jobs

LOOKS_EVERY = 2.0  # seconds: other processes approve too, and tell nobody
RECONCILES_EVERY = 60.0  # seconds
TRIES = 8  # H27: of a job whose target cannot be reached; then it waits until the service starts anew
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 120.0  # seconds between two tries; each is twice the one before
_AT_ONCE = 4  # targets at work at one time
_CLOSING = "SIGTERM"


class Embedded:
    """Applies jobs of the named targets until `stop`, one at a time for each target and at most four at once.

    `changed` is told after each job, from any thread. So is `ran`: the identity of its target, what became of it (None
    where that could not be reached) and how long it took, in seconds; and `said`, what a person should look at.
    """

    def __init__(
        self,
        config: Config,
        places: Mapping[str, Place],
        *,
        changed: Callable[[], None] = lambda: None,
        ran: Callable[[str, Outcome | None, float], None] = lambda _target, _outcome, _seconds: None,
        said: Callable[[str], None] = lambda _problem: None,
    ) -> None:
        self._config = config
        self._place_of = places_by_identity(places)
        self._identities = tuple({place.target.identity for place in places.values()})
        self._changed = changed
        self._ran = ran
        self._said = said
        self.last_fault: BaseException | None = None
        self._awake = threading.Event()
        self._lock = threading.Lock()
        self._closing = False
        self._ended_by: str | None = None
        self._busy: dict[str, threading.Thread] = {}
        self._tries: dict[str, tuple[int, float]] = {}  # attempt -> (tries, not before)
        self._progress: dict[str, tuple[int, int]] = {}
        self._to_show: queue.SimpleQueue[tuple[str, Place] | None] = queue.SimpleQueue()
        self._shower = threading.Thread(target=self._show, name="endmark-rehearse", daemon=True)
        self._thread = threading.Thread(target=self._run, name="endmark-worker", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._shower.start()

    def wake(self) -> None:
        """There may be something to do. From any thread."""
        self._awake.set()

    def staged(self, attempt_id: str, place: Place) -> None:
        """A job was staged: show what it does where that is wanted, and look what is to be done. From any thread."""
        if place.options.rehearse and place.review == "required":
            self._to_show.put((attempt_id, place))
        self._awake.set()

    def stop(self, seconds: float) -> None:
        """H33: begin nothing more, and wait that long for what is being applied; then it is rolled back."""
        self._closing = True
        self._awake.set()
        self._to_show.put(None)
        deadline = time.monotonic() + seconds
        self._thread.join(seconds)
        for thread in self._working():
            thread.join(max(0.0, deadline - time.monotonic()))
        self._ended_by = _CLOSING  # what still runs is asked to end between two statements
        for thread in (*self._working(), self._shower):
            thread.join()

    def progress(self, attempt_id: str) -> tuple[int, int] | None:
        """(done, total) of the job that is being applied, or None."""
        return self._progress.get(attempt_id)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def busy(self) -> int:
        """How many jobs are being applied now."""
        return len(self._busy)

    @property
    def budget_used(self) -> float:
        """Of the job that was tried most often: how many of its tries are used, from 0 to 1."""
        tries = [number for number, _ in list(self._tries.values())]
        return max(tries, default=0) / TRIES

    def _working(self) -> list[threading.Thread]:
        with self._lock:
            return list(self._busy.values())

    def _run(self) -> None:
        reconciled = float("-inf")
        while not self._closing:
            self._awake.clear()
            try:
                if time.monotonic() - reconciled > RECONCILES_EVERY:
                    reconciled = time.monotonic()
                    self._reconcile()
                self._begin()
            except CannotTry:  # the ledger cannot be read now; readiness says so
                pass
            self._awake.wait(LOOKS_EVERY)

    def _show(self) -> None:
        while (item := self._to_show.get()) is not None and not self._closing:
            attempt_id, place = item
            try:
                rehearse_job(self._config, place, attempt_id, stop=lambda: self._ended_by)
            except Exception as fault:  # noqa: BLE001  # it waits without, and is rehearsed before it is applied
                self.last_fault = fault
            self._changed()

    def _reconcile(self) -> None:
        with api.Gate(self._config.ledger, create=False, reconcile=False, target_of=self._config.target_of) as gate:
            if gate.reconcile(lock_timeout=0.0).settled:
                self._changed()
        decisions = settle_decisions(self._config)
        if decisions.count or decisions.alarms:
            self._changed()
        for problem in (*decisions.problems, *(f"{one.decision_id}: {one.detail}" for one in decisions.alarms)):
            self._said(problem)

    def _begin(self) -> None:
        """Start what is due on targets that are free."""
        from endmark.ledger.book import Ledger

        at = time.monotonic()
        later = tuple(attempt for attempt, (tries, then) in list(self._tries.items()) if at < then or tries >= TRIES)
        with Ledger.open(self._config.ledger, create=False) as ledger:
            due = due_jobs(ledger, self._identities, tuple(self._busy), later)
        for entry in due:
            target = entry.target or ""
            tries, not_before = self._tries.get(entry.attempt_id, (0, 0.0))
            if at < not_before or tries >= TRIES:
                continue
            with self._lock:
                if target in self._busy or len(self._busy) >= _AT_ONCE or self._closing:
                    continue
                thread = threading.Thread(target=self._work, args=(entry,), name="endmark-apply", daemon=True)
                self._busy[target] = thread
            thread.start()

    def _work(self, entry: Entry) -> None:
        attempt = entry.attempt_id

        def told(done: int, total: int) -> None:
            self._progress[attempt] = done, total
            self._changed()

        began = time.monotonic()
        try:
            done = run_job(self._config, self._place_of, attempt, stop=lambda: self._ended_by, progress=told)
            self._tries.pop(attempt, None)
            if done.ran:
                self._ran(entry.target or "", done.outcome, time.monotonic() - began)
        except CannotTry as fault:
            self._put_off(attempt, fault)
            self._ran(entry.target or "", None, time.monotonic() - began)
        except Exception as fault:  # noqa: BLE001  # a mistake of ours must not end the worker; the job stands
            self.last_fault = fault
            self._put_off(attempt, CannotTry(f"{type(fault).__name__}: {fault}"))
        finally:
            self._progress.pop(attempt, None)
            with self._lock:
                self._busy.pop(entry.target or "", None)
            self._changed()
            self._awake.set()

    def _put_off(self, attempt: str, fault: CannotTry) -> None:
        """Later again; after the last try the job's record says why it waits."""
        tries = self._tries.get(attempt, (0, 0.0))[0] + 1
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (tries - 1))
        self._tries[attempt] = tries, time.monotonic() + pause
        if tries == TRIES:
            from endmark.ledger.book import Ledger

            try:
                with Ledger.open(self._config.ledger, create=False) as ledger:
                    ledger.note(attempt, "parked", api.now(), {"tries": tries, "why": fault.detail})
            except CannotTry:
                pass
