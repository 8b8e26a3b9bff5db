"""A backup is put back: into the file that stands there, page by page, by SQLite's online backup.

It is one transaction: whoever reads sees the database before or after it, and a process that is killed leaves the one
from before. The lock is kept from the first look to the last page.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from endmark.core.refusal import CannotTry, Signal
from endmark.effects.sqlite.backup import kept_of
from endmark.effects.sqlite.fingerprint import fingerprint
from endmark.effects.target import Failed, Kept, Progress, Restored, Stop

_PAGES = 512  # put back between two looks at `stop`
_TABLE = "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = 'schema_jobs'"


def jobs_since(conn: sqlite3.Connection, backup: Path) -> tuple[str, ...]:
    """The jobs with a receipt here and none in the backup. Raises CannotTry, sqlite3.Error."""
    with _opened(backup) as source:
        before = set(_jobs(source))
    return tuple(job for job in _jobs(conn) if job not in before)


def _jobs(conn: sqlite3.Connection) -> list[str]:
    if conn.execute(_TABLE).fetchone() is None:
        return []
    return [str(row[0]) for row in conn.execute("SELECT job_id FROM main.schema_jobs ORDER BY rowid").fetchall()]


def put_back(
    conn: sqlite3.Connection,
    backup: Path,
    kept: Kept,
    undone: Sequence[str],
    lock_timeout: float,
    progress: Progress,
    stop: Stop,
) -> Restored:
    """Make the database of `conn` what the backup is. Raises Failed, CannotTry, sqlite3.Error."""
    _take(conn, lock_timeout)
    found = jobs_since(conn, backup)
    others = [job for job in found if job not in set(undone)]
    if others:
        raise CannotTry(
            f"jobs that were applied since would be undone too: {', '.join(others)}. Nothing was written; name each "
            "one with --later-jobs-too if that is meant."
        )

    def watch(_status: int, remaining: int, total: int) -> None:
        progress(total - remaining, total)
        if remaining and (by := stop()):
            raise _Stopped(by)

    with _opened(backup) as source:
        _check(backup, kept)
        expected = fingerprint(source)
        try:
            source.backup(conn, pages=_PAGES, progress=watch)
        except _Stopped as stopped:
            raise Failed(
                Signal.INTERRUPTED, f"{stopped} while the backup was put back; the target is what it was"
            ) from None
    now = fingerprint(conn)
    if now != expected:
        raise CannotTry(f"ALARM: the target's schema is {now[:12]}... and not the backup's; look at it.")
    return Restored(now, found)


def _take(conn: sqlite3.Connection, timeout: float) -> None:
    """Lock everybody out, readers of the old pages too, until this connection is closed."""
    conn.execute(f"PRAGMA busy_timeout = {int(min(max(timeout, 0), 1_000_000) * 1000)}")
    conn.execute("PRAGMA synchronous = EXTRA")
    conn.execute("PRAGMA locking_mode = EXCLUSIVE")  # the lock outlives the transaction that took it
    conn.execute("BEGIN EXCLUSIVE")
    (version,) = conn.execute("PRAGMA main.user_version").fetchone()
    conn.execute(f"PRAGMA main.user_version = {version:d}")  # of a file that we may only read, this says so
    conn.execute("COMMIT")


def _check(backup: Path, kept: Kept) -> None:
    """Go on only with the very bytes that were recorded. Raises CannotTry."""
    try:
        before = backup.stat()
        found = kept_of(backup)
        after = backup.stat()
    except OSError as fault:
        raise _unusable(backup, fault) from None
    stamps = [(at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns) for at in (before, after)]
    if found != kept or stamps[0] != stamps[1]:
        raise CannotTry(
            f"the backup {backup} is not the one that was made: SHA-256 {found.sha256[:12]}... of {found.size:,} bytes "
            f"was found, {kept.sha256[:12]}... of {kept.size:,} was recorded. Nothing was written."
        )


@contextlib.contextmanager
def _opened(backup: Path) -> Iterator[sqlite3.Connection]:
    """The backup, to be read alone: nothing beside it counts, and nothing is made there. Raises CannotTry."""
    try:
        if not os.access(backup, os.R_OK):
            raise CannotTry(f"the backup {backup} is not there, or may not be read. Nothing was written.")
        uri = f"{backup.absolute().as_uri()}?mode=ro&immutable=1"
        source = sqlite3.connect(uri, uri=True, isolation_level=None)
    except (OSError, ValueError, sqlite3.Error) as fault:
        raise _unusable(backup, fault) from None
    with contextlib.closing(source):
        try:
            source.execute("SELECT 1 FROM main.sqlite_master LIMIT 1").fetchone()
        except sqlite3.Error as fault:
            raise _unusable(backup, fault) from None
        yield source


def _unusable(backup: Path, fault: Exception) -> CannotTry:
    return CannotTry(f"the backup {backup} cannot be used: {fault}. Nothing was written.")


class _Stopped(Exception):
    pass
