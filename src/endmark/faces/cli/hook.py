"""`endmark hook`: guard a repository where its refs move."""

import os
import sys
from pathlib import Path

import click

from endmark.effects.git import Git, hooks, open_repository
from endmark.faces import canary
from endmark.faces.cli.common import JSON, Group, Result, Verb
from endmark.faces.misuse import Misuse
from endmark.steps.patch_case import policy_in

REPO = click.option("--repo", metavar="DIR", default=".", help="The repository (default: this one).")


@click.group("hook", cls=Group)
def command() -> None:
    """Guards at the places where things change."""


@command.group("git", cls=Group)
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
    written = hooks.install(repository, program(), copied, None if policy is None else _bytes(policy))
    found = canary.try_hooks(repository, os.environ)
    warned = canary.weaknesses(repository)
    lines = [f"{hook.kind}: {hook.path}" for hook in written]
    if found:
        return Result("\n".join([*lines, *found, *warned]), _document(written, [*found, *warned]), 1)
    lines += ["Tried: a branch that nobody may make was refused.", *(f"But {problem}." for problem in warned)]
    return Result("\n".join(lines), _document(written, [], warned), 0)


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
    found = hooks.problems(repository, program()) or canary.try_hooks(repository, os.environ)
    found += canary.weaknesses(repository)
    text = "\n".join(found) if found else "The hooks stand as installed, and refuse."
    return Result(text, _document([], found), 1 if found else 0)


@git.command("uninstall", cls=Verb)
@REPO
@JSON
def uninstall(repo: str) -> Result:
    """Take the hooks away again, with the keys and the policy beside them. Another tool's hooks stay.

    \b
    Example:
      endmark hook git uninstall --repo /srv/git/app.git
    """
    gone = hooks.uninstall(open_repository(Git(os.environ), repo))
    text = "\n".join(f"removed {path}" for path in gone) or "There was nothing of ours. Nothing was removed."
    return Result(text, {"version": 1, "removed": [str(path) for path in gone], "exit_code": 0})


@git.command("run", cls=Verb, hidden=True)
@click.argument("kind", type=click.Choice(hooks.KINDS))
@click.argument("state", required=False)
def run(kind: str, state: str | None) -> Result:
    """What the hooks do: git's list of updates on standard input, exit code 0 to let all of them through."""
    from endmark.faces import guard

    return Result("", None, guard.main([kind, state or ""]), b"")


def _host(name: str, title: str) -> click.Command:
    @click.command(name, short_help=f"What {title} asks before it runs a tool: the request on standard input.")
    @click.option("--config", metavar="FILE", help="The configuration; else ENDMARK_CONFIG, else the nearest one.")
    def asked(config: str | None) -> None:
        from endmark.faces.start import hook

        hook(name, [] if config is None else ["--config", config])

    asked.help = f"""May {title} run this tool? Its PreToolUse request comes on standard input.

    Exit code 0 lets it run, 2 blocks it and says why on standard error; there is no other. Blocked is what would reach
    a guarded database, file or branch past its gate, a person's own commands, and a plan or verdict that is not whole.
    A fence for agents that mean well, no lock.

    \b
    Example:
      endmark hook {name} --config /etc/endmark/endmark.toml < request.json
    """
    return asked


command.add_command(_host("claude", "Claude Code"))
command.add_command(_host("codex", "Codex"))


def program() -> list[str]:
    """How the hooks call us: the Python that runs this, without anything of the environment or the working folder."""
    return [sys.executable, "-I", "-c", "import gc; gc.disable(); from endmark.faces.guard import hook; hook()"]


def _bytes(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as fault:
        raise Misuse(f"{name}: {fault.strerror or fault}") from None


def _document(written: list[hooks.Hook], found: list[str], warned: list[str] | None = None) -> dict[str, object]:
    return {
        "version": 1,
        "hooks": [{"kind": hook.kind, "path": str(hook.path), "beside": hook.beside} for hook in written],
        "problems": found,
        "warnings": warned or [],
        "exit_code": 1 if found else 0,
    }
