"""The gate at the repository itself: what may move a guarded branch, told by the commits alone.

Every step of the branch must be a merge whose message carries the signed record of a pass for exactly that step. No
ledger is asked: git, the policy in the base commit and the trusted keys are enough.
"""

from pathlib import Path

import msgspec

from endmark.core import intoto, merge_message
from endmark.core.dsse import Verify
from endmark.core.policy import PolicyRefused
from endmark.core.refusal import Refused, Signal
from endmark.effects.git import Gate, read_change, read_commit, refs, verify_tip
from endmark.effects.git.objects import unreadable
from endmark.merging import APPROVED, change_of
from endmark.patch_case import Case, Place, policy_in, policy_of

CANARY = "refs/heads/endmark-canary-"
"""No branch of this name may ever be made: by trying, an installed guard is tested."""

_MOST_STEPS = 1_000
_LIST_CAP = 1 << 20


class Update(msgspec.Struct, frozen=True):
    """One ref that is to move. Ids in full; None stands for no such ref, before or after."""

    ref: str
    old: str | None
    new: str | None


class Guard:
    """What guards one repository. `policy_file`: a policy on this machine, instead of that of each base commit."""

    def __init__(self, gate: Gate, verify: Verify, policy_file: Path | None = None) -> None:
        self._gate = gate
        self._verify = verify
        self._server = None if policy_file is None else policy_in(policy_file)

    def judge(self, update: Update) -> None:
        """Let an update through by returning. Raises Refused for one that no record allows, CannotTry for no answer."""
        if update.ref.startswith(CANARY):
            raise _no("this branch is a canary: nobody may make it")
        ref = self._resolved(update.ref)
        if not ref.startswith("refs/heads/"):
            return
        before = update.old if update.ref == ref else refs.tip(self._gate.repository, ref)
        if before == update.new or not self._is_guarded(ref, before):
            return
        name = ref.removeprefix("refs/heads/")
        if before is None:
            raise _no(f"{name} is a guarded branch, and is not made by a push")
        if update.new is None:
            raise _no(f"{name} is a guarded branch, and is not deleted")
        for base, tip in self._steps(name, before, update.new):
            self._judge_step(ref, base, tip)

    def _resolved(self, ref: str) -> str:
        """A symbolic ref moves what it stands for."""
        return refs.follow(self._gate.repository, ref)

    def _is_guarded(self, ref: str, before: str | None) -> bool:
        policy = self._server
        if policy is None:
            if before is None:
                return False
            try:
                policy = policy_of(self._gate, before)
            except PolicyRefused as refused:
                if refused.signal is Signal.MISSING_KEY and not refused.received_bytes:
                    return False  # the base commit has no policy
                raise
        return ref.removeprefix("refs/heads/") in policy.branches

    def _steps(self, name: str, before: str, after: str) -> list[tuple[str, str]]:
        """The way from `before` to `after`, oldest step first: (where the branch stood, where it went)."""
        listed = self._gate.run("rev-list", "--first-parent", "--parents", after, f"^{before}", cap=_LIST_CAP)
        if listed.code != 0:
            raise unreadable(self._gate, listed, "rev-list")
        lines = [line.split() for line in listed.out.decode("ascii", "replace").splitlines()]
        if len(lines) > _MOST_STEPS:
            raise _no(f"{name} would move by {len(lines):,} commits at once; {_MOST_STEPS:,} at most are judged")
        steps = []
        tip = after
        for oid, *parents in lines:
            if oid != tip:
                break
            if len(parents) != 2:
                raise _no(
                    f"{name} is a guarded branch: {oid[:12]} is no merge of a reviewed change (it has "
                    f"{len(parents)} parents)"
                )
            tip = parents[0]
            steps.append((tip, oid))
        if tip != before:
            raise _no(f"{name} is a guarded branch: {after[:12]} does not come after {before[:12]}, where it stands")
        return steps[::-1]

    def _judge_step(self, ref: str, base: str, tip: str) -> None:
        commit = read_commit(self._gate, tip)
        try:
            record = intoto.read(merge_message.record_of(commit.message), self._verify)
        except Refused as refused:
            raise Refused(refused.signal, refused.received_bytes, None, f"{tip[:12]}: {refused.detail}") from None
        change = read_change(self._gate, base=base, head=commit.parents[1], ref=ref)
        policy = self._server or policy_of(self._gate, base)
        branch = policy.branch(ref)
        verify_tip(self._gate, change, tip, fast_forward=False)
        place = Place(repository="", ref=ref, base=base, head=commit.parents[1], policy=policy, branch=branch)
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
            raise _no(f"{tip[:12]}: the record has no pass of {', '.join(sorted(missing))}")
        if case.for_a_person and not any(word.startswith(APPROVED) for word in decision.evidence):
            names = ", ".join(ascii(path)[2:-1] for path in case.for_a_person[:3])
            raise _no(f"{tip[:12]}: it changes {names}, and the record names no person who looked at that")


def _no(detail: str) -> Refused:
    return Refused(Signal.WEAK_EVIDENCE, 0, None, detail)
