"""A whole copy of the target, taken before the first write."""

import contextlib
import hashlib
import os
import sqlite3
from pathlib import Path

from endmark.core.refusal import CannotTry, Signal
from endmark.effects.sqlite.fingerprint import fingerprint
from endmark.effects.target import Failed, Kept, Progress, Stop

_PAGES = 512  # copied between two looks at `stop`


def copy(source: Path, to: Path, expected: str, progress: Progress, stop: Stop) -> Kept:
    """Copy `source` to `to`, through SQLite's online backup, flushed to disk before it gets its name.

    `expected` is the fingerprint the copy must have. Raises Failed when interrupted, CannotTry when it cannot be made.
    """
    part = to.with_name(to.name + ".part")
    try:
        to.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if to.exists():
            raise CannotTry(f"the backup {to} exists already. Nothing was written.")

        def watch(_status: int, remaining: int, total: int) -> None:
            progress(total - remaining, total)
            if by := stop():
                raise _Stopped(by)

        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as fault:
        raise _impossible(to, fault) from None
    try:
        with (
            contextlib.closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True, isolation_level=None)) as reader,
            contextlib.closing(sqlite3.connect(part, isolation_level=None)) as writer,
        ):
            writer.execute("PRAGMA journal_mode = OFF")  # a copy that fails is thrown away, and no journal with it
            reader.backup(writer, pages=_PAGES, progress=watch)
            if fingerprint(writer) != expected:
                raise CannotTry("the backup's schema is not the target's. Nothing was written.")
        _flush(part)
        kept = kept_of(part)
        os.rename(part, to)
        _flush(to.parent)
        return kept
    except _Stopped as stopped:
        raise Failed(Signal.INTERRUPTED, f"{stopped} during the backup; nothing was written") from None
    except (sqlite3.Error, OSError, ValueError) as fault:
        raise _impossible(to, fault) from None
    finally:
        part.unlink(missing_ok=True)


def kept_of(path: Path) -> Kept:
    """What the bytes of a file are. Raises OSError."""
    with path.open("rb") as stream:
        return Kept(hashlib.file_digest(stream, "sha256").hexdigest(), os.fstat(stream.fileno()).st_size)


def _impossible(to: Path, fault: Exception) -> CannotTry:
    return CannotTry(f"no backup could be made at {to}: {fault}. Nothing was written.")


class _Stopped(Exception):
    pass


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
