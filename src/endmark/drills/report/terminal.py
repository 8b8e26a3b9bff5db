"""The report for people: the counts, the map, the holes, and how to see one again. Reads well without colour."""

from collections.abc import Callable

from endmark.core.printable import safe
from endmark.drills.report import strips
from endmark.drills.report.document import Hole, Report
from endmark.drills.report.strips import Strip
from endmark.drills.structure import Span
from endmark.drills.sweep.runner import Swept
from endmark.drills.targets.answer import Answer

Paint = Callable[[str, str], str]  # a text, and a name of a colour

_MARKS = {"r": "·", "A": "█", "E": "▓", "c": "x", "h": "~", "i": "?", "-": " ", ".": " "}
_COLOURS = {"r": "green", "A": "red", "E": "magenta", "c": "yellow", "h": "blue", "i": "cyan"}
_MOST_ROWS = 40
_MOST_HOLES = 12
_LEFT = 8
_LONGEST_PASTE = 400


def show(report: Report, width: int, paint: Paint = lambda text, colour: text, again: str = "") -> str:
    """The whole report. `width` in columns; `again` is a command line with `{}` where `--only` goes."""
    swept = report.swept
    lines = [_verdict(report, paint), _counts(swept)]
    drawn = strips.strips(swept) if swept.tried else []
    for strip in drawn:
        lines += ["", *_map(strip, strips.spans(swept), max(24, width), paint)]
    if drawn:
        lines += ["", _legend(swept, paint)]
    lines += _holes(report.holes, width, again)
    lines += _others(swept)
    return "\n".join(lines)


def _verdict(report: Report, paint: Paint) -> str:
    swept = report.swept
    if swept.control != "accepted" and not swept.tried:
        return paint(f"No drill: the whole payload was not accepted: {safe(swept.control)}.", "red")
    if report.holes:
        return paint(f"{_many(len(report.holes), 'hole')} in {safe(swept.target)}.", "red")
    if swept.count(Answer.INCONCLUSIVE) or swept.control != "accepted":
        said = "" if swept.control == "accepted" else f": {safe(swept.control)}"
        return paint(f"Inconclusive: the whole payload was not accepted afterwards{said}.", "red")
    if not swept.tried:
        return paint("Nothing was tried: no fault fits this payload.", "red")
    left = swept.planned - swept.tried
    ended = f" in what was tried; {left:,} faults were not" if left else ""
    return paint(f"No hole{ended}.", "green")


def _counts(swept: Swept) -> str:
    parts = [f"{swept.tried:,} faults tried on {len(swept.body.data):,} bytes"]
    for answer in (Answer.REFUSED, Answer.ACCEPTED, Answer.EFFECT, Answer.CRASHED, Answer.HUNG, Answer.INCONCLUSIVE):
        count = swept.count(answer)
        if count or answer in (Answer.REFUSED, Answer.ACCEPTED):
            parts.append(f"{count:,} {strips.SHOWN[answer]}")
    if swept.planned > swept.tried:
        parts.append(f"{swept.planned - swept.tried:,} not tried")
    rate = f" ({swept.tried / swept.seconds:,.0f}/s)" if swept.seconds > 0 else ""
    return f"{'; '.join(parts)}. {swept.seconds:.1f} s{rate}, seed {swept.seed}."


def _map(strip: Strip, spans: list[Span], width: int, paint: Paint) -> list[str]:
    """One cell an offset, as long as that fits on the screen; else a cell for so many, and the worst of them shows."""
    columns = max(8, width - _LEFT)
    columns -= columns % 8
    size = len(strip.cells)
    rows = _MOST_ROWS if set(strip.cells) - set("r-.") else 1  # where nothing happened, one look is enough
    step = max(1, -(-size // (columns * rows)))
    cells = [strips.worst(strip.cells[at : at + step]) for at in range(0, size, step)]
    lines = [f"{strip.title} each byte" + (f", {step:,} bytes a cell, the worst shown" if step > 1 else "")]
    before = ""
    for first in range(0, len(cells), columns):
        row = cells[first : first + columns]
        lines.append(f"{first * step:>{_LEFT - 1}} {_painted(row, paint)}")
        under = _under(spans, first * step, len(row), step)
        if under.strip() and under != before:
            lines.append(f"{'':{_LEFT}}{under}".rstrip())
        before = under
    return lines


def _painted(row: list[str], paint: Paint) -> str:
    """Runs of one letter get their colour at once."""
    made, start = [], 0
    for at in range(1, len(row) + 1):
        if at == len(row) or row[at] != row[start]:
            run = _MARKS[row[start]] * (at - start)
            made.append(paint(run, _COLOURS[row[start]]) if row[start] in _COLOURS else run)
            start = at
    return "".join(made)


def _under(spans: list[Span], first: int, count: int, step: int) -> str:
    """`|key---|` under what a key and its value take up; a name where it fits."""
    line = [" "] * count
    for span in spans:
        start, end = max(0, (span.start - first) // step), min(count, -(-(span.end - first) // step))
        if span.end <= first or start >= count or end <= start:
            continue
        text = safe(span.name)
        room = end - start
        name = text if len(text) < room else text[: max(0, room - 1)]
        line[start:end] = list(f"└{name}{'─' * (room - 1 - len(name))}"[:room])
    return "".join(line)


def _legend(swept: Swept, paint: Paint) -> str:
    shown = [answer for answer in strips.SHOWN if swept.count(answer) and _MARKS[answer.value] != " "]
    return "  ".join(
        f"{paint(_MARKS[answer.value], _COLOURS.get(answer.value, ''))} {strips.SHOWN[answer]}" for answer in shown
    )


def _holes(holes: tuple[Hole, ...], width: int, again: str) -> list[str]:
    if not holes:
        return []
    lines = [""]
    for hole in holes[:_MOST_HOLES]:
        lines.append(f"  {_short(str(hole.fault), 60)}  {safe(hole.note)}".rstrip())
        if hole.minimised is not None:
            data = hole.minimised.data
            lines.append(f"      smallest input, {len(data):,} bytes: {_short(ascii(data)[1:], max(20, width - 40))}")
    if len(holes) > _MOST_HOLES:
        lines.append(f"  and {len(holes) - _MOST_HOLES:,} more; --json lists them all")
    if again:
        small = [text for hole in holes if (text := str(hole.minimised or "")) and len(text) <= _LONGEST_PASTE]
        lines += ["", "See one again:", f"  {again.format(f'--only {small[0] if small else holes[0].fault}')}"]
    return lines


def _others(swept: Swept) -> list[str]:
    """A few words about what crashed, hung or could not be judged."""
    lines = []
    for answer in (Answer.CRASHED, Answer.HUNG, Answer.INCONCLUSIVE):
        found = [f"{fault} ({safe(note)})" if note else str(fault) for fault, _, note in swept.found(answer)]
        if found:
            more = f", and {len(found) - 3:,} more" if len(found) > 3 else ""
            lines += ["", f"{strips.SHOWN[answer]}: {', '.join(_short(text, 80) for text in found[:3])}{more}"]
    return lines


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
