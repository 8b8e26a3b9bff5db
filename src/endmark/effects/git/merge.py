"""Merging by compare-and-swap: the branch goes from the base that was judged to the merge that was, or stays."""

import re
from enum import StrEnum

import msgspec

from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.effects.git import refs
from endmark.effects.git.change import Change
from endmark.effects.git.gate import Gate
from endmark.effects.git.history import write_merge_tree
from endmark.effects.git.objects import Commit, read_commit, unreadable
from endmark.effects.git.program import Answer, Lost, failed

DEFAULT_LOCK_TIMEOUT = 5.0  # seconds to wait for another's lock on the branch


class Person(msgspec.Struct, frozen=True):
    """Who a commit is by. git drops line breaks and angle brackets from both."""

    name: str
    email: str


class Merged(msgspec.Struct, frozen=True):
    """The branch stands at `tip` now, or stood there and moved on from it."""

    ref: str
    tip: str
    fast_forward: bool


class Standing(StrEnum):
    """What became of a merge whose answer was lost."""

    MERGED = "merged"
    NOT_MERGED = "not-merged"
    UNKNOWN = "unknown"


class OutcomeUnknown(Exception):
    """The branch was told to move to `tip`, and where it stands cannot be read: ask `standing` later."""

    def __init__(self, ref: str, tip: str, detail: str) -> None:
        super().__init__(detail)
        self.ref = ref
        self.tip = tip
        self.detail = detail


def merge(
    gate: Gate,
    change: Change,
    *,
    message: bytes,
    person: Person,
    at: int,
    fast_forward: bool = False,
    lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
) -> Merged:
    """Merge `change` into its target branch.

    Makes a commit with parents exactly base and head, and `message`, by `person` at `at` (seconds since 1970, UTC);
    or, with `fast_forward` where base is an ancestor of head, moves the branch to head itself. Runs the repository's
    own `reference-transaction` hook, which may say no.

    Raises Refused (`stale-base` when the branch is not at base, `stale-diff` when there is nothing to merge or it gives
    another tree now, `wrong-value` for a head with more than two parents as the new tip), CannotTry (checked out,
    locked, no permission, disk full): the branch was not moved by this call. Raises OutcomeUnknown when that cannot be
    told. Raises ValueError for a message that is not UTF-8, holds a NUL byte or has no line break at its end.
    """
    _check_message(message)
    _check_at_base(gate, change)
    if change.is_merged:
        detail = f"head {change.head.oid} is part of {change.target_ref} already; there is nothing to merge"
        raise Refused(Signal.STALE_DIFF, 0, None, detail)
    from endmark.effects.git.worktrees import checked_out  # a hook looks at merges, and makes none

    if where := checked_out(gate.repository, change.target_ref):
        raise CannotTry(
            f"{change.target_ref} is checked out in {where}. Nothing was merged; check another branch out there, or "
            "merge in a bare repository."
        )
    by_moving = fast_forward and change.fast_forward
    made = change.head.oid if by_moving else _make(gate, change, message, person, at)
    tip = verify_tip(gate, change, made, fast_forward=by_moving)
    _swap(gate, change, tip.oid, lock_timeout)
    return Merged(change.target_ref, tip.oid, by_moving)


def verify_tip(gate: Gate, change: Change, tip: str, *, fast_forward: bool) -> Commit:
    """The commit `tip`, read back: its parents are exactly base and head and its tree is the recorded one.

    With `fast_forward` it may be head itself, if base is an ancestor of head. Raises Refused (`wrong-value` for more
    than two parents, else `stale-diff`), CannotTry.
    """
    commit = read_commit(gate, tip)
    check_tip(change, commit, fast_forward=fast_forward)
    return commit


def check_tip(change: Change, commit: Commit, *, fast_forward: bool) -> None:
    """What `verify_tip` demands, of a commit that was read. Raises Refused."""
    tip = commit.oid
    if len(commit.parents) > 2:
        detail = f"commit {tip} has {len(commit.parents)} parents; a new tip has two at most"
        raise Refused(Signal.WRONG_VALUE, 0, None, detail)
    if commit.tree != change.merge_tree:
        detail = f"commit {tip} has the tree {commit.tree}, not the {change.merge_tree} that was judged"
        raise Refused(Signal.STALE_DIFF, 0, None, detail)
    is_head = fast_forward and change.fast_forward and commit.oid == change.head.oid
    if not is_head and commit.parents != (change.base.oid, change.head.oid):
        detail = f"commit {tip} has other parents than base {change.base.oid} and head {change.head.oid}"
        raise Refused(Signal.STALE_DIFF, 0, None, detail)


def standing(gate: Gate, ref: str, base: str, tip: str) -> Standing:
    """Whether the branch `ref` (a full name) went from `base` to `tip`, as it can be read now. Raises nothing."""
    try:
        now = refs.tip(gate.repository, ref)
        if now is None or now == base:
            return Standing.NOT_MERGED
        if now == tip or _has_ancestor(gate, now, tip):
            return Standing.MERGED
    except CannotTry:
        return Standing.UNKNOWN
    return Standing.NOT_MERGED


def _check_at_base(gate: Gate, change: Change) -> None:
    ref, now = refs.target_ref(gate.repository, change.target_ref)
    if now is None:
        raise Refused(Signal.STALE_BASE, 0, None, f"there is no {change.target_ref} any more")
    if ref != change.target_ref:
        detail = f"the branch {change.target_ref} is another name of {ref} now"
        raise Refused(Signal.STALE_BASE, 0, None, detail)
    if now != change.base.oid:
        raise _moved(change, now)


def _moved(change: Change, now: str) -> Refused:
    detail = f"the branch {change.target_ref} is at {now}, no longer at the base {change.base.oid}"
    return Refused(Signal.STALE_BASE, 0, None, detail)


def _check_message(message: bytes) -> None:
    """Raises ValueError for what git would store in other bytes, so that a receipt in it would not be one."""
    try:
        message.decode()
    except UnicodeDecodeError:
        raise ValueError("a commit message is UTF-8") from None
    if not message.endswith(b"\n") or b"\0" in message:
        raise ValueError("a commit message ends with a line break and holds no NUL byte")


def _make(gate: Gate, change: Change, message: bytes, person: Person, at: int) -> str:
    """Write the merge commit and what it needs to the real object store. Returns its id."""
    base, head = change.base.oid, change.head.oid
    tree = change.head.tree if change.fast_forward else write_merge_tree(gate, base, head)
    if tree != change.merge_tree:
        detail = f"head {head} merges into the tree {tree} now, not the {change.merge_tree} that was judged"
        raise Refused(Signal.STALE_DIFF, 0, None, detail)
    date = f"@{at} +0000"
    names = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", person.name), ("EMAIL", person.email), ("DATE", date))
    }
    answer = gate.write("commit-tree", "-p", base, "-p", head, "-F", "-", tree, stdin=message, env=names)
    if answer.code != 0:
        raise failed(answer, "commit-tree")
    oid = answer.out.decode("ascii", "replace").strip()
    if read_commit(gate, oid).message != message:
        raise CannotTry("git stored another commit message than the one it was given. Nothing was merged.")
    return oid


def _swap(gate: Gate, change: Change, tip: str, lock_timeout: float) -> None:
    """Move the branch from base to `tip`, if it is at base, and see that it did."""
    base, ref = change.base.oid, change.target_ref
    wait = f"{max(0, round(lock_timeout * 1000))}"
    locks = ("-c", f"core.filesRefLockTimeout={wait}", "-c", f"core.packedRefsTimeout={wait}")
    reason = f"endmark: merge {change.head.oid}"
    try:
        answer = gate.repository.change(
            "-c", "core.fsync=all", *locks, "update-ref", "--no-deref", "-m", reason, ref, tip, base, stoppable=False
        )
    except Lost as lost:  # it may have moved the branch before it ended
        answer = Answer(-1, b"", lost.detail)
    lost_race = answer.code > 0 and "but expected" in answer.words  # whoever won may have made the same commit
    try:
        now = refs.tip(gate.repository, ref)
        is_merged = now is not None and not lost_race and (now == tip or _has_ancestor(gate, now, tip))
    except CannotTry as fault:
        detail = f"{ref} was told to move to {tip}, and where it stands cannot be read: {fault.detail}"
        raise OutcomeUnknown(ref, tip, detail) from None
    if is_merged:
        return
    if answer.code == 0:
        detail = f"{ref} was moved to {tip}, and stands at {now or 'nothing'} now"
        raise OutcomeUnknown(ref, tip, detail)
    if now != base:
        raise _moved(change, now or "nothing")
    raise _not_moved(answer, ref)


def _not_moved(answer: Answer, ref: str) -> CannotTry:
    if re.search(r"unable to (?:create|lock)|File exists", answer.words, re.IGNORECASE):
        return CannotTry(f"the lock on {ref} could not be had: {answer.words}. Nothing was merged; try again later.")
    if answer.code < 0:
        return CannotTry(f"{answer.words}; {ref} was not moved")
    return CannotTry(f"{ref} was not moved. {failed(answer, 'update-ref').detail}")


def _has_ancestor(gate: Gate, commit: str, ancestor: str) -> bool:
    answer = gate.run("merge-base", "--is-ancestor", ancestor, commit)
    if answer.code not in (0, 1):
        raise unreadable(gate, answer, "merge-base")
    return answer.code == 0
