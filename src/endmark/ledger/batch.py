"""Group commit: one thread writes, and whatever came meanwhile is committed together.

A flush to the disk costs the same for one act as for a hundred. Nobody is told of an act before its commit. Who comes
alone may write in their own thread: two changes of thread cost more than a small act.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from typing import Any, Protocol, TypeVar

from endmark.core.refusal import CannotTry
from endmark.ledger.book import Ledger
from endmark.ledger.store import Busy

MOST = 128  # acts in one commit: what they hold in memory and how long the first waits stay small
QUICK = 0.02  # seconds: after an own commit that took longer the next ones are left to the thread,
_PAUSE = 5  # for so many times as long: a disk that has become slow holds nobody up for most of the time

_Value = TypeVar("_Value")
Act = Callable[[Ledger], Any]


class Promise(Protocol):
    """What is told of an act: a Future of asyncio or of concurrent.futures."""

    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...
    def cancelled(self) -> bool: ...


_Kept = tuple[Promise, Any, BaseException | None]


class Writer:
    """The thread that owns `ledger` from now on, until `close`.

    `tell` runs what it is given in the thread where promises may be kept, once a batch (`loop.call_soon_threadsafe`);
    without it they are kept in the writer's own thread. `committed` is told of each commit: how many acts it held, and
    whether it was made.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Callable[[], datetime],
        *,
        tell: Callable[[Callable[[], None]], Any] | None = None,
        most: int = MOST,
        quick: float = QUICK,
        committed: Callable[[int, bool], None] = lambda _acts, _made: None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._tell = tell or (lambda keep: keep())
        self._most = most
        self._quick = quick
        self._committed = committed
        self._queue: queue.SimpleQueue[tuple[Act, Promise] | None] = queue.SimpleQueue()
        self._closing = False
        self._lock = threading.Lock()
        self._turn = threading.Lock()  # whoever holds it writes
        self._alone_from = 0.0 if ledger.store.quick else float("inf")  # on the monotonic clock
        self._thread = threading.Thread(target=self._run, name="endmark-ledger", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many acts nobody has begun."""
        return self._queue.qsize()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._closing

    def post(self, act: Act, promise: Promise) -> None:
        """Have `act` done with the ledger; `promise` is kept after the commit that holds it, or broken.

        Broken with what the act raised (then nothing of its last writing call stands), or with CannotTry where the
        commit was not made. Raises CannotTry after `close`.
        """
        with self._lock:
            if self._closing:
                raise CannotTry("The service is ending. Nothing was done; send it again in a moment.")
            self._queue.put((act, promise))

    def alone(self, act: Act, promise: Promise) -> bool:
        """Do `act` and commit it in the caller's own thread, and keep `promise` there; False, with nothing done, where
        it must be posted instead.

        For who can be held up for a moment and knows of no other act to come. No other thread or process is waited for,
        and after a slow commit everything is posted for a while.
        """
        began = time.monotonic()
        if began < self._alone_from or not self._turn.acquire(blocking=False):
            return False
        try:
            if self._closing or not self._queue.empty():
                return False
            kept = self._committed_now([(act, promise)], wait=False)
        except Busy:
            return False
        finally:
            self._turn.release()
        ended = time.monotonic()
        if ended - began > self._quick:
            self._alone_from = ended + _PAUSE * (ended - began)
        _keep(kept)
        return True

    def submit(self, act: Callable[[Ledger], _Value]) -> Future[_Value]:
        """The same, with a Future of concurrent.futures."""
        promise: Future[_Value] = Future()
        self.post(act, promise)
        return promise

    def close(self) -> None:
        """Do what was posted, then end. Closing twice is fine. The ledger stays open."""
        with self._lock:
            if not self._closing:
                self._closing = True
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        going = True
        while going:
            items = [self._queue.get()]
            while len(items) < self._most:
                try:
                    items.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            going = None not in items  # the last one there is
            batch = [item for item in items if item is not None]
            if batch:
                self._commit(batch)

    def _commit(self, batch: list[tuple[Act, Promise]]) -> None:
        with self._turn:
            kept = self._committed_now(batch, wait=True)
        self._tell(lambda: _keep(kept))

    def _committed_now(self, batch: list[tuple[Act, Promise]], *, wait: bool) -> list[_Kept]:
        kept: list[_Kept] = []
        made = True
        try:
            with self._ledger.batch(self._clock, wait=wait):
                for act, promise in batch:
                    try:
                        kept.append((promise, act(self._ledger), None))
                    except Exception as fault:  # noqa: BLE001  # handed to whoever asked
                        kept.append((promise, None, fault))
        except Busy:
            raise  # only where it was not to wait
        except BaseException as fault:  # noqa: BLE001  # the commit was not made: nobody's act stands
            why = fault if isinstance(fault, Exception) else CannotTry("The ledger's writer ended. Nothing was done.")
            kept = [(promise, None, why) for _, promise in batch]
            made = False
        self._committed(len(batch), made)
        return kept


def _keep(kept: list[_Kept]) -> None:
    for promise, value, fault in kept:
        if promise.cancelled():  # nobody is listening any more
            continue
        if fault is None:
            promise.set_result(value)
        else:
            promise.set_exception(fault)
