"""docs/reliability.md: written anew with each run, its rows of earlier runs kept as they stand."""

import re
from pathlib import Path

from bench.scoreboard.rows import BIN, ROWS, Row
from bench.scoreboard.running import Found

PAGE = Path("docs/reliability.md")
MARKS = ("<!-- figures: made by `make scoreboard` -->", "<!-- end of figures -->")
_LINE = re.compile(r"\| `([a-z-]+)` \|")
_HEAD = """| row | must hold | | found | date | version | seed | took | command |
|---|---|---|---|---|---|---|---:|---|"""
_NEVER = "| `{name}` | {holds} | | not measured yet | | | | | `make scoreboard ROWS={name}` |"


def kept(text: str) -> dict[str, str]:
    """The lines of a page, by the names of their rows."""
    inside = text.partition(MARKS[0])[2].partition(MARKS[1])[0]
    return {found[1]: line for line in inside.splitlines() if (found := _LINE.match(line))}


def line(row: Row, found: Found, date: str, version: str) -> str:
    """What was found, as one line."""
    commands = "<br>".join(f"`{command.replace('|', '&#124;').replace(BIN, '')}`" for command in row.commands)
    words = "holds" if found.holds else "**FAILS**"
    cells = (
        f"`{row.name}`",
        row.holds,
        words,
        found.words,
        date,
        version,
        row.seed,
        f"{found.seconds:,.0f} s",
        commands,
    )
    return f"| {' | '.join(cells)} |"


def took(line: str) -> float | None:
    """The seconds that a row took, from its line."""
    found = re.search(r"\| ([\d,]+) s \|", line)
    return float(found[1].replace(",", "")) if found else None


def renewed(text: str, lines: dict[str, str]) -> str:
    """A page with these lines, the other rows as they were. What is no row any more goes."""
    standing = {**kept(text), **lines}
    made = [standing.get(row.name, _NEVER.format(name=row.name, holds=row.holds)) for row in ROWS]
    before, _, rest = text.partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    return "\n".join([before + MARKS[0], _HEAD, *made, MARKS[1] + after])
