"""git commands that move a guarded branch by another road than a recorded pass."""

import re
from collections.abc import Callable
from pathlib import Path

_INSTEAD = "Push a branch of your own, have it reviewed ('endmark review'), and 'endmark merge' moves the guarded one."
_TAKES = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"})
_PUSH_TAKES = frozenset({"-o", "--push-option", "--receive-pack", "--exec", "--repo"})


# Settings by which a push goes elsewhere, past the hooks or under another name.
_SETTINGS = (
    (re.compile(r"core\.hookspath\b", re.IGNORECASE), "core.hooksPath would leave the guards of the repository out"),
    (re.compile(r"push\.default['\"= ]+matching\b", re.IGNORECASE), "push.default=matching would push every branch"),
    (
        re.compile(r"remote\..+\.(?:push|mirror)\b", re.IGNORECASE),
        "a remote's own push rules would move branches unseen",
    ),
    (re.compile(r"alias\.[^=]+=.*(?:push|update-ref|send-pack|!)", re.IGNORECASE), "an alias would hide what it runs"),
)
_CONFIGURES = re.compile(r"GIT_CONFIG_(?:KEY_\d+|PARAMETERS)=")


def judge(words: tuple[str, ...], folder: str, branches: tuple[str, ...], assigns: tuple[str, ...] = ()) -> str | None:
    """Why it is blocked; None to let it through. `branches`: the guarded ones, by their short names."""
    if not branches:
        return None
    verb, rest, where, configured = _verb(words, folder)
    why = configures((*configured, *([" ".join(rest)] if verb == "config" else ())), assigns)
    if why is not None:
        return why
    found = None
    if verb in ("push", "send-pack"):
        found = _pushed(rest, where, branches)
    elif verb == "update-ref":
        found = _named([word for word in rest if not word.startswith("-")][:1], branches)
        found = found or ("a branch that --stdin names" if _says(rest, "--stdin") else None)
    elif verb == "branch" and (
        _says(rest, "--force", "--delete", "--move", "--copy")
        or any(re.fullmatch(r"-[a-zA-Z]*[fdDmMC][a-zA-Z]*", word) for word in rest)
    ):
        found = _named([word for word in rest if not word.startswith("-")], branches)
    elif verb in ("checkout", "switch", "worktree"):
        found = _named(_made(rest), branches)
    elif verb in ("fetch", "pull"):
        found = _named([word.partition(":")[2] for word in rest if ":" in word], branches)
    elif verb == "symbolic-ref":
        found = _named([word for word in rest if word.startswith("refs/")][:1], branches)
    return None if found is None else f"git {verb} would move {found}, which only a recorded pass moves. {_INSTEAD}"


def configures(words: tuple[str, ...], assigns: tuple[str, ...]) -> str | None:
    """Why a setting is not to be made: by `words` of git's own, or by variables that git reads settings from."""
    named = [word for word in assigns if _CONFIGURES.match(word)]
    values = [word.partition("=")[2] for word in assigns if word.startswith("GIT_CONFIG_VALUE_")]
    said = [*words, *named, *(f"{one.partition('=')[2]}={value}" for one in named for value in values)]
    for rule, why in _SETTINGS:
        if any(rule.search(word) for word in said):
            return f"{why}. Leave it as it is."
    return None


Holds = Callable[[str, str, bool], str | None]
"""What is guarded at a path, seen from a folder, or (True) below it; None for nothing."""

_FILE_VERBS = frozenset({"rm", "mv", "restore", "checkout"})


def files(words: tuple[str, ...], folder: str, holds: Holds, holds_data: Holds) -> str | None:
    """Which guarded file git would take away or write over; None for none.

    `holds_data` says no more than databases and secrets: what git clears away is what it does not track.
    """
    verb, rest, where, _ = _verb(words, folder)
    plain = [word for word in rest if not word.startswith("-")]
    letters = "".join(word[1:] for word in rest if re.fullmatch(r"-[a-zA-Z]+", word))
    if verb in _FILE_VERBS and not _says(rest, "--cached", "--staged"):
        taken = plain[:-1] if verb == "mv" else plain if verb == "rm" and "r" in letters else []
        asked = [*((word, True) for word in taken), *((word, False) for word in plain)]
        return next((what for word, below in asked if (what := holds(word, where, below))), None)
    clean = verb == "clean" and ("f" in letters or _says(rest, "--force"))
    clean = clean and not ("n" in letters or _says(rest, "--dry-run"))
    stash = verb == "stash" and plain[:1] in ([], ["push"], ["save"])
    stash = stash and (bool({"u", "a"} & set(letters)) or _says(rest, "--include-untracked", "--all"))
    if clean or stash:
        paths = (plain if clean else plain[1:]) or ["."]
        return next((what for word in paths if (what := holds_data(word, where, True))), None)
    return None


def _says(words: list[str], *options: str) -> bool:
    """Whether a long option is among the words; git takes what an option begins with for all of it."""
    said = {word.partition("=")[0] for word in words if word.startswith("--") and len(word) > 3}
    return any(option.startswith(word) for option in options for word in said)


def _made(words: list[str]) -> list[str]:
    """The branch that `-B`, `-C` or `--force-create` makes anew."""
    for at, word in enumerate(words):
        short = re.fullmatch(r"-[a-zA-Z]*?[BC](.*)", word)
        if short is not None or _says([word], "--force-create"):
            name = short[1] if short is not None else word.partition("=")[2]
            return [name] if name else words[at + 1 : at + 2]
    return []


def _verb(words: tuple[str, ...], folder: str) -> tuple[str, list[str], str, tuple[str, ...]]:
    """The verb, its words, the folder it runs in, and the settings that are made for it."""
    rest, where, settings = list(words), folder, []
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option.startswith("--config-env="):
            settings.append(option)
        if option in _TAKES and rest:
            value = rest.pop(0)
            where = str(Path(where, value)) if option == "-C" else where
            if option in ("-c", "--config-env"):
                settings.append(value)
    return (rest[0], rest[1:], where, tuple(settings)) if rest else ("", [], where, tuple(settings))


def _pushed(rest: list[str], where: str, branches: tuple[str, ...]) -> str | None:
    if _says(rest, "--all", "--mirror", "--branches", "--prune"):
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
