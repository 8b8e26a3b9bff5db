"""The gate at the repository itself: what may move a guarded branch, told by the commits alone.

Every step of the branch must be a merge whose message carries the signed record of a pass for exactly that step. No
ledger is asked: git, the policy in the base commit and the trusted keys are enough.

A branch is guarded if the policy at its own tip names it, or that at the tip of the repository's default branch; with
a policy on the server, if that names it. A policy that cannot be read guards everything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.effects.git import refs
from endmark.effects.git.objects import read_everywhere, unreadable

if TYPE_CHECKING:  # git is at work while what reads its answers is loaded, and whoever pushes waits for both
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from endmark.core.dsse import Verify
    from endmark.core.policy import Policy
    from endmark.effects.git.gate import Gate

CANARY = "refs/heads/endmark-canary-"
"""No branch of this name may ever be made: by trying, an installed guard is tested."""

IS_CANARY = "no branch of this kind is ever let through"
"""What an update of a canary is answered, and nothing else is; the name of the hook stands behind it."""

_HEADS = "refs/heads/"
# Other names by which git reaches the branches from a linked work tree.
_FROM_A_WORK_TREE = re.compile(r"(?:main-worktree|worktrees/[^/]+)/(?=refs/heads/)")
_MOST_STEPS = 1_000
_LIST_CAP = 1 << 20


class Update(NamedTuple):
    """One ref that is to move. Ids in full; None stands for no such ref, before or after.

    `old` is what whoever moves it takes for the old value, and believed nowhere. `becomes`: what it is made a symbolic
    ref to.
    """

    ref: str
    old: str | None
    new: str | None
    becomes: str | None = None


class Guard:
    """What guards one repository. `policy_file`: a policy on this machine, instead of that of each base commit.

    `verifying` makes the check of signatures, once there is one to be checked. `in_transaction`: git holds the locks of
    all the refs, and names every ref that is written, also what a symbolic ref leads to.
    """

    def __init__(
        self,
        gate: Gate,
        verifying: Callable[[], Verify],
        policy_file: str | Path | None = None,
        *,
        in_transaction: bool = False,
    ) -> None:
        self._gate = gate
        self._verifying = verifying
        self._verify: Verify | None = None
        self._policy_file = policy_file
        self._in_transaction = in_transaction
        self._heads = refs.Heads({}, {}, None)
        self._default: str | None = None
        self._policies: dict[str, Policy | Refused | None] = {}
        self._rules: Policy | None = None

    def judge(self, updates: Sequence[Update]) -> list[tuple[Update, str]]:
        """The updates that are not let through, each with the reason. Raises CannotTry, Refused: then none is."""
        updates = [update for update in map(_plain, updates) if update.ref.startswith("refs/")]
        if not updates:
            return []
        beside = [update.ref for update in updates if not update.ref.startswith(_HEADS)]
        with refs.start_heads(self._gate.repository, beside) as listing:
            _warm()
            self._heads = refs.read_heads(listing.finish())
        self._default = self._heads.default or refs.leads_nowhere(self._gate.repository, "HEAD")
        if self._policy_file is None:
            self._read_policies(updates)
        refused = []
        for update in updates:
            try:
                self._judge(update)
            except (Refused, CannotTry) as fault:
                refused.append((update, fault.detail))
        return refused

    def _judge(self, update: Update) -> None:
        """Let an update through by returning. Raises Refused for one that no record allows, CannotTry for no answer."""
        if update.ref.startswith(CANARY):
            raise _no(f"{IS_CANARY} ({'reference-transaction' if self._in_transaction else 'pre-receive'})")
        ref = self._resolved(update.ref)
        if not ref.startswith(_HEADS):
            return
        before = self._heads.tips.get(ref)
        if update.becomes is None and before == update.new:
            return
        if not any(self._is_guarded(name) for name in dict.fromkeys((update.ref, ref))):
            if self._policy_file is None and ref == self._default and update.new is not None:
                self._check_what_stays(update.new)
            return
        name = ref.removeprefix(_HEADS)
        if update.becomes is not None:
            raise _no(f"{name} is a guarded branch, and is not made another name of {update.becomes}")
        if before is None:
            raise _no(f"{name} is a guarded branch, and is not made by a push")
        if update.new is None:
            if self._in_transaction and refs.is_only_pruned(self._gate.repository, ref, before):
                return
            raise _no(f"{name} is a guarded branch, and is not deleted")
        for base, tip in self._steps(name, before, update.new):
            self._judge_step(ref, base, tip)

    def _resolved(self, ref: str) -> str:
        """A symbolic ref moves what it stands for."""
        if ref in self._heads.symbolic:
            return self._heads.symbolic[ref]
        if ref in self._heads.tips or self._in_transaction:
            return ref
        return refs.leads_nowhere(self._gate.repository, ref) or ref

    # ---- which branches are guarded ---------------------------------------------------------------------------

    def _read_policies(self, updates: Sequence[Update]) -> None:
        """The policies at the tips of the branches that are to move, and of the default branch."""
        moved = {self._heads.symbolic.get(update.ref, update.ref) for update in updates}
        wanted = {self._heads.tips[ref] for ref in (*moved, self._heads.default or "") if ref in self._heads.tips}
        from endmark.core import policy as policies

        path = policies.FILE.encode()
        for oid, raw in read_everywhere(self._gate, sorted(wanted), path, policies.MOST_BYTES).items():
            self._policies[oid] = _read(raw, oid)

    def _is_guarded(self, ref: str) -> bool:
        if self._policy_file is not None:
            return _names(self._server_policy(), ref)
        default = self._policy_at(self._heads.default)
        own = self._policy_at(ref)
        if isinstance(default, Refused):
            raise default
        if default is not None and _names(default, ref):
            return True
        if isinstance(own, Refused):
            if default is None:
                raise own
            return False  # it broke a file of its own, and may mend it: the default branch's policy does not name it
        return own is not None and _names(own, ref)

    def _policy_at(self, ref: str | None) -> Policy | Refused | None:
        tip = self._heads.tips.get(ref or "")
        return None if tip is None else self._policies.get(tip)

    def _server_policy(self) -> Policy:
        assert self._policy_file is not None  # noqa: S101  # whoever calls has looked
        if self._rules is None:
            from endmark.steps.patch_case import policy_in

            self._rules = policy_in(self._policy_file)
        return self._rules

    # ---- one guarded branch -----------------------------------------------------------------------------------

    def _steps(self, name: str, before: str, after: str) -> list[tuple[str, str]]:
        """The way from `before` to `after`, oldest step first: (where the branch stood, where it went)."""
        asked = ("rev-list", "--first-parent", "--parents", f"--max-count={_MOST_STEPS + 1}", after, f"^{before}", "--")
        with self._gate.start(*asked, cap=_LIST_CAP) as listing:
            from endmark.steps import recorded_step  # noqa: F401  # meanwhile

            listed = listing.finish()
        if listed.code != 0:
            raise unreadable(self._gate, listed, "rev-list")
        lines = [line.split() for line in listed.out.decode("ascii", "replace").splitlines()]
        if len(lines) > _MOST_STEPS:
            raise _no(f"{name} would move by more than {_MOST_STEPS:,} commits at once, the most that are judged")
        steps = []
        tip = after
        for oid, *parents in lines:
            if oid != tip:
                break
            if len(parents) != 2:
                raise _no(
                    f"{name} is a guarded branch: {oid[:12]} is no merge of a reviewed change (parents: {len(parents)})"
                )
            tip = parents[0]
            steps.append((tip, oid))
        if tip != before:
            raise _no(f"{name} is a guarded branch: {after[:12]} does not come after {before[:12]}, where it stands")
        return steps[::-1]

    def _judge_step(self, ref: str, base: str, tip: str) -> None:
        from endmark.steps.recorded_step import Step, changes_policy

        rules = None if self._policy_file is None else self._server_policy()
        case = Step(self._gate, ref, base, tip, rules).check(self._signatures)
        if rules is None and changes_policy(case):
            self._check_what_stays(tip)

    def _check_what_stays(self, tip: str) -> None:
        """A policy that nobody can read would stop the branch for good: it is stopped before it gets there."""
        from endmark.core import policy as policies

        raw = read_everywhere(self._gate, [tip], policies.FILE.encode(), policies.MOST_BYTES)[tip]
        found = _read(raw, tip)
        if isinstance(found, Refused):
            raise Refused(found.signal, found.received_bytes, None, f"it would leave a broken policy: {found.detail}")

    def _signatures(self) -> Verify:
        if self._verify is None:
            self._verify = self._verifying()
        return self._verify


def _plain(update: Update) -> Update:
    """The update by the one name of its ref."""
    ref = _FROM_A_WORK_TREE.sub("", update.ref, count=1)
    return update if ref == update.ref else update._replace(ref=ref)


def _warm() -> None:
    """Load what reads a policy, while git is at work."""
    import tomllib  # noqa: F401

    from endmark.core import policy  # noqa: F401


def _read(raw: bytes | Refused | None, commit: str) -> Policy | Refused | None:
    if not isinstance(raw, bytes):
        return raw
    from endmark.core import policy as policies

    try:
        return policies.read(raw, f"{policies.FILE} in {commit[:12]}")
    except policies.PolicyRefused as refused:
        return refused


def _names(policy: Policy, ref: str) -> bool:
    """Whether a policy names a branch. Raises Refused for one that some file systems take for a guarded one."""
    name = ref.removeprefix(_HEADS)
    if name in policy.branches:
        return True
    for guarded in policy.branches:
        if _folded(guarded) == _folded(name):
            raise _no(f"{name} can be taken for {guarded}, a guarded branch")
    return False


def _folded(name: str) -> str:
    """A name without what some file system overlooks: case, composition, characters that cannot be seen."""
    if name.isascii():
        return name.lower()
    from unicodedata import category, normalize

    seen = "".join(letter for letter in normalize("NFKC", name) if category(letter) != "Cf")
    return normalize("NFKC", seen.casefold())


def _no(detail: str) -> Refused:
    return Refused(Signal.WEAK_EVIDENCE, 0, None, detail)
