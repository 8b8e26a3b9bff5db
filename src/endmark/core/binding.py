"""A verdict that may decide: proven, for this diff, by this policy, with the marks of this attempt (rules V12-V15)."""

from collections.abc import Sequence

import msgspec

from endmark.core import mc1, proof
from endmark.core.dsse import Verify
from endmark.core.evidence import Level
from endmark.core.refusal import Refused, Signal
from endmark.core.strictjson import short
from endmark.core.verdict import Verdict


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a verdict must be bound to. `marks`: those of this attempt, in order; None where none were asked for.

    `diff_sha`: the 64 hex that the gate computed, `policy_version`: the policy in force.
    """

    diff_sha: str
    policy_version: str
    marks: Sequence[str] | None
    min_evidence: Level = Level.SEALED


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict that may decide. `evidence` is its envelope's, its level first."""

    verdict: Verdict
    level: Level
    evidence: tuple[str, ...]
    received_bytes: int
    expected_bytes: int | None


def read(raw: bytes, wanted: Wanted, cap: int = mc1.DEFAULT_CAP, verify: Verify | None = None) -> Bound:
    """The proven verdict in an envelope, signed or not, bound to what is wanted. `verify` checks a signature.

    Raises Refused, and nothing else, whatever the bytes.
    """
    proven = proof.prove(raw, cap, verify, None if wanted.marks is None else list(wanted.marks))

    def refuse(signal: Signal, detail: str) -> Refused:
        return Refused(signal, proven.received_bytes, proven.expected_bytes, detail)

    verdict = proven.value
    if not isinstance(verdict, Verdict):  # V12
        raise refuse(Signal.WRONG_VALUE, f"a whole {proven.form} arrived, a verdict was expected")
    if proven.level < wanted.min_evidence:  # V13
        word = wanted.min_evidence.word
        raise refuse(
            Signal.WEAK_EVIDENCE, f"the branch demands the evidence {word}, the verdict is {proven.level.word}"
        )
    if verdict.diff_sha != wanted.diff_sha:  # V14
        ours = short(wanted.diff_sha[:12])
        raise refuse(
            Signal.STALE_DIFF, f"the verdict is for the diff {short(verdict.diff_sha[:12])}, this one is {ours}"
        )
    if verdict.policy_version != wanted.policy_version:  # V15
        found, ours = short(verdict.policy_version), short(wanted.policy_version)
        raise refuse(Signal.STALE_POLICY, f"the verdict is by the policy {found}, {ours} is in force")
    return Bound(
        verdict=verdict,
        level=proven.level,
        evidence=proven.evidence,
        received_bytes=proven.received_bytes,
        expected_bytes=proven.expected_bytes,
    )
