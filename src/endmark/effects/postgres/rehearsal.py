"""A rehearsal before PostgreSQL: in the target, in a transaction that is rolled back, or on a clone of its schema.

In the target it holds, until it is rolled back, every lock that the plan takes. On a clone it holds none there, and
finds no rows.
"""

import contextlib
import secrets
import time
from collections.abc import Iterator, Sequence

import msgspec

from endmark.core.refusal import CannotTry, Signal
from endmark.core.schemadiff import Item, diff
from endmark.effects.postgres import blame, clone, fingerprint, guard, listing
from endmark.effects.postgres.channel import Channel, Fault, Late, Lost, Reply, Step, Stopped
from endmark.effects.postgres.functions import SCHEMA, WHOLE
from endmark.effects.postgres.locks import Seen
from endmark.effects.postgres.questions import BEGIN, IMMEDIATE, ITS_OWN, ONESELF, READ, ROLLBACK, ms, own
from endmark.effects.postgres.running import Running
from endmark.effects.postgres.session import PostgresSession
from endmark.effects.target import Failed, Rehearsal, Stop, Work

_SLACK = 5.0  # seconds beyond a timeout of the server's own, until it is taken for dead
_ANSWER = 60.0  # seconds that the server may take for a question of ours
_SAVE = Step(b"SAVEPOINT endmark_rehearsed")
_BACK = Step(b"ROLLBACK TO SAVEPOINT endmark_rehearsed")
# Those that may wait, and those that do so by themselves.
_DEFERRABLE = Step(
    f"""SELECT string_agg(name, ', '), string_agg(name, ', ') FILTER (WHERE waits) FROM (
SELECT DISTINCT quote_ident(nspname) || '.' || quote_ident(conname) AS name, bool_and(condeferred) AS waits
FROM pg_constraint AS c JOIN pg_namespace AS n ON n.oid = connamespace
WHERE condeferrable AND nspname !~ '^pg_' AND nspname NOT IN ('information_schema', '{SCHEMA}') AND NOT EXISTS (
    SELECT FROM pg_trigger AS t WHERE t.tgconstraint = c.oid AND t.tgfoid IN {WHOLE}) GROUP BY 1) AS found""".encode()
)
_XACT = Step(b"SELECT pg_current_xact_id()::text")


class RehearsingSession(PostgresSession):
    """See `effects.target.Rehearses`."""

    needs_lock = True
    how = "a transaction in the target that was rolled back"
    limits: tuple[str, ...] = ()
    in_target = True

    @property
    def keeps_lock(self) -> bool:
        """In the target, the rehearsal is rolled back, and the lock with it."""
        return self._target.scratch is not None

    def rehearse(self, work: Work, timeout: float, stop: Stop) -> Rehearsal:
        if not self._locked:
            raise RuntimeError("rehearse() needs the lock")
        scratch = self._target.scratch
        if scratch is None:
            return self._rehearse_here(work, timeout, stop)
        with self._told(), self._blamed(Running(work.statements, timeout), stop):
            self._check_preconditions(work)
            before, jobs = self.fingerprint(), self.standing().schema or "public"
        with clone.cloned(scratch, self._target, jobs, stop) as channel, CloneSession(self._target, channel) as inside:
            inside.lock(0)
            if inside.fingerprint() != before:
                raise CannotTry(
                    f"the schema of {self._target.identity} cannot be copied faithfully, so nothing can be "
                    "rehearsed. Nothing was written."
                )
            found = inside._rehearse_here(work, timeout, stop)
        with self._told(), Seen(self._target.connect(), 0, self._frame()) as seen:
            return msgspec.structs.replace(found, rows=seen.rows(lock.on for lock in found.locks))

    @contextlib.contextmanager
    def _blamed(self, running: Running, stop: Stop) -> Iterator[None]:
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

    def _ask_long(self, steps: Sequence[Step], timeout: float, stop: Stop) -> list[Reply]:
        """Questions of ours in which what the plan deferred runs: it may take as long as a statement."""
        self._blocked_by = None
        silence = max(_ANSWER, timeout + _SLACK)
        return list(
            self._channel.talk(steps, silence=silence, stop=stop, keep=True, prompt=1, waiting=self._who_blocks)
        )

    def _frame(self) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        return (READ, own(self._lock_ms)), (ROLLBACK,)

    def _rehearse_here(self, work: Work, timeout: float, stop: Stop) -> Rehearsal:
        """Everything that `run` does up to its last check, then the downs; all of it is rolled back.

        The receipt says `applying` whenever a statement of the plan runs, so nothing that one says can commit.
        """
        since = time.monotonic()
        running = Running(work.statements, timeout)
        try:
            with Seen(self._beside(), self._channel.pid, self._frame()) as seen, self._blamed(running, stop):
                self._check_preconditions(work)
                before, items = self.fingerprint(), self._listing()
                nonce = secrets.token_hex(32)
                named, xact = self._begin(work, nonce)
                still = guard.still(xact, ms(timeout), self._lock_ms, spelled_out=self._powerful)
                try:
                    self._run_one_by_one(running, still, stop, seen)
                except Fault as fault:
                    if len(work.statements) > 1 or running.in_guard or guard.runs_alone(fault) is None:
                        raise
                    return self._rehearse_alone(work, timeout, stop, before, items, since)
                self._ask(ONESELF, _SAVE)
                after = self._finish(work, nonce, still, named, timeout, stop)
                changes = diff(items, self._listing())
                self._ask(_BACK)
                self._settle_constraints(timeout, stop)
                back = self._rehearse_downs(work, timeout, still, stop, items, before)
                rows = seen.rows(lock.on for lock in seen.locks)
        finally:
            self.rollback()
        moved = ", ".join(sorted(seen.sequences))
        limits = list(self.limits)
        if moved and self.in_target:
            limits.append(f"the numbers that were taken from {moved} are gone: no rollback gives them back")
        if seen.failed:
            limits.append("not every lock could be seen")
        return Rehearsal(
            how=self.how,
            before=before,
            after=after,
            after_downs=back,
            changes=changes,
            locks=tuple(seen.locks),
            rows=rows,
            rows_changed=tuple(running.rows),
            limits=tuple(limits),
            seconds=time.monotonic() - since,
        )

    def _rehearse_alone(
        self, work: Work, timeout: float, stop: Stop, before: str, items: list[Item], since: float
    ) -> Rehearsal:
        """The only statement of a plan, which runs in no transaction. Raises Fault, Failed, CannotTry."""
        raise CannotTry(
            "statement 1 runs in no transaction, so it cannot be rehearsed in the target; rehearse_in names a server "
            "for clones, where it can. Nothing was written."
        )

    def _beside(self) -> Channel:
        return self._target.connect()

    def _settle_constraints(self, timeout: float, stop: Stop) -> None:
        """Check what waits for the commit, and let it wait again: no table can be dropped while something waits. All
        but ours, which would find that the job is not finished."""
        _own, found = self._ask(own(self._lock_ms), _DEFERRABLE)
        for names, word in ((found.rows[0][0], "IMMEDIATE"), (found.rows[0][1], "DEFERRED")):
            if names:
                self._ask_long((Step(f"SET CONSTRAINTS {names} {word}".encode()),), timeout, stop)

    def _listing(self) -> list[Item]:
        return listing.items(self._ask(own(self._lock_ms), fingerprint.LINES)[1])

    def _rehearse_downs(
        self, work: Work, timeout: float, still: Step, stop: Stop, items: list[Item], before: str
    ) -> str | None:
        """Run the downs, last to first, as a revert would: the fingerprint then. Raises Failed."""
        if work.down is None:
            return None
        count = len(work.down)
        running = Running(work.down[::-1], timeout)
        try:
            with self._blamed(running, stop):
                self._ask(*ITS_OWN)
                self._run_one_by_one(running, still, stop, None)
                self._ask(ONESELF, own(self._lock_ms))
                found = self.fingerprint()
                left = [] if found == before else diff(items, self._listing())
        except Failed as failed:
            at = None if failed.statement is None else count + 1 - failed.statement
            who = "the downs" if at is None else f"the down of statement {at}"
            detail = failed.detail.removeprefix(f"statement {failed.statement}")
            detail = f"{who}{detail}" if detail != failed.detail else f"{who}: {detail}"
            raise Failed(failed.signal, detail, at, failed.statements_run) from None
        if found != before:
            what = f": {left[0].what} {left[0].kind} {left[0].name}" if left else ""
            raise Failed(Signal.CHECK_FAILED, f"the downs did not bring back the schema from before the plan{what}")
        return found

    def _run_one_by_one(self, running: Running, still: Step, stop: Stop, seen: Seen | None) -> None:
        """Run each statement with the guard after it, and look at its locks before the next one is sent."""
        for at, statement in enumerate(running.statements, 1):
            if "\0" in statement:
                raise Failed(Signal.FORBIDDEN_STATEMENT, f"statement {at} holds a NUL, which no SQL can", at)
            if at == 1:
                self._ask(still)  # it sets the timeouts
            running.next()
            self._blocked_by = None
            talk = self._channel.talk(
                (Step(statement.encode()), still),
                silence=running.timeout + _SLACK,
                stop=stop,
                waiting=self._who_blocks,
            )
            with contextlib.closing(talk) as replies:
                for reply in replies:
                    if running.in_guard:
                        continue
                    if (why := guard.forbidden(reply)) is not None:
                        raise Failed(Signal.FORBIDDEN_STATEMENT, f"statement {at} {why}", at)
                    running.changed, running.in_guard = guard.rows_changed(reply), True
            running.rows.append(running.changed)
            if (by := stop()) is not None:
                raise Failed(Signal.INTERRUPTED, f"{by} after statement {at}", at)
            if seen is not None:
                seen.look(at)
        running.next()


class CloneSession(RehearsingSession):
    """The same on a clone of the schema, where there are no receipts, and nothing to protect."""

    how = "a clone of the schema in a scratch database"
    limits = ("rows: the clone has none",)
    in_target = False

    def lock(self, timeout: float) -> None:
        with self._told():
            self._ask(BEGIN, own(self._lock_ms))
        self._locked = True

    def _beside(self) -> Channel:
        return clone.connect(self._channel.parameters)

    def _rehearse_alone(
        self, work: Work, timeout: float, stop: Stop, before: str, items: list[Item], since: float
    ) -> Rehearsal:
        after, back = "", None
        self._alone(work.statements[0], timeout, stop)
        after, changes = self.fingerprint(), diff(items, self._listing())
        if work.down is not None:
            self._alone(work.down[0], timeout, stop)
            back = self.fingerprint()
            if back != before:
                raise Failed(
                    Signal.CHECK_FAILED, "the downs did not bring back the schema from before the plan", None, 1
                )
        return Rehearsal(
            how=self.how,
            before=before,
            after=after,
            after_downs=back,
            changes=changes,
            limits=(*self.limits, "locks: none are seen outside of a transaction"),
            seconds=time.monotonic() - since,
        )

    def _alone(self, statement: str, timeout: float, stop: Stop) -> None:
        """Run it outside of any transaction, and begin a new one."""
        self.rollback()
        self._ask_long((Step(statement.encode()),), timeout, stop)
        self.lock(0)

    def _check_preconditions(self, work: Work) -> None:
        """They were checked in the target."""

    def _begin(self, work: Work, nonce: str) -> tuple[list[tuple[str | None, ...]], str]:
        xact, *_ = self._ask(_XACT, *ITS_OWN)
        return [], xact.rows[0][0] or ""

    def _finish(
        self,
        work: Work,
        nonce: str,
        still: Step,
        named: list[tuple[str | None, ...]],
        timeout: float,
        stop: Stop,
    ) -> str:
        ours = own(self._lock_ms)
        replies = self._ask_long(
            (ONESELF, ours, still, IMMEDIATE, ONESELF, ours, still, fingerprint.ASK), timeout, stop
        )
        return replies[-1].rows[0][0] or ""
