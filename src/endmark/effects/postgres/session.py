"""The session with a PostgreSQL target: its lock, one guarded transaction, its commit."""

import contextlib
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from endmark.core.refusal import CannotTry, Signal
from endmark.effects.postgres import alone, blame, fingerprint, guard, holders, places, questions, receipts, standing
from endmark.effects.postgres.channel import Ahead, Channel, Fault, Late, Lost, Reply, Step, Stopped
from endmark.effects.postgres.running import Running, guarded
from endmark.effects.postgres.witness import Saw, Witness
from endmark.effects.target import Ended, Failed, InDoubt, Kept, Progress, Ran, Receipt, Stop, Work

if TYPE_CHECKING:
    from endmark.effects.postgres.target import PostgresTarget

_ANSWER = 60.0  # seconds that the server may take for a question of ours, the commit too
_SLACK = 5.0  # seconds beyond a timeout of the server's own, until it is taken for dead
_LOCK_LEAST = 3.0  # seconds that a statement waits for a lock at least: autovacuum gives way after one
_AGAIN = 0.05  # seconds between two tries to get the target's lock
_FINGERPRINT, _NAMED = 2, 3  # the steps that are asked with the lock, after the place and what the server is to keep


class PostgresSession:
    """See `effects.target.Session`."""

    def __init__(self, target: "PostgresTarget", channel: Channel) -> None:
        self._target = target
        self._channel = channel
        self._place: object = None
        self._lock_ms = questions.ms(_LOCK_LEAST)
        self._locked = False
        self._held = False  # whether the lock is held beyond the transaction, too
        self._unfinished: alone.Unfinished | None = None  # as found under the lock
        self._powerful = True  # whether the role could change what guards it
        self._receipt: tuple[str, Receipt | None] | None = None  # the one that was last read under the lock
        self._ahead: Ahead | None = None  # what was asked with the lock
        self._fresh = False  # whether the fingerprint was asked with the lock, and nobody wanted to know it yet
        self._seen: str | None = None  # the fingerprint as last read under the lock
        self._kept: fingerprint.Kept | None = None
        self._witness: Witness | None = None
        self._blocked_by: str | None = None  # who is in the way of what runs now; None before anybody looked

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rollback()  # said and heard, so that the lock is free when this returns
        self._channel.close()
        self._dismiss()

    @property
    def place(self) -> object:
        """The cluster's own number, where the role may read it, and the database's. Raises CannotTry."""
        if self._place is None:
            self._place = self._look(places.ASK).rows[0]
        return self._place

    def lock(self, timeout: float) -> None:
        """An advisory lock that ends with the transaction, which no statement can release; readers and other writers go
        on. Waits at most `timeout` seconds, and says who holds it. The server may still be at the fingerprint then."""
        self._lock_ms = questions.ms(max(timeout, _LOCK_LEAST))
        self._seen = self._receipt = self._ahead = None
        end = time.monotonic() + timeout
        self._dismiss()
        self._witness = witness = Witness(self._target.connect, self._lock_ms)
        with self._told():
            pid = self._try_lock()
            while pid is None:
                # Without a transaction: what runs CONCURRENTLY under the lock waits for each one that is open.
                self.rollback()
                self._dismiss()
                if time.monotonic() >= end:
                    raise CannotTry(self._who_holds())
                time.sleep(min(_AGAIN, max(0.0, end - time.monotonic())))
                pid = self._try_lock()
            witness.look(pid)
            first = self._kept is None  # a second time, a rehearsed plan has had its say here
            self._kept = kept = self._kept or fingerprint.Kept()
            asks = (kept.keep, kept.ask) if first else (questions.NOTHING, fingerprint.ASK)
            self._blocked_by = None
            self._ahead = self._channel.ask_ahead(
                places.ASK, *asks, guard.NAMING, silence=_ANSWER, waiting=self._who_blocks
            )
            self._place = self._ahead.hear(0).rows[0]
            if (saw := witness.saw()) is None:
                questioned = (standing.ASK, alone.FIND)
                replies, fault = self._channel.ask_but_last(*questioned, silence=_ANSWER, waiting=self._who_blocks)
                saw = Saw(replies[0], None if fault else replies[1], fault)
        try:
            stands = standing.read(saw.standing)
            standing.believe(stands, self._target.identity, self._target.allow_owner)
            with self._told():
                if saw.fault is not None:
                    raise saw.fault
            self._unfinished = None if saw.unfinished is None else alone.unfinished(saw.unfinished)
        except CannotTry:
            self.rollback()
            raise
        self._powerful = bool(stands.powers)
        self._target.believed = self.place
        self._locked = self._fresh = True

    def _try_lock(self) -> str | None:
        """Begin and try to take the lock: the server process that has it then, or None. Never waits."""
        tried, pid = self._ask(questions.BEGIN, questions.own(self._lock_ms), holders.TRY_LOCK, holders.PID)[2:]
        return pid.rows[0][0] if tried.rows == [("true",)] else None

    def _dismiss(self) -> None:
        if self._witness is not None:
            self._witness.close()
            self._witness = None

    def beside(self) -> Self | None:
        """A session on another connection than this one, which was opened meanwhile; None where there is none."""
        if self._witness is None:
            return None
        is_here = self._witness.saw() is not None  # on the very server, and in the very database
        channel = self._witness.take()
        if channel is None:
            return None
        other = type(self)(self._target, channel)
        other._place = self._place if is_here else None
        return other

    def fingerprint(self) -> str:
        if self._locked and self._fresh:
            self._fresh = False
            return self._seen_first()
        (row,) = self._look(fingerprint.ASK).rows
        self._seen = row[0] or ""
        return self._seen

    def _seen_first(self) -> str:
        """The fingerprint that was asked with the lock. Raises CannotTry."""
        if self._seen is None:
            assert self._ahead is not None  # noqa: S101  # it was asked with the lock
            with self._told():
                self._seen = self._ahead.hear(_FINGERPRINT).rows[0][0] or ""
        return self._seen

    def receipt(self, job_id: str) -> Receipt | None:
        if self._place is None and self._target.believed is not None:  # one journey for both
            with self._told():
                replies = self._ask(
                    questions.READ, questions.own(self._lock_ms), places.ASK, receipts.read(job_id), questions.ROLLBACK
                )
            self._place = replies[2].rows[0]
            if self._place == self._target.believed:
                return receipts.found(replies[3])
        if self._target.believed != self.place:
            stands = standing.read(self._look(standing.ASK))
            standing.believe(stands, self._target.identity, self._target.allow_owner)
            self._target.believed = self.place
        if self._locked and self._receipt is not None and self._receipt[0] == job_id:
            return self._receipt[1]
        question = receipts.read(job_id)
        reply: Reply | None = None
        if self._locked and self._ahead is not None and self._witness is not None:  # nothing is written here yet
            reply = self._witness.ask(question)
            self._seen_first()  # what is wrong with the target is said before anybody records that it is not
        found = receipts.found(reply or self._look(question))
        self._receipt = (job_id, found) if self._locked else None
        return found

    def standing(self) -> standing.Standing:
        """What stands in the target and what the role may do. Raises CannotTry."""
        return standing.read(self._look(standing.ASK))

    def _look(self, question: Step) -> Reply:
        """Ask something that writes nothing: under the lock, or in a transaction that ends at once."""
        with self._told():
            if self._locked:
                return self._ask(question)[0]
            return self._ask(questions.READ, questions.own(self._lock_ms), question, questions.ROLLBACK)[2]

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
        try:
            self._check_preconditions(work)
            before = (self._seen_first() if self._fresh else self._seen) or self.fingerprint()
            nonce = secrets.token_hex(32)
            named, xact = self._begin(work, nonce)
            still = guard.still(xact, questions.ms(timeout), self._lock_ms, spelled_out=self._powerful)
            self._run_statements(running, still, progress, stop)
            after = self._finish(work, nonce, still, named, timeout, stop)
            changed = " ".join(map(str, running.rows))
            counts = receipts.count(work, nonce, changed, len(running.rows), before, after)
            *_, found = self._ask(questions.own(self._lock_ms), counts, receipts.read(work.job_id))
            written = Receipt(
                work.job_id, len(work.statements), work.sha256, "applied", len(running.rows), changed, after
            )
            if receipts.found(found) != written:
                raise Failed(Signal.CHECK_FAILED, "the receipt does not read back as it was written")
            return Ran(tuple(running.rows), after)
        except Failed as failed:
            self.rollback()
            raise Failed(failed.signal, failed.detail, failed.statement, len(running.rows)) from None
        except (Fault, Lost, Late, Stopped) as fault:
            kind = guard.runs_alone(fault) if isinstance(fault, Fault) and not running.in_guard else None
            if kind is not None and self._held and running.statement == 1:
                self.rollback(keep_lock=True)
                return self._run_alone(work, kind, timeout, progress, stop)
            self.rollback()
            signal, detail = blame.of(fault, running, stop(), self._blocked_by)
            raise Failed(signal, detail, running.statement, len(running.rows)) from None
        except BaseException:
            self.rollback()
            raise

    def _run_alone(self, work: Work, kind: str, timeout: float, progress: Progress, stop: Stop) -> Ran:
        """The only statement of a plan, of which the server has just said that it runs in no transaction."""
        running = Running(work.statements, timeout)
        try:
            return alone.run(self, work, kind, running, progress, stop)
        except (Fault, Lost, Late, Stopped) as fault:
            self.rollback()
            signal, detail = blame.of(fault, running, stop(), self._blocked_by)
            raise Failed(signal, detail) from None
        except BaseException:
            self.rollback()
            raise

    def _begin(self, work: Work, nonce: str) -> tuple[list[tuple[str | None, ...]], str]:
        """Write the receipt as `applying`: what named our tables before, and the transaction's number."""
        # A single statement may turn out to run in no transaction; then the lock must be there all the time.
        self._held = len(work.statements) == 1
        hold = (holders.HOLD,) if self._held else ()
        ahead, self._ahead = self._ahead, None  # once: a second plan would find what the first one named
        named = (self._ask(guard.NAMING)[0] if ahead is None else ahead.hear(_NAMED)).rows
        begun, *_ = self._ask(receipts.begin(work, nonce), *hold, *questions.ITS_OWN)
        return named, begun.rows[0][0] or ""

    def _run_statements(self, running: "Running", still: Step, progress: Progress, stop: Stop) -> None:
        """Run each statement with the guard after it."""
        count = len(running.statements)
        often = count < 1_000
        for at, statement in enumerate(running.statements, 1):
            if "\0" in statement:
                raise Failed(Signal.FORBIDDEN_STATEMENT, f"statement {at} holds a NUL, which no SQL can", at)
        replies = self._channel.talk(
            guarded(running.statements, still),
            silence=running.timeout + _SLACK,
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
        ours = questions.own(self._lock_ms)
        prove = (questions.ONESELF, ours, still, guard.NAMING, receipts.finish(work, nonce))
        kept = self._kept or fingerprint.Kept()
        steps = (*prove, questions.IMMEDIATE, questions.ONESELF, ours, still, kept.is_ours)
        self._blocked_by = None
        silence = max(_ANSWER, timeout + _SLACK)  # what the plan deferred runs now
        replies = list(
            self._channel.talk(steps, silence=silence, stop=stop, keep=True, prompt=1, waiting=self._who_blocks)
        )
        new = [row for row in replies[3].rows if row not in named]
        if new:
            kind, name = new[0]
            raise Failed(Signal.FORBIDDEN_STATEMENT, f"the {kind} {name} names, or is named like, the receipts' table")
        ask = kept.ask if replies[-1].rows == [("true",)] else fingerprint.ASK
        return self._ask(ask)[0].rows[0][0] or ""

    def _who_holds(self) -> str:
        replies = self._ask(questions.READ, questions.own(self._lock_ms), holders.OF_TARGET, questions.ROLLBACK)
        who = holders.words(replies[2]) or "another session, which has just ended"
        held = f"the target {self._target.identity} is locked by {who}"
        return f"{held}. Nothing was written; try again when that is done."

    def _who_blocks(self, waited: float) -> None:
        """Once for a statement that has waited for half of what it may: who is in its way. Later nobody can say."""
        if self._blocked_by is not None or waited * 2_000 < self._lock_ms:
            return
        self._blocked_by = ""
        with contextlib.suppress(CannotTry, Fault, Lost, Late):
            around = (questions.READ, questions.own(self._lock_ms)), (questions.ROLLBACK,)
            self._blocked_by = holders.in_the_way(self._target.connect(), self._channel.pid, around, _SLACK)

    def commit(self) -> None:
        """Our own COMMIT, whose tag must say so."""
        self._locked = False
        try:
            (reply,) = self._channel.ask(questions.COMMIT, silence=_ANSWER)
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

    def rollback(self, *, keep_lock: bool = False) -> None:
        self._locked = self._fresh = False
        self._ahead = None
        self._channel.forget()
        steps = []
        if self._channel.in_transaction:
            steps.append(questions.ROLLBACK)
        if self._held and not keep_lock:
            steps.append(holders.LET_GO)
            self._held = False
        try:
            if steps and self._channel.is_open:
                self._channel.ask(*steps, silence=_SLACK)
        except (Fault, Lost, Late, Stopped):
            self._channel.close()

    # ---- a statement that runs in no transaction: see `alone` -------------------------------------------------

    @property
    def channel(self) -> Channel:
        return self._channel

    @property
    def lock_ms(self) -> int:
        return self._lock_ms

    @property
    def seen(self) -> str | None:
        """The fingerprint as it was last read under the lock."""
        return self._seen

    @property
    def blocked_by(self) -> str | None:
        return self._blocked_by

    def ask(self, *steps: Step) -> list[Reply]:
        return self._ask(*steps)

    def begin(self) -> None:
        """A transaction for questions of ours, under the lock."""
        self._ask(questions.BEGIN, questions.own(self._lock_ms))
        self._locked = True

    def say(self, statement: str, timeout: float, lock_ms: int, stop: Stop) -> Reply:
        """One statement of a plan, in no transaction and with nothing else in its pipeline."""
        self._ask(*questions.ITS_OWN, questions.limits(timeout, lock_ms))
        steps = (Step(statement.encode()),)
        (reply,) = self._channel.talk(steps, silence=timeout + _SLACK, stop=stop, waiting=self._who_blocks)
        return reply

    def hold(self) -> None:
        """Keep the lock beyond the end of the transaction."""
        self._held = True
        self._ask(holders.HOLD)

    def commit_for_good(self) -> None:
        """Commit, and keep the lock. Raises Fault when nothing was committed, InDoubt when that cannot be known."""
        try:
            self.commit()
        except Failed as failed:
            raise Fault("", failed.detail) from None
        except CannotTry as fault:
            raise InDoubt(fault.detail) from None

    def unsettled(self) -> str | None:
        return None if self._unfinished is None else alone.blocks(self._unfinished)

    def recover(self, job_id: str, stop: Stop) -> Ended:
        if not self._locked:
            raise RuntimeError("recover() needs the lock")
        if self._unfinished is None or self._unfinished.job_id != job_id:
            return Ended(self.receipt(job_id))
        with self._told():
            return alone.recover(self, self._unfinished)

    def settle(self, job_id: str) -> str:
        if not self._locked:
            raise RuntimeError("settle() needs the lock")
        seen = self.fingerprint()
        if self._unfinished is not None and self._unfinished.job_id == job_id:
            try:
                with self._told():
                    alone.settle(self, job_id)
            except InDoubt as doubt:
                raise CannotTry(f"{doubt.detail}; say it again") from None
        return seen

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
