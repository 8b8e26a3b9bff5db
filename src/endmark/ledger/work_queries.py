"""What a worker asks of the book: which jobs may be applied now."""

from typing import Any, NamedTuple

from endmark.core.evidence import REVIEW_NONE
from endmark.core.states import State
from endmark.ledger.entry import COLUMNS, Entry, entry_of
from endmark.ledger.queries import Queries

MOST = 100
_PUT_OFF = 10_000  # a statement takes no more than some 32,000 values


def due_jobs(
    ledger: Queries, targets: tuple[str, ...], busy: tuple[str, ...] = (), put_off: tuple[str, ...] = ()
) -> list[Entry]:
    """Jobs for `targets` (identities) that are approved, or staged where no review was asked for; oldest first.

    None of a target in `busy`, none of the attempts in `put_off` (of many the first ten thousand), and at most a
    hundred of each target, so that no other is kept waiting by one. Raises CannotTry.
    """
    free = tuple(target for target in targets if target not in busy)
    if not free:
        return []
    not_now = put_off[:_PUT_OFF]
    skip = f"AND attempt_id NOT IN ({', '.join('?' * len(not_now))}) " if not_now else ""
    select = f"SELECT {', '.join(COLUMNS)} FROM attempts WHERE state = ? AND state <> 'received' AND target = ? "  # noqa: S608
    found: list[Entry] = []
    for target in free:
        found += ledger.ask(entry_of, f"{select}{skip}ORDER BY n LIMIT ?", State.APPROVED.value, target, *not_now, MOST)
        found += ledger.ask(
            entry_of,
            f"{select}AND evidence LIKE ? {skip}ORDER BY n LIMIT ?",
            State.STAGED.value,
            target,
            f"%{REVIEW_NONE}%",
            *not_now,
            MOST,
        )
    return sorted(found, key=lambda entry: entry.attempt_id)


class Due(NamedTuple):
    """A job that a worker may apply: its row's number, which later jobs have a higher one of, and the job."""

    n: int
    entry: Entry


def due_after(ledger: Queries, targets: tuple[str, ...], free: tuple[str, ...], after: int) -> list[Due]:
    """Jobs for `targets` (identities) that are approved, and for `free` ones also those staged where no review was
    asked for, which are not parked: the first hundred after the row `after`. Raises CannotTry.
    """
    found: list[Due] = []
    for state, places, more, values in (
        (State.APPROVED, targets, "", ()),
        (State.STAGED, free, "AND evidence LIKE ? ", (f"%{REVIEW_NONE}%",)),
    ):
        if places:
            found += ledger.ask(
                _due,
                f"SELECT n, {', '.join(COLUMNS)} FROM attempts WHERE state = ? AND state <> 'received' AND n > ? "  # noqa: S608
                f"AND target IN ({', '.join('?' * len(places))}) {more}"
                "AND (SELECT event FROM events WHERE attempt = attempts.n AND event IN ('moved', 'parked', 'resumed') "
                "ORDER BY seq DESC LIMIT 1) <> 'parked' ORDER BY n LIMIT ?",
                state.value,
                after,
                *places,
                *values,
                MOST,
            )
    return sorted(found, key=lambda due: due.n)[:MOST]


def _due(row: Any) -> Due:
    return Due(row[0], entry_of(row[1:]))
