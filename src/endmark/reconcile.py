"""Settle what a crash left `applying`: the target is locked, its receipt read, the ledger told. What no receipt can
settle, a person does.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from endmark.core.evidence import TARGET_GONE
from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry, Signal
from endmark.core.states import State
from endmark.effects.target import InDoubt, Partial, Stepwise, Stop, Target
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry, Moved
from endmark.ledger.outcomes import outcome_of
from endmark.steps.settle import last_word, remove_half_a_backup, settle, settle_partial


class Left(msgspec.Struct, frozen=True):
    """A job that could not be settled now: its target is out of reach, or at work on it."""

    job_id: str | None
    attempt_id: str
    target: str | None
    why: str


class Settled(msgspec.Struct, frozen=True):
    """What a reconciliation did."""

    settled: list[Outcome]
    left: list[Left]


def _go_on() -> None:
    return None


def reconcile(
    ledger: Ledger,
    target_of: Callable[[str], Target],
    clock: Callable[[], datetime],
    lock_timeout: float,
    stop: Stop = _go_on,
) -> Settled:
    """Settle every `applying` job whose target's lock can be had within `lock_timeout` seconds.

    Without that lock the look-up would lie: a gate may be about to commit. `target_of` makes a target of its recorded
    identity and may raise CannotTry. Raises CannotTry when the ledger cannot be read.
    """
    settled: list[Outcome] = []
    left: list[Left] = []
    for entry in ledger.in_state(State.APPLYING):
        try:
            target = target_of(entry.target or "")
            with target.open() as session:
                session.lock(lock_timeout)
                current = ledger.get(entry.attempt_id)
                if current is None or current.state is not State.APPLYING:
                    continue  # the gate that ran it was only finishing
                remove_half_a_backup(ledger, entry)
                try:
                    ended = last_word(session, entry.job_id or "", stop)
                    current = settle(ledger, entry, ended.receipt, clock(), ended.how)
                except Partial as partial:
                    current = settle_partial(ledger, entry, partial, clock())
                settled.append(outcome_of(current))
        except (CannotTry, InDoubt) as fault:
            left.append(Left(entry.job_id, entry.attempt_id, entry.target, fault.detail))
    return Settled(settled, left)


def settle_by_hand(
    ledger: Ledger, entry: Entry, target: Target, lock_timeout: float, person: str, reason: str, now: datetime
) -> Outcome:
    """A person takes charge of what a partial job left: its target takes jobs again. Any other job stays as it is.

    The target is told first, under its lock. Should the ledger fail then, its row goes on blocking the target, and the
    same call may be made again. Raises CannotTry.
    """
    if entry.state is not State.PARTIAL:
        return outcome_of(entry)
    with target.open() as session:
        session.lock(lock_timeout)
        settled = session.settle(entry.job_id or "") if isinstance(session, Stepwise) else session.fingerprint()
        return _settled(ledger, entry, (State.SETTLED,), person, reason, now, fingerprint_after=settled)


def settle_as_gone(ledger: Ledger, entry: Entry, target: Target, person: str, reason: str, now: datetime) -> Outcome:
    """A person closes a job that stands `applying` or `partial` in a target that is gone for ever.

    Raises CannotTry when the target can still be opened: then it can tell what became of the job.
    """
    if entry.state not in (State.APPLYING, State.PARTIAL):
        return outcome_of(entry)
    try:
        with target.open():
            pass
    except CannotTry:
        path = (State.SETTLED,) if entry.state is State.PARTIAL else (State.PARTIAL, State.SETTLED)
        return _settled(ledger, entry, path, person, reason, now, evidence=(TARGET_GONE,))
    onward = "'endmark reconcile' settles it" if entry.state is State.APPLYING else "say it without --gone"
    raise CannotTry(f"the target {target.identity} is not gone: it can be reached, and {onward}. Nothing was done.")


def _settled(
    ledger: Ledger, entry: Entry, path: tuple[State, ...], person: str, reason: str, now: datetime, **facts: Any
) -> Outcome:
    try:
        moved = ledger.move(
            entry.attempt_id,
            entry.state,
            path,
            now,
            signal=Signal.LOST if entry.state is State.APPLYING else None,
            detail=reason,
            approver=person,
            data={"detail_before": entry.detail},
            **facts,
        )
    except Moved as faster:
        moved = faster.entry
    return outcome_of(moved)
