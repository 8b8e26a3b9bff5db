"""A whole sweep: the control first, then every fault that was not tried yet, and a result at any end."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import msgspec

from endmark.core.refusal import CannotTry
from endmark.drills.body import Body
from endmark.drills.families import Family
from endmark.drills.faults import Broken
from endmark.drills.sweep import state
from endmark.drills.sweep.batch import Bench
from endmark.drills.sweep.lanes import Job, Lanes, Part, Played, inline
from endmark.drills.sweep.state import Progress
from endmark.drills.targets.answer import Answer

_SAVED_EVERY = 2.0  # seconds
_GIVES_UP = 3  # controls in a row that were not accepted


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a sweep. `cells` holds one letter (Answer) for each fault of each family.

    `control`: "accepted", or what the whole payload got instead. `seconds` it took.
    """

    body: Body
    target: str
    seed: int
    families: tuple[Family, ...]
    cells: tuple[bytes, ...]
    notes: tuple[dict[int, str], ...]
    control: str
    seconds: float

    def count(self, *answers: Answer) -> int:
        """How many faults got one of these answers."""
        return sum(cells.count(answer.value.encode()) for cells in self.cells for answer in answers)

    @property
    def tried(self) -> int:
        return sum(map(len, self.cells)) - self.count(Answer.NO_FAULT, Answer.NOT_TRIED)

    @property
    def planned(self) -> int:
        return sum(map(len, self.cells)) - self.count(Answer.NO_FAULT)

    @property
    def exit_code(self) -> int:
        """0: no hole. 1: holes, or nothing is proven."""
        holes = self.count(Answer.ACCEPTED, Answer.EFFECT, Answer.INCONCLUSIVE)
        return 1 if holes or self.control != "accepted" or not self.tried else 0

    def found(self, *answers: Answer) -> Iterator[tuple[Broken, Answer, str]]:
        """Each fault that got one of these answers, with words about it."""
        letters = {ord(answer.value): answer for answer in answers}
        for family, cells, notes in zip(self.families, self.cells, self.notes, strict=True):
            for number, letter in enumerate(cells):
                if letter in letters:
                    yield family.fault(self.body, number), letters[letter], notes.get(number, "")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How a sweep runs. `workers`: None plays in this process. `budget` in seconds. `state`: the file to go on from.

    `batch`: faults between two controls.
    """

    workers: int | None = None
    budget: float | None = None
    state: Path | None = None
    batch: int = 64


def sweep(
    job: Job, limits: Limits, seed: int = 0, progress: Callable[[int, int], None] = lambda done, total: None
) -> Swept:
    """Sweep. Told (done, total) as it goes. Raises CannotTry; what was found until then is in the state file."""
    began = time.monotonic()
    counts = [family.count(job.body) for family in job.families]
    kept = state.load(limits.state, job, counts) if limits.state is not None else None
    found = kept or Progress(cells=[bytearray(b"." * count) for count in counts], notes=[{} for _ in counts])
    bench = job.bench(0)
    with closing(bench.player):
        control = bench.control()
        if not control:
            control = _all(job, limits, found, bench, began, progress)
    return Swept(
        body=job.body,
        target=job.target.name,
        seed=seed,
        families=job.families,
        cells=tuple(map(bytes, found.cells)),
        notes=tuple(found.notes),
        control=control or "accepted",
        seconds=time.monotonic() - began,
    )


def _all(
    job: Job,
    limits: Limits,
    found: Progress,
    bench: Bench,
    began: float,
    progress: Callable[[int, int], None],
) -> str:
    """Play what is not tried yet. The control: empty, or what was wrong with it at the end."""
    parts = deque(_parts(found, limits.batch))
    total = sum(map(len, found.cells))
    done = total - sum(len(part.numbers) for part in parts)
    saved, failed, control = began, 0, ""
    lanes = None if limits.workers is None or not parts else Lanes(job, limits.workers)
    with lanes or nullcontext():
        playing: Iterator[Played | None]
        playing = lanes.play(parts) if lanes is not None else inline(job, parts, bench)
        try:
            for played in playing:
                now = time.monotonic()
                over = limits.budget is not None and now - began > limits.budget
                if played is None:
                    progress(done + (lanes.under_way if lanes is not None else 0), total)
                    if over:
                        break
                    continue
                if played.trouble is not None:
                    raise CannotTry(played.trouble)
                hole = _note(found, played)
                done += len(played.part.numbers)
                progress(done, total)
                control = played.batch.control if played.batch is not None else ""
                failed = failed + 1 if control else 0
                if over or failed >= _GIVES_UP or (hole and job.stop_on_hole):
                    parts.clear()
                    break
                if limits.state is not None and now - saved > _SAVED_EVERY:
                    state.save(limits.state, job, found)
                    saved = now
        finally:
            if limits.state is not None:
                state.save(limits.state, job, found)
    return control


def _parts(found: Progress, size: int) -> Iterator[Part]:
    """What has no answer yet, in runs of at most `size`."""
    for number, cells in enumerate(found.cells):
        at = cells.find(b".")
        while at >= 0:
            end = at
            while end < len(cells) and end - at < size and cells[end] == ord("."):
                end += 1
            yield Part(number, range(at, end))
            at = cells.find(b".", end)


def _note(found: Progress, played: Played) -> bool:
    """Write down what came. Whether there is a hole in it."""
    batch = played.batch
    if batch is None:
        return False
    cells = found.cells[played.part.family]
    cells[batch.start : batch.start + len(batch.cells)] = batch.cells
    found.notes[played.part.family].update(batch.notes)
    return any(letter in b"AE" for letter in batch.cells)
