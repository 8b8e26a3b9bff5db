"""`endmark reaudit`: which records of an old gate's log prove nothing."""

import sys
from typing import TYPE_CHECKING, BinaryIO

import click
import msgspec

from endmark.faces.cli.common import FILE, JSON, Result, Verb, at
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import Progress, paint, safe
from endmark.faces.words import many, table

if TYPE_CHECKING:
    from endmark.reaudit import Item, Report

MOST_LINES = 50


@click.command("reaudit", cls=Verb)
@FILE
@click.option("--worklist", metavar="OUT", help="Write what a person must look at to OUT.csv and OUT.json.")
@click.option(
    "--form",
    type=click.Choice(["json", "csv", "text"]),
    help="How the log is spelled; without it, as its first line looks.",
)
@JSON
@click.pass_context
def command(ctx: click.Context, file: str, worklist: str | None, form: str | None) -> Result:
    """Which records of an old gate's log prove nothing? Reads JSON lines, CSV or key=value text.

    Looks for verdicts from repaired bodies, without length, digest or end, for another diff, with blocking findings
    under a pass, and for two that contradict each other. Nothing is decided anew, and nothing becomes a pass.

    Exit code 0: nothing to look at. 1: there is a worklist. 20: no record of a verdict was recognised, or the worklist
    could not be written.

    \b
    Examples:
      endmark reaudit gate.log
      zcat gate.log.*.gz | endmark reaudit - --worklist worklist --json
    """
    from pathlib import Path

    from endmark.reaudit import audit

    progress = Progress()
    progress.stages = ["reading", "comparing"]
    ctx.call_on_close(progress.clear)
    with _opened(file) as log:
        report = audit(log, form=form, worklist=None if worklist is None else Path(worklist), progress=progress)
    progress.clear()
    exit_code = 1 if report.listed else 0
    document = {"version": 1, **msgspec.structs.asdict(report), "exit_code": exit_code, "at": at()}
    document["items_left_off"] = report.listed - len(report.items)
    return Result(_text(report), document, exit_code)


def _opened(file: str) -> BinaryIO:
    """The log as something that can be read twice; standard input by way of a temporary file. Raises Misuse."""
    import shutil
    import tempfile

    from endmark.sources import files

    if file != files.STDIN:
        try:
            return open(file, "rb")  # the caller closes it
        except OSError as fault:
            raise Misuse(f"{file}: {fault.strerror or fault}.") from None
    if sys.stdin is None:
        raise Misuse("standard input: it is closed.")
    spool = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
    shutil.copyfileobj(sys.stdin.buffer, spool)
    return spool


def _text(report: "Report") -> str:
    read = f"{many(report.records, 'record')} of a verdict, {many(report.others, 'other line')}, "
    read += f"{report.unreadable:,} unreadable; {report.form}, SHA-256 {report.sha256[:12]}..."
    if not report.listed:
        return f"{paint('Nothing to look at', 'green', sys.stdout)}: {read}."
    shown = report.items[:MOST_LINES]
    lines = [table(("LINE", "PRIO", "LOGGED", "DIFF", "ID", "REASONS"), [_row(item) for item in shown])]
    if report.listed > len(shown):
        lines.append(f"... and {report.listed - len(shown):,} more")
    lines.append("")
    lines += [f"{count:>8,}  {word}" for word, count in report.reasons.items()]
    said = f"{report.listed:,} of them {'is' if report.listed == 1 else 'are'} for a person to look at"
    lines.append(f"{paint(said, 'red', sys.stdout)}: {read}.")
    lines += [f"Wrote {safe(name)}" for name in report.worklist]
    return "\n".join(lines)


def _row(item: "Item") -> tuple[str, ...]:
    verdict = "" if item.kind == "unreadable" else item.logged_verdict[:12]
    return (f"{item.line}", f"{item.priority}", verdict, item.diff[:12], item.id[:24], " ".join(item.reasons))
