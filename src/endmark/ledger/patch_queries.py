"""What can be asked of the book about patches."""

import itertools
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from endmark.core.states import Decision, Review
from endmark.ledger.entry import Event, stamp
from endmark.ledger.patch_entry import (
    ADVICE,
    DECISION_COLUMNS,
    REVIEW_COLUMNS,
    DecisionEntry,
    ReviewEntry,
    decision_of,
    review_of,
)
from endmark.ledger.queries import Queries, event_of
from endmark.ledger.store import Store

_DECISION = f"SELECT {', '.join(DECISION_COLUMNS)} FROM decisions "  # noqa: S608  # names of our own
_REVIEW = (
    f"SELECT decision_id, {', '.join(f'reviews.{name}' for name in REVIEW_COLUMNS)} "  # noqa: S608  # as above
    "FROM reviews JOIN decisions ON decisions.n = reviews.decision "
)
_CURRENT = f"SELECT n, events, chain, {', '.join(DECISION_COLUMNS)} FROM decisions WHERE decision_id = ?"  # noqa: S608
_EVENTS = (
    "SELECT id, seq, at, event, from_state, to_state, data, hash FROM events "
    "WHERE decision = (SELECT n FROM decisions WHERE decision_id = ?) ORDER BY seq"
)
_EVENT = "EXISTS (SELECT 1 FROM events WHERE events.decision = decisions.n AND event = ?)"
_TOGETHER = 16  # places that one question looks for one by one
MERGING = "merging"  # the event before the branch is told to move


REACHED = "NOT coalesce(reviews.state = 'incomplete' AND reviews.signal = 'unreachable' AND received_bytes = 0, false)"
"""An attempt that counts: somebody was reached, or is being asked."""


class PatchQueries:
    """The reading side, over an open ledger. Each method raises `CannotTry` when it cannot be read."""

    def __init__(self, ledger: Queries) -> None:
        self._queries = ledger

    def get(self, decision_id: str) -> DecisionEntry | None:
        """The decision with this id."""
        if "\0" in decision_id:  # as in Queries.find
            return None
        return self._first(f"{_DECISION}WHERE decision_id = ?", decision_id)

    def review(self, review_id: str) -> ReviewEntry | None:
        """The attempt at a review with this id."""
        found = self._queries.ask(review_of, f"{_REVIEW}WHERE review_id = ?", review_id)
        return found[0] if found else None

    def reviews(self, decision_id: str) -> list[ReviewEntry]:
        """Every attempt at a review that belongs to this decision, oldest first."""
        return self._queries.ask(review_of, f"{_REVIEW}WHERE decision_id = ? ORDER BY reviews.n", decision_id)

    def reviews_of_diff(self, diff_sha: str, policy_sha256: str, *states: Review) -> list[ReviewEntry]:
        """Attempts at this very diff under this very policy, whichever decision they were for, oldest first: no advice.

        `states`: only those; none for all.
        """
        where = f"WHERE diff_sha = ? AND policy_sha256 = ? AND purpose <> ? {_among('reviews.state', states)}"
        return self._queries.ask(
            review_of, f"{_REVIEW}{where} ORDER BY reviews.n", diff_sha, policy_sha256, ADVICE, *states
        )

    def advised(self, diff_sha: str, policy_sha256: str) -> set[str]:
        """Whose whole advice on this diff under this policy is on record, whichever decision it was for."""
        where = "WHERE diff_sha = ? AND policy_sha256 = ? AND purpose = ? AND reviews.state IN (?, ?)"
        words = (ADVICE, Review.PASS.value, Review.FAIL.value)
        found = self._queries.ask(review_of, f"{_REVIEW}{where}", diff_sha, policy_sha256, *words)
        return {one.reviewer for one in found}

    def failed(self, diff_sha: str, policy_sha256: str) -> ReviewEntry | None:
        """A complete review that failed this diff under this policy: no later pass outweighs it."""
        return next(iter(self.reviews_of_diff(diff_sha, policy_sha256, Review.FAIL)), None)

    def times_asked(self, diff_sha: str, policy_sha256: str, reviewer: str) -> int:
        """How often a reviewer was asked to decide about this diff under this policy."""
        found = self._queries.ask(
            lambda row: int(row[0]),
            "SELECT count(*) FROM reviews JOIN decisions ON decisions.n = reviews.decision "  # noqa: S608  # our own
            f"WHERE diff_sha = ? AND policy_sha256 = ? AND reviewer = ? AND purpose = 'review' AND {REACHED}",
            diff_sha,
            policy_sha256,
            reviewer,
        )
        return found[0]

    def of_diff(self, diff_sha: str, policy_sha256: str, *states: Decision) -> list[DecisionEntry]:
        """Decisions about this diff under this policy, newest first. `states`: only those; none for all."""
        where = f"WHERE diff_sha = ? AND policy_sha256 = ? {_among('state', states)} ORDER BY n DESC"
        return self._all(where, diff_sha, policy_sha256, *states)

    def on_head(self, repository: str, ref: str, head: str) -> list[DecisionEntry]:
        """Every decision about this head for this branch, newest first."""
        return self._all("WHERE repository = ? AND ref = ? AND head = ? ORDER BY n DESC", repository, ref, head)

    def merged_by(self, commit: str) -> DecisionEntry | None:
        """The decision whose merge made this commit."""
        return self._first(f"{_DECISION}WHERE state = ? AND merged = ?", Decision.MERGED.value, commit)

    def told_to_merge(self, repository: str, state: Decision) -> list[DecisionEntry]:
        """Decisions in `state` whose branch was once told to move, oldest first; what became of it may be unknown."""
        return self._all(
            f"WHERE repository = ? AND state = ? AND {_EVENT} ORDER BY n", repository, state.value, MERGING
        )

    def asked(self, repository: str) -> list[ReviewEntry]:
        """Reviews of this repository that nobody has answered yet, oldest first."""
        where = "WHERE repository = ? AND reviews.state = ? ORDER BY reviews.n"
        return self._queries.ask(review_of, f"{_REVIEW}{where}", repository, Review.ASKED.value)

    def since(self, moment: datetime, limit: int = 1_000_000) -> list[DecisionEntry]:
        """Decisions that changed at `moment` or later, oldest first, at most `limit`."""
        return self._all("WHERE changed_at >= ? ORDER BY n LIMIT ?", stamp(moment), limit)

    def page(
        self,
        limit: int,
        before: str | None = None,
        state: Decision | None = None,
        places: Sequence[tuple[str | None, str | None]] | None = None,
    ) -> list[DecisionEntry]:
        """At most `limit` decisions, newest first, opened before the one whose id is `before`.

        `places`: only those of these repositories and branches, by full names; None stands for any.
        """
        if places is not None and (None, None) not in places and 0 < len(places) <= _TOGETHER:
            return self._page_of(limit, before, state, places)
        where, values = "WHERE TRUE", list[Any]()
        if state is not None:
            where, values = where + " AND state = ?", [*values, state.value]
        if before is not None:
            where += " AND n < (SELECT n FROM decisions WHERE decision_id = ?)"
            values = [*values, before]
        if places is not None:
            where += f" AND ({' OR '.join(map(_within, places)) or 'FALSE'})"
            values += [word for place in places for word in place if word is not None]
        return self._all(f"{where} ORDER BY n DESC LIMIT ?", *values, limit)

    def _page_of(
        self, limit: int, before: str | None, state: Decision | None, places: Sequence[tuple[str | None, str | None]]
    ) -> list[DecisionEntry]:
        """The indexes have them by place and state: the newest of each, then of those."""
        first = "SELECT n FROM decisions WHERE decision_id = ?"
        part = "SELECT n FROM (SELECT n FROM decisions WHERE {} AND state = ? {} ORDER BY n DESC LIMIT ?) AS part{}"
        parts, values = list[str](), list[Any]()
        for place, one in itertools.product(places, Decision if state is None else (state,)):
            parts.append(part.format(_within(place), "" if before is None else f"AND n < ({first})", len(parts)))
            values += [word for word in place if word is not None]
            values += [one.value, *([] if before is None else [before]), limit]
        where = f"WHERE n IN ({' UNION ALL '.join(parts)}) ORDER BY n DESC LIMIT ?"
        return self._all(where, *values, limit)

    def answer(self, review_id: str) -> bytes | None:
        """The bytes that a reviewer answered, as they were judged."""
        found = self._queries.ask(
            lambda row: bytes(row[0]),
            "SELECT body FROM answers WHERE review = (SELECT n FROM reviews WHERE review_id = ?)",
            review_id,
        )
        return found[0] if found else None

    def events(self, decision_id: str) -> list[Event]:
        """The chain of this decision, oldest first; empty for an unknown id. States are of it or of a review."""
        return self._queries.ask(event_of, _EVENTS, decision_id)

    def _all(self, where: str, *values: Any) -> list[DecisionEntry]:
        return self._queries.ask(decision_of, _DECISION + where, *values)

    def _first(self, sql: str, *values: Any) -> DecisionEntry | None:
        found = self._queries.ask(decision_of, sql, *values)
        return found[0] if found else None


def _within(place: tuple[str | None, str | None]) -> str:
    named = [f"{column} = ?" for column, word in zip(("repository", "ref"), place, strict=True) if word is not None]
    return f"({' AND '.join(named) or 'TRUE'})"


def _among(column: str, states: tuple[Any, ...]) -> str:
    return f"AND {column} IN ({', '.join('?' * len(states))})" if states else ""


def row_of(store: Store, decision_id: str) -> tuple[int, int, bytes, DecisionEntry]:
    """The decision's row number, how many events it has, its chain's last hash, and itself. Raises KeyError.

    Within a transaction: the row stays as it is until that ends.
    """
    rows = store.ask(_CURRENT + store.row_lock, (decision_id,))
    if not rows:
        raise KeyError(decision_id)
    n, events, chain, *values = rows[0]
    return n, events, chain, decision_of(tuple(values))
