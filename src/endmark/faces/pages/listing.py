"""Lists, page by page: the jobs, the decisions, and what a few letters of an id lead to."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from endmark.core.states import Decision, State
from endmark.faces.http.access import Identity
from endmark.faces.http.problems import not_tried
from endmark.faces.pages.home import Names, sees_branch
from endmark.ledger import overview
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry
from endmark.ledger.patch_entry import DecisionEntry
from endmark.ledger.patch_queries import PatchQueries
from endmark.ledger.queries import with_revert

PAGE = 50
FOUND = 25
QUERY_MAX = 128
STATES = tuple(state.value for state in State if state is not State.RECEIVED)
DECISION_STATES = tuple(state.value for state in Decision)


class Jobs(msgspec.Struct, frozen=True):
    """One page; `onward` is the id from which the next goes on."""

    entries: list[Entry]
    onward: str | None


class Decisions(msgspec.Struct, frozen=True):
    """One page; it may hold fewer than fit where some are for branches that whoever looks may not see."""

    entries: list[DecisionEntry]
    onward: str | None


class Found(msgspec.Struct, frozen=True):
    """What begins so."""

    attempts: list[Entry]
    decisions: list[DecisionEntry]


def state_in(asked: Mapping[str, str], among: tuple[str, ...]) -> str | None:
    """The state that a filter names, or None. Raises Problem."""
    said = asked.get("state") or None
    if said is not None and said not in among:
        raise not_tried("usage", f"state is none of {', '.join(among)}.")
    return said


def jobs(ledger: Ledger, names: Names, state: str | None, targets: tuple[str, ...] | None, before: str | None) -> Jobs:
    """Newest first. Raises CannotTry."""
    found = ledger.page(PAGE + 1, before, None if state is None else State(state), targets)
    shown = [with_revert(ledger, entry) for entry in found[:PAGE]]
    return Jobs(shown, shown[-1].attempt_id if len(found) > PAGE else None)


def decisions(ledger: Ledger, identity: Identity, state: str | None, before: str | None) -> Decisions:
    """Newest first. Raises CannotTry."""
    found = PatchQueries(ledger).page(PAGE + 1, before, None if state is None else Decision(state))
    shown = found[:PAGE]
    onward = shown[-1].decision_id if len(found) > PAGE else None
    return Decisions([one for one in shown if sees_branch(identity, one.ref)], onward)


def search(ledger: Ledger, identity: Identity, names: Names, begins: str) -> Found:
    """What has an id, a job id or a digest of a diff that begins so. Raises CannotTry."""
    attempts = [one for one in overview.attempts_named(ledger, begins, FOUND) if names.sees(one.target)]
    found = overview.decisions_named(ledger, begins, FOUND)
    return Found(
        [with_revert(ledger, one) for one in attempts],
        [one for one in found if sees_branch(identity, one.ref)],
    )
