"""The Python face: what `import endmark` offers, and what the command line is written on."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from endmark.core import mc1, proof
from endmark.core.evidence import Level
from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry, NotThere, Refused, Signal
from endmark.faces.targets import target_at, target_on_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from endmark.apply_gate import Delivery, Options
    from endmark.core.claims import Claims
    from endmark.core.dsse import Verify
    from endmark.core.plan import Plan
    from endmark.core.proof import Proven
    from endmark.effects.target import Merged, Progress, Rehearsal, Session, Stop, Target, Work
    from endmark.ledger.outbox import Outbox
    from endmark.reconcile import Settled
    from endmark.seal import NotSealed, Sealed


def check(
    raw: bytes, *, cap: int = mc1.DEFAULT_CAP, trusted_keys: str | Path | Iterable[str | Path] | None = None
) -> Proven:
    """What `raw` is and how it is proven to be whole. `cap`: the largest body accepted, in bytes.

    `trusted_keys`: a file of public keys, or several; then only what one of them signed is accepted. Writes nothing.
    Raises `Refused` for bytes that are not proven, and CannotTry where the keys cannot be used.
    """
    if trusted_keys is None:
        return proof.prove(raw, cap)
    from endmark.sources import keys

    proven = proof.prove(raw, cap, keys.verifier(trusted_keys))
    if proven.level < Level.SIGNED:  # who names keys wants a signature; what has none must not slip through
        raise Refused(
            Signal.WEAK_EVIDENCE, proven.received_bytes, proven.expected_bytes, "it is whole, and nobody signed it"
        )
    return proven


def sign(envelope: bytes | Sealed, key: str | Path) -> bytes:
    """An MC1 envelope signed with the private key in the file `key`, as DSSE. Two signings are byte-equal.

    Raises Refused for what is no whole envelope, and CannotTry where the key cannot be used.
    """
    raw = bytes(envelope)
    mc1.read(raw, len(raw))
    from endmark.sources import keys

    return keys.sign(raw, key)


def rehearse(
    raw: bytes,
    target: str | Target,
    *,
    options: Options | None = None,
    cap: int = mc1.DEFAULT_CAP,
    trusted_keys: str | Path | Iterable[str | Path] | None = None,
    stop: Stop | None = None,
) -> tuple[Proven, Rehearsal]:
    """Prove a plan and run it, and its downs, where nothing stays. Spends no job id, and writes to no ledger.

    Raises Refused for what is not proven or does not fit the target, Failed for what would not go through (nothing of
    it stands), and CannotTry.
    """
    from endmark.steps import rehearsing
    from endmark.steps.treatment import Options

    options = options or Options()
    with _at_target(raw, target, options, cap, trusted_keys) as (proven, work, session):
        return proven, rehearsing.rehearse(session, work, options, stop or (lambda: None))


def merge_alters(
    raw: bytes,
    target: str | Target,
    job_id: str,
    *,
    options: Options | None = None,
    cap: int = mc1.DEFAULT_CAP,
    trusted_keys: str | Path | Iterable[str | Path] | None = None,
    stop: Stop | None = None,
) -> tuple[bytes, Merged]:
    """A new plan, `job_id`, in MC1: the proven plan `raw` with ALTERs of one table as one statement, and what they are.

    `after`, `retry_of` and `base` are kept; a signature is not. Both plans were rehearsed and leave one schema. Nothing
    is submitted, and no id is spent. Raises as `rehearse` does, Failed where nothing can be merged.
    """
    from msgspec.structs import replace

    from endmark.core import plan as plans
    from endmark.core.plan import Plan
    from endmark.effects.target import Merges
    from endmark.steps.treatment import Options

    options = options or Options()
    with _at_target(raw, target, options, cap, trusted_keys) as (proven, work, session):
        if not plans.ID.fullmatch(job_id) or job_id in (work.job_id, work.retry_of, *work.after):
            wrong = f"{job_id[:40]!r} is no new job id: 1-128 of [A-Za-z0-9._:-], and none that the plan names"
            raise Refused(Signal.BAD_ID, proven.received_bytes, proven.expected_bytes, wrong)
        if session.receipt(job_id) is not None:
            held = f"the target holds a receipt of job {job_id} already"
            raise Refused(Signal.ID_REUSED, proven.received_bytes, proven.expected_bytes, held)
        if not isinstance(session, Merges):
            raise CannotTry("plans for this target are whole as they are: only MariaDB and MySQL need it.")
        merged = session.merge(work, options.statement_timeout, stop or (lambda: None))
    assert isinstance(proven.value, Plan)  # noqa: S101  # what was merged is one
    statements, down = list(merged.statements), None if merged.down is None else list(merged.down)
    new = replace(proven.value, job_id=job_id, statements=statements, down=down, sha256=plans.digest(statements))
    return plans.seal(new), merged


@contextmanager
def _at_target(
    raw: bytes,
    target: str | Target,
    options: Options,
    cap: int,
    trusted_keys: str | Path | Iterable[str | Path] | None,
) -> Iterator[tuple[Proven, Work, Session]]:
    """A proven plan that fits the target, and the target's lock where it takes one. Raises Refused and CannotTry."""
    from endmark.core.plan import Plan
    from endmark.effects.target import Work
    from endmark.steps.intake import check_demands

    proven = check(raw, cap=cap, trusted_keys=trusted_keys)
    received, plan = proven.received_bytes, proven.value
    if not isinstance(plan, Plan):
        raise Refused(Signal.WRONG_VALUE, received, proven.expected_bytes, "it is whole, and no plan")
    check_demands(plan, proven.level, proven, options)
    work = Work(
        job_id=plan.job_id,
        attempt_id="rehearsal",
        statements=plan.statements,
        sha256=plan.sha256,
        at=now().isoformat(),
        after=plan.after,
        retry_of=plan.retry_of,
        down=plan.down,
    )
    where = target_at(target) if isinstance(target, str) else target
    with where.open() as session:
        if getattr(session, "needs_lock", True):
            session.lock(options.lock_timeout)
        if session.receipt(plan.job_id) is not None:
            held = f"the target holds a receipt of job {plan.job_id} already"
            raise Refused(Signal.ID_REUSED, received, proven.expected_bytes, held)
        found = session.fingerprint()
        if plan.base not in (None, found):
            moved = f"the plan was made for schema {plan.base[:12]}..., the target has {found[:12]}..."
            raise Refused(Signal.STALE_FINGERPRINT, received, proven.expected_bytes, moved)
        yield proven, work, session


def seal(raw: bytes, *, cap: int = mc1.DEFAULT_CAP) -> bytes:
    """A whole body, or the witness form of a plan, as an MC1 envelope. Raises `Refused`."""
    return proof.seal(raw, cap)


def now() -> datetime:
    """The time in UTC. The one clock that records are dated by."""
    return datetime.now(UTC)


class Gate:
    """The apply gate over one ledger.

    `ledger` is a path, `sqlite:///FILE` or `postgresql://...`; it is made when it does not exist and `create` is true.
    Opening the gate settles what a crash left half recorded, for every target whose lock is free. `trusted_keys`: a
    file of public keys, or several; without it no signed envelope is taken. `target_of` makes a target of the identity
    on record, which holds no password. `outbox`: what goes out with what it writes (`endmark.ledger.outbox`). A gate
    belongs to one thread. Raises CannotTry when the ledger or the keys cannot be used.
    """

    def __init__(
        self,
        ledger: str | Path,
        *,
        create: bool = True,
        reconcile: bool = True,
        options: Options | None = None,
        trusted_keys: str | Path | Iterable[str | Path] | None = None,
        stop: Stop | None = None,
        progress: Progress | None = None,
        target_of: Callable[[str], Target] | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        from endmark.apply_gate import ApplyGate, Options
        from endmark.faces.books import ledger_place
        from endmark.ledger.book import Ledger

        self._verify: Verify | None = None
        if trusted_keys is not None:
            from endmark.sources import keys

            self._verify = keys.verifier(trusted_keys)

        self.options = options or Options()
        self._target_of = target_of or target_on_record
        self._place = ledger_place(ledger)
        self.ledger = Ledger.open(self._place, create=create, outbox=outbox)
        self.doing = ApplyGate(
            self.ledger, now, stop=stop or (lambda: None), progress=progress or (lambda _done, _total: None)
        )
        self.reconciled: Settled | None = None
        if reconcile:
            try:
                self.reconciled = self.reconcile(lock_timeout=0.0)
            except BaseException:
                self.ledger.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.ledger.close()

    def target(self, target: str | Target) -> Target:
        """A target by its URL. Raises CannotTry, also when it is the ledger's own file or database."""
        from endmark.faces.books import keep_apart

        found = target_at(target) if isinstance(target, str) else target
        keep_apart(found, self._place, self.ledger)
        return found

    def submit(
        self,
        raw: bytes | Sealed | NotSealed,
        *,
        job_id: str | None = None,
        target: str | Target | None = None,
        seal: bool = False,
        submitter: str | None = None,
        claims: Claims | None = None,
        cap: int = mc1.DEFAULT_CAP,
    ) -> Job:
        """Prove `raw` and stage it, durably; with `seal`, a witness form is sealed here.

        What `capture().seal()` made is taken as it is, and the record says what stood behind it. `claims` are the words
        of whoever sealed elsewhere: the record lists each as claimed.

        The job of an id that was delivered before, with the same bytes and target, is the one that stands; nothing is
        done. Raises Refused for anything not proven, after it was recorded (`refused.outcome` is the record), and
        CannotTry.
        """
        delivery = self._delivery(raw, job_id=job_id, submitter=submitter, seal=seal, claims=claims, cap=cap)
        where = None if target is None else self.target(target)
        outcome, plan = self.doing.submit(delivery, where, self.options)
        return Job(self, _accepted(outcome), is_new=plan is not None)

    def apply(
        self,
        raw: bytes | Sealed | NotSealed,
        target: str | Target,
        *,
        job_id: str | None = None,
        seal: bool = False,
        submitter: str | None = None,
        approver: str | None = None,
        claims: Claims | None = None,
        cap: int = mc1.DEFAULT_CAP,
    ) -> Outcome:
        """Prove `raw` and apply it to `target` at once: `approver` let it through beforehand.

        Raises as `submit` does; while the target cannot be locked nothing is recorded, and the same call may be made
        again.
        """
        delivery = self._delivery(raw, job_id=job_id, submitter=submitter, seal=seal, claims=claims, cap=cap)
        return _accepted(self.doing.apply(delivery, self.target(target), self.options, approver or "python"))

    def revert(self, job_id: str, target: str | Target, *, submitter: str | None = None) -> Job:
        """Stage the job that undoes `job_id` by its down statements. Raises Refused when there is none to run."""
        outcome = self.doing.stage_revert(job_id, self.target(target), submitter or "python")
        return Job(self, _accepted(outcome))

    def _delivery(self, raw: bytes | Sealed | NotSealed, **facts: Any) -> Delivery:
        from endmark.apply_gate import Delivery

        if not isinstance(raw, bytes):
            facts |= {"evidence": raw.beside, "refused": getattr(raw, "refused", None)}
        return Delivery(raw=bytes(raw), verify=self._verify, **facts)

    def job(self, job_id: str) -> Job:
        """The job of this id. Raises CannotTry when the ledger has none."""
        from endmark.ledger.outcomes import outcome_of
        from endmark.ledger.queries import with_revert

        entry = self.ledger.find(job_id)
        if entry is None:
            raise NotThere(f"there is no job or attempt {job_id} in the ledger {self.ledger.place}. Nothing was done.")
        return Job(self, outcome_of(with_revert(self.ledger, entry)))

    def reconcile(self, *, lock_timeout: float | None = None) -> Settled:
        """Settle every job a crash left `applying`, by the receipt in its target and under the target's lock."""
        from endmark.reconcile import reconcile

        timeout = self.options.lock_timeout if lock_timeout is None else lock_timeout
        return reconcile(self.ledger, lambda identity: self.target(self._target_of(identity)), now, timeout)

    def reconcile_at(self, target: Target) -> Settled:
        """The same for the jobs of `target` alone, without waiting for its lock."""
        from endmark.reconcile import reconcile

        def only(identity: str) -> Target:
            if identity != target.identity:
                raise CannotTry("another target was named")
            return target

        return reconcile(self.ledger, only, now, 0.0)


class Job:
    """One job of a gate. `outcome` is what the ledger said of it when this object last looked.

    `is_new` is false for a job that stood in the ledger before this call.
    """

    def __init__(self, gate: Gate, outcome: Outcome, *, is_new: bool = False) -> None:
        self._gate = gate
        self.outcome = outcome
        self.is_new = is_new

    @property
    def state(self) -> str:
        return self.outcome.state

    @property
    def plan(self) -> Plan:
        """The plan, proven anew from the bytes kept. Raises CannotTry."""
        entry = self._gate.ledger.get(self.outcome.attempt_id or "")
        if entry is None:
            raise CannotTry("the job is no longer in the ledger.")
        return self._gate.doing.plan_of(entry)

    @property
    def submitter(self) -> str | None:
        """Who submitted it, where that is known."""
        entry = self._gate.ledger.get(self.outcome.attempt_id or "")
        return None if entry is None else entry.submitter

    @property
    def rehearsal(self) -> dict[str, Any] | None:
        """What its last rehearsal found, or None."""
        from endmark.steps.rehearsing import last

        return last(self._gate.ledger, self.outcome.attempt_id or "")

    def approve(
        self, target: str | Target, *, approver: str | None = None, shown_fingerprint: str | None = None
    ) -> Outcome:
        """Approve a staged job for `apply` to apply later: it holds for the schema of now, until it expires."""
        where = self._gate.target(target)
        attempt = self.outcome.attempt_id or ""
        self.outcome = self._gate.doing.let_pass(
            attempt, where, self._gate.options, approver or "python", shown_fingerprint
        )
        return self.outcome

    def apply(
        self, target: str | Target, *, approver: str | None = None, shown_fingerprint: str | None = None
    ) -> Outcome:
        """Apply the whole plan to `target`, or nothing of it; a job that is not staged stays what it is.

        `shown_fingerprint`: the schema the approver saw; once it moved, the approval is void.
        Read `outcome.state`: `applied`, or `failed` (all rolled back), or `stale`. Raises Refused for another target
        than the job's, and CannotTry when the target could not be locked; the job stays staged then.
        """
        where = self._gate.target(target)
        attempt = self.outcome.attempt_id or ""
        self.outcome = _accepted(
            self._gate.doing.approve(attempt, where, self._gate.options, approver or "python", shown_fingerprint)
        )
        return self.outcome

    def decline(self, *, approver: str | None = None, reason: str = "") -> Outcome:
        """End a staged job, or one whose approval waits to be used, without effect."""
        self.outcome = self._gate.doing.decline(self.outcome.attempt_id or "", approver or "python", reason)
        return self.outcome

    def settle(self, target: str | Target, *, person: str, reason: str, gone: bool = False) -> Outcome:
        """Take charge of a partial job as `person`, so that `target` takes jobs again; any other stays what it is.

        `gone`: the target is gone for ever; also for a job that stands `applying`. Raises CannotTry, also when a target
        that was said to be gone can be reached.
        """
        from endmark.reconcile import settle_as_gone, settle_by_hand

        where = self._gate.target(target)
        entry = self._gate.ledger.get(self.outcome.attempt_id or "")
        if entry is None:
            raise CannotTry("the job is no longer in the ledger.")
        if entry.target not in (None, where.identity):
            raise CannotTry(f"the job's target is {entry.target}. Nothing was done.")
        if gone:
            self.outcome = settle_as_gone(self._gate.ledger, entry, where, person, reason, now())
        else:
            wait = self._gate.options.lock_timeout
            self.outcome = settle_by_hand(self._gate.ledger, entry, where, wait, person, reason, now())
        return self.outcome


_UNPROVEN = frozenset({"truncated", "rejected", "quarantined", "incomplete"})


def _accepted(outcome: Outcome) -> Outcome:
    """The outcome, unless it is a nack: then Refused, which carries it."""
    if outcome.state not in _UNPROVEN:
        return outcome
    refused = Refused(Signal(outcome.signal), outcome.received_bytes or 0, outcome.expected_bytes, outcome.detail)
    refused.outcome = outcome
    raise refused
