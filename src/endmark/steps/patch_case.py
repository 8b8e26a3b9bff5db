"""What is judged: a change, and the policy that stands in its base; one reading that all of the patch gate shares."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from endmark.core import intoto
from endmark.core import policy as policies
from endmark.core.policy import Branch, Policy, PolicyRefused
from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.effects.git import refs
from endmark.effects.git.change import Change, read_change_of
from endmark.effects.git.gate import Gate
from endmark.effects.git.objects import read_commits, read_file

if TYPE_CHECKING:  # a hook opens no ledger, and waits for each import
    from pathlib import Path

    from endmark.ledger.patch_entry import DecisionEntry

APPROVED = "approved-by:"
"""Evidence that a person looked at what the policy leaves to a person; the name follows."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a change goes and by which rules. `base` and `head` are commits, `ref` a full name of a branch."""

    repository: str
    ref: str
    base: str
    head: str
    policy: Policy
    branch: Branch


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A change and its place."""

    place: Place
    change: Change

    @property
    def for_a_person(self) -> tuple[bytes, ...]:
        """The changed paths that a person must look at."""
        paths = (record.path for record in self.change.records)
        return self.place.policy.needs_person(self.place.branch, paths)


def read_place(gate: Gate, *, base: str, head: str, ref: str | None, policy_file: Path | None) -> Place:
    """Resolve names, and read the policy: from the base commit, or from `policy_file`, a path on this machine.

    Raises PolicyRefused for a policy that cannot decide, CannotTry for names that lead nowhere.
    """
    repository = gate.repository
    *oids, target = refs.resolve_ends(repository, base, head, ref)
    commit, at_head = (one.oid for one in read_commits(gate, oids))  # a tag is peeled
    policy = policy_in(policy_file) if policy_file is not None else policy_of(gate, commit)
    branch = policy.branch(target)
    check_who_decides(policy, branch)
    return Place(
        repository=os.path.realpath(repository.common_dir),
        ref=target,
        base=commit,
        head=at_head,
        policy=policy,
        branch=branch,
    )


def read_case(gate: Gate, place: Place) -> Case:
    """The change of a place. Raises Refused (`merge-conflict`), CannotTry."""
    return Case(place=place, change=read_change_of(gate, (place.base, place.head), place.ref))


def read_again(gate: Gate, entry: DecisionEntry, policy: Policy | None = None) -> Case:
    """The change of a decision on record, as it was judged. `policy`: where it was not that of the base commit.

    Raises Refused and CannotTry, also where what is read now is another.
    """
    used = policy or policy_of(gate, entry.base)
    place = Place(
        repository=entry.repository,
        ref=entry.ref,
        base=entry.base,
        head=entry.head,
        policy=used,
        branch=used.branch(entry.ref),
    )
    case = read_case(gate, place)
    if case.change.diff_sha != entry.diff_sha or used.sha256 != entry.policy_sha256:
        raise CannotTry("what is read now is not what was judged then: its policy lay elsewhere, or git merges anew")
    return case


def change_of(case: Case) -> intoto.Change:
    """A change as records name it."""
    change = case.change
    return intoto.Change(
        diff_sha=change.diff_sha,
        object_format="sha256" if change.object_format == "sha256" else "sha1",
        target=change.target_ref,
        base=change.base.oid,
        head=change.head.oid,
        merge_tree=change.merge_tree,
    )


def policy_of(gate: Gate, commit: str) -> Policy:
    """The policy that stands in a commit. Raises PolicyRefused when there is none, or none that can be used."""
    where = f"{policies.FILE} in the base commit {commit[:12]}"
    try:
        raw = read_file(gate, commit, policies.FILE.encode(), policies.MOST_BYTES)
    except Refused as refused:
        raise PolicyRefused(refused.signal, refused.received_bytes, refused.expected_bytes, refused.detail) from None
    if raw is None:
        raise PolicyRefused(Signal.MISSING_KEY, 0, None, f"there is no {where}, so nothing says what may be merged")
    return policies.read(raw, where)


def policy_in(file: str | Path) -> Policy:
    """The policy in a file of this machine. Raises PolicyRefused, CannotTry."""
    try:
        with open(file, "rb") as opened:
            raw = opened.read(policies.MOST_BYTES + 1)
    except OSError as fault:
        raise CannotTry(f"the policy {file} cannot be read: {fault.strerror or fault}. Nothing was done.") from None
    return policies.read(raw, str(file))


def check_who_decides(policy: Policy, branch: Branch) -> None:
    """Shared capacity may advise and block, never open a branch alone."""
    if all(reviewer.capacity == "shared" for reviewer in policy.reviewers_of(branch)):
        detail = f"{policy.where}: branches.{branch.name} leaves the decision to reviewers on shared capacity alone"
        raise PolicyRefused(Signal.WRONG_VALUE, policy.received_bytes, None, detail)
