"""All that is known of one job, and what whoever looks may do about it."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec

from endmark.apply_gate import ApplyGate
from endmark.core.outcome import Outcome
from endmark.core.plan import Plan
from endmark.core.refusal import CannotTry, Refused
from endmark.core.states import State
from endmark.effects.destroys import destroys, dialect_of
from endmark.faces import api
from endmark.faces.config import Place
from endmark.faces.http.service import Service
from endmark.faces.review import rehearsal_lines
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry, Event
from endmark.ledger.outcomes import is_reverted, outcome_of
from endmark.ledger.queries import with_revert
from endmark.steps import rehearsing

_SHOWN = 400  # statements; of those behind only what destroys something
_JUDGED = 2_000  # statements that the parser is asked about
_LONGEST = 4_000  # characters of one statement
_LOOK = 5.0  # seconds that a target may take to say what its schema is
_REMEMBERED = 64
_TOLD = ("reason", "why", "detail", "tries", "statement", "by")  # of an event, besides its states


class Line(msgspec.Struct, frozen=True):
    """A statement: its lines, how many characters are left out, and what a parser says it destroys."""

    number: int
    lines: list[str]
    left_out: int
    destroys: tuple[str, ...]


class Body(msgspec.Struct, frozen=True):
    """What a plan holds; `hidden` statements are not listed, and the last `unread` were not even looked at."""

    lines: list[Line]
    downs: list[Line]
    hidden: int
    unread: int
    destroying: int
    has_down: bool
    after: tuple[str, ...]
    retry_of: str | None
    base: str | None


class Happened(msgspec.Struct, frozen=True):
    """An event as the timeline shows it."""

    at: str
    event: str
    before: str | None
    after: str | None
    said: str


class Whole(msgspec.Struct, frozen=True):
    """A job."""

    entry: Entry
    outcome: Outcome
    state: str
    events: list[Happened]
    body: Body | None
    no_body: str
    rehearsal: Mapping[str, Any] | None
    rehearsal_lines: list[str]
    last: int
    done: tuple[int, int] | None


class Bodies:
    """Plans never change, so what was read of one is remembered."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Body] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, ledger: Ledger, entry: Entry) -> Body:
        """Raises CannotTry."""
        with self._lock:
            found = self._known.get(entry.attempt_id)
        if found is None:
            found = _body(ApplyGate(ledger, api.now).plan_of(entry), dialect_of(entry.target))
            with self._lock:
                self._known[entry.attempt_id] = found
                while len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
        return found


def whole(ledger: Ledger, bodies: Bodies, entry: Entry) -> Whole:
    """What the book says of it. Raises CannotTry."""
    entry = with_revert(ledger, ledger.get(entry.attempt_id) or entry)
    events = ledger.events(entry.attempt_id)
    body, no_body = None, "Nothing was proven of it, so there are no statements to show."
    if entry.sha256 is not None:
        try:
            body, no_body = bodies.of(ledger, entry), ""
        except CannotTry as fault:
            no_body = fault.detail
    kept = [event.data for event in events if event.event == rehearsing.REHEARSED]
    rehearsal = kept[-1] if kept else None
    return Whole(
        entry=entry,
        outcome=outcome_of(entry),
        state="reverted" if is_reverted(entry) else entry.state.value,
        events=[happened(event) for event in events],
        body=body,
        no_body=no_body,
        rehearsal=rehearsal,
        rehearsal_lines=[] if rehearsal is None else list(rehearsal_lines(rehearsal)),
        last=events[-1].seq if events else 0,
        done=None,
    )


async def fingerprint(service: Service, place: Place) -> tuple[str | None, str]:
    """(the target's schema as of now, or None and why there is none)."""

    def look() -> str:
        with (
            api.Gate(service.config.ledger, create=False, reconcile=False, options=place.options) as gate,
            gate.target(place.target).open() as session,
        ):
            return session.fingerprint()

    try:
        async with asyncio.timeout(_LOOK):
            return await asyncio.to_thread(look), ""
    except TimeoutError:
        return None, f"The target did not say what its schema is in {_LOOK:g} s."
    except (CannotTry, Refused) as fault:
        return None, fault.detail


def share(entry: Entry) -> float | None:
    """Of a hundred, how much of what was declared arrived; None where nothing was declared."""
    if entry.expected_bytes is None:
        return None
    if entry.received_bytes >= entry.expected_bytes:
        return 100.0
    return min(99.5, 100 * entry.received_bytes / entry.expected_bytes)


def waits(state: State) -> bool:
    """Whether there will be news of it by itself."""
    return state in (State.STAGED, State.APPROVED, State.APPLYING)


def _body(plan: Plan, dialect: str) -> Body:
    lines, hidden, destroying = [], 0, 0
    for number, statement in enumerate(plan.statements, 1):
        found = destroys(statement, dialect) if number <= _JUDGED else ()
        destroying += bool(found)
        if number <= _SHOWN or found:
            lines.append(_line(number, statement, found))
        else:
            hidden += 1
    downs = plan.down or []
    return Body(
        lines=lines,
        downs=[_line(number, statement, ()) for number, statement in enumerate(downs[:_SHOWN], 1)],
        hidden=hidden,
        unread=max(0, len(plan.statements) - _JUDGED),
        destroying=destroying,
        has_down=bool(downs),
        after=tuple(plan.after or ()),
        retry_of=plan.retry_of,
        base=plan.base,
    )


def _line(number: int, statement: str, found: tuple[str, ...]) -> Line:
    return Line(number, statement[:_LONGEST].split("\n"), max(0, len(statement) - _LONGEST), found)


def happened(event: Event) -> Happened:
    said = [
        f"{key}: {event.data[key]}"
        for key in _TOLD
        if isinstance(event.data.get(key), str | int) and event.data[key] != ""
    ]
    facts = event.data.get("set")
    if isinstance(facts, dict):
        said += [
            f"{key}: {facts[key]}" for key in ("approver", "detail") if isinstance(facts.get(key), str) and facts[key]
        ]
    return Happened(event.at, event.event, event.from_state, event.to_state, "; ".join(said)[:600])
