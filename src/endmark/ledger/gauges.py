"""What whoever watches a book asks of it again and again: how long the oldest job has waited, and verdict flips."""

from collections.abc import Iterable

from endmark.core.states import Decision, Review, State
from endmark.ledger.queries import Queries

WINDOW = 20_000  # reviews: no question reads more of the book than its newest end

_OLDEST = "SELECT changed_at FROM attempts WHERE target = ? AND state = ? ORDER BY n LIMIT 1"
_VERDICTS = f"('{Review.PASS}', '{Review.FAIL}')"
_FLIPS = f"""\
SELECT CASE WHEN d.state = '{Decision.MERGED}' THEN 1 ELSE 0 END, count(*)
FROM reviews AS again JOIN decisions AS d ON d.n = again.decision
WHERE again.n > coalesce((SELECT max(n) FROM reviews), 0) - ? AND again.purpose = 'replay'
    AND again.state IN {_VERDICTS} AND again.state <> (
        SELECT former.state FROM reviews AS former
        WHERE former.decision = again.decision AND former.reviewer = again.reviewer
            AND former.purpose NOT IN ('replay', 'advice') AND former.state IN {_VERDICTS}
        ORDER BY former.n LIMIT 1)
GROUP BY 1"""  # noqa: S608  # words of our own


def oldest(book: Queries, targets: Iterable[str], states: Iterable[State]) -> dict[tuple[str, State], str]:
    """Since when (RFC 3339 UTC) the job that came first among those in each state at each target has been in it.

    `targets` are identities. Each pair costs one look into an index. Raises CannotTry.
    """
    found: dict[tuple[str, State], str] = {}
    among = tuple(states)
    for target in targets:
        for state in among:
            for since in book.ask(lambda row: str(row[0]), _OLDEST, target, state.value):
                found[target, state] = since
    return found


def flips(book: Queries, window: int = WINDOW) -> tuple[int, int]:
    """How many repeated verdicts, among the newest `window` reviews, were not the first one: (of diffs that stand
    merged, of others). Raises CannotTry."""
    rows = dict(book.ask(lambda row: (int(row[0]), int(row[1])), _FLIPS, window))
    return rows.get(1, 0), rows.get(0, 0)
