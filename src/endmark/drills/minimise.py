"""A found hole becomes its smallest input: what can be left out, and the gate still takes it (Zeller's ddmin)."""

import time
from collections.abc import Callable

from endmark.drills import structure
from endmark.drills.damage import Input
from endmark.drills.families import of_data
from endmark.drills.faults import Broken, End
from endmark.drills.sweep.batch import Bench
from endmark.drills.targets.answer import Answer

DEFAULT_TRIES = 2000


def minimise(
    bench: Bench, hole: Broken, answer: Answer, tries: int = DEFAULT_TRIES, until: float = 1e18
) -> Input | None:
    """The smallest input found that gets the same answer as `hole`, as a fault; None where the hole is one of the
    transport, or does not show again.

    What is no strict JSON object stays none: a hole is not made smaller into something whole. At most `tries` inputs
    are tried, and none after `until` (of time.monotonic()).
    """
    body = bench.body
    if hole.end is not End.POLITE:
        return None
    data = of_data(hole, body)
    was_json = structure.is_json(data)

    def holds(candidate: bytes) -> bool:
        if structure.is_json(candidate) and not was_json:
            return False
        return shows(bench, Input(candidate), answer)

    if not holds(data):
        return None
    return Input(_ddmin(data, holds, tries, until))


def shows(bench: Bench, fault: Input, answer: Answer) -> bool:
    """Whether the gate gives this answer to a fault, on fresh state."""
    world = bench.world
    before = b""
    if world is not None:
        world.reset()
        before = world.look() if world.looks else b""
    seen = bench.answer(Broken(fault)).answer
    if answer is Answer.EFFECT and world is not None and world.looks:
        return seen not in (Answer.ACCEPTED, Answer.NO_FAULT) and world.look() != before
    return seen is answer


def _ddmin(data: bytes, holds: Callable[[bytes], bool], tries: int, until: float) -> bytes:
    """Leave out ever smaller pieces, as long as it holds."""
    size = max(1, len(data) // 2)
    left = tries
    while data:
        at, shrunk = 0, False
        while at < len(data):
            if left == 0 or time.monotonic() > until:
                return data
            left -= 1
            candidate = data[:at] + data[at + size :]
            if holds(candidate):
                data, shrunk = candidate, True
            else:
                at += size
        if size == 1 and not shrunk:
            return data
        size = size if shrunk and size == 1 else max(1, size // 2)
    return data
