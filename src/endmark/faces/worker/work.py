"""What to do with one job, by its id alone: the same for the thread in the service and for a worker of a queue."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

import msgspec

from endmark.core.evidence import REVIEW_NONE
from endmark.core.outcome import Outcome
from endmark.core.patch_outcome import PatchOutcome
from endmark.core.refusal import CannotTry, Refused
from endmark.core.states import State
from endmark.effects.target import Progress, Stop
from endmark.faces.alerts import document_of_alarms, tell
from endmark.faces.api import Gate
from endmark.faces.books import keep_apart
from endmark.faces.config import Config, Place
from endmark.faces.misuse import Misuse
from endmark.ledger.entry import Entry
from endmark.ledger.outcomes import outcome_of


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker did with a job: applied it, or found that it is not to be applied now (`ran` is false)."""

    outcome: Outcome
    ran: bool


def runnable(entry: Entry, place: Place | None) -> bool:
    """H26: whether a worker may apply it: it is approved, or staged for a target that wanted no review then and now."""
    if place is None:
        return False
    if entry.state is State.APPROVED:
        return True
    return entry.state is State.STAGED and place.review == "none" and REVIEW_NONE in entry.evidence


def run_job(
    config: Config,
    place_of: Callable[[str | None], Place | None],
    job: str,
    *,
    stop: Stop = lambda: None,
    progress: Progress = lambda _done, _total: None,
) -> Done:
    """Apply the job of this id (`att_...` or its own), if it is to be applied; whatever it is, its stored state.

    Safe to call any number of times, from any number of machines: the target's lock, the receipt and the ledger's
    states decide. `place_of` gives the target for the identity on record. Raises CannotTry only for what came before
    BEGIN (ledger or target out of reach or locked): the job stands as it stood, and the same call may be made again.
    """
    with Gate(config.ledger, create=False, reconcile=False, stop=stop, progress=progress) as gate:
        found = gate.job(job)
        entry = gate.ledger.get(found.outcome.attempt_id or "")
        place = None if entry is None else place_of(entry.target)
        if entry is None or place is None or not runnable(entry, place):
            return Done(outcome=found.outcome, ran=False)
        gate.options = place.options
        # An approval names who approved; without one the submitter let it through, as on the command line.
        outcome = gate.doing.approve(
            entry.attempt_id, gate.target(place.target), place.options, entry.submitter or "endmark"
        )
        return Done(outcome=outcome, ran=True)


def rehearse_job(config: Config, place: Place, attempt_id: str, stop: Stop = lambda: None) -> None:
    """Show what a staged job does to whoever is to approve it. Raises CannotTry."""
    with Gate(config.ledger, create=False, reconcile=False, stop=stop) as gate:
        gate.doing.show_what_it_does(attempt_id, gate.target(place.target), place.options)


def settle_job(config: Config, place_of: Callable[[str | None], Place | None], attempt_id: str) -> None:
    """Settle a job that a crash left `applying`, unless somebody holds its target's lock. Raises CannotTry."""
    with Gate(config.ledger, create=False, reconcile=False) as gate:
        entry = gate.ledger.get(attempt_id)
        place = None if entry is None else place_of(entry.target)
        if entry is not None and place is not None and entry.state is State.APPLYING:
            gate.reconcile_at(gate.target(place.target))


class SettledDecisions(msgspec.Struct, frozen=True, kw_only=True):
    """How many merges and reviews were settled, what was wrong on the way, and what a person must look at."""

    count: int
    problems: list[str]
    alarms: list[PatchOutcome]


def settle_decisions(config: Config, more: Iterable[str] = ()) -> SettledDecisions:
    """Settle what a crash left of the patches of every repository of the configuration, and of the paths in `more`.

    Whoever `[alerts]` names is told of a branch that holds a merge its decision says nothing of. A repository that
    cannot be read keeps no other from it.
    """
    from endmark.faces.patches import Patches

    count, problems, alarms = 0, [], []
    paths = [(str(config.folder / table.path), table.policy) for table in config.repositories.values()]
    known = {os.path.realpath(path) for path, _ in paths}
    paths += [(path, None) for path in more if os.path.realpath(path) not in known]
    for path, policy in paths:
        rules = None if policy is None else config.folder / policy
        try:
            with Patches(config.ledger, path, policy=rules, create=False, trusted_keys=config.trusted_keys) as patches:
                done = patches.reconcile()
        except (CannotTry, Refused, Misuse) as fault:
            problems.append(f"the decisions of {path} cannot be settled now: {fault}")
            continue
        count += len(done.merged) + len(done.ended)
        alarms += done.alarms
    if alarms:
        problems += tell(document_of_alarms(alarms), config.alerts, config.environ)
    return SettledDecisions(count=count, problems=problems, alarms=alarms)


def usable_places(config: Config) -> tuple[dict[str, Place], dict[str, str]]:
    """Every target as the service and its workers treat it, and why others cannot be used."""
    places: dict[str, Place] = {}
    unusable: dict[str, str] = {}
    for name in config.targets:
        try:
            place = config.served(name)
            keep_apart(place.target, config.ledger)
            places[name] = place
        except (Misuse, CannotTry) as fault:
            unusable[name] = fault.detail if isinstance(fault, CannotTry) else str(fault)
    return places, unusable


def places_by_identity(places: Mapping[str, Place]) -> Callable[[str | None], Place | None]:
    """`place_of` for `run_job`: of several names for one target the stricter."""
    found: dict[str, Place] = {}
    for place in places.values():
        known = found.get(place.target.identity)
        if known is None or known.review != "required":
            found[place.target.identity] = place
    return lambda identity: None if identity is None else found.get(identity)


__all__ = [
    "Done",
    "outcome_of",
    "places_by_identity",
    "rehearse_job",
    "run_job",
    "runnable",
    "settle_decisions",
    "settle_job",
    "usable_places",
]
