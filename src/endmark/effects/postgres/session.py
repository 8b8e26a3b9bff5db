"""The session with a PostgreSQL target: its lock, one guarded transaction, its commit."""

import contextlib
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from endmark.core.refusal import CannotTry, Signal
from endmark.effects.postgres import blame, fingerprint, guard, holders, places, receipts, standing
from endmark.effects.postgres.channel import Channel, Fault, Late, Lost, Reply, Step, Stopped
from endmark.effects.target import Failed, Kept, Progress, Ran, Receipt, Stop, Work

if TYPE_CHECKING:
    from endmark.effects.postgres.target import PostgresTarget

_ANSWER = 60.0  # seconds that the server may take for a question of ours, the commit too
SLACK = 5.0  # seconds beyond a timeout of the server's own, until it is taken for dead
_LOCK_LEAST = 3.0  # seconds that a statement waits for a lock at least: autovacuum gives way after one
_MS_MAX = 2_000_000_000

# From here on nothing that a plan or the role's settings made is in the way: names are looked up in pg_catalog alone.
# The last few say how the catalogs are printed; a commit is durable before it is acknowledged, whatever the plan set.
_OWN = b"""SELECT pg_catalog.set_config('role', 'none', true),
pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true), pg_catalog.set_config('jit', 'off', true),
pg_catalog.set_config('statement_timeout', '60s', true), pg_catalog.set_config('lock_timeout', $1, true),
pg_catalog.set_config('synchronous_commit', CASE pg_catalog.current_setting('synchronous_commit')
WHEN 'off' THEN 'on' WHEN 'local' THEN 'on' ELSE pg_catalog.current_setting('synchronous_commit') END, true),
pg_catalog.set_config('quote_all_identifiers', 'off', true), pg_catalog.set_config('datestyle', 'ISO, YMD', true),
pg_catalog.set_config('intervalstyle', 'postgres', true), pg_catalog.set_config('timezone', 'UTC', true),
pg_catalog.set_config('bytea_output', 'hex', true), pg_catalog.set_config('extra_float_digits', '1', true)"""
BEGIN = Step(b"BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE, NOT DEFERRABLE")
READ = Step(b"BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY, NOT DEFERRABLE")
ROLLBACK = Step(b"ROLLBACK")
_COMMIT = Step(b"COMMIT")
# Back to what the role, the database and the URL set, for the plan.
ITS_OWN = (Step(b"RESET ROLE"), Step(b"RESET ALL"))
ONESELF = Step(b"SET SESSION AUTHORIZATION DEFAULT")
IMMEDIATE = Step(b"SET CONSTRAINTS ALL IMMEDIATE")


def own(lock_ms: int) -> Step:
    """What goes before every question of ours; one waits at most `lock_ms` for a lock of somebody else."""
    return Step(_OWN, (str(lock_ms),))


class PostgresSession:
    """See `effects.target.Session`."""

    def __init__(self, target: "PostgresTarget", channel: Channel) -> None:
        self._target = target
        self._channel = channel
        self._place: object = None
        self._lock_ms = ms(_LOCK_LEAST)
        self._locked = False
        self._seen: str | None = None  # the fingerprint as last read under the lock
        self._blocked_by: str | None = None  # who is in the way of what runs now; None before anybody looked

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rollback()  # said and heard, so that the lock is free when this returns
        self._channel.close()

    @property
    def place(self) -> object:
        """The cluster's own number, where the role may read it, and the database's. Raises CannotTry."""
        if self._place is None:
            self._place = self._look(places.ASK).rows[0]
        return self._place

    def lock(self, timeout: float) -> None:
        """An advisory lock that ends with the transaction, which no statement can release; readers and other writers go
        on. Waits at most `timeout` seconds, and says who holds it."""
        self._lock_ms = ms(max(timeout, _LOCK_LEAST))
        self._seen = None
        with self._told():
            begin = (BEGIN, own(self._lock_ms), holders.TRY_LOCK)
            *_, tried, place, found = self._ask(*begin, places.ASK, standing.ASK)
            self._place = place.rows[0]
            if tried.rows != [("true",)]:
                self._wait_for_lock(timeout)
                (found,) = self._ask(standing.ASK)
        try:
            standing.believe(standing.read(found), self._target.identity, self._target.allow_owner)
        except CannotTry:
            self.rollback()
            raise
        self._target.believed = self.place
        self._locked = True

    def _wait_for_lock(self, timeout: float) -> None:
        try:
            if timeout > 0:
                wait = Step(b"SELECT pg_catalog.set_config('lock_timeout', $1, true)", (str(ms(timeout)),))
                longer = Step(b"SELECT pg_catalog.set_config('statement_timeout', '0', true)")
                steps = (wait, longer, holders.LOCK, own(self._lock_ms))
                self._channel.ask(*steps, silence=timeout + SLACK)
                return
        except Fault as fault:
            if not guard.lock_timed_out(fault):
                raise
        self.rollback()
        replies = self._ask(READ, own(self._lock_ms), holders.OF_TARGET, ROLLBACK)
        who = holders.words(replies[2]) or "another session, which has just ended"
        held = f"the target {self._target.identity} is locked by {who}"
        raise CannotTry(f"{held}. Nothing was written; try again when that is done.")

    def fingerprint(self) -> str:
        (row,) = self._look(fingerprint.ASK).rows
        self._seen = row[0] or ""
        return self._seen

    def receipt(self, job_id: str) -> Receipt | None:
        if self._place is None and self._target.believed is not None:  # one journey for both
            with self._told():
                replies = self._ask(READ, own(self._lock_ms), places.ASK, receipts.read(job_id), ROLLBACK)
            self._place = replies[2].rows[0]
            if self._place == self._target.believed:
                return receipts.found(replies[3])
        if self._target.believed != self.place:
            found = standing.read(self._look(standing.ASK))
            standing.believe(found, self._target.identity, self._target.allow_owner)
            self._target.believed = self.place
        return receipts.found(self._look(receipts.read(job_id)))

    def standing(self) -> standing.Standing:
        """What stands in the target and what the role may do. Raises CannotTry."""
        return standing.read(self._look(standing.ASK))

    def _look(self, question: Step) -> Reply:
        """Ask something that writes nothing: under the lock, or in a transaction that ends at once."""
        with self._told():
            if self._locked:
                return self._ask(question)[0]
            return self._ask(READ, own(self._lock_ms), question, ROLLBACK)[2]

    def _ask(self, *steps: Step) -> list[Reply]:
        """Questions of ours, and who was in their way if they had to wait."""
        self._blocked_by = None
        return self._channel.ask(*steps, silence=_ANSWER, waiting=self._who_blocks)

    def backup(self, to: Path, progress: Progress, stop: Stop) -> Kept:
        raise CannotTry(
            "endmark makes no backup of a PostgreSQL database by itself. Nothing was written; name a command of yours, "
            'like backup = ["pg_dump", "--file=..."], or set backup = "none".'
        )

    def run(self, work: Work, timeout: float, progress: Progress, stop: Stop) -> Ran:
        """Receipt, every statement with a guard after it, checks, receipt read back. `timeout`: seconds a statement."""
        if not self._locked:
            raise RuntimeError("run() needs the lock")
        running = Running(work.statements, timeout)
        with self._blamed(running, stop):
            self._check_preconditions(work)
            before = self._seen or self.fingerprint()
            nonce = secrets.token_hex(32)
            named, xact = self._begin(work, nonce)
            still = guard.still(xact, ms(timeout), self._lock_ms)
            self._run_statements(running, still, progress, stop)
            after = self._finish(work, nonce, still, named, timeout, stop)
            changed = " ".join(map(str, running.rows))
            counts = receipts.count(work, nonce, changed, len(running.rows), before, after)
            *_, found = self._ask(own(self._lock_ms), counts, receipts.read(work.job_id))
            written = Receipt(
                work.job_id, len(work.statements), work.sha256, "applied", len(running.rows), changed, after
            )
            if receipts.found(found) != written:
                raise Failed(Signal.CHECK_FAILED, "the receipt does not read back as it was written")
            return Ran(tuple(running.rows), after)

    @contextlib.contextmanager
    def _blamed(self, running: "Running", stop: Stop) -> Iterator[None]:
        """Whatever stops a plan rolls everything back, and is Failed, with how far the plan had come."""
        try:
            yield
        except Failed as failed:
            self.rollback()
            raise Failed(failed.signal, failed.detail, failed.statement, len(running.rows)) from None
        except (Fault, Lost, Late, Stopped) as fault:
            self.rollback()
            signal, detail = blame.of(fault, running, stop(), self._blocked_by)
            raise Failed(signal, detail, running.statement, len(running.rows)) from None
        except BaseException:
            self.rollback()
            raise

    def _begin(self, work: Work, nonce: str) -> tuple[list[tuple[str | None, ...]], str]:
        """Write the receipt as `applying`: what named our tables before, and the transaction's number."""
        named, begun, *_ = self._ask(guard.NAMING, receipts.begin(work, nonce), *ITS_OWN)
        return named.rows, begun.rows[0][0] or ""

    def _run_statements(self, running: "Running", still: Step, progress: Progress, stop: Stop) -> None:
        """Run each statement with the guard after it."""
        count = len(running.statements)
        often = count < 1_000
        for at, statement in enumerate(running.statements, 1):
            if "\0" in statement:
                raise Failed(Signal.FORBIDDEN_STATEMENT, f"statement {at} holds a NUL, which no SQL can", at)
        replies = self._channel.talk(
            _guarded(running.statements, still),
            silence=running.timeout + SLACK,
            stop=stop,
            prompt=2,  # a statement and its guard
            waiting=self._who_blocks,
        )
        with contextlib.closing(replies):
            running.since = time.monotonic()
            for reply in replies:
                at = running.at
                if not running.in_guard:
                    if (why := guard.forbidden(reply)) is not None:
                        raise Failed(Signal.FORBIDDEN_STATEMENT, f"statement {at} {why}", at)
                    running.changed, running.in_guard = guard.rows_changed(reply), True
                    continue
                if at:
                    running.rows.append(running.changed)
                if (by := stop()) is not None:
                    raise Failed(Signal.INTERRUPTED, f"{by} after statement {at}", at or None)
                if at and (often or not at % 64 or at == count):
                    progress(at, count)
                running.next()
                self._blocked_by = None

    def _finish(
        self,
        work: Work,
        nonce: str,
        still: Step,
        named: list[tuple[str | None, ...]],
        timeout: float,
        stop: Stop,
    ) -> str:
        """Everything that is left to check, and `applied`: the fingerprint that the job leaves."""
        ours = own(self._lock_ms)
        prove = (ONESELF, ours, still, guard.NAMING, receipts.finish(work, nonce))
        replies = self._ask_long((*prove, IMMEDIATE, ONESELF, ours, still, fingerprint.ASK), timeout, stop)
        new = [row for row in replies[3].rows if row not in named]
        if new:
            kind, name = new[0]
            raise Failed(Signal.FORBIDDEN_STATEMENT, f"the {kind} {name} names, or is named like, the receipts' table")
        return replies[-1].rows[0][0] or ""

    def _ask_long(self, steps: Sequence[Step], timeout: float, stop: Stop) -> list[Reply]:
        """Questions of ours in which what the plan deferred runs: it may take as long as a statement."""
        self._blocked_by = None
        silence = max(_ANSWER, timeout + SLACK)
        return list(
            self._channel.talk(steps, silence=silence, stop=stop, keep=True, prompt=1, waiting=self._who_blocks)
        )

    def _who_blocks(self, waited: float) -> None:
        """Once for a statement that has waited for half of what it may: who is in its way. Later nobody can say."""
        if self._blocked_by is not None or waited * 2_000 < self._lock_ms:
            return
        self._blocked_by = ""
        with contextlib.suppress(CannotTry, Fault, Lost, Late):
            beside = self._target.connect()
            try:
                question = holders.blocking(self._channel.pid)
                replies = beside.ask(READ, own(self._lock_ms), question, ROLLBACK, silence=SLACK)
                self._blocked_by = holders.words(replies[2])
            finally:
                beside.close()

    def commit(self) -> None:
        """Our own COMMIT, whose tag must say so."""
        self._locked = False
        try:
            (reply,) = self._channel.ask(_COMMIT, silence=_ANSWER)
        except Fault as fault:
            if fault.severity == "ERROR" and self._channel.is_open and not self._channel.in_transaction:
                why = f"the commit did not go through: {blame.words(fault)}"
                raise Failed(Signal.TARGET_FAULT, why) from None
            raise CannotTry(f"the commit's outcome is unknown: {blame.words(fault)}") from None
        except (Lost, Late, Stopped) as fault:
            self._channel.close()
            raise CannotTry(f"the commit's outcome is unknown: {blame.words(fault)}") from None
        if reply.tag != "COMMIT":
            raise Failed(Signal.TARGET_FAULT, f"the server answered the commit with {reply.tag}")

    def rollback(self) -> None:
        self._locked = False
        try:
            if self._channel.in_transaction:
                self._channel.ask(ROLLBACK, silence=SLACK)
        except (Fault, Lost, Late, Stopped):
            self._channel.close()

    def _check_preconditions(self, work: Work) -> None:
        for job_id in work.after:
            receipt = self.receipt(job_id)
            if receipt is None or receipt.status != "applied":
                stands = "has no receipt here" if receipt is None else f"is {receipt.status} here"
                raise Failed(Signal.CHECK_FAILED, f"the plan comes after job {job_id}, which {stands}")
        if work.retry_of is not None and self.receipt(work.retry_of) is not None:
            had = f"the plan retries job {work.retry_of}, which has a receipt here: it had its effect"
            raise Failed(Signal.CHECK_FAILED, had)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Every fault of the server or the network as one sentence."""
        try:
            yield
        except (Fault, Lost, Late, Stopped) as fault:
            self.rollback()
            why = blame.words(fault)
            if isinstance(fault, Fault) and guard.lock_timed_out(fault):
                why = blame.locked("a look at it", self._blocked_by)
            raise CannotTry(f"the target {self._target.identity} cannot be used: {why}. Nothing was written.") from None


class Running:
    """How far a plan has come. `at`: the statement at work, from 1; 0 before the first, one more after the last."""

    def __init__(self, statements: Sequence[str], timeout: float) -> None:
        self.statements = statements
        self.timeout = timeout
        self.at = 0
        self.in_guard = True  # one stands before the first statement, too: it sets the timeouts
        self.since = time.monotonic()
        self.changed = 0  # rows that the statement at work changed
        self.rows: list[int] = []  # the same of each one that the guard let pass

    @property
    def statement(self) -> int | None:
        """The statement at work, or None."""
        return self.at if 0 < self.at <= len(self.statements) else None

    def next(self) -> None:
        self.in_guard = False
        self.since = time.monotonic()
        self.at += 1


def _guarded(statements: Sequence[str], still: Step) -> Iterator[Step]:
    yield still
    for statement in statements:
        yield Step(statement.encode())
        yield still


def ms(seconds: float) -> int:
    """Whole milliseconds; never 0, which would be no limit at all."""
    return max(1, min(int(seconds * 1_000), _MS_MAX))
