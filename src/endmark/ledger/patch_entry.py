"""What the book holds about patches, as values: a decision, and the reviews it rests on."""

from typing import Any

import msgspec

from endmark.core.refusal import Signal
from endmark.core.states import Decision, Review

ADVICE = "advice"
"""The purpose of an attempt that decides nothing."""


class NewDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision is about; opened as `pending`.

    `repository` names where the objects are, `ref` is the full name of the branch, `base` and `head` are commits.
    `merge_tree`, `records_sha` and `diff_sha` are None where there is no merge result, as after a conflict: then it can
    only end as `incomplete`. `required` names the reviewers that all must pass it.
    """

    repository: str
    ref: str
    base: str
    head: str
    merge_tree: str | None
    records_sha: str | None
    diff_sha: str | None
    policy_version: str
    policy_sha256: str
    required: tuple[str, ...]
    submitter: str | None = None


class DecisionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One decision as the book has it. `merged` is the commit that the branch was moved to. Times as in `Entry`."""

    decision_id: str
    repository: str
    ref: str
    base: str
    head: str
    merge_tree: str | None
    records_sha: str | None
    diff_sha: str | None
    policy_version: str
    policy_sha256: str
    required: tuple[str, ...]
    submitter: str | None
    opened_at: str
    state: Decision
    signal: Signal
    evidence: tuple[str, ...]
    detail: str
    merged: str | None
    approver: str | None
    changed_at: str


class NewReview(msgspec.Struct, frozen=True, kw_only=True):
    """How a reviewer is asked. `review_id` is an id of its own for each attempt, never used again; None: a fresh one.

    `purpose`: `review`, `elsewhere` (the verdict came from outside), `carried` (from an equal diff on another base),
    `replay`, or `advice`, which decides nothing, whatever it says.
    """

    reviewer: str
    review_id: str | None = None
    purpose: str = "review"
    model: str | None = None
    prompt_sha256: str | None = None
    shown_sha256: str | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking. `body_sha256` is the SHA-256 of the answer's bytes as they were judged."""

    state: Review
    signal: Signal
    received_bytes: int
    expected_bytes: int | None = None
    body_sha256: str | None = None
    level: str | None = None
    evidence: tuple[str, ...] = ()
    detail: str = ""
    blocking: int | None = None
    advisory: int | None = None


class ReviewEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a review as the book has it. What an answer says is None while the reviewer is being asked."""

    review_id: str
    decision_id: str
    reviewer: str
    purpose: str
    model: str | None
    prompt_sha256: str | None
    shown_sha256: str | None
    asked_at: str
    state: Review
    signal: Signal | None
    received_bytes: int | None
    expected_bytes: int | None
    body_sha256: str | None
    level: str | None
    evidence: tuple[str, ...]
    detail: str
    blocking: int | None
    advisory: int | None
    answered_at: str | None


class DecisionMoved(Exception):
    """The decision is not in the state the caller expected. Nothing was written; `entry` is what the book says now."""

    def __init__(self, entry: DecisionEntry) -> None:
        super().__init__(f"decision {entry.decision_id} is {entry.state}")
        self.entry = entry


DECISION_COLUMNS: tuple[str, ...] = DecisionEntry.__struct_fields__
REVIEW_COLUMNS: tuple[str, ...] = tuple(name for name in ReviewEntry.__struct_fields__ if name != "decision_id")


def decision_of(row: tuple[Any, ...]) -> DecisionEntry:
    """The decision that a row holds, its values in the order of DECISION_COLUMNS."""
    values = dict(zip(DECISION_COLUMNS, row, strict=True))
    values["required"] = tuple(_json_strings(values["required"]))
    values["state"] = Decision(values["state"])
    values["signal"] = Signal(values["signal"])
    values["evidence"] = _lines(values["evidence"])
    return DecisionEntry(**values)


def review_of(row: tuple[Any, ...]) -> ReviewEntry:
    """The review that a row holds: the id of its decision, then its values in the order of REVIEW_COLUMNS."""
    values = dict(zip(REVIEW_COLUMNS, row[1:], strict=True))
    values["state"] = Review(values["state"])
    values["signal"] = None if values["signal"] is None else Signal(values["signal"])
    values["evidence"] = _lines(values["evidence"])
    return ReviewEntry(decision_id=row[0], **values)


def stored(facts: dict[str, Any]) -> dict[str, Any]:
    """The same facts as the tables store them: evidence one a line, the required reviewers as a JSON list."""
    columns = dict(facts)
    for name in ("state", "signal"):
        if columns.get(name) is not None:
            columns[name] = str(columns[name])
    if "evidence" in columns:
        columns["evidence"] = "\n".join(columns["evidence"])
    if "required" in columns:
        columns["required"] = msgspec.json.encode(columns["required"]).decode()
    return columns


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n")) if text else ()


def _json_strings(text: str) -> list[str]:
    from endmark.core import strictjson

    value = strictjson.loads(b'{"list":' + text.encode() + b"}")["list"]
    return msgspec.convert(value, list[str])
