"""A copy of a ledger file that was made while others wrote, read through to its end, and only then given its name."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from endmark.core.refusal import CannotTry
from endmark.ledger import verify
from endmark.ledger.entry import Report
from endmark.ledger.file import connect, explained
from endmark.ledger.sqlite_store import SqliteSource

_PAGES = 4096  # copied between two calls of `progress`; all of them are of one moment


class Copied(msgspec.Struct, frozen=True):
    """A backup that stands: its size in bytes, and what its audit found (`report.ok` is true)."""

    size: int
    report: Report


def back_up(source: Path, to: Path, progress: Callable[[int, int], None] = lambda _done, _total: None) -> Copied:
    """Copy the ledger file `source` as it is at one moment to `to`, which must not exist, and audit the copy.

    `to` is for this user alone (0600), flushed with its folder, in one file. `progress` counts pages, then rows. Raises
    CannotTry, and then nothing stands at `to`: also where the audit found a problem, of which the sentence tells.
    """
    if os.path.lexists(to):
        raise CannotTry(f"{to} is there already; a backup overwrites nothing. Nothing was done; give another name.")
    part = to.with_name(f".{to.name}.{os.urandom(4).hex()}.part")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        _copy(source, part, progress)
        report = _audit(part, progress)
        if not report.ok:
            raise CannotTry(
                f"ledger {source}: {report.problem_count:,} problems in its copy, the first: {report.problems[0]}. No "
                "backup was kept; 'endmark ledger verify' lists them, and 'sqlite3 LEDGER .backup' keeps what is there."
            )
        _flush(part)
        os.link(part, to)  # unlike a rename it overwrites nothing
        _flush(to.parent)
        return Copied(to.stat().st_size, report)
    except sqlite3.Error as error:
        raise explained(error, source, 10.0) from error
    except OSError as error:
        why = error.strerror or str(error)
        raise CannotTry(
            f"the backup {to} cannot be written: {why}. Nothing was kept; free space or name another."
        ) from None
    finally:
        for name in (part, *(part.with_name(part.name + suffix) for suffix in ("-wal", "-shm", "-journal"))):
            with suppress(OSError):
                name.unlink(missing_ok=True)


def _copy(source: Path, part: Path, progress: Callable[[int, int], None]) -> None:
    with closing(connect(source, 10.0)) as live, closing(connect(part, 0)) as copy:
        live.execute("BEGIN")  # one snapshot: a writer does not make the copy begin anew
        live.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        live.backup(copy, pages=_PAGES, progress=lambda _status, left, total: progress(total - left, total))
        live.execute("COMMIT")
        copy.execute("PRAGMA journal_mode=DELETE")  # all of it in one file; WAL again when it is opened as a ledger


def _audit(part: Path, progress: Callable[[int, int], None]) -> Report:
    with closing(connect(part, 0)) as connection:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.execute("BEGIN")
        return verify.audit(SqliteSource(connection), progress)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
