"""What people ask of a full book: how many there are, and where a name they have at hand stands."""

import msgspec

from endmark.core.states import Decision, State
from endmark.ledger.counting import COUNTS
from endmark.ledger.entry import COLUMNS, Entry, entry_of
from endmark.ledger.patch_entry import DECISION_COLUMNS, DecisionEntry, decision_of
from endmark.ledger.queries import Queries

_ATTEMPTS = f"SELECT {', '.join(COLUMNS)} FROM attempts WHERE "  # noqa: S608  # names of our own
_DECISIONS = f"SELECT {', '.join(DECISION_COLUMNS)} FROM decisions WHERE "  # noqa: S608  # as above
_BEGINS = "{0} >= ? AND {0} < ?"


class Count(msgspec.Struct, frozen=True):
    """`number` attempts (or decisions) stand in `state` at the target (or branch) `about`, '' for none."""

    kind: str
    about: str
    state: str
    number: int


def counts(book: Queries) -> list[Count]:
    """How many attempts and decisions there are by target or branch and state; none that is 0. Raises CannotTry."""
    rows = book.ask(lambda row: Count(row[0], row[1], row[2], int(row[3])), f"{COUNTS} ORDER BY kind, about, state")
    return [row for row in rows if row.number]


def attempts_named(book: Queries, begins: str, limit: int) -> list[Entry]:
    """At most `limit` attempts whose id, or the job id they named, begins so, newest first. Raises CannotTry."""
    found: dict[str, Entry] = {}
    for column, among in (
        ("attempt_id", "TRUE"),
        ("job_id", "owner = 1 AND job_id IS NOT NULL"),
        ("job_id", "owner = 0 AND job_id IS NOT NULL"),
    ):
        where = f"{among} AND {_BEGINS.format(column)} ORDER BY {column} LIMIT ?"
        rows = book.ask(entry_of, _ATTEMPTS + where, begins, _after(begins), limit)
        found |= {row.attempt_id: row for row in rows}
    return sorted(found.values(), key=lambda row: (row.received_at, row.attempt_id), reverse=True)[:limit]


def decisions_named(book: Queries, begins: str, limit: int) -> list[DecisionEntry]:
    """At most `limit` decisions whose id or diff_sha begins so, newest first. Raises CannotTry."""
    found: dict[str, DecisionEntry] = {}
    for column in ("decision_id", "diff_sha"):
        where = f"{_BEGINS.format(column)} ORDER BY {column} LIMIT ?"
        rows = book.ask(decision_of, _DECISIONS + where, begins, _after(begins), limit)
        found |= {row.decision_id: row for row in rows}
    return sorted(found.values(), key=lambda row: (row.opened_at, row.decision_id), reverse=True)[:limit]


def oldest(book: Queries, state: State, target: str, limit: int) -> list[Entry]:
    """At most `limit` attempts for `target` (an identity) in `state`, oldest first. Raises CannotTry."""
    where = "target = ? AND state = ? AND state <> 'received' ORDER BY n LIMIT ?"
    return book.ask(entry_of, _ATTEMPTS + where, target, state.value, limit)


def oldest_decisions(book: Queries, state: Decision, limit: int) -> list[DecisionEntry]:
    """At most `limit` decisions in `state`, oldest first. Raises CannotTry."""
    return book.ask(decision_of, _DECISIONS + "state = ? ORDER BY n LIMIT ?", state.value, limit)


def _after(begins: str) -> str:
    """What stands behind everything that begins so: names are compared byte by byte, and this is the last character."""
    return begins + "\U0010ffff"
