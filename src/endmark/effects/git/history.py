"""How base and head are related, and the tree that merging them gives."""

import re

from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.effects.git.gate import Gate
from endmark.effects.git.objects import unreadable
from endmark.effects.git.program import Answer, Running, cleaned

_NAMED = 5  # paths of a conflict that are named
_BASES_CAP = 1 << 20
_COMMITS_CAP = 1 << 28


def start_merge_bases(gate: Gate, base: str, head: str) -> Running:
    """Start looking for the best common ancestors; `merge_bases` takes the answer."""
    return gate.start("merge-base", "--all", base, head, cap=_BASES_CAP)


def merge_bases(gate: Gate, base: str, head: str, answer: Answer) -> tuple[str, ...]:
    """Every best common ancestor of two commits. `base` and `head` are ids of commits that are there.

    Raises CannotTry where a shallow clone cannot tell, Refused (`merge-conflict`) for histories that share nothing.
    """
    found = tuple(answer.out.decode("ascii", "replace").split())
    if answer.code > 1 or (answer.code == 1) != (not found):
        raise unreadable(gate, answer, "merge-base")
    if not all(len(oid) == gate.repository.oid_length for oid in found):
        raise CannotTry("'git merge-base' answered in a form that is not known")
    if base not in found and head not in found and gate.shallow and _may_be_hidden(gate, base, head, found):
        raise CannotTry(
            "this clone is too shallow to tell where base and head parted. Nothing was done; run "
            "'git fetch --unshallow', or 'git fetch --deepen=N' with a larger N, first."
        )
    if not found:
        raise Refused(Signal.MERGE_CONFLICT, 0, None, f"base {base} and head {head} share no history")
    return found


def _may_be_hidden(gate: Gate, base: str, head: str, found: tuple[str, ...]) -> bool:
    """Whether a common ancestor may lie behind the commits where a shallow clone ends.

    It cannot where no such commit is reached before the one merge base: every road behind it passes through that.
    """
    if len(found) > 1:  # one of them may be an ancestor of another, by a hidden road
        return True
    answer = gate.run("rev-list", base, head, *(f"^{oid}" for oid in found), cap=_COMMITS_CAP)
    if answer.code != 0:
        raise unreadable(gate, answer, "rev-list")
    return not gate.shallow.isdisjoint(answer.out.decode("ascii", "replace").split())


_MERGE = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")


def start_merge_tree(gate: Gate, base: str, head: str) -> Running:
    """Start merging in the gate's own store, by git's own merge without any configuration or attribute; `merge_tree`
    takes the answer."""
    return gate.start(*_MERGE, base, head)


def write_merge_tree(gate: Gate, base: str, head: str) -> str:
    """The same in the real store, to its end. Raises as `merge_tree`."""
    return merge_tree(gate, gate.write(*_MERGE, base, head))


def merge_tree(gate: Gate, answer: Answer) -> str:
    """The tree that merging head into base gives. Raises Refused (`merge-conflict`), CannotTry."""
    tree, nul, rest = answer.out.partition(b"\0")
    if answer.code not in (0, 1) or not nul or not re.fullmatch(rb"[0-9a-f]+", tree):
        raise unreadable(gate, answer, "merge-tree")
    if len(tree) != gate.repository.oid_length:
        raise CannotTry("'git merge-tree' answered in a form that is not known")
    if answer.code == 1:
        raise Refused(Signal.MERGE_CONFLICT, 0, None, f"head does not merge into base: {_paths(rest)}")
    if rest:
        raise CannotTry("'git merge-tree' named a conflict and called it none")
    return tree.decode()


def _paths(rest: bytes) -> str:
    paths = sorted(set(filter(None, rest.split(b"\0"))))
    named = ", ".join(cleaned(path) for path in paths[:_NAMED])
    more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
    return f"conflicts in {named}{more}"
