"""endmark's own apply gate, whole: each fault is delivered to a copy of a SQLite database, and the copy is looked at.

The database that is named is only read, once. The copy and its ledger are new before every fault: what an earlier one
left, such as a job id that is known by now, hides no hole.
"""

import contextlib
import hashlib
import shutil
import sqlite3
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from endmark.apply_gate import ApplyGate, Delivery, Options
from endmark.core.refusal import CannotTry
from endmark.drills.body import Body
from endmark.drills.faults import Broken
from endmark.drills.targets.answer import Answer, Seen
from endmark.drills.targets.calling import data_of
from endmark.effects.sqlite import SqliteTarget
from endmark.ledger.book import Ledger

_AT = datetime(2000, 1, 1, tzinfo=UTC)  # nothing here depends on the hour
_BESIDE = ("", "-journal", "-wal")  # what a database is made of; shared memory holds nothing that lasts


class ApplyTarget(msgspec.Struct, frozen=True, kw_only=True):
    """`endmark apply` on a copy of the SQLite database at `path`. `timeout`: seconds that one statement may run."""

    path: str
    timeout: float = 10.0

    @property
    def name(self) -> str:
        return f"endmark apply on a copy of {self.path}"

    def open(self, worker: int) -> "ApplyPlayer":
        return ApplyPlayer(self)


class ApplyPlayer:
    """Delivers to the gate in this process. A refusal after which the copy differs is a hole of its own kind."""

    in_process = True

    def __init__(self, target: ApplyTarget) -> None:
        """Copy the database. Raises CannotTry where it cannot be read."""
        self._folder = Path(tempfile.mkdtemp(prefix="endmark-drill-"))
        try:
            clean, book = self._folder / "clean.db", self._folder / "book.db"
            _copy(target.path, clean)
            Ledger.open(book, create=True).close()
            self._clean, self._book = clean.read_bytes(), book.read_bytes()
        except BaseException:
            self.close()
            raise
        self._path, self._ledger = self._folder / "target.db", self._folder / "ledger.db"
        self._options = Options(lock_timeout=0, statement_timeout=target.timeout)

    def play(self, broken: Broken | None, body: Body) -> Seen:
        return self.give(data_of(broken, body))

    def give(self, data: bytes) -> Seen:
        """What the gate makes of `data`, on fresh state. Raises CannotTry where the copy cannot be set up."""
        try:
            self._renew(self._path, self._clean)
            self._renew(self._ledger, self._book)
            before = self._state()
        except OSError as fault:
            raise CannotTry(f"the copy of the database cannot be made: {fault.strerror or fault}") from None
        seen = self._deliver(data)
        if seen.answer is not Answer.ACCEPTED and self._state() != before:
            return Seen(Answer.EFFECT, f"{seen.note}, and the database changed")
        return seen

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _deliver(self, data: bytes) -> Seen:
        try:
            with Ledger.open(self._ledger, create=False) as ledger:
                gate = ApplyGate(ledger, lambda: _AT)
                outcome = gate.apply(Delivery(raw=data), SqliteTarget(self._path), self._options, "drill")
        except CannotTry as fault:
            return Seen(Answer.REFUSED, fault.detail)
        except Exception as fault:  # noqa: BLE001  # whatever else leaves a gate is a crash
            return Seen(Answer.CRASHED, f"raised {type(fault).__name__}")
        if outcome.state == "applied":
            return Seen(Answer.ACCEPTED, "applied")
        return Seen(Answer.REFUSED, f"{outcome.state} ({outcome.signal})")

    def _renew(self, path: Path, data: bytes) -> None:
        for suffix in (*_BESIDE, "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        path.write_bytes(data)

    def _state(self) -> bytes:
        """A digest of the copy as it stands: its pages, and what waits beside them."""
        made = hashlib.sha256()
        for suffix in _BESIDE:
            path = self._path.with_name(self._path.name + suffix)
            data = path.read_bytes() if path.exists() else b""
            made.update(b"%d " % len(data) + data)
        return made.digest()


def _copy(path: str, to: Path) -> None:
    """A consistent copy of a database that others may be using. Raises CannotTry."""
    source = Path(path).absolute()
    try:
        with (
            contextlib.closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True)) as reader,
            contextlib.closing(sqlite3.connect(to)) as writer,
        ):
            reader.backup(writer)
    except sqlite3.Error as fault:
        raise CannotTry(f"{path} cannot be copied: {fault}. Nothing was drilled.") from None
