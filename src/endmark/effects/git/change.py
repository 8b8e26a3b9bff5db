"""A change: what merging head into base would do to the base's tree, and its identity."""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import msgspec

from endmark.core import diffsha
from endmark.core.diffsha import Record
from endmark.core.refusal import CannotTry
from endmark.effects.git import history, refs
from endmark.effects.git.gate import Gate
from endmark.effects.git.objects import Commit, commits, start_commits, unreadable
from endmark.effects.git.program import Answer

_RAW = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none")
_RAW_CAP = 1 << 30


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change, read whole. Nothing in it moves when a branch does.

    `target_ref` is the full name of the branch to merge into. `merge_tree` is the tree of the merge. `records` say
    which paths differ between the base's tree and that one. `fast_forward`: base is an ancestor of head. `is_merged`:
    head is an ancestor of base, so that there is nothing to merge.
    """

    object_format: str
    target_ref: str
    base: Commit
    head: Commit
    merge_bases: tuple[str, ...]
    merge_tree: str
    records: tuple[Record, ...]
    diff_sha: str

    @property
    def fast_forward(self) -> bool:
        return self.base.oid in self.merge_bases

    @property
    def is_merged(self) -> bool:
        return self.head.oid in self.merge_bases


def read_change(gate: Gate, *, base: str, head: str, ref: str | None = None) -> Change:
    """Read the change from `base` to `head`: branches, tags, remote branches, HEAD, or full object ids.

    `ref` names the branch to merge into; None stands for the branch that `base` names. Raises Refused
    (`merge-conflict`), or CannotTry when something is missing, ambiguous, damaged or cannot be told in a shallow clone.
    """
    *oids, target = refs.resolve_ends(gate.repository, base, head, ref)
    return read_change_of(gate, oids, target)


def read_change_of(gate: Gate, oids: Sequence[str], target: str) -> Change:
    """Read the change between two commits, by the ids of base and head, into the branch `target` (a full name).

    Raises as `read_change`.
    """
    with Reading(gate, oids, target) as reading:
        return reading.finish()


class Reading:
    """A change that git is at work on from the start of the `with` block: `finish` reads it, and raises as
    `read_change`. No process outlives the block.

    `merging`: git merges from the start too, which is for nothing where base is an ancestor of head. It helps whoever
    has something else to do before `finish`.
    """

    def __init__(self, gate: Gate, oids: Sequence[str], target: str, *, merging: bool = False) -> None:
        self._gate = gate
        self._ahead = merging
        self._oids = oids
        self._target = target
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        gate, oids = self._gate, self._oids
        with ExitStack() as stack:
            self._commits = stack.enter_context(start_commits(gate, oids))
            self._bases = stack.enter_context(history.start_merge_bases(gate, *oids))
            # Begun now, so that it has started by the time base and head are known to be what it compares.
            self._comparing = stack.enter_context(gate.start(*_RAW, *oids, cap=_RAW_CAP))
            self._merging = stack.enter_context(history.start_merge_tree(gate, *oids)) if self._ahead else None
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def finish(self) -> Change:
        """The change."""
        gate = self._gate
        base, head = commits(gate, self._oids, self._commits.finish())
        bases = history.merge_bases(gate, base.oid, head.oid, self._bases.finish())
        if base.oid in bases:  # DS6
            if self._merging is not None:
                self._merging.end()
            tree, answer = head.tree, self._comparing.finish()
        else:
            self._comparing.end()
            tree = base.tree if head.oid in bases else self._merged(base.oid, head.oid)
            answer = gate.run(*_RAW, base.tree, tree, cap=_RAW_CAP)
        return _change(gate, self._target, base, head, bases, tree, answer)

    def _merged(self, base: str, head: str) -> str:
        with self._merging or history.start_merge_tree(self._gate, base, head) as merging:
            return history.merge_tree(self._gate, merging.finish())


def _change(
    gate: Gate, target: str, base: Commit, head: Commit, bases: tuple[str, ...], tree: str, answer: Answer
) -> Change:
    repository = gate.repository
    if answer.code != 0:
        raise unreadable(gate, answer, "diff-tree")
    records = read_records(answer.out, repository.oid_length)
    identity = diffsha.Identity(
        object_format=repository.object_format,
        target_ref=target,
        base_commit=base.oid,
        base_tree=base.tree,
        head_commit=head.oid,
        head_tree=head.tree,
        merge_tree=tree,
    )
    try:
        sha = diffsha.diff_sha(identity, records)
    except ValueError as fault:
        raise CannotTry(f"git named what is no set of records: {fault}") from None
    return Change(
        object_format=repository.object_format,
        target_ref=target,
        base=base,
        head=head,
        merge_bases=bases,
        merge_tree=tree,
        records=records,
        diff_sha=sha,
    )


def read_records(raw: bytes, oid_length: int) -> tuple[Record, ...]:
    """The records that `git diff-tree -r -z --raw --no-abbrev` wrote. Raises CannotTry for any other byte."""
    form = rb":(\d{6}) (\d{6}) ([0-9a-f]{%d}) ([0-9a-f]{%d}) [ADMT]\0([^\0]+)\0" % (oid_length, oid_length)
    fields = tuple(zip(*re.findall(form, raw), strict=True)) or ((),) * 5
    if sum(map(len, fields[4])) + len(fields[4]) * (2 * oid_length + 20) != len(raw):
        raise CannotTry("'git diff-tree' answered in a form that is not known")
    return tuple(map(Record, *fields))
