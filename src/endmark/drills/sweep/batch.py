"""Some faults of one family against one opened target, and afterwards the control."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from endmark.core.refusal import CannotTry, Refused
from endmark.drills import structure
from endmark.drills.body import Body, DoesNotFit
from endmark.drills.families import Family, of_data
from endmark.drills.faults import Broken, End
from endmark.drills.sweep.watchdog import Hung, Watchdog
from endmark.drills.sweep.world import World
from endmark.drills.targets.answer import Answer, Player, Seen

_NOTES = 64  # kept of one batch


class Batch(msgspec.Struct, kw_only=True):
    """What came of the faults from number `start` on: one letter each (Answer), words about some of them, and what the
    control said afterwards; an empty `control`: the whole payload was accepted."""

    start: int
    cells: bytearray
    notes: dict[int, str] = {}
    control: str = ""

    def set(self, number: int, seen: Seen) -> None:
        """Write down the answer to fault `number`."""
        self.cells[number - self.start] = ord(seen.answer.value)
        if seen.answer is not Answer.REFUSED and seen.note and len(self.notes) < _NOTES:
            self.notes[number] = seen.note


class Bench:
    """One target, one world, one payload: where batches are played."""

    def __init__(self, player: Player, world: World | None, body: Body, limit: float, shared: Any = None) -> None:
        self.player = player
        self.world = world if world is not None and (world.resets or world.looks) else None
        self.body = body
        self._watch = Watchdog(limit if player.in_process else None, shared)
        self._check: Callable[[bytes], object] | None = getattr(player, "check", None)
        self._give: Callable[[bytes], Seen] | None = getattr(player, "give", None)

    def control(self) -> str:
        """Give it the whole payload, on fresh state. Empty if it was accepted, and had an effect where one is watched;
        else what happened."""
        world = self.world
        before = None
        if world is not None:
            world.reset()
            before = world.look() if world.looks and world.resets else None
        self._watch.begin(0)
        with self._watch:
            seen = self._answer(None)
        if seen.answer is not Answer.ACCEPTED:
            return f"{_WORDS[seen.answer]} ({seen.note})" if seen.note else _WORDS[seen.answer]
        if world is not None and before is not None and world.look() == before:
            return "accepted, and the effect did not change: the probe does not see it"
        return ""

    def play(self, family: Family, numbers: range, stop_on_hole: bool = False) -> Batch:
        """Play these faults, then the control; where that is not accepted, what was refused is inconclusive."""
        blank = Answer.NOT_TRIED.value.encode() * len(numbers)
        batch = Batch(start=numbers.start, cells=bytearray(blank), notes={})
        if self.world is not None:
            self._play_watched(batch, family, numbers, stop_on_hole)
        else:
            payloads = family.payloads(self.body, numbers) if self._give is not None else None
            with self._watch:
                if payloads is None:
                    self._play_each(batch, family, numbers, stop_on_hole)
                elif self._check is not None:
                    self._play_checks(batch, payloads, self._check)
                else:
                    self._play_given(batch, payloads, stop_on_hole)
        batch.control = self.control()
        if batch.control:
            unsure = Answer.INCONCLUSIVE.value.encode()
            batch.cells[:] = batch.cells.replace(Answer.REFUSED.value.encode(), unsure)
        return batch

    # --- one by one

    def _play_each(self, batch: Batch, family: Family, numbers: Iterable[int], stop_on_hole: bool) -> None:
        for number in numbers:
            self._watch.begin(number)
            seen = self.answer(family.fault(self.body, number))
            batch.set(number, seen)
            if seen.answer.is_hole and stop_on_hole:
                break

    def answer(self, broken: Broken) -> Seen:
        """What the target makes of a fault; one that does no damage is none."""
        seen = self._answer(broken)
        if seen.answer is Answer.ACCEPTED and broken.end is End.POLITE and self._no_harm(of_data(broken, self.body)):
            return _NO_DAMAGE
        return seen

    def _answer(self, broken: Broken | None) -> Seen:
        try:
            return self.player.play(broken, self.body)
        except Hung:
            return _NO_END
        except DoesNotFit as fault:
            return Seen(Answer.NO_FAULT, str(fault))
        except CannotTry as fault:
            return Seen(Answer.INCONCLUSIVE, fault.detail)

    def _no_harm(self, data: bytes) -> bool:
        """Whether `data` is a whole payload, or the same JSON spelled in another way."""
        return data in (self.body.data, self.body.other) or structure.same_value(data, self.body.data)

    # --- at speed

    def _play_given(self, batch: Batch, payloads: Iterable[bytes], stop_on_hole: bool) -> None:
        give, begin, refused = self._give, self._watch.begin, ord(Answer.REFUSED.value)
        assert give is not None  # noqa: S101  # asked only where it is there
        for at, data in enumerate(payloads):
            begin(batch.start + at)
            try:
                seen = give(data)
            except (Hung, CannotTry) as fault:
                seen = _NO_END if isinstance(fault, Hung) else Seen(Answer.INCONCLUSIVE, str(fault))
            if seen.answer is Answer.REFUSED:
                batch.cells[at] = refused
                continue
            if seen.answer is Answer.ACCEPTED and self._no_harm(data):
                seen = _NO_DAMAGE
            batch.set(batch.start + at, seen)
            if seen.answer.is_hole and stop_on_hole:
                break

    def _play_checks(self, batch: Batch, payloads: Iterable[bytes], check: Callable[[bytes], object]) -> None:
        watch, cells, refused, at = self._watch, batch.cells, ord(Answer.REFUSED.value), -1
        for data in payloads:
            at += 1
            watch.at = at
            try:
                check(data)
            except Refused:
                cells[at] = refused
            except Hung:
                batch.set(batch.start + at, _NO_END)
            except Exception as fault:  # noqa: BLE001  # whatever else leaves a gate is a crash
                batch.set(batch.start + at, Seen(Answer.CRASHED, f"raised {type(fault).__name__}"))
            else:
                batch.set(batch.start + at, _NO_DAMAGE if self._no_harm(data) else Seen(Answer.ACCEPTED, "proven"))

    # --- with an eye on the effect

    def _play_watched(self, batch: Batch, family: Family, numbers: range, stop_on_hole: bool) -> None:
        world = self.world
        assert world is not None  # noqa: S101  # asked only where there is one
        world.reset()
        whole_before = world.look() if world.looks else b""
        before = world.count() if world.counts else whole_before
        last = numbers.start
        for number in numbers:
            last = number
            self._watch.begin(number)
            if number > numbers.start:
                world.reset()
            with self._watch:
                seen = self.answer(family.fault(self.body, number))
            if world.looks:
                after = world.count()
                if after != before and not seen.answer.is_hole and seen.answer is not Answer.NO_FAULT:
                    seen = Seen(Answer.EFFECT, f"{seen.note}, and the effect changed")
                before = before if world.resets else after
            batch.set(number, seen)
            if seen.answer.is_hole and stop_on_hole:
                break
        if world.counts and world.look() != whole_before:
            self._find_effect(batch, family, [last] if world.resets else list(numbers), whole_before)

    def _find_effect(self, batch: Batch, family: Family, suspects: list[int], before: bytes) -> None:
        """The counter saw nothing, the dump did: which of the faults was it? Each is played again, halves first."""
        quiet = [number for number in suspects if batch.cells[number - batch.start] in b"rch"]
        explained = len(quiet) < len(suspects)
        found = self._halve(batch, family, quiet) if quiet else []
        for number in found:
            batch.set(number, Seen(Answer.EFFECT, "the effect changed, unseen by the counter"))
        if not found and not explained:
            for number in quiet:
                batch.set(number, Seen(Answer.INCONCLUSIVE, "the effect changed in this batch, and not again"))

    def _halve(self, batch: Batch, family: Family, suspects: list[int]) -> list[int]:
        world = self.world
        assert world is not None  # noqa: S101  # as above
        world.reset()
        before = world.look()
        for number in suspects:
            self.answer(family.fault(self.body, number))
        if world.look() == before:
            return []
        if len(suspects) == 1:
            return suspects
        middle = len(suspects) // 2
        return self._halve(batch, family, suspects[:middle]) + self._halve(batch, family, suspects[middle:])


_NO_END = Seen(Answer.HUNG, "no end within its time")
_NO_DAMAGE = Seen(Answer.NO_FAULT, "does no damage")
_WORDS = {
    Answer.REFUSED: "refused",
    Answer.ACCEPTED: "accepted",
    Answer.CRASHED: "crashed",
    Answer.HUNG: "hung",
    Answer.INCONCLUSIVE: "could not be asked",
    Answer.NO_FAULT: "could not be asked",
}
