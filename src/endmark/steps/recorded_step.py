"""One step of a guarded branch: the merge of two parents whose message carries the signed pass for exactly that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.core import intoto, merge_message
from endmark.core import policy as policies
from endmark.core.refusal import Refused, Signal
from endmark.effects.git.change import Reading
from endmark.effects.git.merge import check_tip
from endmark.effects.git.objects import read_commit
from endmark.steps.patch_case import APPROVED, Case, Place, change_of, check_who_decides, policy_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.core.dsse import Verify
    from endmark.core.policy import Policy
    from endmark.effects.git.gate import Gate


class Step:
    """A step of the branch `ref` (a full name) from `base` to `tip`, both ids in full.

    `rules`: a policy on this machine, instead of that of the base commit. `verifying` makes the check of signatures.
    """

    def __init__(self, gate: Gate, ref: str, base: str, tip: str, rules: Policy | None) -> None:
        self._gate = gate
        self._ref = ref
        self._base = base
        self._tip = tip
        self._rules = rules

    def check(self, verifying: Callable[[], Verify]) -> Case:
        """The change that the step merges. Raises Refused for one that no record allows, CannotTry for no answer."""
        gate, base, tip = self._gate, self._base, self._tip
        commit = read_commit(gate, tip)
        if len(commit.parents) != 2 or commit.parents[0] != base:  # what a shallow list hides
            raise no(f"{tip[:12]} is no merge into {base[:12]}")
        with Reading(gate, commit.parents, self._ref, merging=True) as reading:
            verify = verifying()  # which takes its time to load
            try:
                record = intoto.read(merge_message.record_of(commit.message), verify)
            except Refused as refused:
                raise Refused(refused.signal, refused.received_bytes, None, f"{tip[:12]}: {refused.detail}") from None
            policy = policy_of(gate, base) if self._rules is None else self._rules
            branch = policy.branch(self._ref)
            check_who_decides(policy, branch)
            change = reading.finish()
        check_tip(change, commit, fast_forward=False)
        place = Place(repository="", ref=self._ref, base=base, head=commit.parents[1], policy=policy, branch=branch)
        case = Case(place=place, change=change)
        intoto.bind(record, change_of(case), branch.policy)
        decision = record.decision
        if decision.policy_sha256 != policy.sha256:
            raise Refused(
                Signal.STALE_POLICY, len(record.payload), None, "the record is by another policy than the one in force"
            )
        passed = {one.reviewer for one in decision.reviews if one.verdict == "pass"}
        missing = set(branch.reviewers) - passed
        if missing:
            raise no(f"{tip[:12]}: the record has no pass of {', '.join(sorted(missing))}")
        for_a_person = case.for_a_person
        if for_a_person and not any(word.startswith(APPROVED) for word in decision.evidence):
            names = ", ".join(ascii(path)[2:-1] for path in for_a_person[:3])
            raise no(f"{tip[:12]}: it changes {names}, and the record names no person who looked at that")
        return case


def changes_policy(case: Case) -> bool:
    """Whether the branch's own policy is another one after this change."""
    return policies.FILE.encode() in case.for_a_person


def no(detail: str) -> Refused:
    """What is raised for a move that no record allows."""
    return Refused(Signal.WEAK_EVIDENCE, 0, None, detail)
