"""`endmark policy`: what decides a merge, and what in it is weak."""

import sys
from typing import TYPE_CHECKING

import click
import msgspec

from endmark.faces.cli.common import JSON, Group, Result, Verb, at
from endmark.faces.terminal import paint, safe
from endmark.faces.words import many

if TYPE_CHECKING:
    from endmark.core.policy import Policy
    from endmark.core.weaknesses import Weakness


@click.group("policy", cls=Group)
def command() -> None:
    """The patch gate's policy: who reviews a change, and what a verdict must prove.

    \b
    Example:
      endmark policy check
    """


@command.command("check", cls=Verb)
@click.argument("file", metavar="[FILE]", default="endmark.toml")
@JSON
def check(file: str) -> Result:
    """Is the policy sound? Reads FILE (endmark.toml); asks nobody and writes nothing.

    Exit code 0: sound, perhaps with advice. 1: by it a merge could be decided on nothing, and why. 2: it cannot be
    read, or it asks for nothing.

    \b
    Examples:
      endmark policy check
      git show main:endmark.toml | endmark policy check -
      endmark policy check /etc/endmark/endmark.toml --json
    """
    from endmark.core import policy
    from endmark.core.weaknesses import weaknesses
    from endmark.faces.misuse import Misuse
    from endmark.sources import files

    raw = files.read(file, policy.MOST_BYTES + 1)
    try:
        found = policy.read(raw, "standard input" if file == files.STDIN else file)
    except policy.PolicyRefused as refused:
        raise Misuse(f"{refused.detail}.") from None
    weak = weaknesses(found)
    exit_code = 1 if any(weakness.forbids for weakness in weak) else 0
    document = {
        "version": 1,
        "sound": exit_code == 0,
        "policy_sha256": found.sha256,
        "branches": {
            name: {"policy": branch.policy, "reviewers": branch.reviewers} for name, branch in found.branches.items()
        },
        "weaknesses": [msgspec.structs.asdict(weakness) for weakness in weak],
        "exit_code": exit_code,
        "at": at(),
    }
    return Result("\n".join([*map(_line, weak), _summary(found, weak)]), document, exit_code)


def _line(weakness: "Weakness") -> str:
    kind = paint("forbids", "red", sys.stdout) if weakness.forbids else "advice "
    what = f"{safe(weakness.where)}: {weakness.says}"
    indent = " " * 13
    return (
        f"{kind}  {weakness.number:>2}  {what}\n{indent}Because {weakness.why}.\n{indent}Instead: {weakness.instead}."
    )


def _summary(found: "Policy", weak: "list[Weakness]") -> str:
    forbid = sum(weakness.forbids for weakness in weak)
    if forbid:
        said = f"The policy is not sound: {many(forbid, 'point')} of it must not be so."
        return paint(said, "red", sys.stdout)
    advice = f", {many(len(weak), 'point')} of advice" if weak else ""
    said = f"The policy is sound{advice}. It rules {', '.join(map(safe, found.branches))}; digest {found.sha256}."
    return paint(said, "green", sys.stdout)
