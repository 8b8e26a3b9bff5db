"""The truncation map as values: one cell an offset, for every family that has a fault at each offset."""

import msgspec

from endmark.drills import edges, structure
from endmark.drills.families import Family
from endmark.drills.sweep.runner import Swept
from endmark.drills.targets.answer import Answer

# Of the answers of several faults at one offset, the one that is shown: the worst.
WORST = "AEihcr-."
SHOWN = {
    Answer.REFUSED: "refused",
    Answer.ACCEPTED: "accepted",
    Answer.EFFECT: "refused, but the effect changed",
    Answer.CRASHED: "crashed",
    Answer.HUNG: "hung",
    Answer.INCONCLUSIVE: "inconclusive",
    Answer.NO_FAULT: "no fault here",
    Answer.NOT_TRIED: "not tried",
}
_TITLES = {
    "cuts": "cut at",
    "flips": "bit flipped in",
    "closes": "cut and closed at",
    "lies": "lied from",
    "shorts": "short from",
    "fins": "no last chunk from",
    "rsts": "reset from",
}


class Strip(msgspec.Struct, frozen=True):
    """One family: a letter (Answer) for each offset of the payload."""

    title: str
    cells: str


def strips(swept: Swept) -> list[Strip]:
    """Those that can be drawn, in the order of the sweep."""
    return [
        Strip(_TITLES[family.kind], _of(family, cells, len(swept.body.data)))
        for family, cells in zip(swept.families, swept.cells, strict=True)
        if family.kind in _TITLES
    ]


def spans(swept: Swept) -> list[structure.Span]:
    """What stands under the strips."""
    body = swept.body
    return structure.spans(body.data, edges.edges(body.data, body.shape))


def worst(letters: str) -> str:
    """The one that is shown for several."""
    return min(letters, key=WORST.index)


def _of(family: Family, cells: bytes, size: int) -> str:
    letters = cells.decode("ascii")
    if family.kind != "flips":
        return letters
    return "".join(worst(letters[8 * at : 8 * at + 8]) for at in range(size))
