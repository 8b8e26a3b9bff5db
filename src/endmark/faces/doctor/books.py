"""The ledger: is it there, ours, private and sound at its end, and is there room for more?"""

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from endmark.core.refusal import CannotTry
from endmark.faces.doctor.finding import Case, Finding, todo, unseen, well
from endmark.ledger.book import Ledger
from endmark.ledger.glance import glance
from endmark.ledger.schema import MIGRATIONS

FAMILY = "ledger"
LOW_BYTES = 512 << 20
"""Free bytes below which the disk of the ledger is called nearly full."""


def look(case: Case) -> Iterator[Finding]:
    where = case.config.ledger
    if isinstance(where, Path):
        yield from _file(where, case.config.ledger_is_ours)
        if not where.exists() or older(where) is not None:
            return  # to open it would make it, or make it newer
    try:
        with Ledger.open(where, create=False) as book:
            yield well(FAMILY, "opens", str(book.place))
            problem = glance(book)
    except CannotTry as fault:
        yield unseen(FAMILY, "opens", fault, "mend what it names; 'endmark ledger init' makes one where there is none")
        return
    if problem is None:
        yield well(FAMILY, "newest checkpoint", "it says what its events say; 'endmark ledger verify' audits all of it")
    else:
        yield todo(FAMILY, "newest checkpoint", problem, "run 'endmark ledger verify', and keep the file as it is")


def _file(path: Path, is_ours: bool) -> Iterator[Finding]:
    if not path.exists():
        if is_ours:
            yield well(FAMILY, "file", f"{path} is not there yet; it is made when first needed")
        else:
            yield todo(
                FAMILY, "file", f"there is nothing at {path}", "'endmark ledger init' makes it, or correct the name"
            )
        return
    try:
        status = path.stat()
        free = shutil.disk_usage(path.parent).free
    except OSError as fault:
        yield unseen(FAMILY, "file", f"{path}: {fault.strerror or fault}", "run this as the user that endmark runs as")
        return
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        said = f"{path} has mode {stat.S_IMODE(status.st_mode):04o}: others can use it, and plans may hold data"
        yield todo(FAMILY, "permissions", said, f"chmod 600 {path}")
    elif not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        yield todo(FAMILY, "permissions", f"this user cannot write {path} and beside it", "give it to the gate's user")
    else:
        yield well(FAMILY, "permissions", f"mode {stat.S_IMODE(status.st_mode):04o}")
    if free < LOW_BYTES:
        yield todo(FAMILY, "free disk", f"{free:,} bytes are left beside {path}", "make room before the next job")
    else:
        yield well(FAMILY, "free disk", f"{free:,} bytes")
    found = older(path)
    if found is not None:
        said = f"it has version {found}, this endmark writes {MIGRATIONS[-1][0]}"
        yield todo(FAMILY, "version", said, "copy the file, then let any command that writes bring it up to date")


def older(path: Path) -> int | None:
    """The version of a ledger that opening would bring up to date; looked at without a lock or a file beside it."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error:
        return None  # opening says why
    return int(version) if version < MIGRATIONS[-1][0] else None
