"""git commands that move a guarded branch by another road than a recorded pass."""

import re
from pathlib import Path

_INSTEAD = "Push a branch of your own, have it reviewed ('endmark review'), and 'endmark merge' moves the guarded one."
_TAKES = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"})
_PUSH_TAKES = frozenset({"-o", "--push-option", "--receive-pack", "--exec", "--repo"})


def judge(words: tuple[str, ...], folder: str, branches: tuple[str, ...]) -> str | None:
    """Why it is blocked; None to let it through. `branches`: the guarded ones, by their short names."""
    if not branches:
        return None
    if any("core.hookspath" in word.lower() for word in words):
        return "core.hooksPath would leave the guards of the repository out. Leave it as it is."
    verb, rest, where = _verb(words, folder)
    found = None
    if verb == "push":
        found = _pushed(rest, where, branches)
    elif verb == "update-ref":
        found = _named([word for word in rest if not word.startswith("-")][:1], branches)
        found = found or ("a branch that --stdin names" if "--stdin" in rest else None)
    elif verb == "branch" and any(
        re.fullmatch(r"-[a-zA-Z]*[fdDmMC][a-zA-Z]*|--(force|delete|move|copy)", w) for w in rest
    ):
        found = _named([word for word in rest if not word.startswith("-")], branches)
    elif verb in ("checkout", "switch") and any(word in ("-B", "-C", "--force-create") for word in rest):
        found = _named([word for word in rest if not word.startswith("-")][:1], branches)
    elif verb in ("fetch", "pull"):
        found = _named([word.partition(":")[2] for word in rest if ":" in word], branches)
    elif verb == "symbolic-ref":
        found = _named([word for word in rest if word.startswith("refs/")][:1], branches)
    return None if found is None else f"git {verb} would move {found}, which only a recorded pass moves. {_INSTEAD}"


def _verb(words: tuple[str, ...], folder: str) -> tuple[str, list[str], str]:
    rest, where = list(words), folder
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in _TAKES and rest:
            value = rest.pop(0)
            where = str(Path(where, value)) if option == "-C" else where
    return (rest[0], rest[1:], where) if rest else ("", [], where)


def _pushed(rest: list[str], where: str, branches: tuple[str, ...]) -> str | None:
    if any(word in ("--all", "--mirror", "--branches", "--prune") for word in rest):
        return f"every branch, {branches[0]} too"
    named: list[str] = []
    skip = False
    for word in rest:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in _PUSH_TAKES
        else:
            named.append(word)
    specs = named[1:]
    here = _current(where)
    if not specs:
        return _named([here] if here else [], branches)
    goals = []
    for spec in specs:
        source, colon, goal = spec.lstrip("+").partition(":")
        name = goal if colon else source
        if not name and colon:
            return f"every branch, {branches[0]} too"  # `:` pushes all that match
        goals.append(here or "" if name in ("HEAD", "@") else name)
        if "*" in name:
            return f"every branch, {branches[0]} too"
    return _named(goals, branches)


def _named(names: list[str], branches: tuple[str, ...]) -> str | None:
    for name in names:
        short = re.sub(r"^(?:refs/)?heads/", "", name)
        # A file system may take another spelling for the same.
        found = next((branch for branch in branches if branch.casefold() == short.casefold()), None)
        if found is not None:
            return f"the guarded branch {found}"
    return None


def _current(where: str) -> str | None:
    """The branch that is checked out, as the repository's own file says."""
    for above in (Path(where), *Path(where).parents):
        git = above / ".git"
        try:
            if git.is_file():
                git = Path(above, git.read_text(errors="replace").removeprefix("gitdir:").strip())
            head = (git / "HEAD").read_text(errors="replace").strip()
        except OSError:
            continue
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else None
    return None
