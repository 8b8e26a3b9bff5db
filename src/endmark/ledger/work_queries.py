"""What a worker asks of the book: which jobs may be applied now."""

from endmark.core.evidence import REVIEW_NONE
from endmark.core.states import State
from endmark.ledger.entry import COLUMNS, Entry, entry_of
from endmark.ledger.queries import Queries

MOST = 100


def due_jobs(ledger: Queries, targets: tuple[str, ...], busy: tuple[str, ...] = ()) -> list[Entry]:
    """Jobs for `targets` (identities) that are approved, or staged where no review was asked for; oldest first.

    None of a target in `busy`, and at most a hundred. Raises CannotTry.
    """
    free = tuple(target for target in targets if target not in busy)
    if not free:
        return []
    marks = ", ".join("?" * len(free))
    select = f"SELECT {', '.join(COLUMNS)} FROM attempts WHERE state = ? AND state <> 'received' "  # noqa: S608
    approved = ledger.ask(
        entry_of, f"{select}AND target IN ({marks}) ORDER BY n LIMIT ?", State.APPROVED.value, *free, MOST
    )
    staged = ledger.ask(
        entry_of,
        f"{select}AND target IN ({marks}) AND evidence LIKE ? ORDER BY n LIMIT ?",
        State.STAGED.value,
        *free,
        f"%{REVIEW_NONE}%",
        MOST,
    )
    return sorted(approved + staged, key=lambda entry: entry.attempt_id)[:MOST]
