"""Finding a merge that was made, when the answer about it was lost."""

from endmark.effects.git import refs
from endmark.effects.git.gate import Gate
from endmark.effects.git.objects import Commit, read_commit, unreadable

_MOST = 1 << 24  # bytes of a listing: some 100,000 commits


def find_merge(gate: Gate, ref: str, *, base: str, head: str, tree: str) -> Commit | None:
    """The commit with parents exactly base and head and this tree that `ref` was moved to; None if it was not.

    Only what the branch itself went through is looked at: the first parents from its tip to `base`. Raises CannotTry.
    """
    tip = refs.tip(gate.repository, ref)
    if tip is None or tip == base:
        return None
    listed = gate.run("rev-list", "--first-parent", "--parents", tip, f"^{base}", cap=_MOST)
    if listed.code != 0:
        raise unreadable(gate, listed, "rev-list")
    for line in listed.out.decode("ascii", "replace").splitlines():
        oid, *parents = line.split()
        if parents == [base, head]:
            found = read_commit(gate, oid)
            return found if found.tree == tree else None
    return None
