"""Worker processes. One that dies or never answers takes only the fault it was at with it."""

import multiprocessing
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from multiprocessing import connection
from typing import Any, NamedTuple

import msgspec

from endmark.core.refusal import CannotTry
from endmark.drills.body import Body
from endmark.drills.families import Family
from endmark.drills.sweep.batch import Batch, Bench
from endmark.drills.sweep.world import Worlds
from endmark.drills.targets.answer import Answer, Seen, Target

_PATIENCE = 10.0  # seconds beside the limit, for a start, a reset, a look
_OPENING = 60.0  # seconds for a worker to be there


class Part(NamedTuple):
    """Some faults of the family number `family`."""

    family: int
    numbers: range


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What every worker knows. `limit` in seconds for one fault."""

    target: Target
    body: Body
    families: tuple[Family, ...]
    commands: Worlds
    limit: float
    stop_on_hole: bool = False

    def bench(self, worker: int, shared: Any = None) -> Bench:
        """Raises CannotTry."""
        world = self.commands.open(worker) if self.commands.is_any else None
        return Bench(self.target.open(worker), world, self.body, self.limit, shared)


class Played(NamedTuple):
    """A part that was played. `trouble`: it was not, and nothing more can be."""

    part: Part
    batch: Batch | None
    trouble: str | None = None


def inline(job: Job, parts: deque[Part], bench: Bench) -> Iterator[Played]:
    """The parts, played one after the other in this process."""
    while parts:
        part = parts.popleft()
        yield Played(part, bench.play(job.families[part.family], part.numbers, job.stop_on_hole))


class Lanes:
    """`count` workers. Use as a context; what still runs at its end is ended."""

    def __init__(self, job: Job, count: int) -> None:
        self._job = job
        self._lanes: list[_Lane] = []
        for worker in range(count):
            self._lanes.append(_Lane(job, worker, self._lanes))

    def __enter__(self) -> "Lanes":
        return self

    def __exit__(self, *_: object) -> None:
        for lane in self._lanes:
            lane.end()

    def play(self, parts: deque[Part]) -> Iterator[Played]:
        """The parts, in the order in which they end."""
        for lane in self._lanes:
            lane.give(parts)
        while any(lane.part is not None for lane in self._lanes):
            busy = {lane.pipe: lane for lane in self._lanes if lane.part is not None}
            ready: list[Any] = connection.wait(list(busy), timeout=0.25)
            for pipe in ready:
                lane = busy.pop(pipe)
                yield from lane.take(parts)
                lane.give(parts)
            for lane in busy.values():
                if lane.is_late():
                    yield from lane.lost(parts, Answer.HUNG, "no end, and deaf to signals")
                    lane.give(parts)


class _Lane:
    """One worker, started anew where it was lost."""

    def __init__(self, job: Job, worker: int, others: "list[_Lane]") -> None:
        self._job = job
        self._worker = worker
        self._others = others
        self.part: Part | None = None
        self._start()

    def _start(self) -> None:
        forks = sys.platform == "linux" and threading.active_count() == 1  # in 5 ms, where nothing can break by it
        context: Any = multiprocessing.get_context("fork" if forks else "spawn")
        self._at = context.RawValue("q", -1)
        self.pipe, theirs = context.Pipe()
        # Of those, a fork would keep the ends that are ours; then no worker would notice that we have gone.
        ours = [self.pipe, *(lane.pipe for lane in self._others if lane is not self)] if forks else []
        self._process = context.Process(
            target=_work, args=(theirs, ours, self._job, self._worker, self._at), daemon=True
        )
        self._process.start()
        theirs.close()
        self._moved = (self._at.value, time.monotonic() + _OPENING)

    def give(self, parts: deque[Part]) -> None:
        if self.part is None and parts:
            self.part = parts.popleft()
            self._moved = (self._at.value, time.monotonic())
            self.pipe.send(self.part)

    def take(self, parts: deque[Part]) -> Iterator[Played]:
        """What came through the pipe: an answer, or its end."""
        try:
            found = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join(5)
            code = self._process.exitcode or 0
            how = f"its process ended by signal {-code}" if code < 0 else f"its process ended with exit {code}"
            yield from self.lost(parts, Answer.CRASHED, how)
            return
        part, self.part = self.part, None
        if part is not None:
            yield Played(part, None, found) if isinstance(found, str) else Played(part, found)

    def is_late(self) -> bool:
        """Whether it has been at one fault for longer than any may take."""
        at, since = self._moved
        if self._at.value != at:
            self._moved = (self._at.value, time.monotonic())
            return False
        return time.monotonic() - since > 2 * self._job.limit + _PATIENCE + (_OPENING if at < 0 else 0)

    def lost(self, parts: deque[Part], answer: Answer, how: str) -> Iterator[Played]:
        """The worker is gone: that is the answer to the fault it was at; the others of its part are still to do."""
        at, part = self._at.value, self.part
        self.end()
        self.part = None
        if part is None:
            return
        if at not in part.numbers:
            yield Played(part, None, f"a worker was lost before its first fault: {how}")
            return
        for numbers in (range(at + 1, part.numbers.stop), range(part.numbers.start, at)):
            if numbers:
                parts.appendleft(Part(part.family, numbers))
        batch = Batch(start=at, cells=bytearray(b"."), notes={})
        batch.set(at, Seen(answer, how))
        yield Played(Part(part.family, range(at, at + 1)), batch)
        self._start()

    def end(self) -> None:
        self.pipe.close()
        self._process.terminate()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()


def _work(pipe: Any, inherited: list[Any], job: Job, worker: int, at: Any) -> None:
    """The life of a worker."""
    for end in inherited:
        end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started us ends us
    signal.signal(signal.SIGTERM, _leave)
    try:
        bench = job.bench(worker, at)
    except CannotTry as fault:
        pipe.recv()
        pipe.send(fault.detail)
        return
    try:
        while True:
            part: Part = pipe.recv()
            try:
                found: Batch | str = bench.play(job.families[part.family], part.numbers, job.stop_on_hole)
            except CannotTry as fault:
                found = fault.detail
            pipe.send(found)
    except (EOFError, OSError):
        pass
    finally:
        bench.player.close()


def _leave(_number: int, _frame: object) -> None:
    raise SystemExit(0)
