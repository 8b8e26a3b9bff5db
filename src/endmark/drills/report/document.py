"""The report for programs: one JSON object."""

from typing import Any

import msgspec

from endmark.drills.damage import Input
from endmark.drills.faults import Broken
from endmark.drills.sweep.runner import Swept
from endmark.drills.targets.answer import Answer

VERSION = 1


class Hole(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that the gate took for whole (`accepted`), or that changed the effect all the same (`effect`).

    `minimised`: the smallest input that does so too.
    """

    fault: Broken
    answer: Answer
    note: str
    minimised: Input | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep and its holes."""

    swept: Swept
    holes: tuple[Hole, ...]

    @property
    def exit_code(self) -> int:
        return self.swept.exit_code


def report(swept: Swept) -> Report:
    """The report of a sweep, nothing minimised yet."""
    found = swept.found(Answer.ACCEPTED, Answer.EFFECT)
    return Report(swept=swept, holes=tuple(Hole(fault=fault, answer=how, note=note) for fault, how, note in found))


def document(report: Report) -> dict[str, Any]:
    """`accepted` lists every hole. `planned` counts the faults that there are, tried or not."""
    swept = report.swept
    return {
        "version": VERSION,
        "target": swept.target,
        "seed": swept.seed,
        "control": swept.control,
        "planned": swept.planned,
        "tried": swept.tried,
        "refused": swept.count(Answer.REFUSED),
        "crashed": swept.count(Answer.CRASHED),
        "hung": swept.count(Answer.HUNG),
        "inconclusive": swept.count(Answer.INCONCLUSIVE),
        "accepted": [_hole(hole) for hole in report.holes],
        "exit_code": report.exit_code,
    }


def _hole(hole: Hole) -> dict[str, Any]:
    made: dict[str, Any] = {"fault": str(hole.fault)}
    if hole.answer is Answer.EFFECT:
        made["effect"] = True
    if hole.note:
        made["note"] = hole.note
    if hole.minimised is not None:
        made["minimised"] = str(hole.minimised)
    return made
