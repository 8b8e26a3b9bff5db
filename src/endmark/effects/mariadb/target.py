"""The session with a MariaDB or MySQL target: its lock, and a plan in one transaction or statement by statement."""

import contextlib
import functools
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pymysql

from endmark.core.evidence import JOURNAL, ONE_ACCOUNT, UNREHEARSED, UNTRIED_SERVER
from endmark.core.refusal import CannotTry, Signal
from endmark.effects.mariadb import backup, journal, lock, merging, receipts, rehearsal, stepwise, transaction
from endmark.effects.mariadb.address import Address, parse
from endmark.effects.mariadb.clone import NoClone
from endmark.effects.mariadb.connection import (
    READ_TIMEOUT,
    close,
    connect,
    limit_waits,
    look,
    rows,
    signal_of,
    told,
    words,
)
from endmark.effects.mariadb.fingerprint import fingerprint
from endmark.effects.mariadb.guard import Does
from endmark.effects.mariadb.journal import Line
from endmark.effects.mariadb.judging import Judgements, databases_of, judge_all
from endmark.effects.mariadb.rehearsal import Rehearsed
from endmark.effects.mariadb.runner import Lost, Runner
from endmark.effects.mariadb.stepwise import Cause, Drifted
from endmark.effects.mariadb.transaction import Escaped
from endmark.effects.target import (
    Ended,
    Failed,
    InDoubt,
    Kept,
    Merged,
    Partial,
    Progress,
    Ran,
    Reach,
    Receipt,
    Rehearsal,
    Stop,
    Work,
)

_UNDO_TIMEOUT = 300.0  # seconds a down may run when a crash is settled
_READ_WAIT = 10  # seconds that a look-up waits for locks of others
_LOCK_WAIT_MAX = 86_400.0


class MariadbTarget:
    """One database of a server. `identity` names the place, without user or password."""

    def __init__(self, url: str) -> None:
        """Raises CannotTry for a URL that names no database of a server."""
        self.address: Address = parse(url)
        self.identity = self.address.identity

    def is_file(self, path: Path) -> bool:
        return False

    def reach(self) -> Reach:
        where = self.address
        words = {"host": where.host, "port": str(where.port), "user": where.user or "", "database": where.database}
        environ = {"MYSQL_PWD": where.password} if where.password else {}
        if where.unix_socket:
            environ["MYSQL_UNIX_PORT"] = words["socket"] = where.unix_socket
        return Reach(environ, words, (where.password,) if where.password else ())

    def open(self) -> "MariadbSession":
        """A session with the database, which must exist. Raises CannotTry."""
        with told(self.identity):
            return MariadbSession(self)


class MariadbSession:
    """See `effects.target.Session`, `Stepwise`, `Rehearses` and `Merges`.

    Its connection has the lock and the books; plans run in another.
    """

    needs_lock = True
    keeps_lock = True

    def __init__(self, target: MariadbTarget) -> None:
        """Raises CannotTry and pymysql's errors."""
        self._target = target
        self._conn = connect(target.address, read_timeout=READ_TIMEOUT)
        self._runner: Runner | None = None
        self._locked = False
        self._finish: tuple[Receipt, list[Line], str] | None = None
        try:
            self._server = look(self._conn)
            self._database = self._server.database
            limit_waits(self._conn, _READ_WAIT)
        except BaseException:
            close(self._conn)
            raise
        self.place = (*self._server.place, self._database)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rollback()
        close(self._conn)

    def lock(self, timeout: float) -> None:
        """GET_LOCK: other gates wait, everybody else goes on. Waits at most `timeout` seconds."""
        seconds = min(max(timeout, 0.0), _LOCK_WAIT_MAX)
        with told(self._target.identity):
            lock.take_both(self._conn, self._database, seconds)
        self._locked = True

    def fingerprint(self) -> str:
        with told(self._target.identity):
            return fingerprint(self._conn)

    def receipt(self, job_id: str) -> Receipt | None:
        with told(self._target.identity):
            return receipts.read(self._conn, job_id)

    def backup(self, to: Path, progress: Progress, stop: Stop) -> Kept:
        return backup.dump(self._target.address, to, progress, stop)

    def rehearse(self, work: Work, timeout: float, stop: Stop) -> Rehearsal:
        if not self._locked:
            raise RuntimeError("rehearse() needs the lock")
        since = time.monotonic()
        with told(self._target.identity):
            statements, downs = self._judged(work)
            self._check_preconditions(work)
            transaction.check_tables(self._conn, statements)
            self._check_room(work)
            if downs is None and work.down is not None:  # of a plan that is atomic here
                downs = self._judge_downs(work)
            found = self._rehearse(statements, downs, timeout, stop)
            rehearse = functools.partial(self._rehearse, timeout=timeout, stop=stop)
            merges, apart = merging.offers(work, statements, downs, databases_of(self._conn), found, rehearse)
            locks, counts = rehearsal.locks(self._conn, statements)
        limits = (
            "rows: the clone has none, and statements about rows were only explained there",
            "locks: those that the words of a statement ask for",
        )
        return Rehearsal(
            how="a clone of what the plan reaches, in a scratch database",
            before=found.fingerprints[0],
            after=found.fingerprints[-1],
            after_downs=None if downs is None else found.fingerprints[0],
            changes=found.changes,
            locks=locks,
            rows=tuple(counts.items()),
            limits=limits,
            merges=merges,
            apart=apart,
            seconds=time.monotonic() - since,
        )

    def merge(self, work: Work, timeout: float, stop: Stop) -> Merged:
        if not self._locked:
            raise RuntimeError("merge() needs the lock")
        with told(self._target.identity):
            databases = databases_of(self._conn)
            statements, downs = judge_all(work.statements, "statement", databases), self._judge_downs(work)
            self._check_preconditions(work)
            rehearse = functools.partial(self._rehearse, timeout=timeout, stop=stop)
            return merging.merge(work, statements, downs, databases, rehearse)

    # ---- a job ------------------------------------------------------------------------------------------------

    def run(self, work: Work, timeout: float, progress: Progress, stop: Stop) -> Ran:
        """Run a plan: of rows alone in one transaction, else statement by statement. `timeout`: seconds a statement.

        Raises Failed when nothing of it stands, Partial when something does, InDoubt when nobody can know yet.
        """
        if not self._locked:
            raise RuntimeError("run() needs the lock")
        with told(self._target.identity):  # nothing is written until both are through
            statements, downs = self._judged(work)
            self._check_preconditions(work)
            transaction.check_tables(self._conn, statements)
            self._check_room(work)
            in_steps = any(judged.does is Does.SCHEMA for _text, judged in statements)
            before, foreseen, evidence = self._foresee(work, statements, downs, timeout, stop, in_steps)
            receipts.make(self._conn)
            runner = Runner(self._target.address, self._database, self._server, timeout, stop)
        self._runner = runner
        try:
            if in_steps:
                ran = self._run_in_steps(runner, work, statements, foreseen, timeout, progress, stop)
            else:
                ran = self._run_at_once(runner, work, statements, before, progress, stop)
        except (pymysql.err.MySQLError, OSError) as fault:
            raise InDoubt(f"the target {self._target.identity} was lost while the job ran ({words(fault)})") from None
        untried = () if self._server.is_mariadb else (UNTRIED_SERVER,)
        return Ran(
            ran.rows_changed, ran.fingerprint_after, (*evidence, ONE_ACCOUNT, *untried), can_roll_back=not in_steps
        )

    def _judged(self, work: Work) -> tuple[Judgements, Judgements | None]:
        """Every statement and every down, judged before anything runs. Raises Failed, pymysql's errors."""
        databases = databases_of(self._conn)
        statements = judge_all(work.statements, "statement", databases)
        downs = self._judge_downs(work)
        if all(judged.does is not Does.SCHEMA for _text, judged in statements) or len(statements) == 1:
            return statements, None
        if work.reverts is None and downs is None:
            raise Failed(
                Signal.FORBIDDEN_STATEMENT,
                f"the plan has {len(statements)} statements and changes the schema, which cannot be rolled back here: "
                "each one needs its down, or a plan of its own ('endmark merge-alters' makes ALTERs of one table one)",
            )
        for n, ((_text, up), (_down, down)) in enumerate(zip(statements, downs or (), strict=False), 1):
            if up.irreversible is not None and work.reverts is None:
                raise Failed(
                    Signal.FORBIDDEN_STATEMENT,
                    f"statement {n} loses {up.irreversible}, which no down brings back: send it as a plan of its own",
                    n,
                )
            if (up.does is Does.SCHEMA) is not (down.does is Does.SCHEMA):
                raise Failed(Signal.FORBIDDEN_STATEMENT, f"the down of statement {n} is of another kind than it", n)
        return statements, downs

    def _judge_downs(self, work: Work) -> Judgements | None:
        databases = databases_of(self._conn)
        return None if work.down is None else judge_all(work.down, "the down of statement", databases)

    def _check_preconditions(self, work: Work) -> None:
        for job_id in work.after:
            receipt = receipts.read(self._conn, job_id)
            if receipt is None or receipt.status != receipts.APPLIED:
                stands = "has no receipt here" if receipt is None else f"is {receipt.status} here"
                raise Failed(Signal.CHECK_FAILED, f"the plan comes after job {job_id}, which {stands}")
        if work.retry_of is not None and receipts.read(self._conn, work.retry_of) is not None:
            had = f"the plan retries job {work.retry_of}, which has a receipt here: it had its effect"
            raise Failed(Signal.CHECK_FAILED, had)

    def _check_room(self, work: Work) -> None:
        """A statement that the server would not take is found before the first one runs. Raises Failed."""
        for n, text in enumerate(work.statements, 1):
            if len(text) * 4 > self._server.packet_max and len(text.encode()) > self._server.packet_max - 1024:
                raise Failed(Signal.SQL_ERROR, f"statement {n} is longer than the server's max_allowed_packet", n)

    def _foresee(
        self, work: Work, statements: Judgements, downs: Judgements | None, timeout: float, stop: Stop, in_steps: bool
    ) -> tuple[str, Sequence[str | None], tuple[str, ...]]:
        """The schema now, the schemas to come, and evidence. Raises Failed, CannotTry, pymysql's errors."""
        if not in_steps:
            return fingerprint(self._conn), (), ()
        try:
            downs = None if work.reverts is not None else downs
            foreseen = self._rehearse(statements, downs, timeout, stop).fingerprints
        except NoClone:
            if len(statements) > 1:
                raise
            now = fingerprint(self._conn)
            return now, (now, None), (JOURNAL, UNREHEARSED)
        return foreseen[0], foreseen, (JOURNAL,)

    def _rehearse(self, statements: Judgements, downs: Judgements | None, timeout: float, stop: Stop) -> Rehearsed:
        return rehearsal.rehearse(self._conn, self._target.address, self._database, statements, downs, timeout, stop)

    def _run_at_once(
        self, runner: Runner, work: Work, statements: Judgements, before: str, progress: Progress, stop: Stop
    ) -> Ran:
        changed: list[int] = []
        gate, count = self._conn, len(statements)
        try:
            transaction.run(gate, runner, work, statements, changed, before, progress, stop)
        except Escaped as escaped:
            if transaction.rolled_back(gate, runner, work.job_id):
                receipts.begin(gate, work)
            receipts.mark(gate, work.job_id, receipts.PARTIAL)
            raise Partial(Signal.FORBIDDEN_STATEMENT, str(escaped), escaped.statement, count) from None
        except (Failed, Lost, pymysql.err.MySQLError, OSError) as fault:
            failed = _as_failed(fault, len(changed))
            if isinstance(fault, Lost) and not runner.gone(gate):
                raise InDoubt(f"{fault}, and may be at work still") from None
            if not transaction.rolled_back(gate, runner, work.job_id):
                receipts.mark(gate, work.job_id, receipts.PARTIAL)
                raise Partial(failed.signal, failed.detail, len(changed), count) from None
            raise failed from None
        return Ran(tuple(changed), before)

    def _run_in_steps(
        self,
        runner: Runner,
        work: Work,
        statements: Judgements,
        foreseen: Sequence[str | None],
        timeout: float,
        progress: Progress,
        stop: Stop,
    ) -> Ran:
        lines = stepwise.lines_of(work, statements, foreseen)
        stepwise.begin(self._conn, work, lines)
        receipt = Receipt(work.job_id, len(statements), work.sha256, receipts.APPLYING)
        changed: list[int] = []
        try:
            after = stepwise.run(self._conn, runner, work, statements, lines, changed, progress, stop)
        except (Failed, Drifted, Lost, pymysql.err.MySQLError, OSError) as fault:
            if not runner.gone(self._conn):
                raise InDoubt(f"{fault}, and may be at work still") from None
            what = f"the schema was changed by somebody else {fault}" if isinstance(fault, Drifted) else ""
            failed = Failed(Signal.CHECK_FAILED, what) if what else _as_failed(fault, len(changed))
            cause = Cause(failed.signal, failed.detail, answered=isinstance(fault, Failed))
            ended = self._end(receipt, cause, timeout, _never, forward=False)
            if ended.receipt is None:
                how = f"; {ended.how}" if ended.how else ""
                undone = ended.how is not None
                raise Failed(
                    failed.signal, failed.detail + how, failed.statement, len(changed), undone=undone
                ) from None
            return Ran(tuple(changed), ended.receipt.fingerprint_after or "")
        numbered = [stepwise.changed_by(line, count) for line, count in zip(lines, changed, strict=True)]
        self._finish = (receipt, numbered, after)
        return Ran(tuple(changed), after)

    def _end(self, receipt: Receipt, cause: Cause, timeout: float, stop: Stop, *, forward: bool) -> Ended:
        def open_runner() -> Runner:
            return Runner(self._target.address, self._database, self._server, timeout, stop)

        return stepwise.end(self._conn, open_runner, receipt, cause, forward=forward)

    def commit(self) -> None:
        """COMMIT of a plan of rows; the receipt as `applied` of one that ran step by step."""
        runner, finish, self._finish = self._runner, self._finish, None
        try:
            if finish is not None:
                stepwise.finish(self._conn, *finish)
            elif runner is not None and runner.in_transaction:
                runner.conn.commit()
        except (pymysql.err.MySQLError, OSError, Failed) as fault:
            raise CannotTry(f"the commit's outcome is unknown: {words(fault)}") from None

    def rollback(self) -> None:
        self._finish = None
        with contextlib.suppress(pymysql.err.MySQLError, OSError):
            if self._runner is not None:
                rows(self._runner.conn, "ROLLBACK")
                rows(self._runner.conn, "DO RELEASE_ALL_LOCKS()")
        if self._runner is not None:
            self._runner.close()
            self._runner = None
        if self._locked:
            self._locked = False
            with contextlib.suppress(pymysql.err.MySQLError, OSError):
                lock.release(self._conn, lock.gate_name(self._database))

    # ---- what a crash or a failure left ----------------------------------------------------------------------

    def unsettled(self) -> str | None:
        with told(self._target.identity):
            found = receipts.unsettled(self._conn)
        if found is None:
            return None
        job_id, status = found
        if status == receipts.APPLYING:
            return f"job {job_id} was interrupted here; 'endmark reconcile' with the ledger it is in settles it"
        return f"job {job_id} stands partly in it, until a person says 'endmark settle {job_id} --reason TEXT'"

    def recover(self, job_id: str, stop: Stop) -> Ended:
        if not self._locked:
            raise RuntimeError("recover() needs the lock")
        with told(self._target.identity):
            receipt = receipts.read(self._conn, job_id)
            if receipt is None or receipt.status not in (receipts.APPLYING, receipts.PARTIAL):
                return Ended(receipt)
            if receipt.status == receipts.PARTIAL:
                raise self._partial(receipt)
        cause = Cause(Signal.LOST, "it was interrupted", answered=False)
        try:
            return self._end(receipt, cause, _UNDO_TIMEOUT, stop, forward=True)
        except (pymysql.err.MySQLError, OSError) as fault:
            raise InDoubt(f"the target was lost while job {job_id} was settled ({words(fault)})") from None

    def _partial(self, receipt: Receipt) -> Partial:
        lines = journal.read(self._conn, receipt.job_id)
        standing = stepwise.standing(lines) if lines else receipt.stmt_count
        return Partial(Signal.LOST, "it was interrupted", standing, receipt.stmt_count)

    def settle(self, job_id: str) -> str:
        if not self._locked:
            raise RuntimeError("settle() needs the lock")
        with told(self._target.identity):
            receipt = receipts.read(self._conn, job_id)
            if receipt is not None and receipt.status in (receipts.PARTIAL, receipts.APPLYING):
                receipts.mark(self._conn, job_id, receipts.SETTLED)
            return fingerprint(self._conn)


def _as_failed(fault: Exception, ran: int) -> Failed:
    if isinstance(fault, Failed):
        return Failed(fault.signal, fault.detail, fault.statement, ran)
    if isinstance(fault, Lost):
        return Failed(Signal.TARGET_FAULT, str(fault), None, ran)
    return Failed(signal_of(fault), words(fault), None, ran)


def _never() -> str | None:
    """What was begun to be undone is undone, whoever asks to stop."""
    return None
