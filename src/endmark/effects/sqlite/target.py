"""The session with a SQLite target: its lock, one guarded transaction, its commit."""

import contextlib
import re
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from endmark.core.refusal import CannotTry, Signal
from endmark.effects.sqlite import backup, receipts, rehearsal, restore, watch
from endmark.effects.sqlite.fingerprint import fingerprint
from endmark.effects.sqlite.guard import OURS, Guard
from endmark.effects.target import Failed, Kept, Progress, Ran, Receipt, Rehearsal, Restored, Stop, Work

_OPCODES = 2_000  # virtual machine steps between two looks at the clock and at `stop`
_VALUE_MAX = 64 * 1024 * 1024  # bytes in one value or row
_HEAP_MAX = 1024 * 1024 * 1024  # bytes that SQLite may take in this process
_BESIDE = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a database and removes at will
_READ_WAIT = 10.0  # seconds that a look-up without the lock waits for a commit of somebody else
# The disk, the file or another process is at fault, not the statement.
_TROUBLE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)


_NAMES_OURS = re.compile(rf"(?<![\w$])(?:{'|'.join(sorted(OURS))})(?![\w$])", re.ASCII | re.IGNORECASE)
_Key = tuple[str, int | None, str]  # a broken foreign key: its table, its row, its parent


class SqliteTarget:
    """One database file. `identity` names the file itself: links resolved, absolute."""

    def __init__(self, path: Path) -> None:
        """Raises CannotTry for a path that cannot name a file."""
        try:
            self.path = path.resolve()
            self.identity = f"sqlite:///{self.path}"
            self.identity.encode()  # the ledger keeps it as text
        except (OSError, RuntimeError, ValueError) as fault:
            raise CannotTry(f"the target {path!r} is no path of a file ({fault}). Nothing was written.") from None

    def is_file(self, path: Path) -> bool:
        """Whether `path` is this database, or either is a file that SQLite keeps beside the other."""
        ours = [self.path, *map(self._beside, _BESIDE)]
        theirs = [path, *(path.with_name(path.name + suffix) for suffix in _BESIDE)]
        return any(_same(one, path) for one in ours) or any(_same(self.path, other) for other in theirs)

    def jobs_since(self, backup: Path) -> tuple[str, ...]:
        with _told(self), self.open() as session:
            return restore.jobs_since(session.connection, backup)

    def restore(
        self, backup: Path, kept: Kept, undone: Sequence[str], lock_timeout: float, progress: Progress, stop: Stop
    ) -> Restored:
        with _told(self), self.open() as session:
            return restore.put_back(session.connection, backup, kept, undone, lock_timeout, progress, stop)

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def open(self) -> "SqliteSession":
        """A session with the file, which must exist; it may be locked just now. Raises CannotTry."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            missing = f"the target {self.path} does not exist. Nothing was written; create the database first."
            raise CannotTry(missing) from None
        except OSError as fault:
            raise CannotTry(f"the target {self.path} cannot be reached ({fault}). Nothing was written.") from None
        if not stat.S_ISREG(found.st_mode):
            raise CannotTry(f"the target {self.path} is not a file. Nothing was written.")
        if found.st_nlink > 1:  # under its other name it has another journal: SQLite cannot keep it whole
            raise CannotTry(
                f"the target {self.path} has {found.st_nlink} names (hard links), which SQLite cannot keep apart. "
                "Nothing was written; keep one."
            )
        for suffix in _BESIDE:
            if self.path.name.endswith(suffix) and self.path.with_name(self.path.name.removesuffix(suffix)).exists():
                raise CannotTry(f"the target {self.path} belongs to the database beside it. Nothing was written.")
        with _told(self):
            # No statement cache: every statement is compiled, and so judged, each time it runs.
            conn = sqlite3.connect(
                f"{self.path.as_uri()}?mode=rw", uri=True, isolation_level=None, cached_statements=0, timeout=0
            )
            try:
                guarded(conn)
                with _unless_locked():
                    conn.execute("SELECT 1 FROM main.sqlite_master LIMIT 1").fetchone()
                conn.execute(f"PRAGMA busy_timeout = {_READ_WAIT * 1000:.0f}")
            except BaseException:
                conn.close()
                raise
        return SqliteSession(self, conn)


def guarded(conn: sqlite3.Connection) -> None:
    """Set a connection as plans find it, in a target and in the copy it is rehearsed on. Raises sqlite3.Error."""
    conn.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    conn.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_MAX)
    conn.execute(f"PRAGMA hard_heap_limit = {_HEAP_MAX}")
    # Rebuilding a table needs them off; what they would find, foreign_key_check finds before the commit.
    conn.execute("PRAGMA foreign_keys = OFF")
    conn.execute("PRAGMA trusted_schema = OFF")


class SqliteSession:
    """See `effects.target.Session` and `Rehearses`."""

    needs_lock = False  # a copy is taken of what is committed, whoever is writing
    keeps_lock = True

    def __init__(self, target: SqliteTarget, conn: sqlite3.Connection) -> None:
        self._target = target
        self._conn = self.connection = conn
        self.place = _inode(target.path)
        self.written: set[str | None] = set()  # tables whose rows the last plan was to write

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rollback()
        self._conn.close()

    def lock(self, timeout: float) -> None:
        """BEGIN IMMEDIATE: readers go on, no other writer can start. Waits at most `timeout` seconds."""
        with _told(self._target):
            self._conn.execute(f"PRAGMA busy_timeout = {int(min(max(timeout, 0), 1_000_000) * 1000)}")
            # EXTRA flushes the folder too once the journal is removed: after a power cut it must not be there again,
            # and take back what the ledger calls applied.
            self._conn.execute("PRAGMA synchronous = EXTRA")
            self._conn.execute("BEGIN IMMEDIATE")
            try:
                # Of a file that we may only read, BEGIN IMMEDIATE takes no lock and does not say so. A write does.
                (version,) = self._conn.execute("PRAGMA main.user_version").fetchone()
                self._conn.execute(f"PRAGMA main.user_version = {version:d}")
            except sqlite3.Error:
                self.rollback()
                raise

    def fingerprint(self) -> str:
        with _told(self._target):
            return fingerprint(self._conn)

    def receipt(self, job_id: str) -> Receipt | None:
        with _told(self._target):
            return receipts.read(self._conn, job_id)

    def backup(self, to: Path, progress: Progress, stop: Stop) -> Kept:
        return backup.copy(self._target.path, to, self.fingerprint(), progress, stop)

    def rehearse(self, work: Work, timeout: float, stop: Stop) -> Rehearsal:
        with _told(self._target), rehearsal.copied(self._target.path, stop) as copy:
            guarded(copy.conn)
            return rehearsal.run(copy, SqliteSession(self._target, copy.conn), work, timeout, stop)

    def run(self, work: Work, timeout: float, progress: Progress, stop: Stop) -> Ran:
        """Receipt, every statement with a guard after it, checks, receipt read back. `timeout`: seconds a statement."""
        if not self._conn.in_transaction:
            raise RuntimeError("run() needs the lock")
        clock, guard = _Clock(timeout, stop), Guard()
        self.written = guard.written
        rows: list[int] = []
        try:
            self._conn.set_progress_handler(clock, _OPCODES)
            self._check_preconditions(work)
            before = fingerprint(self._conn)
            named_before = _objects_naming_ours(self._conn)
            broken_before = None if self._is_wal() else _broken_keys(self._conn)
            receipts.begin(self._conn, work)
            with watch.over(self._conn, clock):
                self._run_statements(work.statements, guard, clock, rows, progress)
            after = self._check_result(named_before, broken_before)
            if not receipts.finish(self._conn, work, rows, before, after):
                raise Failed(Signal.CHECK_FAILED, "the receipt does not read back as it was written")
            return Ran(tuple(rows), after)
        except Failed as failed:
            self.rollback()
            raise Failed(failed.signal, failed.detail, failed.statement, len(rows)) from None
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as fault:
            statement = clock.statement if 0 < clock.statement <= len(work.statements) else None
            blamed = _blame(fault, guard, clock, statement)
            self.rollback()
            raise Failed(*blamed, statement, len(rows)) from None
        except BaseException:
            self.rollback()
            raise

    def _run_statements(
        self, statements: Sequence[str], guard: Guard, clock: "_Clock", rows: list[int], progress: Progress
    ) -> None:
        """Run each statement with the guard before and after it; `rows` grows by the rows each one changed."""
        conn = self._conn
        conn.set_authorizer(guard.authorizer)
        conn.text_factory = bytes  # what a SELECT of the plan returns is not looked at
        with contextlib.closing(conn.cursor()) as cursor:  # one left open would keep the file open, too
            execute, stop, add, look = cursor.execute, clock.stop, rows.append, time.monotonic
            timeout = clock.timeout
            clock.deadline = look() + timeout
            total = conn.total_changes
            count = len(statements)
            mask = 0 if count < 1_000 else 63  # of many, asking and telling once in 64 is enough, and costs less
            for at, statement in enumerate(statements, 1):
                clock.statement = at
                guard.compiled = False
                if execute(statement).description is not None:
                    for _row in cursor:
                        pass
                if guard.denied is not None:  # SQLite asked for a part of it only, and went on without
                    raise Failed(Signal.FORBIDDEN_STATEMENT, f"statement {at} may not {guard.denied}", at)
                if not guard.compiled and not _is_sql(cursor, statement):
                    raise Failed(Signal.FORBIDDEN_STATEMENT, f"statement {at} holds no SQL at all", at)
                if not conn.in_transaction:
                    raise Failed(Signal.FORBIDDEN_STATEMENT, f"statement {at} ended the transaction", at)
                if (seen := look()) > clock.deadline:  # one SQL function can outlast the progress handler
                    raise Failed(Signal.STATEMENT_TIMEOUT, f"statement {at} ran longer than {timeout:g} s", at)
                clock.deadline = seen + timeout
                due = not at & mask or at == count
                if due and (by := stop()) is not None:
                    raise Failed(Signal.INTERRUPTED, f"{by} after statement {at}", at)
                now = conn.total_changes
                add(now - total)
                total = now
                if due:
                    progress(at, count)
        clock.statement = count + 1
        conn.set_authorizer(None)
        conn.text_factory = str

    def commit(self) -> None:
        if _inode(self._target.path) != self.place:
            self.rollback()
            raise Failed(Signal.TARGET_FAULT, "another file stands in the target's place now")
        try:
            self._conn.execute("COMMIT")
        except sqlite3.Error as fault:
            if self._conn.in_transaction:
                self.rollback()
                raise Failed(Signal.TARGET_FAULT, f"the commit did not go through: {fault}") from None
            raise CannotTry(f"the commit's outcome is unknown: {fault}") from None

    def rollback(self) -> None:
        self._conn.set_progress_handler(None, 0)
        self._conn.set_authorizer(None)
        self._conn.text_factory = str
        # SQLite may have rolled back already; where it cannot, the next opener plays the journal back.
        if self._conn.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._conn.execute("ROLLBACK")

    def _check_preconditions(self, work: Work) -> None:
        for job_id in work.after:
            receipt = receipts.read(self._conn, job_id)
            if receipt is None or receipt.status != "applied":
                stands = "has no receipt here" if receipt is None else f"is {receipt.status} here"
                raise Failed(Signal.CHECK_FAILED, f"the plan comes after job {job_id}, which {stands}")
        if work.retry_of is not None and receipts.read(self._conn, work.retry_of) is not None:
            had = f"the plan retries job {work.retry_of}, which has a receipt here: it had its effect"
            raise Failed(Signal.CHECK_FAILED, had)

    def _check_result(self, named_before: set[tuple[str, ...]], broken_before: Counter[_Key] | None) -> str:
        """No new object names our tables, no new broken foreign key; the fingerprint that the job leaves."""
        named = _objects_naming_ours(self._conn) - named_before
        if named:
            kind, name = min(named)[:2]
            raise Failed(Signal.FORBIDDEN_STATEMENT, f"the {kind} {name} names the receipts' table")
        broken = _broken_keys(self._conn)
        if broken:
            broken -= self._broken_before() if broken_before is None else broken_before
        if broken:
            table, _row, what = min(broken, key=str)
            raise Failed(Signal.CHECK_FAILED, f"foreign_key_check: a row of {table} points to no row of {what}")
        return fingerprint(self._conn)

    def _is_wal(self) -> bool:
        return bool(self._conn.execute("PRAGMA main.journal_mode").fetchone() == ("wal",))

    def _broken_before(self) -> Counter[_Key]:
        """What was broken before the plan, seen by a reader of the committed state. Only in WAL mode may one read it
        whatever the plan wrote; in rollback mode it is counted beforehand."""
        uri = f"{self._target.path.as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as reader:
            return _broken_keys(reader)


class _Clock:
    """The progress handler: ends a statement that has run for `timeout` seconds, or when somebody asks to stop."""

    def __init__(self, timeout: float, stop: Stop) -> None:
        self.timeout = timeout
        self.stop = stop
        self.statement = 0
        self.late = False
        self.stopped: str | None = None
        self.deadline = time.monotonic() + timeout

    def __call__(self) -> int:
        self.late = time.monotonic() > self.deadline
        self.stopped = self.stop()
        return int(self.late or self.stopped is not None)


def _same(one: Path, other: Path) -> bool:
    """Whether both are the same file, or would be."""
    try:
        return one.samefile(other)
    except (OSError, ValueError, RuntimeError):
        pass
    try:
        return one.resolve() == other.resolve()
    except (OSError, ValueError, RuntimeError):
        return False


def _inode(path: Path) -> tuple[int, int] | None:
    """Which file stands at `path` now."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _objects_naming_ours(conn: sqlite3.Connection) -> set[tuple[str, ...]]:
    """Triggers, views and tables, permanent or temporary, whose SQL holds one of our names as a word of its own. Names
    have one spelling in SQLite but for case and quotes, so a search of the text misses none; one in a comment is
    refused too."""
    holds = " OR ".join(f"instr(lower(sql), '{ours}')" for ours in sorted(OURS))
    ours = ", ".join(f"'{name}'" for name in sorted(OURS))
    others = {"main": f"lower(tbl_name) NOT IN ({ours})", "temp": "1"}  # ours are main's: receipts.check looks at them
    return {
        row
        for schema, other in others.items()
        for row in conn.execute(f"SELECT type, name, sql FROM {schema}.sqlite_master WHERE ({holds}) AND {other}")  # noqa: S608
        if _NAMES_OURS.search(row[2])
    }


def _broken_keys(conn: sqlite3.Connection) -> Counter[_Key]:
    """How often each foreign key is broken: table, row (None without rowid) and parent, or why it cannot be checked."""
    try:
        return Counter(row[:3] for row in conn.execute("PRAGMA main.foreign_key_check"))
    except sqlite3.OperationalError as fault:
        if _code(fault) != sqlite3.SQLITE_ERROR:
            raise
    # One key that cannot be checked (its parent has no such unique key) ends the check of all: go table by table.
    found: Counter[_Key] = Counter()
    for (table,) in conn.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall():
        quoted = table.replace('"', '""')
        try:
            found.update(row[:3] for row in conn.execute(f'PRAGMA main.foreign_key_check("{quoted}")'))
        except sqlite3.OperationalError as fault:
            if _code(fault) != sqlite3.SQLITE_ERROR:
                raise
            found[table, None, f"its parent: {fault}"] += 1
    return found


def _is_sql(cursor: sqlite3.Cursor, statement: str) -> bool:
    """Whether SQLite compiles anything of a statement it asked no leave for, like `DROP TABLE IF EXISTS missing`."""
    try:
        return cursor.execute(f"EXPLAIN {statement}").fetchone() is not None
    except sqlite3.OperationalError:
        return False


def _code(fault: Exception) -> int:
    """SQLite's primary result code; 0 for a fault that is not SQLite's own."""
    return int(getattr(fault, "sqlite_errorcode", 0)) & 0xFF


def _blame(fault: Exception, guard: Guard, clock: _Clock, at: int | None) -> tuple[Signal, str]:
    """The signal and the sentence for what stopped the transaction."""
    where = f"statement {at}" if at else "the final checks" if clock.statement else "the checks before it"
    if clock.stopped is not None:
        return Signal.INTERRUPTED, f"{clock.stopped} during {where}"
    if clock.late:
        return Signal.STATEMENT_TIMEOUT, f"{where} ran longer than {clock.timeout:g} s"
    if guard.denied is not None:
        return Signal.FORBIDDEN_STATEMENT, f"{where} may not {guard.denied}"
    code = _code(fault)
    if code == sqlite3.SQLITE_INTERRUPT:  # not by the clock: an exception, as Ctrl-C raises it, in the handler
        return Signal.INTERRUPTED, f"interrupted during {where}"
    if code in _TROUBLE:
        return Signal.TARGET_FAULT, f"the target failed at {where}: {fault}"
    if isinstance(fault, sqlite3.ProgrammingError | sqlite3.Warning) and "one statement" in str(fault):
        return Signal.FORBIDDEN_STATEMENT, f"{where} holds more than one statement"
    return Signal.SQL_ERROR, f"{where}: {fault}"


@contextlib.contextmanager
def _unless_locked() -> Iterator[None]:
    """Whoever is writing just now will be waited for by what comes next: `lock` for as long as it was told to."""
    try:
        yield
    except sqlite3.OperationalError as fault:
        if _code(fault) != sqlite3.SQLITE_BUSY:
            raise


@contextlib.contextmanager
def _told(target: SqliteTarget) -> Iterator[None]:
    """Every fault of the file, the disk or another process as one sentence."""
    try:
        yield
    except sqlite3.Error as fault:
        code = _code(fault)
        if code == sqlite3.SQLITE_BUSY:
            what = "is locked by another process"
        elif code == sqlite3.SQLITE_NOTADB:
            what = "is not a SQLite database"
        elif code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
            what = "cannot be written"
        elif code == sqlite3.SQLITE_CORRUPT:
            what = "is corrupt"
        elif code == sqlite3.SQLITE_FULL:
            what = "is on a full disk"
        else:
            what = "cannot be used"
        raise CannotTry(f"the target {target.path} {what} ({fault}). Nothing was written.") from None
