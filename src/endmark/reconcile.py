"""Settle what a crash left `applying`: the target is locked, its receipt read, the ledger told."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.effects.target import Target
from endmark.ledger.book import Ledger
from endmark.ledger.outcomes import outcome_of
from endmark.settle import remove_half_a_backup, settle


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


def reconcile(
    ledger: Ledger, target_of: Callable[[str], Target], clock: Callable[[], datetime], lock_timeout: float
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
                receipt = session.receipt(entry.job_id or "")
                settled.append(outcome_of(settle(ledger, entry, receipt, clock())))
        except CannotTry as fault:
            left.append(Left(entry.job_id, entry.attempt_id, entry.target, fault.detail))
    return Settled(settled, left)
