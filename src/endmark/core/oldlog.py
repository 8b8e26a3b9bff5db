"""Lines of an old gate's log, in three spellings: JSON lines, CSV with a header, and key=value text.

A line becomes the fields it spells, or Unreadable; nothing of a line that is damaged is used.
"""

import csv
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from endmark.core import strictjson
from endmark.core.printable import safe
from endmark.core.refusal import Refused

FORMS = ("json", "csv", "text")
MOST_LINE = 1 << 20
"""Bytes of one line, and of one record of CSV, that are looked at."""

_PAIR = re.compile(r'(?<![^\s,;\[({|])([A-Za-z_][A-Za-z0-9_.-]{0,63})=("(?:[^"\\]|\\.)*"|[^\s",;\])}]*)')
_OPEN_QUOTE = re.compile(r'=("(?:[^"\\]|\\.)*)\Z')
_MOST_DEPTH = 3


class Line(msgspec.Struct, frozen=True):
    """Some bytes of the log: the number of the line they stand in, from 1; None for a line that is too long."""

    number: int
    raw: bytes | None
    ended: bool = True


class Fields(msgspec.Struct, frozen=True):
    """What a record spells, by dotted names in lower case. `twice` are names that stand there with different values.

    `cut`: the log ends within this line, so a value in it may have been cut.
    """

    line: int
    values: dict[str, Any]
    twice: tuple[str, ...] = ()
    cut: bool = False


class Unreadable(msgspec.Struct, frozen=True):
    """A line, or lines from `line` to `last`, of which nothing can be used, and why."""

    line: int
    last: int
    why: str


Read = Fields | Unreadable | None
"""None is a line that holds no fields at all, such as words or nothing."""


def form_of(first: bytes) -> str:
    """Which form a log has, by its first line that is not empty."""
    text = first.strip()
    if text.startswith(b"{"):
        return "json"
    decoded = text.decode("utf-8", "replace")
    if _PAIR.search(decoded):
        return "text"
    return "csv" if re.search(r"[A-Za-z_\"][,;\t][A-Za-z_\"]", decoded) else "text"


def read(lines: Iterable[Line], form: str) -> Iterator[Read]:
    """What each line, or record of CSV, spells, in order. Raises ValueError for a form that does not exist."""
    if form == "csv":
        yield from _read_csv(lines)
        return
    if form not in FORMS:
        raise ValueError(f"no log has the form {form!r}; there are {', '.join(FORMS)}")
    of_line = _of_json if form == "json" else _of_text
    for line in lines:
        if line.raw is None:
            yield _too_long(line)
        else:
            yield of_line(line, line.raw)


def _too_long(line: Line) -> Unreadable:
    return Unreadable(line.number, line.number, f"the line is over {MOST_LINE:,} bytes")


def _of_json(line: Line, raw: bytes) -> Read:
    if not raw.strip():
        return None
    try:
        document = strictjson.loads(raw.strip(b" \t\r\n"))
    except Refused as refused:
        return Unreadable(line.number, line.number, f"{refused.signal}: {refused.detail}")
    values: dict[str, Any] = {}
    twice: list[str] = []
    _flatten(document, "", 0, values, twice)
    return Fields(line.number, values, tuple(twice))


def _flatten(value: dict[str, Any], before: str, depth: int, values: dict[str, Any], twice: list[str]) -> None:
    for key, inner in value.items():
        name = f"{before}{key}".lower()
        if isinstance(inner, dict) and depth < _MOST_DEPTH:
            _flatten(inner, f"{name}.", depth + 1, values, twice)
        else:
            _add(name, inner, values, twice)


def _add(name: str, value: Any, values: dict[str, Any], twice: list[str]) -> None:
    if name in values and values[name] != value:
        twice.append(name)
    values[name] = value


def _of_text(line: Line, raw: bytes) -> Read:
    try:
        text = raw.decode().rstrip("\r\n")
    except UnicodeDecodeError as fault:
        return Unreadable(line.number, line.number, f"it is not UTF-8 at byte {fault.start:,}")
    if _OPEN_QUOTE.search(text):
        return Unreadable(line.number, line.number, "a quoted value does not end")
    values: dict[str, Any] = {}
    twice: list[str] = []
    for name, spelled in _PAIR.findall(text):
        value = re.sub(r"\\(.)", r"\1", spelled[1:-1]) if spelled.startswith('"') else spelled
        _add(name.lower(), value, values, twice)
    return Fields(line.number, values, tuple(twice), cut=not line.ended) if values else None


def _read_csv(lines: Iterable[Line]) -> Iterator[Read]:
    feed = _Feed(lines)
    header: list[str] | None = None
    reader: Any = None
    while True:
        first = feed.last + 1
        try:
            if reader is None:
                head = next(iter(feed), None)
                if head is None:
                    return
                delimiter = max(",;\t", key=head.count)
                feed.again(head)
                reader = csv.reader(feed, delimiter=delimiter, strict=True)
            row = next(reader, None)
        except csv.Error as fault:
            yield Unreadable(first, feed.last, f"it is no CSV: {safe(str(fault))}")
            continue
        yield from feed.too_long()
        if row is None:
            return
        first = min(first, feed.last)
        if header is None:
            if not any(row):
                continue
            header = [name.strip().lower().removeprefix("\ufeff") for name in row]
            if len(set(header)) != len(header):
                yield Unreadable(first, feed.last, "a column stands twice in the header, so no row of it is clear")
                return
        elif row:
            yield _of_row(header, row, first, feed)


def _of_row(header: list[str], row: list[str], first: int, feed: "_Feed") -> Read:
    if len(row) != len(header):
        return Unreadable(first, feed.last, f"{len(row)} columns stand where the header has {len(header)}")
    if any("\udc80" <= mark <= "\udcff" for cell in row for mark in cell):
        return Unreadable(first, feed.last, "it is not UTF-8")
    values = {name: cell for name, cell in zip(header, row, strict=True) if cell != ""}
    return Fields(first, values, cut=not feed.ended)


class _Feed:
    """Lines as text for the reader of CSV, which takes more than one for a record where a quote is open."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = iter(lines)
        self._again: str | None = None
        self._skipped: list[Unreadable] = []
        self.last = 0
        self.ended = True

    def __iter__(self) -> "_Feed":
        return self

    def __next__(self) -> str:
        if self._again is not None:
            text, self._again = self._again, None
            return text
        for line in self._lines:
            self.last = line.number
            if line.raw is None:
                self._skipped.append(_too_long(line))
                continue
            self.ended = line.ended
            return line.raw.decode("utf-8", "surrogateescape")
        raise StopIteration

    def again(self, text: str) -> None:
        self._again = text

    def too_long(self) -> list[Unreadable]:
        found, self._skipped = self._skipped, []
        return found
