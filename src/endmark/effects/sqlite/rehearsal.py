"""A plan runs on a copy that has no name: SQLite keeps it in memory and, where it is large, in a file that is deleted
as soon as it is made, so that nothing of it outlives this process, however that ends.

The copy is a whole one, or for a large database one of the schema alone.
"""

import contextlib
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from endmark.core.refusal import CannotTry, Signal
from endmark.core.schemadiff import Item, diff
from endmark.effects.sqlite.fingerprint import fingerprint
from endmark.effects.sqlite.guard import OURS
from endmark.effects.target import Failed, Lock, Progress, Ran, Receipt, Rehearsal, Stop, Work

WHOLE_MAX = 1024 * 1024 * 1024  # bytes of a database that is copied with its rows
_PAGES = 2_048  # copied between two looks at `stop`
_COUNT_MAX = 1_000_000  # rows that are counted one by one
_READ_WAIT = 10.0  # seconds that making a copy waits for somebody's commit
_UNDO = ".rehearsed"  # what the undoing is called in the copy's receipts
_FIRST = re.compile(r"\Astatement (\d+)")


class Runs(Protocol):
    """The session over the copy, as far as this goes: the same one that runs a plan in the target."""

    written: set[str | None]

    def lock(self, timeout: float) -> None: ...

    def receipt(self, job_id: str) -> Receipt | None: ...

    def run(self, work: Work, timeout: float, progress: Progress, stop: Stop) -> Ran: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


class Copy(NamedTuple):
    """A copy of what is committed in a database, how it was made, and what cannot be tried in it; `reader` is a reader
    of the database itself."""

    conn: sqlite3.Connection
    reader: sqlite3.Connection
    how: str
    limits: tuple[str, ...] = ()


@contextlib.contextmanager
def copied(source: Path, stop: Stop) -> Iterator[Copy]:
    """A copy, gone afterwards. Raises Failed when interrupted, CannotTry, sqlite3.Error."""
    reader = sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=_READ_WAIT)
    with contextlib.closing(reader), contextlib.closing(_nameless()) as copy:
        (size,) = reader.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()
        if size <= WHOLE_MAX:
            _copy_pages(reader, copy, stop)
            yield Copy(copy, reader, "a copy")
            return
        reader.execute("BEGIN")
        _copy_schema(reader, copy)
        reader.execute("COMMIT")
        none = f"rows: the database has {size:,} bytes, so none were copied"
        yield Copy(copy, reader, "a copy of the schema", (none,))


def _nameless() -> sqlite3.Connection:
    return sqlite3.connect("", isolation_level=None, cached_statements=0)


def _copy_pages(reader: sqlite3.Connection, copy: sqlite3.Connection, stop: Stop) -> None:
    def watch(_status: int, _remaining: int, _total: int) -> None:
        if by := stop():
            raise Failed(Signal.INTERRUPTED, f"{by} while the copy was made")

    reader.backup(copy, pages=_PAGES, progress=watch)


def _copy_schema(reader: sqlite3.Connection, copy: sqlite3.Connection) -> None:
    """Every object as it is spelled, the rows of our tables, and no others. Raises CannotTry, sqlite3.Error."""
    for pragma in ("encoding", "page_size", "user_version", "application_id"):
        (value,) = reader.execute(f"PRAGMA {pragma}").fetchone()
        copy.execute(f"PRAGMA {pragma} = {value!r}")
    for name, sql in reader.execute(_MADE).fetchall():
        if _VIRTUAL.match(sql):
            raise CannotTry(f"the virtual table {name} cannot be copied without its rows. Nothing was written.")
        copy.execute(sql)
        if name.lower() in OURS:
            rows = reader.execute(f"SELECT * FROM main.{name}").fetchall()  # noqa: S608  # a name of ours
            if rows:
                copy.executemany(f"INSERT INTO main.{name} VALUES ({', '.join('?' * len(rows[0]))})", rows)  # noqa: S608
    if fingerprint(copy) != fingerprint(reader):
        raise CannotTry("the schema cannot be copied faithfully, so nothing can be rehearsed. Nothing was written.")


_VIRTUAL = re.compile(r"\s*CREATE\s+VIRTUAL\s", re.IGNORECASE)
_MADE = (
    "SELECT name, sql FROM main.sqlite_master WHERE sql IS NOT NULL AND substr(name, 1, 7) <> 'sqlite_' "
    "ORDER BY CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 WHEN 'view' THEN 2 ELSE 3 END, rowid"
)


def run(copy: Copy, session: Runs, work: Work, timeout: float, stop: Stop) -> Rehearsal:
    """Run the plan on a copy, and back. Raises Failed, CannotTry, sqlite3.Error."""
    since = time.monotonic()
    before, items = fingerprint(copy.conn), listing(copy.conn)
    session.lock(0)
    forth = session.run(work, timeout, _quiet, stop)
    written = {name for name in session.written if name is not None}
    session.commit()
    changes = diff(items, listing(copy.conn))
    touched = written | {change.of or change.name for change in changes if change.kind != "column"}
    stood = sorted(item.name for item in items if item.kind == "table" and item.name in touched)
    back = None
    if work.down is not None:
        back = _undo(session, work, timeout, stop)
        if back != before:
            left = diff(items, listing(copy.conn))
            what = f": {left[0].what} {left[0].kind} {left[0].name}" if left else ""
            raise Failed(
                Signal.CHECK_FAILED, f"the downs did not bring back the schema from before the plan{what}", None
            )
    return Rehearsal(
        how=copy.how,
        before=before,
        after=forth.fingerprint_after,
        after_downs=back,
        changes=changes,
        locks=(Lock(1, "the whole database", "one writer at a time; readers go on until the commit"),),
        rows=tuple((name, _count(copy.reader, name)) for name in stood),
        rows_changed=None if copy.limits else forth.rows_changed,
        limits=copy.limits,
        seconds=time.monotonic() - since,
    )


def _count(reader: sqlite3.Connection, table: str) -> int | None:
    """Rows of a table of the database itself, at most _COUNT_MAX of them; None for what cannot be counted."""
    quoted = table.replace('"', '""')
    try:
        return int(
            reader.execute(f'SELECT count(*) FROM (SELECT 1 FROM main."{quoted}" LIMIT {_COUNT_MAX})').fetchone()[0]  # noqa: S608
        )
    except sqlite3.Error:
        return None


def listing(conn: sqlite3.Connection) -> list[Item]:
    """Every object that counts for the fingerprint, and the columns of every table. Raises sqlite3.Error."""
    found = []
    for kind, name, table, sql in conn.execute(_OBJECTS).fetchall():
        if OURS.isdisjoint((name.lower(), table.lower())):
            found.append(Item(kind, name, tuple(sql.splitlines()), table if kind in ("index", "trigger") else None))
    for table, name, declared, required, default, key, hidden in conn.execute(_COLUMNS).fetchall():
        if table.lower() not in OURS:
            words = (
                declared,
                "NOT NULL" if required else "",
                "" if default is None else f"DEFAULT {default}",
                "PRIMARY KEY" if key else "",
                "GENERATED" if hidden else "",
            )
            found.append(Item("column", f"{table}.{name}", (" ".join(filter(None, words)),), table))
    return found


_OBJECTS = (
    "SELECT type, name, tbl_name, coalesce(sql, '') FROM main.sqlite_master WHERE substr(name, 1, 7) <> 'sqlite_' "
    "ORDER BY type, name"
)
_COLUMNS = (
    'SELECT m.name, c.name, c.type, c."notnull", c.dflt_value, c.pk, c.hidden FROM main.sqlite_master AS m, '
    "pragma_table_xinfo(m.name) AS c WHERE m.type = 'table' AND substr(m.name, 1, 7) <> 'sqlite_' "
    "ORDER BY m.name, c.cid"
)


def _quiet(_done: int, _total: int) -> None:
    return None


def _undo(session: Runs, work: Work, timeout: float, stop: Stop) -> str:
    """Run the downs as `revert` would: the fingerprint then. Raises Failed."""
    downs = tuple(reversed(work.down or ()))
    undo = msgspec.structs.replace(
        work,
        job_id=f"{work.job_id}{_UNDO}",
        statements=downs,
        down=None,
        after=(work.job_id,),
        retry_of=None,
        reverts=work.job_id,
    )
    session.lock(0)
    try:
        after = session.run(undo, timeout, _quiet, stop).fingerprint_after
    except Failed as failed:
        at = None if failed.statement is None else len(downs) + 1 - failed.statement
        who = "the downs" if at is None else f"the down of statement {at}"
        detail = _FIRST.sub(who, failed.detail) if _FIRST.match(failed.detail) else f"{who}: {failed.detail}"
        raise Failed(failed.signal, detail, at, failed.statements_run) from None
    session.commit()
    return after
