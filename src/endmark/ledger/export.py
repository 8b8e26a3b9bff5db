"""The book as lines of JSON, which can be checked without a ledger (docs/ledger.md).

An export is the tables, row by row. Its first line says what it is, its last one how many rows of each there were and
the SHA-256 of all bytes before: a cut one is no export. `load` makes a ledger file of one, for `verify.audit`.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from endmark.core import strictjson
from endmark.core.refusal import Refused, Signal
from endmark.ledger import schema
from endmark.ledger.counting import COUNTED
from endmark.ledger.source import Source

FORMAT = "endmark-export-1"
_STEP = 1000  # rows between two calls of `progress`

# What is exported, in this order; tokens are not, for they say nothing of what happened. Bytes are in hex.
TABLES: dict[str, tuple[str, tuple[str, ...]]] = {}
BODIES = ("bodies", "answers")
_BYTES = {"head", "hash", "chain", "body"}  # of these, a decision's `head` is a commit's name


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line. `gapless`: whether numbers that are missing were taken away. `since` and `until`: attempts and
    decisions that came in this half-open time, RFC 3339 UTC, with all of their events; None for no limit."""

    format: str
    endmark: str
    at: str
    ledger: str
    gapless: bool
    bodies: bool
    since: str | None
    until: str | None

    @property
    def whole_time(self) -> bool:
        """Whether it holds all there was, so that its checkpoints can be followed."""
        return self.since is None and self.until is None


class Trailer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last line."""

    end: str
    rows: dict[str, int]
    sha256: str


def columns(table: str) -> tuple[str, ...]:
    """The columns of a table, as this version makes it."""
    if not TABLES:
        fresh = sqlite3.connect(":memory:")
        try:
            for _, statements in schema.MIGRATIONS:
                for statement in statements:
                    fresh.execute(statement)
            for name, key in _KEYS.items():
                TABLES[name] = key, tuple(row[1] for row in fresh.execute(f"PRAGMA table_info({name})"))
        finally:
            fresh.close()
    return TABLES[table][1]


_KEYS = {
    "checkpoints": "n",
    "attempts": "n",
    "decisions": "n",
    "reviews": "n",
    "events": "id",
    "bodies": "attempt",
    "answers": "review",
}
_ATTEMPTS, _DECISIONS = "SELECT n FROM attempts WHERE {}", "SELECT n FROM decisions WHERE {}"
_REVIEWS = "SELECT n FROM reviews WHERE decision IN ({})"


def lines(source: Source, header: Header, progress: Callable[[int, int], None]) -> Iterator[bytes]:
    """The export of a book in one snapshot, line by line; memory does not grow with it. Raises as `source` does."""
    digest, counted, done = hashlib.sha256(), {}, 0
    tables = [name for name in _KEYS if header.bodies or name not in BODIES]
    totals = {name: _count(source, name, header) for name in tables}
    total = sum(totals.values())

    def line(value: Any) -> bytes:
        raw = msgspec.json.encode(value) + b"\n"
        digest.update(raw)
        return raw

    yield line(header)
    for table in tables:
        names, counted[table] = columns(table), 0
        where, values = _where(table, header)
        sql = f"SELECT {', '.join(names)} FROM {table} WHERE {where} ORDER BY {_KEYS[table]}"  # noqa: S608  # our names
        for row in source.rows(sql, *values):
            counted[table] += 1
            yield line({"table": table, **{name: _plain(value) for name, value in zip(names, row, strict=True)}})
            done += 1
            if done % _STEP == 0:
                progress(done, total)
    progress(total, total)
    yield msgspec.json.encode(Trailer(end=FORMAT, rows=counted, sha256=digest.hexdigest())) + b"\n"


def load(raw: Iterable[bytes], book: sqlite3.Connection) -> tuple[Header, Trailer]:
    """Read an export to its end into an empty database, as tables without rules. Raises Refused for what is not whole.

    `received_bytes` of the refusal says how far it was read.
    """
    read = _Reader(raw)
    header = read.convert(next(read, b""), Header)
    if header.format != FORMAT:
        raise read.refused(Signal.WRONG_VALUE, f"its format is {header.format[:40]!a}, {FORMAT} was expected")
    for table in _KEYS:
        names = columns(table)
        rule = "INTEGER PRIMARY KEY" if _KEYS[table] in names else ""
        made = ", ".join(f"{name} {rule}" if name == _KEYS[table] else name for name in names)
        book.execute(f"CREATE TABLE {table} ({made})")
    book.execute("CREATE TABLE counts (kind, about, state, number)")
    book.execute("CREATE INDEX chains ON events (attempt, seq)")
    book.execute("CREATE INDEX chains_of_decisions ON events (decision, seq)")
    book.execute("CREATE INDEX reviews_of_decisions ON reviews (decision)")
    counted = {name: 0 for name in _KEYS if header.bodies or name not in BODIES}
    trailer: Trailer | None = None
    for line in read:
        if trailer is not None:
            raise read.refused(Signal.BYTES_AFTER_END, "something stands after its last line")
        value = read.value(line)
        if "end" in value:
            trailer = read.convert(line, Trailer)
            if trailer.end != FORMAT:
                raise read.refused(Signal.WRONG_VALUE, "its last line is of another format")
            if trailer.sha256 != read.before:
                raise read.refused(Signal.ENVELOPE_DIGEST, "its SHA-256 is not the one in its last line")
            if trailer.rows != counted:
                raise read.refused(Signal.WRONG_COUNT, "its last line counts other rows than there are")
            continue
        table = value.pop("table", None)
        if table not in counted or tuple(value) != columns(table):
            raise read.refused(Signal.UNKNOWN_KEY, f"line {read.number:,} is no row of a table")
        counted[table] += 1
        try:
            values = [_stored(table, name, item) for name, item in value.items()]
            book.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)  # noqa: S608  # our names
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise read.refused(Signal.WRONG_VALUE, f"line {read.number:,}: {error}") from None
    if trailer is None:
        raise read.refused(Signal.NO_TRAILER, "its last line is missing")
    book.execute(f"INSERT INTO counts (kind, about, state, number) {COUNTED}")
    if not header.whole_time:
        book.execute("DELETE FROM checkpoints")  # they are of events that are not here
    return header, trailer


class LoadedSource:
    """What `load` made, for `verify.audit`."""

    errors: tuple[type[Exception], ...] = (sqlite3.DatabaseError,)

    def __init__(self, book: sqlite3.Connection, header: Header) -> None:
        self._book = book
        self.gapless = header.gapless and header.whole_time
        self.bodies = header.bodies

    def rows(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return self._book.execute(sql, values)

    def is_number(self, column: str) -> str:
        return f"typeof({column}) = 'integer'"

    def damage(self) -> Iterator[str]:
        yield from ()

    def rules(self) -> Iterator[str]:
        """It has none, and needs none: nobody writes here."""
        yield from ()

    def given(self) -> dict[str, Any]:
        """An export does not say; its last line counts the rows."""
        keys = {table: _KEYS[table] for table in _KEYS if table not in BODIES}
        return {
            table: self._book.execute(f"SELECT max({key}) FROM {table}").fetchone()[0] or 0  # noqa: S608
            for table, key in keys.items()
        }


class _Reader:
    """The lines of an export, counted and digested."""

    def __init__(self, raw: Iterable[bytes]) -> None:
        self._lines = iter(raw)
        self._digest = hashlib.sha256()
        self.before = ""
        self.number = self.received = 0

    def __iter__(self) -> "_Reader":
        return self

    def __next__(self) -> bytes:
        line = next(self._lines)
        self.received += len(line)
        self.number += 1
        if not line.endswith(b"\n"):
            raise self.refused(Signal.NO_TRAILER, f"line {self.number:,} has no end")
        self.before = self._digest.hexdigest()
        self._digest.update(line)
        return line

    def refused(self, signal: Signal, why: str) -> Refused:
        return Refused(signal, self.received, None, f"this is no whole export: {why}")

    def value(self, line: bytes) -> dict[str, Any]:
        try:
            return strictjson.loads(line)
        except Refused as fault:
            raise self.refused(fault.signal, f"line {self.number:,}: {fault.detail}") from None

    def convert(self, line: bytes, kind: type[Any]) -> Any:
        if not line:
            raise self.refused(Signal.EMPTY, "it is empty")
        try:
            return msgspec.convert(self.value(line), kind)
        except msgspec.ValidationError as fault:
            raise self.refused(Signal.WRONG_TYPE, f"line {self.number:,}: {fault}") from None


def _where(table: str, header: Header) -> tuple[str, tuple[str, ...]]:
    """Which rows: those of attempts and decisions that came in the time that was asked for; every checkpoint."""
    if table == "checkpoints" or (header.since is None and header.until is None):
        return "TRUE", ()
    came, opened = _in_time("received_at", header), _in_time("opened_at", header)
    times = tuple(time for time in (header.since, header.until) if time is not None)
    attempts, decisions = _ATTEMPTS.format(came), _DECISIONS.format(opened)
    match table:
        case "attempts":
            return came, times
        case "decisions":
            return opened, times
        case "reviews":
            return f"decision IN ({decisions})", times
        case "bodies":
            return f"attempt IN ({attempts})", times
        case "answers":
            return f"review IN ({_REVIEWS.format(decisions)})", times
        case _:
            return f"(attempt IN ({attempts}) OR decision IN ({decisions}))", times * 2


def _in_time(column: str, header: Header) -> str:
    """Times of one spelling sort as text."""
    limits = [(header.since, ">="), (header.until, "<")]
    return " AND ".join(f"{column} {sign} ?" for time, sign in limits if time is not None)


def _count(source: Source, table: str, header: Header) -> int:
    where, values = _where(table, header)
    ((number,),) = source.rows(f"SELECT count(*) FROM {table} WHERE {where}", *values)  # noqa: S608  # our names
    return int(number)


def _plain(value: Any) -> Any:
    return bytes(value).hex() if isinstance(value, bytes | memoryview) else value


def _stored(table: str, name: str, value: Any) -> Any:
    if value is not None and not isinstance(value, str | int):
        raise ValueError(f"{name} is neither text nor a number")
    if name in _BYTES and (table, name) != ("decisions", "head") and value is not None:
        return bytes.fromhex(value) if isinstance(value, str) else value
    return value
