"""The writing side of the book for patches: each act is one transaction, with an event for every change."""

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from endmark.core.refusal import CannotTry, Signal
from endmark.core.states import DECISION_MOVES, REVIEW_MOVES, Decision, Review
from endmark.ledger.book import Ledger
from endmark.ledger.chain import ZERO, event_hash
from endmark.ledger.entry import stamp
from endmark.ledger.ids import new_id
from endmark.ledger.patch_entry import (
    ADVICE,
    Answer,
    DecisionEntry,
    DecisionMoved,
    NewDecision,
    NewReview,
    ReviewEntry,
    stored,
)
from endmark.ledger.patch_queries import REACHED, PatchQueries, row_of
from endmark.ledger.store import Store

__all__ = ["PatchBook"]

_PASSED_ALIKE = (
    "SELECT decision_id FROM decisions WHERE diff_sha = ? AND policy_sha256 = ? AND state = 'pass' ORDER BY n"
)
_ASKED_BEFORE = (
    "SELECT count(*) FROM reviews JOIN decisions ON decisions.n = reviews.decision "  # noqa: S608  # our own words
    f"WHERE diff_sha = ? AND policy_sha256 = ? AND reviewer = ? AND purpose = ? AND {REACHED}"
)
_HAS_PASS = (
    "SELECT 1 FROM reviews JOIN decisions ON decisions.n = reviews.decision "
    "WHERE decision_id = ? AND reviewer = ? AND reviews.state = 'pass' AND purpose <> 'advice'"
)


class PatchBook(PatchQueries):
    """Decisions and reviews in an open ledger. Raises as `Ledger` does, and `DecisionMoved` where that is said."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._ledger = ledger

    def open(self, new: NewDecision, now: datetime) -> DecisionEntry:
        """Write a new decision as `pending`."""
        at = stamp(now)
        identity = msgspec.structs.asdict(new)
        entry = DecisionEntry(
            decision_id=new_id("dec", now),
            **identity,
            opened_at=at,
            state=Decision.PENDING,
            signal=Signal.COMPLETE,
            evidence=(),
            detail="",
            merged=None,
            approver=None,
            changed_at=at,
        )
        facts = stored(msgspec.structs.asdict(entry))
        data = msgspec.json.encode({"set": {name: value for name, value in facts.items() if name not in _OF_THE_CHAIN}})
        chain = event_hash(ZERO, entry.decision_id, 1, at, "opened", None, Decision.PENDING, data)
        with self._ledger.transaction(at, durable=True) as store:
            n = store.insert("decisions", (*facts, "events", "chain"), (*facts.values(), 1, chain))
            store.add_event((None, n, 1, chain, at, "opened", None, Decision.PENDING.value, data.decode()))
        return entry

    def ask(self, decision_id: str, new: NewReview, now: datetime) -> ReviewEntry:
        """Write that a reviewer is being asked. Raises ValueError for a review id that was used before."""
        at = stamp(now)
        with self._ledger.transaction(at, durable=True) as store:
            return self._ask(store, decision_id, new, now)

    def ask_within(self, decision_id: str, new: NewReview, now: datetime, most: int) -> ReviewEntry | None:
        """As `ask`; None, and nothing is written, where the reviewer was asked `most` times about this diff by this
        policy, whichever decision and process it was for."""
        at = stamp(now)
        with self._ledger.transaction(at, durable=True) as store:
            decision = row_of(store, decision_id)[3]
            values = (decision.diff_sha, decision.policy_sha256, new.reviewer, new.purpose)
            store.alone(f"asking {' '.join(map(str, values))}")
            ((asked,),) = store.ask(_ASKED_BEFORE, values)
            return self._ask(store, decision_id, new, now) if asked < most else None

    def answered(
        self, review_id: str, answer: Answer, now: datetime, *, body: bytes | None, stderr: str = ""
    ) -> ReviewEntry:
        """Write what a reviewer answered, and keep `body`, the bytes as judged, and what it said beside them.

        A complete `fail` that is no advice moves every unmerged pass of the same diff and policy to `fail`, in the same
        transaction. Raises KeyError for an unknown review, ValueError for one that is finished.
        """
        at = stamp(now)
        with self._ledger.transaction(at, durable=True) as store:
            return self._answer(store, review_id, answer, at, body, stderr)

    def brought(
        self,
        decision_id: str,
        new: NewReview,
        answer: Answer,
        now: datetime,
        *,
        body: bytes | None,
        stderr: str = "",
    ) -> ReviewEntry:
        """`ask` and `answered` in one transaction: a verdict that came from elsewhere."""
        at = stamp(now)
        with self._ledger.transaction(at, durable=True) as store:
            if (
                answer.state is Review.FAIL
            ):  # before any row is held, as a merge does it, or the two wait for each other
                self._alone_with(store, decision_id)
            asked = self._ask(store, decision_id, new, now)
            return self._answer(store, asked.review_id, answer, at, body, stderr)

    def carried(
        self, decision_id: str, new: NewReview, answer: Answer, now: datetime, *, body: bytes | None
    ) -> ReviewEntry | None:
        """As `brought`, for a pending decision without a pass of this reviewer; None, and nothing is written, else."""
        at = stamp(now)
        with self._ledger.transaction(at, durable=True) as store:
            store.alone(f"carrying {decision_id}")
            is_pending = row_of(store, decision_id)[3].state is Decision.PENDING
            if not is_pending or store.ask(_HAS_PASS, (decision_id, new.reviewer)):
                return None
            asked = self._ask(store, decision_id, new, now)
            return self._answer(store, asked.review_id, answer, at, body)

    def move(
        self,
        decision_id: str,
        expect: Decision,
        to: Decision,
        now: datetime,
        *,
        signal: Signal | None = None,
        detail: str | None = None,
        evidence: tuple[str, ...] = (),
        merged: str | None = None,
        approver: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> DecisionEntry:
        """Move a decision that is in `expect`; facts given replace what it said, `evidence` is added to it.

        Raises DecisionMoved when it is in another state, KeyError for an unknown one, and CannotTry where the rules of
        the book forbid it: a pass needs every reviewer's, and no fail.
        """
        if to not in DECISION_MOVES[expect]:
            raise ValueError(f"{expect} > {to} is not a legal move")
        at = stamp(now)
        given = {"signal": signal, "detail": detail, "merged": merged, "approver": approver}
        facts: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        with self._ledger.transaction(at, durable=True) as store:
            return self._move(store, decision_id, expect, to, at, facts, evidence, data or {})

    def merge(
        self,
        decision_id: str,
        now: datetime,
        do: Callable[[DecisionEntry], tuple[str, tuple[str, ...]]],
        *,
        approver: str | None = None,
    ) -> DecisionEntry:
        """Move a pass to `merged` by the commit that `do` makes, so that no fail can be recorded in between.

        `do` moves the branch and returns the commit and its evidence; whatever it raises leaves the decision as it was,
        and is raised. Raises DecisionMoved when it is no pass (any more). Should this process end after `do`, the
        decision is a pass that stands merged: reconciling finds the commit.
        """
        at = stamp(now)
        commit = None
        try:
            with self._ledger.transaction(at, durable=True) as store:
                self._alone_with(store, decision_id)
                entry = row_of(store, decision_id)[3]
                if entry.state is not Decision.PASS:
                    raise DecisionMoved(entry)
                commit, evidence = do(entry)
                facts: dict[str, Any] = {"merged": commit}
                if approver is not None:
                    facts["approver"] = approver
                return self._move(store, decision_id, Decision.PASS, Decision.MERGED, at, facts, evidence, {})
        except CannotTry as fault:
            if commit is None:
                raise
            raise CannotTry(
                f"the branch stands at the merge {commit} now, and that could not be written down: {fault.detail}. "
                "'endmark reconcile' writes it"
            ) from None

    def settle(
        self,
        decision_id: str,
        now: datetime,
        find: Callable[[DecisionEntry], tuple[str, tuple[str, ...]] | None],
        otherwise: tuple[Signal, str] | None = None,
    ) -> DecisionEntry | None:
        """Move a pass to `merged` if `find` knows its commit, else to `stale` where `otherwise` says why.

        One transaction, so that nobody merges in between. None, and nothing is written, where neither is so. Raises
        DecisionMoved when it is no pass (any more), and what `find` raises.
        """
        at = stamp(now)
        with self._ledger.transaction(at, durable=True) as store:
            self._alone_with(store, decision_id)
            entry = row_of(store, decision_id)[3]
            if entry.state is not Decision.PASS:
                raise DecisionMoved(entry)
            found = find(entry)
            if found is not None:
                to, facts, evidence = Decision.MERGED, {"merged": found[0]}, found[1]
            elif otherwise is not None:
                to, facts, evidence = Decision.STALE, {"signal": otherwise[0], "detail": otherwise[1]}, ()
            else:
                return None
            return self._move(store, decision_id, Decision.PASS, to, at, facts, evidence, {})

    def note(self, decision_id: str, event: str, now: datetime, data: Mapping[str, Any]) -> None:
        """Add an event that moves nothing, in any state. Raises KeyError for an unknown id."""
        if event in _ACTS:
            raise ValueError(f"{event!r} is the name of an act")
        at = stamp(now)
        with self._ledger.transaction(at, durable=True) as store:
            self._append(store, decision_id, at, event, None, None, {}, data)

    # ---- inside a transaction ---------------------------------------------------------------------------------

    def _ask(self, store: Store, decision_id: str, new: NewReview, now: datetime) -> ReviewEntry:
        at, review_id = stamp(now), new.review_id or new_id("rev", now)
        store.alone(f"review {review_id}")
        if store.ask("SELECT 1 FROM reviews WHERE review_id = ?", (review_id,)):
            raise ValueError(f"the review id {review_id} was used before")
        identity = msgspec.structs.asdict(new) | {"review_id": review_id}
        entry = ReviewEntry(
            decision_id=decision_id,
            **identity,
            asked_at=at,
            state=Review.ASKED,
            signal=None,
            received_bytes=None,
            expected_bytes=None,
            body_sha256=None,
            level=None,
            evidence=(),
            detail="",
            blocking=None,
            advisory=None,
            answered_at=None,
        )
        n = self._append(
            store,
            decision_id,
            at,
            "asked",
            None,
            Review.ASKED.value,
            {},
            {"review": review_id, "set": {name: value for name, value in identity.items() if value is not None}},
        )
        facts = stored(msgspec.structs.asdict(entry))
        del facts["decision_id"]
        store.insert("reviews", (*facts, "decision"), (*facts.values(), n))
        return entry

    def _answer(
        self, store: Store, review_id: str, answer: Answer, at: str, body: bytes | None, stderr: str = ""
    ) -> ReviewEntry:
        if body is not None and (len(body), hashlib.sha256(body).hexdigest()) != (
            answer.received_bytes,
            answer.body_sha256,
        ):
            raise ValueError("the bytes to be kept are not those that were judged")
        store.alone(f"review {review_id}")
        entry = self.review(review_id)
        if entry is None:
            raise KeyError(review_id)
        counts = answer.state is Review.FAIL and entry.purpose != ADVICE
        if counts:
            self._alone_with(store, entry.decision_id)
        if answer.state not in REVIEW_MOVES[entry.state]:
            raise ValueError(f"{entry.state} > {answer.state} is not a legal move")
        facts = msgspec.structs.asdict(answer)
        known = stored({name: value for name, value in facts.items() if value is not None and name != "state"})
        self._append(
            store,
            entry.decision_id,
            at,
            "answered",
            entry.state.value,
            answer.state.value,
            {},
            {"review": review_id, "set": known, "body_kept": body is not None} | ({"stderr": stderr} if stderr else {}),
        )
        ((n,),) = store.ask("SELECT n FROM reviews WHERE review_id = ?", (review_id,))
        if body is not None:
            store.run("INSERT INTO answers (review, body) VALUES (?, ?)", (n, body))
        columns = {**stored(facts), "answered_at": at}
        names = ", ".join(f"{name} = ?" for name in columns)
        store.run(f"UPDATE reviews SET {names} WHERE n = ?", (*columns.values(), n))  # noqa: S608
        if counts:
            self._fail_alike(store, entry.decision_id, review_id, at)
        return msgspec.structs.replace(entry, **facts, answered_at=at)

    def _fail_alike(self, store: Store, decision_id: str, review_id: str, at: str) -> None:
        decision = row_of(store, decision_id)[3]
        alike = store.ask(_PASSED_ALIKE, (decision.diff_sha, decision.policy_sha256))
        for (passed,) in alike:
            facts = {"detail": f"review {review_id} of the same diff failed it, and a fail outweighs every pass"}
            self._move(store, passed, Decision.PASS, Decision.FAIL, at, facts, (), {"because": review_id})

    def _move(
        self,
        store: Store,
        decision_id: str,
        expect: Decision,
        to: Decision,
        at: str,
        facts: dict[str, Any],
        evidence: tuple[str, ...],
        data: Mapping[str, Any],
    ) -> DecisionEntry:
        self._alone_with(store, decision_id)
        entry = row_of(store, decision_id)[3]
        if entry.state is not expect:
            raise DecisionMoved(entry)
        if evidence:
            facts = {**facts, "evidence": entry.evidence + evidence}
        columns = {**stored(facts), "state": to.value, "changed_at": at}
        self._append(store, decision_id, at, "moved", expect.value, to.value, columns, {**data, "set": stored(facts)})
        return msgspec.structs.replace(entry, **facts, state=to, changed_at=at)

    def _alone_with(self, store: Store, decision_id: str) -> None:
        """Whoever passes, merges or fails the same diff waits: no pass may slip in beside a fail."""
        entry = self.get(decision_id)
        if entry is not None and entry.diff_sha is not None:
            store.alone(f"{entry.diff_sha} {entry.policy_sha256}")

    def _append(
        self,
        store: Store,
        decision_id: str,
        at: str,
        event: str,
        before: str | None,
        after: str | None,
        columns: Mapping[str, Any],
        data: Mapping[str, Any],
    ) -> int:
        """Append one event to the decision's chain, and change its row. Returns the row's number."""
        n, events, chain, _ = row_of(store, decision_id)
        raw = msgspec.json.encode(data)
        digest = event_hash(chain, decision_id, events + 1, at, event, before, after, raw)
        store.add_event((None, n, events + 1, digest, at, event, before, after, raw.decode()))
        changed = {**columns, "events": events + 1, "chain": digest}
        names = ", ".join(f"{name} = ?" for name in changed)
        store.run(f"UPDATE decisions SET {names} WHERE n = ?", (*changed.values(), n))  # noqa: S608
        return n


_ACTS = ("opened", "asked", "answered", "moved")
_OF_THE_CHAIN = ("decision_id", "state", "opened_at", "changed_at")
