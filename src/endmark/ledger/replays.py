"""What the book has of verdicts that were asked for again: each beside the first whole one of its reviewer."""

from typing import Any

import msgspec

from endmark.core.flips import Pair, Word
from endmark.core.states import Decision, Review
from endmark.ledger.queries import Queries

WINDOW = 20_000  # reviews: a question reads no more of the book than its newest end

_WORDS: dict[str, Word] = {Review.PASS.value: "pass", Review.FAIL.value: "fail", Review.INCOMPLETE.value: "incomplete"}
_REPLAYS = """\
SELECT d.decision_id, d.ref, d.policy_version, d.state, again.reviewer, again.model, again.prompt_sha256, again.state,
    again.answered_at, (
        SELECT former.state FROM reviews AS former
        WHERE former.decision = again.decision AND former.reviewer = again.reviewer
            AND former.purpose NOT IN ('replay', 'advice') AND former.state IN ('pass', 'fail')
        ORDER BY former.n LIMIT 1)
FROM reviews AS again JOIN decisions AS d ON d.n = again.decision
WHERE again.n > coalesce((SELECT max(n) FROM reviews), 0) - ? AND again.purpose = 'replay' AND again.state <> 'asked'
ORDER BY again.n"""


class Replay(msgspec.Struct, frozen=True):
    """One repetition: when it was answered (RFC 3339 UTC), for which branch, and both verdicts."""

    at: str
    ref: str
    pair: Pair


def replays(book: Queries, window: int = WINDOW) -> list[Replay]:
    """Every repetition among the newest `window` reviews, oldest first. Raises CannotTry.

    Where the book has no model, the reviewer's name stands for it.
    """
    rows = book.ask(_replay, _REPLAYS, window)
    return [row for row in rows if row is not None]


def _replay(row: tuple[Any, ...]) -> Replay | None:
    decision_id, ref, policy, state, reviewer, model, prompt, again, at, first = row
    if first is None:  # nothing whole that it could repeat
        return None
    pair = Pair(
        decision_id=decision_id,
        reviewer=reviewer,
        model=model or reviewer,
        policy_version=policy,
        prompt_sha256=prompt or "",
        first=_WORDS[first],
        again=_WORDS[again],
        merged=state == Decision.MERGED.value,
    )
    return Replay(at=at, ref=ref, pair=pair)
