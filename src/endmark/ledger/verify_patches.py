"""The audit of decisions and reviews: each row must say what the chain of its decision says."""

import hashlib
from collections.abc import Callable, Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any

from endmark.core import strictjson
from endmark.core.refusal import Refused
from endmark.core.states import DECISION_MOVES, REVIEW_MOVES, Decision, Review
from endmark.ledger.chain import ZERO, event_hash
from endmark.ledger.patch_entry import DECISION_COLUMNS, REVIEW_COLUMNS
from endmark.ledger.source import Source

_DECISION_MOVES = {(before.value, after.value) for before, onward in DECISION_MOVES.items() for after in onward}
_REVIEW_MOVES = {(before.value, after.value) for before, onward in REVIEW_MOVES.items() for after in onward}
_DECISIONS = f"SELECT n, events, chain, {', '.join(DECISION_COLUMNS)} FROM decisions ORDER BY n"  # noqa: S608
_REVIEWS = (
    f"SELECT {', '.join(f'r.{name}' for name in REVIEW_COLUMNS)}, a.review IS NOT NULL, a.body "  # noqa: S608
    "FROM reviews r LEFT JOIN answers a ON a.review = r.n WHERE r.decision = ? ORDER BY r.n"
)
_EVENTS = (
    "SELECT decision, id, seq, at, event, from_state, to_state, data, hash FROM events WHERE {} ORDER BY decision, seq"
)
_STRAYS = (
    (
        "SELECT review_id FROM reviews WHERE NOT EXISTS (SELECT 1 FROM decisions WHERE n = reviews.decision)",
        "review {} belongs to no decision",
    ),
    (
        "SELECT review FROM answers WHERE NOT EXISTS (SELECT 1 FROM reviews WHERE n = answers.review)",
        "review row {} is missing, its answer is still there",
    ),
)

Problem = Callable[[str], None]


def audit(source: Source, problem: Problem, tick: Callable[[], None]) -> None:
    """Tell `problem` of every decision and review that is not what its chain says. Raises as `source` does."""
    chains = groupby(source.rows(_EVENTS.format(source.is_number("decision"))), key=itemgetter(0))
    chain = next(chains, None)
    expected = 1
    for n, count, head, *values in source.rows(_DECISIONS):
        if n != expected and source.gapless:
            problem(f"decision rows {expected} to {n - 1} are missing")
        expected = n + 1
        while chain and chain[0] < n:
            _orphans(chain, problem)
            chain = next(chains, None)
        row = dict(zip(DECISION_COLUMNS, values, strict=True)) | {"events": count, "chain": head}
        if chain and chain[0] == n:
            _Chain(row, list(source.rows(_REVIEWS, n)), problem, tick, source.bodies).follow(chain[1])
            chain = next(chains, None)
        else:
            problem(f"decision {row['decision_id']} (row {n}): all its events are missing")
        tick()
    while chain:
        _orphans(chain, problem)
        chain = next(chains, None)
    for sql, sentence in _STRAYS:
        for (name,) in source.rows(sql):
            problem(sentence.format(name))


def _orphans(chain: tuple[int, Iterable[tuple[Any, ...]]], problem: Problem) -> None:
    problem(f"decision row {chain[0]} is missing, {sum(1 for _ in chain[1])} of its events are still there")


class _Chain:
    """One decision: its chain is followed, the rows it leads to are made anew and compared."""

    def __init__(
        self,
        row: dict[str, Any],
        reviews: list[tuple[Any, ...]],
        problem: Problem,
        tick: Callable[[], None],
        bodies: bool,
    ) -> None:
        self._row = row
        self._reviews = reviews
        self._problem = problem
        self._tick = tick
        self._bodies = bodies
        self._name = f"decision {row['decision_id']}"
        self._said: dict[str, Any] = dict.fromkeys(DECISION_COLUMNS) | {"decision_id": row["decision_id"]}
        self._asked: dict[str, dict[str, Any]] = {}
        self._kept: set[str] = set()

    def follow(self, chain: Iterable[tuple[Any, ...]]) -> None:
        previous, place = ZERO, 0
        for _, number, seq, at, event, old, new, data, digest in chain:
            self._tick()
            where = f"{self._name}, event {seq} (id {number})"
            if seq != place + 1:
                self._problem(f"{where}: event {place + 1} was expected, it is missing")
            elif digest != _hash(previous, self._row["decision_id"], seq, at, event, old, new, data):
                self._problem(f"{where}: its hash does not match, it or its predecessor was changed")
            previous, place = digest, seq if isinstance(seq, int) else place + 1
            try:
                self._apply(where, place, at, event, old, new, strictjson.loads(data.encode()))
            except (Refused, ValueError, TypeError, AttributeError, KeyError):
                self._problem(f"{where}: its data cannot be read")
        self._said |= {"events": place, "chain": previous}
        self._compare(self._name, self._said, self._row)
        self._compare_reviews()

    def _apply(self, where: str, place: int, at: str, event: str, old: Any, new: Any, says: dict[str, Any]) -> None:
        facts = says.get("set", {})
        if event == "opened" and place == 1 and (old, new) == (None, Decision.PENDING):
            self._said.update(facts, state=new, opened_at=at, changed_at=at)
        elif event == "moved" and old == self._said["state"] and (old, new) in _DECISION_MOVES:
            self._said.update(facts, state=new, changed_at=at)
        elif event == "asked" and (old, new) == (None, Review.ASKED) and says["review"] not in self._asked:
            start = dict.fromkeys(REVIEW_COLUMNS) | {"evidence": "", "detail": "", "asked_at": at, "state": new}
            self._asked[says["review"]] = start | facts
        elif event == "answered" and old == self._asked[says["review"]]["state"] and (old, new) in _REVIEW_MOVES:
            self._asked[says["review"]].update(facts, state=new, answered_at=at)
            if says["body_kept"]:
                self._kept.add(says["review"])
        elif event in ("opened", "moved", "asked", "answered") or old is not None or new is not None or facts:
            self._problem(f"{where}: {event} {old} > {new} is not legal here")

    def _compare_reviews(self) -> None:
        for *values, kept, body in self._reviews:
            row = dict(zip(REVIEW_COLUMNS, values, strict=True))
            name = f"review {row['review_id']}"
            said = self._asked.pop(row["review_id"], None)
            if said is None:
                self._problem(f"{name}: the chain of its decision knows nothing of it")
                continue
            self._compare(name, said, row)
            if not self._bodies:
                continue
            if bool(kept) != (row["review_id"] in self._kept):
                self._problem(f"{name}: its kept answer is {'not its own' if kept else 'missing'}")
            elif kept and not (isinstance(body, bytes) and hashlib.sha256(body).hexdigest() == row["body_sha256"]):
                self._problem(f"{name}: its kept answer was changed, its SHA-256 is not its body_sha256")
        for gone in self._asked:
            self._problem(f"review {gone} is missing, its events are still there")

    def _compare(self, name: str, said: dict[str, Any], row: dict[str, Any]) -> None:
        for column, value in said.items():
            if row[column] != value:
                self._problem(f"{name}: {column} is {_show(row[column])}, its events say {_show(value)}")


def _hash(
    previous: bytes, decision_id: str, seq: int, at: str, event: str, old: Any, new: Any, data: Any
) -> bytes | None:
    try:
        return event_hash(previous, decision_id, seq, at, event, old, new, data.encode())
    except (TypeError, AttributeError, ValueError, OverflowError):
        return None


def _show(value: Any) -> str:
    text = value.hex() if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
