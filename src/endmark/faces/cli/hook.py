"""`endmark hook`: guard a repository where its refs move."""

import os
import secrets
import sys
from pathlib import Path

import click

from endmark.core.refusal import CannotTry, Refused
from endmark.effects.git import Gate, Git, Repository, hooks, open_repository
from endmark.faces.cli.common import JSON, Result, Verb
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import safe, say
from endmark.patch_case import policy_in
from endmark.push_gate import CANARY, Guard, Update

REPO = click.option("--repo", metavar="DIR", default=".", help="The repository (default: this one).")
_PUSHED = 1 << 24  # bytes of a list of updates


@click.group("hook")
def command() -> None:
    """Guards at the places where things change."""


@command.group("git")
def git() -> None:
    """A repository's own hooks: only recorded passes move a guarded branch.

    A branch is guarded if the policy in its own commit, or the one given at installing, names it. A push or a local
    merge moves it only by merge commits that carry the signed record of a pass for exactly that step.
    """


@git.command("install", cls=Verb)
@REPO
@click.option("--trusted-keys", "keys", metavar="FILE", multiple=True, required=True, help="Whose records count.")
@click.option("--policy", metavar="FILE", help="The policy to go by, instead of each base commit's own.")
@JSON
def install(repo: str, keys: tuple[str, ...], policy: str | None) -> Result:
    """Write the hooks `pre-receive` and `reference-transaction`, and try them with a branch that nobody may make.

    Keys and policy are copied into the repository's own folder. Another tool's hooks are never overwritten: where they
    run what lies in `pre-receive.d/`, ours goes there. Installing again renews everything.

    \b
    Example:
      endmark hook git install --repo /srv/git/app.git --trusted-keys gate.key.pub
    """
    from endmark.sources.keys import verifier

    verifier(keys)  # raises for what are no keys
    if policy is not None:
        policy_in(Path(policy))  # raises for what is no policy
    repository = open_repository(Git(os.environ), repo)
    copied = {f"{number:02}-{Path(name).name}": _bytes(name) for number, name in enumerate(keys, 1)}
    written = hooks.install(repository, _program(), copied, None if policy is None else _bytes(policy))
    found = _try(repository)
    lines = [f"{hook.kind}: {hook.path}" for hook in written]
    if found:
        return Result("\n".join([*lines, *found]), _document(written, found), 1)
    return Result("\n".join([*lines, "Tried: a branch that nobody may make was refused."]), _document(written, []), 0)


@git.command("check", cls=Verb)
@REPO
@JSON
def check(repo: str) -> Result:
    """Are the hooks as they were installed, and do they refuse? Exit code 1 if not; nothing is changed.

    \b
    Example:
      endmark hook git check --repo /srv/git/app.git
    """
    repository = open_repository(Git(os.environ), repo)
    found = hooks.problems(repository, _program()) or _try(repository)
    text = "\n".join(found) if found else "The hooks stand as installed, and refuse."
    return Result(text, _document([], found), 1 if found else 0)


@git.command("run", cls=Verb, hidden=True)
@click.argument("kind", type=click.Choice(hooks.KINDS))
@click.argument("state", required=False)
def run(kind: str, state: str | None) -> Result:
    """What the hooks themselves call: git's list of updates on standard input."""
    if kind == "reference-transaction" and state != "prepared":
        return Result("", None, 0, b"")
    repository = open_repository(Git(os.environ), os.environ.get("GIT_DIR", "."))
    updates = _updates(sys.stdin.buffer.read(_PUSHED), repository)
    if kind == "reference-transaction":
        updates = [update for update in updates if not _is_housekeeping(repository, update)]
    refused = _judge(repository, updates)
    for line in refused:
        say(f"endmark: {safe(line)}")
    return Result("", None, 1 if refused else 0, b"")


def _judge(repository: Repository, updates: list[Update]) -> list[str]:
    """Why each of the updates is refused. Whatever goes wrong is a refusal."""
    from endmark.sources.keys import verifier

    found = hooks.files(repository)
    branches = [update for update in updates if update.ref.startswith("refs/") or update.ref == "HEAD"]
    if not branches:
        return []
    refused = []
    with Gate(repository, os.environ.get("GIT_QUARANTINE_PATH")) as gate:
        verify = verifier(found.keys) if found.keys else (lambda *_: None)
        guard = Guard(gate, verify, found.policy)
        for update in branches:
            try:
                guard.judge(update)
            except (Refused, CannotTry) as fault:
                refused.append(f"{update.ref} stays where it is: {fault.detail}")
    return refused


def _updates(raw: bytes, repository: Repository) -> list[Update]:
    """git's list: old id, new id and name on each line. Raises CannotTry for any other byte."""
    if len(raw) == _PUSHED:
        raise CannotTry("more refs are pushed at once than are judged. Nothing was let through.")
    none = "0" * repository.oid_length
    updates = []
    for line in raw.decode("utf-8", "surrogateescape").splitlines():
        old, _, rest = line.partition(" ")
        new, _, ref = rest.partition(" ")
        if new.startswith("ref:") or old.startswith("ref:"):  # a symbolic ref moves no branch by itself
            continue
        if len(old) != len(none) or len(new) != len(none) or not ref:
            raise CannotTry(f"git's list of updates is in a form that is not known: {line[:200]!r}")
        updates.append(Update(ref, None if old == none else old, None if new == none else new))
    return updates


def _is_housekeeping(repository: Repository, update: Update) -> bool:
    """Whether a ref only goes from a file of its own into the packed ones, or back: it stands where it stood."""
    from endmark.effects.git import refs

    now = refs.tip(repository, update.ref)
    if update.new is not None:
        return update.new == now
    return now is not None and refs.packed(repository, update.ref) == now


def _try(repository: Repository) -> list[str]:
    """Try to make a branch that nobody may make, by a push and by hand: what is wrong if either works."""
    name = f"{CANARY}{secrets.token_hex(8)}"
    problems = []
    commit = _any_commit(repository)
    by_hand = repository.change("update-ref", name, commit)
    if by_hand.code == 0:
        problems.append(f"reference-transaction let {name} be made")
        repository.change("update-ref", "-d", name)
    pushed = repository.change("push", "--quiet", repository.common_dir, f"{commit}:{name}", network=True)
    if pushed.code == 0:
        problems.append(f"pre-receive let {name} be pushed")
        repository.change("update-ref", "-d", name)
    elif "canary" not in pushed.words:
        problems.append(f"a push was refused, but not by us: {safe(pushed.words)[:300]}")
    return problems


def _any_commit(repository: Repository) -> str:
    answer = repository.ask("for-each-ref", "--count=1", "--format=%(objectname)", "refs/heads")
    oid = answer.out.decode("ascii", "replace").strip()
    if answer.code != 0 or not oid:
        raise CannotTry("the repository has no branch yet, so the hooks were written but could not be tried.")
    return oid


def _program() -> list[str]:
    return [sys.executable, "-I", "-m", "endmark"]


def _bytes(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as fault:
        raise Misuse(f"{name}: {fault.strerror or fault}") from None


def _document(written: list[hooks.Hook], found: list[str]) -> dict[str, object]:
    return {
        "version": 1,
        "hooks": [{"kind": hook.kind, "path": str(hook.path), "beside": hook.beside} for hook in written],
        "problems": found,
        "exit_code": 1 if found else 0,
    }
