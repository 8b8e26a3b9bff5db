"""The truncation map as a picture. It follows the reader's light or dark background, and reads without colour too: a
refusal is a low mark, a hole is a full bar."""

from collections.abc import Iterator
from xml.sax.saxutils import escape

from endmark.core.printable import safe
from endmark.drills.report import strips
from endmark.drills.report.document import Report
from endmark.drills.report.strips import Strip
from endmark.drills.structure import Span
from endmark.drills.sweep.runner import Swept
from endmark.drills.targets.answer import Answer

_WIDTH = 960.0
_LEFT, _RIGHT, _TOP = 72.0, 32.0, 28.0
_COLUMNS = 128
_MOST_ROWS = 64
_BAND, _UNDER, _BETWEEN = 16.0, 15.0, 5.0
_GRID_FROM = 4.0  # a cell must be so wide that a line beside it does not hide it
_NAME = 6.1  # the width of a letter of the small type

# Of each answer: its class, and how much of a band's height its cells take up.
_LOOKS = {
    "r": ("refused", 0.38),
    "A": ("accepted", 1.0),
    "E": ("effect", 1.0),
    "c": ("crashed", 0.7),
    "h": ("hung", 0.7),
    "i": ("unsure", 0.55),
    "-": ("none", 0.12),
    ".": ("none", 0.12),
}
_STYLE = """
svg { color-scheme: light dark; }
.paper { fill: #ffffff; } .text { fill: #1f2328; } .soft { fill: #59636e; } .line { stroke: #c5ccd3; }
.grid { stroke: #ffffff; stroke-width: 1.2; }
.refused { fill: #86b19a; } .accepted { fill: #d1242f; } .effect { fill: #9a3fd5; } .crashed { fill: #d08700; }
.hung { fill: #2f74d0; } .unsure { fill: #7d8590; } .none { fill: #d8dee4; } .track { fill: #f3f5f7; }
.bad { fill: #c21e2b; } .good { fill: #1a7f4b; }
text { font-family: ui-sans-serif, system-ui, "Helvetica Neue", Arial, sans-serif; font-size: 12px; }
.title { font-size: 20px; font-weight: 650; } .number { font-size: 26px; font-weight: 650; }
.small { font-size: 10.5px; } .mono { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 10px; }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117; } .text { fill: #e6edf3; } .soft { fill: #9198a1; } .line { stroke: #3d444d; }
.grid { stroke: #0d1117; }
.refused { fill: #3f6f58; } .accepted { fill: #ff6a69; } .effect { fill: #c297ff; } .crashed { fill: #e3b341; }
.hung { fill: #6cb6ff; } .unsure { fill: #8b949e; } .none { fill: #2a313a; } .track { fill: #161b22; }
.bad { fill: #ff7b72; } .good { fill: #57c48a; }
}
"""


def dumps(report: Report) -> bytes:
    """The whole picture, as SVG 1.1 with one style sheet and nothing from elsewhere."""
    swept = report.swept
    made = list(_head(report))
    top = 148.0
    for strip in strips.strips(swept):
        drawn, top = _strip(strip, strips.spans(swept), top)
        made += drawn
    if not strips.strips(swept):
        made.append(_text(_LEFT, top, "These faults have no place on a map.", "soft"))
        top += 24
    made += _legend(swept, top)
    height = top + 62
    made.append(_text(_LEFT, height - 18, _foot(swept), "soft small"))
    label = escape(safe(f"Truncation map of {swept.target}: {_said(report)}"), {'"': "&quot;"})
    open_tag = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:g}" height="{height:g}" '
        f'viewBox="0 0 {_WIDTH:g} {height:g}" role="img" aria-label="{label}">'
    )
    paper = f'<rect class="paper" width="{_WIDTH:g}" height="{height:g}" rx="6"/>'
    text = "\n".join([open_tag, f"<style>{_STYLE}</style>", paper, *made, "</svg>\n"])
    return text.encode("ascii", "xmlcharrefreplace")


def _said(report: Report) -> str:
    swept = report.swept
    if swept.control != "accepted":
        return f"inconclusive, the whole payload was {safe(swept.control)}"
    if report.holes:
        return f"{len(report.holes):,} hole{'' if len(report.holes) == 1 else 's'}"
    return "inconclusive" if report.exit_code else "no hole"


def _head(report: Report) -> Iterator[str]:
    swept = report.swept
    said = _said(report)
    kind = "bad" if report.exit_code else "good"
    yield _text(
        _LEFT, _TOP + 10, _fitted(f"{said[:1].upper()}{said[1:]} in {_titled(swept.target)}", 72), f"title {kind}"
    )
    left = _LEFT
    counts = [("faults tried", swept.tried, "text")]
    for answer in (Answer.REFUSED, Answer.ACCEPTED, Answer.EFFECT, Answer.CRASHED, Answer.HUNG, Answer.INCONCLUSIVE):
        count = swept.count(answer)
        if count or answer in (Answer.REFUSED, Answer.ACCEPTED):
            name = "refused, but it wrote" if answer is Answer.EFFECT else strips.SHOWN[answer]
            counts.append((name, count, _LOOKS[answer.value][0] if count and answer is not Answer.REFUSED else "text"))
    for name, count, look in counts:
        yield _text(left, _TOP + 54, f"{count:,}", f"number {look}")
        yield _text(left, _TOP + 72, name, "soft")
        left += max(104.0, 15.0 * len(f"{count:,}") + 24, 6.4 * len(name) + 20)


def _titled(target: str) -> str:
    """Without the folders in which the programs stand."""
    return " ".join(
        safe(word).rstrip("/").rpartition("/")[2] if word[:1] == "/" else safe(word) for word in target.split()
    )


def _strip(strip: Strip, spans: list[Span], top: float) -> tuple[list[str], float]:
    size = len(strip.cells)
    step = max(1, -(-size // (_COLUMNS * _MOST_ROWS)))
    cells = [strips.worst(strip.cells[at : at + step]) for at in range(0, size, step)]
    columns = min(_COLUMNS, len(cells))
    wide = min(14.0, (_WIDTH - _LEFT - _RIGHT) / columns)
    each = "each byte" if step == 1 else f"each byte; one cell is {step:,} bytes, the worst of them shown"
    made = [_text(_LEFT, top, f"{strip.title} {each}", "text")]
    grid = f"grid{round(wide * 1000)}"
    if wide >= _GRID_FROM:
        lines = f'<path class="grid" d="M{wide:.3f} 0V{_BAND:g}"/>'
        at = f'x="{_LEFT:g}" width="{wide:.3f}" height="{_BAND:g}" patternUnits="userSpaceOnUse"'
        made.append(f'<pattern id="{grid}" {at}>{lines}</pattern>')
    top += 12
    for first in range(0, len(cells), columns):
        row = cells[first : first + columns]
        made.append(_text(_LEFT - 10, top + _BAND - 4, f"{first * step:,}", "soft mono", end=True))
        made.append(_rect("track", _LEFT, top, wide * len(row), _BAND))
        made += _cells(row, top, wide)
        if wide >= _GRID_FROM:
            box = f'x="{_LEFT:g}" y="{top:g}" width="{wide * len(row):.2f}" height="{_BAND:g}"'
            made.append(f'<rect {box} fill="url(#{grid})"/>')
        made += _under(spans, first * step, len(row), step, top + _BAND + 3, wide)
        top += _BAND + _UNDER + _BETWEEN
    return made, top + 18


def _cells(row: list[str], top: float, wide: float) -> Iterator[str]:
    """Equal neighbours as one mark: a picture of a large payload stays small."""
    start = 0
    for at in range(1, len(row) + 1):
        if at == len(row) or row[at] != row[start]:
            look, share = _LOOKS[row[start]]
            high = _BAND * share
            yield _rect(look, _LEFT + start * wide, top + _BAND - high, (at - start) * wide, high)
            start = at


def _under(spans: list[Span], first: int, count: int, step: int, top: float, wide: float) -> Iterator[str]:
    """A bracket and a name under what a key and its value take up."""
    for span in spans:
        start, end = max(0.0, (span.start - first) / step), min(float(count), (span.end - first) / step)
        if end <= start:
            continue
        left, right = _LEFT + start * wide, _LEFT + end * wide
        opens, closes = span.start >= first, span.end <= first + count * step
        path = f"M{left + 0.5:.1f} {top if opens else top + 3:.1f}V{top + 3:.1f}H{right - 0.5:.1f}"
        path += f"V{top:.1f}" if closes else ""
        yield f'<path class="line" fill="none" d="{path}"/>'
        name = safe(span.name)
        letters = int((right - left - 4) / _NAME)
        if opens and letters >= min(3, len(name)):
            yield _text(left + 2, top + 12.5, _fitted(name, letters), "soft mono")


def _legend(swept: Swept, top: float) -> Iterator[str]:
    left = _LEFT
    for answer, name in strips.SHOWN.items():
        if not swept.count(answer):
            continue
        look, share = _LOOKS[answer.value]
        high = _BAND * share
        yield _rect("track", left, top, 14, _BAND)
        yield _rect(look, left, top + _BAND - high, 14, high)
        yield _text(left + 20, top + 12, name, "text")
        left += 44 + 6.6 * len(name)


def _foot(swept: Swept) -> str:
    left = swept.planned - swept.tried
    rest = f", {left:,} faults not tried" if left else ""
    faults = _fitted(", ".join(family.spec for family in swept.families), 80)
    return f"endmark drill: {faults}; {len(swept.body.data):,} bytes, seed {swept.seed}{rest}"


def _fitted(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: max(1, letters - 1)]}…"


def _text(left: float, top: float, text: str, look: str, end: bool = False) -> str:
    anchor = ' text-anchor="end"' if end else ""
    return f'<text class="{look}" x="{left:.1f}" y="{top:.1f}"{anchor}>{escape(text)}</text>'


def _rect(look: str, left: float, top: float, wide: float, high: float) -> str:
    return f'<rect class="{look}" x="{left:.2f}" y="{top:.2f}" width="{wide:.2f}" height="{high:.2f}"/>'
