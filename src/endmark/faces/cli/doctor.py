"""`endmark doctor`: look at everything endmark stands on."""

import sys
from importlib import import_module

import click
import msgspec

from endmark.faces.cli.at_gate import LEDGER, settings
from endmark.faces.cli.common import JSON, Result, Verb, at
from endmark.faces.doctor.finding import Case, Finding, Level
from endmark.faces.terminal import paint, safe
from endmark.faces.words import many

FAMILIES = ("versions", "books", "jobs", "targets", "keys", "policies", "hooks")
_COLOURS = {Level.WELL: "green", Level.TODO: "yellow", Level.UNSEEN: "red"}


@click.command("doctor", cls=Verb)
@click.option("--repo", metavar="DIR", help="The repository whose hooks are looked at; else [mcp] repository.")
@LEDGER
@JSON
def command(repo: str | None, ledger: str | None, config: str | None) -> Result:
    """Look at the ledger, the targets, the keys, the hooks, the configuration and the versions, and say what to do.

    Nothing is changed. Exit code 0: all is well. 1: something is to be done. 20: something could not be looked at.

    \b
    Examples:
      endmark doctor
      endmark doctor --json --repo /srv/git/app.git
    """
    found = settings(ledger, config)
    known = None if found.mcp.repository is None else str(found.folder / found.mcp.repository)
    case = Case(found, repo or known)
    findings: list[Finding] = []
    for family in FAMILIES:
        findings += import_module(f"endmark.faces.doctor.{family}").look(case)
    counts = {level: sum(one.level is level for one in findings) for level in Level}
    exit_code = 20 if counts[Level.UNSEEN] else 1 if counts[Level.TODO] else 0
    document = {
        "version": 1,
        "well": exit_code == 0,
        "findings": [msgspec.to_builtins(one) for one in findings],
        "counts": {level.value: count for level, count in counts.items()},
        "exit_code": exit_code,
        "at": at(),
    }
    return Result("\n".join([*map(_line, findings), _summary(counts)]), document, exit_code)


def _line(one: Finding) -> str:
    word = paint(f"{one.level.value:<14}", _COLOURS[one.level], sys.stdout)
    line = f"{word}  {one.family:<13}  {safe(one.what)}: {safe(one.says)}"
    return f"{line}\n{'':33}do: {safe(one.do)}" if one.do else line


def _summary(counts: dict[Level, int]) -> str:
    if counts[Level.UNSEEN]:
        said = f"{many(counts[Level.UNSEEN], 'thing')} could not be looked at"
        said += f", and {many(counts[Level.TODO], 'thing')} to do." if counts[Level.TODO] else "."
        return paint(said[:1].upper() + said[1:], "red", sys.stdout)
    if counts[Level.TODO]:
        return paint(f"{many(counts[Level.TODO], 'thing')} to do.", "yellow", sys.stdout)
    return paint(f"All is well: {many(counts[Level.WELL], 'thing')} looked at.", "green", sys.stdout)
