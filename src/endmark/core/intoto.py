"""The record of a decision that travels with the merge: an in-toto Statement v1, signed as DSSE.

spec/decision-record.md has its schema and the rules R1-R9. A record is written for a complete decision alone; there is
none for `incomplete`, so that nothing can be taken for one that is not.
"""

import re
from typing import Any, Literal

import msgspec

from endmark.core import dsse, strictjson
from endmark.core.refusal import Refused, Signal
from endmark.core.strictjson import short

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://endmark.dev/decision/v1"
MOST_BYTES = 4 * 1024 * 1024

_SHA256 = re.compile(r"[0-9a-f]{64}")
_OBJECT = {"sha1": re.compile(r"[0-9a-f]{40}"), "sha256": _SHA256}
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z")


class Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was decided on. Commits and trees are full object names in hex, of the repository's `object_format`.

    `diff_sha` binds all of them. `merge_tree` is the tree that the branch has after the merge.
    """

    diff_sha: str
    object_format: Literal["sha1", "sha256"]
    target: str
    base: str
    head: str
    merge_tree: str


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reviewer's verdict, and how it was asked. `verdict_sha256` is over its envelope, `prompt_sha256` over the
    instructions, `shown_sha256` over all that was shown; null is what is not known.
    """

    attempt_id: str
    reviewer: str
    kind: str
    model: str | None
    wire: str | None
    temperature: float | None
    max_output_tokens: int | None
    capacity: Literal["shared", "dedicated"]
    prompt_sha256: str | None
    shown_sha256: str | None
    verdict_sha256: str
    verdict: Literal["pass", "fail"]
    blocking: int
    advisory: int
    evidence: tuple[str, ...]


class Decision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A complete decision. `reviews` are all complete attempts for this change and policy. `at`: RFC 3339, UTC."""

    decision: Literal["pass", "fail"]
    change: Change
    policy_version: str
    policy_sha256: str
    reviews: tuple[Asked, ...]
    evidence: tuple[str, ...]
    at: str


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A record that was verified: what it says, the id of the trusted key that signed it, and its payload as signed."""

    decision: Decision
    keyid: str
    payload: bytes


def dumps(decision: Decision) -> bytes:
    """The one spelling of the statement (R2). Raises ValueError for a decision that breaks a rule (R9)."""
    fault = _fault(decision)
    if fault is not None:
        raise ValueError(fault[1])
    return strictjson.dumps(_statement(decision))


def read(raw: bytes, verify: dsse.Verify) -> Record:
    """The decision in a signed record. `verify` knows the trusted keys.

    Raises Refused, and nothing else, whatever the bytes: for an untrusted signature, and for a statement that is not
    spelled as `dumps` spells it.
    """
    received = len(raw)
    if received > MOST_BYTES:  # R1
        raise Refused(Signal.OVER_CAP, received, None, f"{received:,} bytes are over the cap of {MOST_BYTES:,}")
    if not raw:
        raise Refused(Signal.EMPTY, 0, None, "nothing arrived: 0 bytes")
    signed = dsse.read(strictjson.loads(raw), received, PAYLOAD_TYPE)  # R1
    keyid = dsse.verified(signed, verify, received, PAYLOAD_TYPE)
    try:
        decision = _decision(strictjson.loads(signed.payload), received)
        if strictjson.dumps(_statement(decision)) != signed.payload:  # R2
            raise Refused(Signal.WRONG_VALUE, received, None, "it is not in its one spelling, byte for byte")
    except Refused as refused:
        raise Refused(refused.signal, received, None, f"in the signed statement: {refused.detail}") from None
    return Record(decision=decision, keyid=keyid, payload=signed.payload)


def bind(record: Record, change: Change, policy_version: str) -> None:
    """Raise Refused unless the record is a pass for exactly this change and policy (R8)."""
    decision, received = record.decision, len(record.payload)
    if decision.change != change:
        raise Refused(Signal.STALE_DIFF, received, None, "the record is of another change")
    if decision.policy_version != policy_version:
        found = short(decision.policy_version)
        raise Refused(Signal.STALE_POLICY, received, None, f"the record is by the policy {found}, another is in force")
    if decision.decision != "pass":
        raise Refused(Signal.CONTRADICTION, received, None, "the record says fail; only a pass lets a change through")


def _statement(decision: Decision) -> dict[str, Any]:
    change = decision.change
    return {
        "_type": STATEMENT,
        "subject": _subjects(change),
        "predicateType": PREDICATE,
        "predicate": msgspec.to_builtins(decision, str_keys=True),
    }


def _subjects(change: Change) -> list[dict[str, Any]]:
    """R3: what others find a record by."""
    return [
        {"name": "diff", "digest": {"sha256": change.diff_sha}},
        {"name": "base", "digest": {"gitCommit": change.base}},
        {"name": "head", "digest": {"gitCommit": change.head}},
        {"name": "merge", "digest": {"gitTree": change.merge_tree}},
    ]


def _decision(document: dict[str, Any], received: int) -> Decision:
    def refuse(signal: Signal, detail: str) -> Refused:
        return Refused(signal, received, None, detail)

    if document.get("_type") != STATEMENT or document.get("predicateType") != PREDICATE:  # R3
        raise refuse(Signal.WRONG_VALUE, "it is no statement of a decision by its _type and predicateType")
    try:
        decision = msgspec.convert(document.get("predicate"), Decision)  # R4
    except msgspec.ValidationError as fault:
        raise refuse(Signal.WRONG_TYPE, f"predicate: {ascii(str(fault))[1:-1][:200]}") from None
    found = _fault(decision)
    if found is not None:
        raise refuse(*found)
    if document.get("subject") != _subjects(decision.change):  # R3
        raise refuse(Signal.WRONG_VALUE, "its subjects are not those of the change in it")
    return decision


def _fault(decision: Decision) -> tuple[Signal, str] | None:
    """What is wrong with a decision, or None (R5-R7)."""
    change = decision.change
    names = _OBJECT[change.object_format]
    if not _SHA256.fullmatch(change.diff_sha) or not _SHA256.fullmatch(decision.policy_sha256):  # R5
        return Signal.WRONG_VALUE, "diff_sha and policy_sha256 are 64 lower-case hex digits"
    if not all(names.fullmatch(name) for name in (change.base, change.head, change.merge_tree)):  # R5
        return Signal.WRONG_VALUE, f"base, head and merge_tree are full object names of {change.object_format}"
    if not change.target.startswith("refs/") or not _TIME.fullmatch(decision.at):  # R5
        return Signal.WRONG_VALUE, "target is a full ref, and at is RFC 3339 in UTC"
    if not decision.policy_version or not decision.reviews:  # R6
        return Signal.WRONG_VALUE, "a decision names its policy and at least one review"
    digests = [digest for each in decision.reviews for digest in (each.prompt_sha256, each.shown_sha256)]
    digests += [each.verdict_sha256 for each in decision.reviews]
    if not all(digest is None or _SHA256.fullmatch(digest) for digest in digests):  # R5
        return Signal.WRONG_VALUE, "digests of a review are 64 lower-case hex digits"
    if len({each.attempt_id for each in decision.reviews}) != len(decision.reviews):  # R6
        return Signal.WRONG_VALUE, "each review is an attempt of its own"
    failed = any(each.verdict == "fail" for each in decision.reviews)
    if failed != (decision.decision == "fail"):  # R7
        return Signal.CONTRADICTION, f"it says {decision.decision}, and its reviews say otherwise"
    if any(
        each.blocking < 0 or each.advisory < 0 or (each.verdict == "pass" and each.blocking)
        for each in decision.reviews
    ):
        return Signal.CONTRADICTION, "a review passes with blocking findings, or counts fewer than none"  # R7
    return None
