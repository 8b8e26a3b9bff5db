"""The first page: what waits for whom, and how many of what there are."""

from __future__ import annotations

from datetime import datetime

import msgspec

from endmark.core.states import Decision, State
from endmark.faces.http.access import Identity
from endmark.faces.http.service import Service
from endmark.faces.pages import words
from endmark.ledger import overview
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry
from endmark.ledger.patch_entry import DecisionEntry

_EACH = 8  # jobs shown of one target
_DECISIONS = 12
_LATE = 600.0  # seconds that a job may be applying before somebody should look
_NOT_WHOLE = (State.TRUNCATED, State.INCOMPLETE, State.QUARANTINED)
_JOB_STATES = tuple(state.value for state in State if state is not State.RECEIVED)
_DECISION_STATES = tuple(state.value for state in Decision)


class Names:
    """What a target's identity is called here, and which of them whoever looks may see."""

    def __init__(self, service: Service, identity: Identity) -> None:
        self._names: dict[str, str] = {}
        for name, place in service.places.items():
            if identity.reaches(name):
                self._names.setdefault(place.target.identity, name)
        self.sees_all = identity.targets is None
        self.identities = None if self.sees_all else tuple(self._names)

    def __call__(self, identity: str | None) -> str:
        return self._names.get(identity or "", identity or "—")

    def sees(self, identity: str | None) -> bool:
        return self.sees_all or identity in self._names

    @property
    def all(self) -> list[str]:
        return sorted(self._names.values())


def sees_branch(identity: Identity, ref: str) -> bool:
    """Whether whoever looks may see what is about this branch, by its full name."""
    return identity.reaches_branch(words.branch(ref))


class Waiting(msgspec.Struct, frozen=True):
    """One thing that waits: `late` where somebody should look."""

    entry: Entry
    age: str
    late: bool = False


class Group(msgspec.Struct, frozen=True):
    """What waits at one target: `more` jobs than are listed."""

    target: str
    total: int
    jobs: list[Waiting]

    @property
    def more(self) -> int:
        return self.total - len(self.jobs)


class Table(msgspec.Struct, frozen=True):
    """How many by target or branch (rows) and state (columns)."""

    states: list[str]
    rows: list[tuple[str, list[int]]]
    totals: list[int]


class Home(msgspec.Struct, frozen=True):
    """All that the page says."""

    staged: list[Group]
    attention: list[Waiting]
    approved: list[Waiting]
    pending: list[tuple[DecisionEntry, str]]
    passed: list[tuple[DecisionEntry, str]]
    not_whole: list[Waiting]
    jobs: Table
    decisions: Table


def look(ledger: Ledger, identity: Identity, names: Names, now: datetime) -> Home:
    """What the book says of everything that whoever looks may see. Raises CannotTry."""
    counts = overview.counts(ledger)
    seen = [one for one in counts if one.kind == "attempt" and names.sees(one.about or None)]

    def jobs(state: State, limit: int) -> list[Group]:
        found = []
        for one in seen:
            if one.state == state.value and one.about:
                entries = overview.oldest(ledger, state, one.about, limit)
                found.append(Group(names(one.about), one.number, [_waiting(entry, now) for entry in entries]))
        return found

    def flat(*states: State) -> list[Waiting]:
        found = [job for state in states for group in jobs(state, 50) for job in group.jobs]
        return sorted(found, key=lambda job: job.entry.changed_at)

    def decisions(state: Decision) -> list[tuple[DecisionEntry, str]]:
        found = overview.oldest_decisions(ledger, state, _DECISIONS)
        return [(one, words.age(one.changed_at, now)) for one in found if sees_branch(identity, one.ref)]

    not_whole = [entry for state in _NOT_WHOLE for entry in ledger.page(_EACH, None, state, names.identities)]
    not_whole.sort(key=lambda entry: entry.received_at, reverse=True)
    return Home(
        staged=sorted(
            jobs(State.STAGED, _EACH), key=lambda group: group.jobs[0].entry.received_at if group.jobs else ""
        ),
        attention=flat(State.PARTIAL, State.APPLYING),
        approved=flat(State.APPROVED),
        pending=decisions(Decision.PENDING),
        passed=decisions(Decision.PASS),
        not_whole=[_waiting(entry, now) for entry in not_whole[:_EACH]],
        jobs=_table([(names(one.about or None), one.state, one.number) for one in seen], _JOB_STATES),
        decisions=_table(
            [
                (words.branch(one.about), one.state, one.number)
                for one in counts
                if one.kind == "decision" and sees_branch(identity, one.about)
            ],
            _DECISION_STATES,
        ),
    )


def _waiting(entry: Entry, now: datetime) -> Waiting:
    since = entry.changed_at
    late = entry.state is State.PARTIAL or (
        entry.state is State.APPLYING and (now - datetime.fromisoformat(since)).total_seconds() > _LATE
    )
    return Waiting(entry, words.age(since, now), late)


def _table(cells: list[tuple[str, str, int]], order: tuple[str, ...]) -> Table:
    """`truncated` and `incomplete` always have their column: that there was none is worth to be said."""
    there = {state for _, state, _ in cells} | ({"truncated", "incomplete"} & set(order) if cells else set())
    states = [state for state in order if state in there]
    rows: dict[str, dict[str, int]] = {}
    for about, state, number in cells:
        row = rows.setdefault(about, {})
        row[state] = row.get(state, 0) + number
    lines = [(about, [row.get(state, 0) for state in states]) for about, row in sorted(rows.items())]
    return Table(states, lines, [sum(row[at] for _, row in lines) for at in range(len(states))])
