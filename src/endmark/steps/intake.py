"""Taking bytes in: prove a delivery, know one that came before, record every nack with its byte count."""

import hashlib
import re
from collections.abc import Callable
from datetime import datetime

import msgspec

from endmark.core import mc1, plan, proof
from endmark.core.claims import Claims
from endmark.core.decision import row_of
from endmark.core.dsse import Verify
from endmark.core.evidence import LEVELS, Level
from endmark.core.outcome import Outcome
from endmark.core.plan import Plan
from endmark.core.proof import Form, Proven
from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.core.states import WITHOUT_EFFECT, State
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry, New
from endmark.ledger.outcomes import outcome_of
from endmark.ledger.queries import with_revert
from endmark.steps.treatment import Options

_GATES_OWN = re.compile(r"\.revert(?:\.[0-9]+)?\Z")


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery of bytes, and what is known about it from outside the bytes.

    `job_id` was given beside the body; `seal` says that a witness form may be sealed here; `cap` is the largest body
    accepted, in bytes; `evidence` is what whoever sealed the bytes here knows beyond them, and `claims` what somebody
    says who sealed them elsewhere; `verify` checks a signature. `refused` is why `raw`, a capture, was not sealed: that
    is recorded, and nothing else is done.
    """

    raw: bytes
    job_id: str | None = None
    submitter: str | None = None
    seal: bool = False
    cap: int = mc1.DEFAULT_CAP
    evidence: tuple[str, ...] = ()
    claims: Claims | None = None
    refused: Refused | None = None
    verify: Verify | None = None


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """What a delivery is, by its bytes alone: refused, or a plan with what to record of it.

    `unmet` is why the target does not want it, though it is proven: that counts only for an id that nobody knows.
    """

    delivery: Delivery
    body_sha256: str
    target: str | None
    refused: Refused | None = None
    plan: Plan | None = None
    new: New | None = None
    unmet: Refused | None = None

    def light(self) -> "Looked":
        """The same without the statements, for who only admits it: they take up to four bytes for each that arrived."""
        if self.plan is None:
            return self
        return msgspec.structs.replace(self, plan=msgspec.structs.replace(self.plan, statements=[], down=None))


def look(delivery: Delivery, where: str | None, options: Options) -> Looked:
    """Prove a delivery. It takes time, and nothing else: no ledger is asked, so any thread may do it.

    `where` is the identity of the target it is for, `options` what is demanded there. Raises ValueError for a job id
    given outside the body that none can have.
    """
    raw = delivery.raw
    if not isinstance(raw, bytes):
        raise TypeError(f"bytes were expected, not {type(raw).__name__}")
    if delivery.job_id is not None and not plan.ID.fullmatch(delivery.job_id):
        raise ValueError("the job id given outside the body is not 1-128 of [A-Za-z0-9._:-]")
    body_sha256 = hashlib.sha256(raw).hexdigest()
    if delivery.refused is not None:
        return Looked(delivery=delivery, body_sha256=body_sha256, target=where, refused=delivery.refused)
    try:
        proven = proof.prove(raw, delivery.cap, delivery.verify)
        proven_plan, level, evidence = _plan_in(proven, delivery)
        claimed = _claimed(delivery.claims, body_sha256, proven)
    except Refused as refusal:
        return Looked(delivery=delivery, body_sha256=body_sha256, target=where, refused=refusal)
    new = New(
        job_id=proven_plan.job_id,
        state=State.STAGED,
        signal=Signal.COMPLETE,
        received_bytes=len(raw),
        expected_bytes=proven.expected_bytes,
        body_sha256=body_sha256,
        sha256=proven_plan.sha256,
        stmt_count=proven_plan.stmt_count,
        target=where,
        level=level.word,
        evidence=(*evidence, *(word for word in delivery.evidence if word not in evidence), *claimed),
        submitter=delivery.submitter,
    )
    unmet = None
    try:
        check_demands(proven_plan, level, proven, options)
    except Refused as refusal:
        unmet = refusal
    return Looked(delivery=delivery, body_sha256=body_sha256, target=where, plan=proven_plan, new=new, unmet=unmet)


class Intake:
    """What comes before every effect. The ledger it writes to is the gate's."""

    def __init__(self, ledger: Ledger, clock: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._clock = clock

    def take(self, delivery: Delivery, where: str | None, options: Options) -> Outcome | tuple[Plan, New]:
        """The proven plan and what to record of it; or the outcome of a delivery that was refused or is known.

        `where` is the identity of the target it is for, `options` what is demanded there.
        Raises CannotTry when the ledger cannot be used.
        """
        return self.admit(look(delivery, where, options))

    def admit(self, found: Looked) -> Outcome | tuple[Plan, New]:
        """The same, of a delivery that was looked at. Raises CannotTry when the ledger cannot be used."""
        delivery, proven_plan, new = found.delivery, found.plan, found.new
        if proven_plan is None or new is None:
            assert found.refused is not None  # noqa: S101  # what is no plan was refused
            return self._refuse(found.refused, delivery, found.body_sha256, found.target)
        known = self._ledger.spent(proven_plan.job_id, delivery.submitter)
        if known is not None:
            return self.known(known, new)
        try:
            if found.unmet is not None:
                raise found.unmet
            self._check_retry(proven_plan, new.received_bytes, new.expected_bytes)
        except Refused as refusal:
            return self._refuse(refusal, delivery, found.body_sha256, found.target, proven_plan.job_id)
        return proven_plan, new

    def _check_retry(self, proven_plan: Plan, received: int, expected: int | None) -> None:
        if proven_plan.retry_of is None:
            return
        former = self._ledger.by_job(proven_plan.retry_of)
        if former is not None and former.state not in WITHOUT_EFFECT:
            raise Refused(
                Signal.RETRY_OF_LIVE_JOB,
                received,
                expected,
                f"retry_of names job {former.job_id}, which is {former.state} and did not end without effect",
            )

    def _refuse(
        self, refusal: Refused, delivery: Delivery, body_sha256: str, target: str | None, proven_id: str | None = None
    ) -> Outcome:
        """Record a nack. An id that was proven is spent by it; one that was only said beside the body, for whoever said
        it (H6): nobody takes another's id away with bytes that prove nothing."""
        row = row_of(refusal.signal)
        said = delivery.job_id if proven_id is None else None
        new = New(
            job_id=delivery.job_id or proven_id,
            owner=said is None,
            state=row.state,
            signal=refusal.signal,
            received_bytes=refusal.received_bytes,
            expected_bytes=refusal.expected_bytes,
            body_sha256=body_sha256,
            target=target,
            detail=refusal.detail,
            submitter=delivery.submitter,
        )
        kept = delivery.raw if row.keeps_bytes else None
        former = None if said is None else self._ledger.spent(said, delivery.submitter)
        if former is not None and former.body_sha256 == body_sha256:
            return self.known(former, new)
        entry, created = self._ledger.record(new, self._clock(), body=kept)
        if created:
            return outcome_of(entry)
        if entry.body_sha256 == body_sha256:
            return self.known(entry, new)
        # The id is another delivery's, but what decides comes first in the table: these bytes are not whole.
        nack = msgspec.structs.replace(new, owner=False)
        return outcome_of(self._ledger.record(nack, self._clock(), body=kept)[0])

    def known(self, owner: Entry, new: New) -> Outcome:
        """The id is taken: the stored state for the same bytes and target, else a refusal that names that state."""
        same_target = new.target is None or owner.target in (None, new.target)
        if owner.body_sha256 == new.body_sha256 and same_target:
            self._ledger.redelivered(owner.attempt_id, self._clock(), new.received_bytes)
            return self.came_before(owner)
        return self._reject_reuse(owner, new, "body" if owner.body_sha256 != new.body_sha256 else "target")

    def came_before(self, owner: Entry) -> Outcome:
        """What is stored of a delivery that came before."""
        stored = outcome_of(with_revert(self._ledger, owner))
        return msgspec.structs.replace(stored, detail=f"Delivered before, nothing was done now. {stored.detail}")

    def for_another_target(self, owner: Entry, target: str) -> Outcome:
        """Refuse to apply the bytes of `owner` to a target that is not its own."""
        facts = {name: getattr(owner, name) for name in New.__struct_fields__}
        return self._reject_reuse(owner, New(**{**facts, "target": target}), "target")

    def _reject_reuse(self, owner: Entry, new: New, other: str) -> Outcome:
        rejected = msgspec.structs.replace(
            new,
            owner=False,
            state=State.REJECTED,
            signal=Signal.ID_REUSED,
            detail=f"this id belongs to another {other}; that job is in state {owner.state}",
        )
        return outcome_of(self._ledger.record(rejected, self._clock(), body=None)[0])


def _plan_in(proven: Proven, delivery: Delivery) -> tuple[Plan, Level, tuple[str, ...]]:
    """The plan in what was proven, its level and evidence. Raises Refused for anything that may not be applied."""

    def refuse(signal: Signal, detail: str) -> Refused:
        return Refused(signal, proven.received_bytes, proven.expected_bytes, detail)

    level, evidence, value = proven.level, proven.evidence, proven.value
    if not isinstance(value, Plan):
        raise refuse(Signal.WRONG_VALUE, f"a whole {proven.form} arrived, a plan was expected")
    if proven.form is Form.WITNESS:
        if not delivery.seal:
            raise refuse(Signal.MISSING_KEY, "missing keys tool, sha256: this is the witness form, which needs --seal")
        evidence = (*evidence, "sealed-here")
    if delivery.job_id is not None and delivery.job_id != value.job_id:
        raise refuse(Signal.BAD_ID, f"the id given outside is {delivery.job_id}, the body says {value.job_id}")
    if _GATES_OWN.search(value.job_id):
        raise refuse(Signal.BAD_ID, f"job_id is {value.job_id}; ids that end in .revert are the gate's own")
    return value, level, evidence


def _claimed(claims: Claims | None, body_sha256: str, proven: Proven) -> tuple[str, ...]:
    """CA11: words from outside, for the record. Raises Refused where they speak of other bytes."""
    if claims is None:
        return ()
    if claims.envelope_sha256 != body_sha256:
        raise Refused(
            Signal.WRONG_VALUE,
            proven.received_bytes,
            proven.expected_bytes,
            f"the evidence beside it speaks of other bytes, with the SHA-256 {claims.envelope_sha256[:12]}...; "
            f"these have {body_sha256[:12]}...",
        )
    return claims.words


def check_demands(proven_plan: Plan, level: Level, proven: Proven, options: Options) -> None:
    """What the target asks of a plan that is proven whole. What is refused here has spent its id. Raises Refused."""
    min_evidence, max_statements = options.min_evidence, options.max_statements
    if level < min_evidence:
        raise Refused(
            Signal.WEAK_EVIDENCE,
            proven.received_bytes,
            proven.expected_bytes,
            f"the target demands the evidence {min_evidence.word}, the plan is {level.word}",
        )
    if max_statements is not None and proven_plan.stmt_count > max_statements:
        raise Refused(
            Signal.WRONG_COUNT,
            proven.received_bytes,
            proven.expected_bytes,
            f"{proven_plan.stmt_count} statements arrived, the target takes at most {max_statements}",
        )
    if options.down_required and proven_plan.down is None:
        raise Refused(
            Signal.MISSING_KEY,
            proven.received_bytes,
            proven.expected_bytes,
            'the plan has no down statements, the target demands them (down = "required")',
        )


def still_good_enough(entry: Entry, staged_plan: Plan, options: Options) -> None:
    """A job may have been staged before its target, or what the target demands, was known. Raises CannotTry."""
    min_evidence, max_statements = options.min_evidence, options.max_statements
    if options.down_required and staged_plan.down is None and entry.kind == "plan":
        raise CannotTry(
            f'job {entry.job_id} has no down statements, the target demands them (down = "required"). '
            "Nothing was written."
        )
    level = LEVELS[entry.level or Level.BARE.word]
    if level < min_evidence:
        raise CannotTry(
            f"the target demands the evidence {min_evidence.word}, job {entry.job_id} is {level.word}. "
            "Nothing was written."
        )
    if max_statements is not None and (entry.stmt_count or 0) > max_statements:
        raise CannotTry(
            f"job {entry.job_id} has {entry.stmt_count} statements, the target takes at most "
            f"{max_statements}. Nothing was written."
        )
