"""Old gate logs, read again: which records of verdicts prove nothing, as a list for people. Nothing becomes a pass.

The log is read twice, so that of each record it is known whether another contradicts it, with bounded memory: what is
remembered between the two stands in a temporary database on disk.
"""

import csv
import hashlib
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from endmark.core import doubts, oldlog
from endmark.core.doubts import Judged
from endmark.core.oldlog import Fields, Line, Unreadable
from endmark.core.printable import safe
from endmark.core.refusal import CannotTry

COLUMNS = ("priority", "line", "class", "logged_verdict", "diff", "id", "at", "reasons", "what_to_do")
MOST_SHOWN = 1_000
_BATCH = 1_000
_EVERY = 2_000  # lines between two words to whoever watches

Progress = Callable[[int, int], None]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the worklist, safe to print. `priority`: 1 is to be looked at first, 4 last.

    `kind` is `contradicts`, `proves-nothing` or `unreadable`. `logged_verdict` is what the log says, and no verdict.
    """

    priority: int
    line: int
    kind: str
    logged_verdict: str
    diff: str
    id: str
    at: str
    reasons: tuple[str, ...]
    what_to_do: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. Every line is in one of: `records` of verdicts, `others`, `unreadable` (by entries).

    `listed` counts the entries of the worklist, `items` are the first of them.
    """

    form: str
    sha256: str
    bytes: int
    records: int
    others: int
    unreadable: int
    listed: int
    reasons: dict[str, int]
    items: list[Item]
    worklist: tuple[str, ...]


def audit(
    log: BinaryIO,
    *,
    form: str | None = None,
    worklist: Path | None = None,
    progress: Progress = lambda _done, _total: None,
) -> Report:
    """Read `log`, which can be sought in, and classify every record. `worklist`: where to write WORKLIST.csv and .json.

    `progress` is told (bytes done, bytes in all) of two stages. Raises CannotTry where no verdict is recognised, where
    the log changes meanwhile, and where the worklist cannot be written; then none is left behind.
    """
    size = log.seek(0, os.SEEK_END)
    found = form or _form(log)
    with ExitStack() as stack:
        index = stack.enter_context(closing(sqlite3.connect("", isolation_level=None)))  # private, and on disk
        index.execute("CREATE TABLE seen (diff TEXT PRIMARY KEY, passes INTEGER, fails INTEGER) WITHOUT ROWID")
        first = _Lines(log, size, progress)
        _remember(index, oldlog.read(first, found))
        lists = None if worklist is None else stack.enter_context(_Worklist(worklist, first.sha256, size))
        second = _Lines(log, size, progress)
        counted = _Counted(lists)
        for read in oldlog.read(second, found):
            counted.take(read, index)
        if second.sha256 != first.sha256:
            raise CannotTry("the log changed while it was read; nothing was concluded from it.")
        if not counted.records and not counted.unreadable:
            raise CannotTry("the log holds no record that names a verdict; nothing was audited (see docs/reaudit.md).")
        names = lists.finish() if lists is not None and counted.listed else ()
    return Report(
        form=found,
        sha256=first.sha256,
        bytes=size,
        records=counted.records,
        others=counted.others,
        unreadable=counted.unreadable,
        listed=counted.listed,
        reasons={
            reason.word: counted.reasons[reason.word] for reason in doubts.REASONS if counted.reasons[reason.word]
        },
        items=counted.items,
        worklist=names,
    )


def _form(log: BinaryIO) -> str:
    log.seek(0)
    for _ in range(1_000):
        line = log.readline(oldlog.MOST_LINE)
        if not line or line.strip():
            return oldlog.form_of(line)
    return "text"


class _Lines:
    """The lines of a log up to a size, each bounded, with the digest of all bytes that were read."""

    def __init__(self, log: BinaryIO, size: int, progress: Progress) -> None:
        self._log = log
        self._size = size
        self._progress = progress
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[Line]:
        self._log.seek(0)
        number, left = 0, self._size
        while left > 0:
            raw = self._log.readline(min(left, oldlog.MOST_LINE + 1))
            if not raw:
                return
            left -= len(raw)
            number += 1
            self._digest.update(raw)
            ended, long = raw.endswith(b"\n"), len(raw) > oldlog.MOST_LINE
            while not ended and left > 0 and long:  # the rest of a line that is too long
                more = self._log.readline(min(left, oldlog.MOST_LINE))
                if not more:
                    break
                left -= len(more)
                self._digest.update(more)
                ended = more.endswith(b"\n")
            if number % _EVERY == 0 or left <= 0:
                self._progress(self._size - left, self._size)
            yield Line(number, None if long else raw, ended)


def _remember(index: sqlite3.Connection, reads: Iterator[oldlog.Read]) -> None:
    batch: list[tuple[str, int, int]] = []

    def write() -> None:
        index.execute("BEGIN")
        index.executemany(
            "INSERT INTO seen VALUES (?, ?, ?) ON CONFLICT (diff) DO UPDATE "
            "SET passes = passes + excluded.passes, fails = fails + excluded.fails",
            batch,
        )
        index.execute("COMMIT")
        batch.clear()

    for read in reads:
        named = doubts.verdict_of(read) if isinstance(read, Fields) else None
        if named is not None:
            diff, verdict = named
            batch.append((_key(diff), int(verdict == "pass"), int(verdict == "fail")))
            if len(batch) == _BATCH:
                write()
    write()


def _key(diff: str) -> str:
    return diff.encode("utf-8", "backslashreplace").decode()


class _Counted:
    """What the second reading finds."""

    def __init__(self, lists: "_Worklist | None") -> None:
        self._lists = lists
        self.records = self.others = self.unreadable = self.listed = 0
        self.reasons: Counter[str] = Counter()
        self.items: list[Item] = []

    def take(self, read: oldlog.Read, index: sqlite3.Connection) -> None:
        if isinstance(read, Unreadable):
            self.unreadable += 1
            self._list(_unreadable(read))
            return
        judged = None if read is None else doubts.judge(read, _is_contradicted(read, index))
        if judged is None:
            self.others += 1
            return
        self.records += 1
        if judged.reasons:
            self._list(_item(judged))

    def _list(self, item: Item) -> None:
        self.listed += 1
        self.reasons.update(item.reasons)
        if len(self.items) < MOST_SHOWN:
            self.items.append(item)
        if self._lists is not None:
            self._lists.add(item)


def _is_contradicted(fields: Fields, index: sqlite3.Connection) -> bool:
    named = doubts.verdict_of(fields)
    if named is None:
        return False
    row = index.execute("SELECT passes > 0 AND fails > 0 FROM seen WHERE diff = ?", (_key(named[0]),)).fetchone()
    return bool(row and row[0])


def _item(judged: Judged) -> Item:
    contradicts = any(doubts.explain(word).contradicts for word in judged.reasons)
    may_have_merged = judged.verdict != "fail"
    worst = contradicts or "repaired" in judged.reasons
    return Item(
        priority=1 if worst and may_have_merged else 2 if may_have_merged else 3 if worst else 4,
        line=judged.line,
        kind="contradicts" if contradicts else "proves-nothing",
        logged_verdict=safe(judged.verdict),
        diff=safe(judged.diff),
        id=safe(judged.id),
        at=safe(judged.at),
        reasons=judged.reasons,
        what_to_do=doubts.explain(judged.reasons[0]).do,
    )


def _unreadable(read: Unreadable) -> Item:
    upto = "" if read.last <= read.line else f" (up to line {read.last:,})"
    return Item(
        priority=2,
        line=read.line,
        kind="unreadable",
        logged_verdict="",
        diff="",
        id="",
        at="",
        reasons=("unreadable",),
        what_to_do=f"{doubts.explain('unreadable').do}{upto}: {safe(read.why)}",
    )


class _Worklist:
    """The two files, written as entries come, and given their names once they are whole. No file is overwritten."""

    def __init__(self, name: Path, log_sha256: str, log_bytes: int) -> None:
        self._names = Path(f"{name}.csv"), Path(f"{name}.json")
        self._parts = tuple(Path(f"{path}.part") for path in self._names)
        self._head = {"version": 1, "log_sha256": log_sha256, "log_bytes": log_bytes}
        self._files: list[Any] = []
        self._count = 0

    def __enter__(self) -> "_Worklist":
        try:
            for path in self._names:
                if path.exists() or path.is_symlink():
                    raise FileExistsError(f"{path} exists already")
            for part in self._parts:
                self._files.append(part.open("x", encoding="ascii", newline=""))
        except OSError as fault:
            self.__exit__()
            raise _cannot_write(fault) from None
        self._csv = csv.writer(self._files[0])
        self._write(lambda: self._csv.writerow(COLUMNS))
        self._write(lambda: self._files[1].write(json.dumps(self._head)[:-1] + ', "items": ['))
        return self

    def __exit__(self, *_fault: object) -> None:
        for file, part in zip(self._files, self._parts, strict=False):
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                part.unlink()

    def add(self, item: Item) -> None:
        """One more entry, to both."""
        row = (item.priority, item.line, item.kind, item.logged_verdict, item.diff, item.id, item.at)
        cells = [_cell(value) for value in (*row, " ".join(item.reasons), item.what_to_do)]
        self._write(lambda: self._csv.writerow(cells))
        text = json.dumps(msgspec.to_builtins(item))
        self._write(lambda: self._files[1].write(("\n" if not self._count else ",\n") + text))
        self._count += 1

    def finish(self) -> tuple[str, ...]:
        """Both files are whole, and get their names. Raises CannotTry."""

        def close() -> None:
            self._files[1].write("\n]}\n")
            for file in self._files:
                file.flush()
                os.fsync(file.fileno())
                file.close()
            self._rename()

        self._write(close)
        return tuple(map(str, self._names))

    def _rename(self) -> None:
        named: list[Path] = []
        try:
            for part, name in zip(self._parts, self._names, strict=True):
                if name.exists():
                    raise FileExistsError(f"{name} exists already")
                os.rename(part, name)
                named.append(name)
        except OSError:
            for name in named:
                name.unlink()
            raise

    def _write(self, what: Callable[[], Any]) -> None:
        try:
            what()
        except OSError as fault:
            raise _cannot_write(fault) from None


def _cannot_write(fault: OSError) -> CannotTry:
    return CannotTry(f"the worklist could not be written: {fault.strerror or fault}. Nothing was left behind.")


def _cell(value: object) -> str:
    """A cell that no spreadsheet takes for a formula, in ASCII."""
    text = str(value).encode("ascii", "backslashreplace").decode()
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
