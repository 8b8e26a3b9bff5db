"""What changed between two listings of a schema, in lines that people read. Pure; the same for every engine."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

LINE_MAX = 300  # characters of one line of a definition that are shown
LINES_MAX = 400  # lines that a record keeps


class Item(msgspec.Struct, frozen=True):
    """One object of a schema: its kind ("table", "column", ...), its name, its definition line by line.

    `of` is the table that a column, index or trigger belongs to; with its table it comes and goes unmentioned.
    """

    kind: str
    name: str
    lines: tuple[str, ...] = ()
    of: str | None = None


class What(StrEnum):
    """What became of an object; the value is its mark."""

    ADDED = "+"
    DROPPED = "-"
    CHANGED = "~"


class Change(msgspec.Struct, frozen=True):
    """One object that is not what it was. `lines` are those of its definition that differ, each with `+ ` or `- `."""

    what: What
    kind: str
    name: str
    lines: tuple[str, ...] = ()
    of: str | None = None


def diff(before: Iterable[Item], after: Iterable[Item]) -> tuple[Change, ...]:
    """Every object added, dropped or changed, by kind and name. Of two items of one kind and name the text counts."""
    old, new = _by_name(before), _by_name(after)
    gone, come = _tables(old) - _tables(new), _tables(new) - _tables(old)
    found = []
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if was is None and now is not None:
            if not _goes_with(now, come):
                found.append(Change(What.ADDED, *key, _marked((), _whole(now, new)), now.of))
        elif now is None and was is not None:
            if not _goes_with(was, gone):
                found.append(Change(What.DROPPED, *key, _marked(_whole(was, old), ()), was.of))
        elif was is not None and now is not None and was.lines != now.lines:
            found.append(Change(What.CHANGED, *key, _marked(was.lines, now.lines), now.of))
    return tuple(found)


_Listing = dict[tuple[str, str], Item]


def _tables(items: _Listing) -> set[str]:
    return {name for kind, name in items if kind == "table"}


def _goes_with(item: Item, tables: set[str]) -> bool:
    return item.kind == "column" and item.of in tables


def _whole(item: Item, items: _Listing) -> tuple[str, ...]:
    """The lines of an object; of a table that has none of its own, its columns."""
    if item.lines or item.kind != "table":
        return item.lines
    columns = (one for one in items.values() if one.kind == "column" and one.of == item.name)
    return tuple(f"{one.name.removeprefix(item.name + '.')} {' '.join(one.lines)}" for one in columns)


def _by_name(items: Iterable[Item]) -> _Listing:
    found: _Listing = {}
    for item in items:
        key = (item.kind, item.name)
        if key in found:
            item = msgspec.structs.replace(item, lines=found[key].lines + item.lines)
        found[key] = item
    return found


def _marked(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    import difflib  # only for what differs

    return tuple(line for line in difflib.ndiff(old, new) if line[0] in "+-")


def lines(changes: Iterable[Change]) -> list[str]:
    """The changes as text, one object a line with what differs below it. Names and definitions are as they were given:
    whoever shows them to a terminal escapes them."""
    found: list[str] = []
    for change in changes:
        found.append(f"{change.what} {change.kind} {change.name}")
        found += [f"    {_clipped(line)}" for line in change.lines]
    return found


def capped(found: Sequence[str], most: int = LINES_MAX) -> list[str]:
    """At most `most` lines, and how many were left out."""
    if len(found) <= most:
        return list(found)
    return [*found[: most - 1], f"... and {len(found) - most + 1:,} lines more"]


def _clipped(line: str) -> str:
    more = len(line) - LINE_MAX
    return line if more <= 0 else f"{line[:LINE_MAX]} ... and {more:,} characters more"
