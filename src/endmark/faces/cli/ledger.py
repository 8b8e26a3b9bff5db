"""`endmark ledger`: make the book of every attempt, and audit it."""

import sys

import click
import msgspec

from endmark.faces.cli.at_gate import LEDGER, make_state_folder, open_to_read, settings
from endmark.faces.cli.common import JSON, Result, Verb, at
from endmark.faces.terminal import Progress, paint, safe
from endmark.faces.words import many


@click.group("ledger")
def command() -> None:
    """The book of every attempt, refused ones too: append-only, and chained by hashes.

    \b
    Example:
      endmark ledger verify
    """


@command.command("init", cls=Verb)
@LEDGER
@JSON
def init(ledger: str | None, config: str | None) -> Result:
    """Make the ledger where the settings say, or find that it stands there.

    \b
    Example:
      endmark ledger init --ledger state/ledger.db
    """
    from endmark.ledger.book import Ledger

    found = settings(ledger, config)
    if found.ledger_is_ours:
        make_state_folder(found)
    stood = found.ledger.exists() and found.ledger.stat().st_size > 0
    Ledger.open(found.ledger, create=True).close()
    path = str(found.ledger.absolute())
    return Result(
        f"{'The ledger stands already' if stood else 'Made the ledger'}: {safe(path)}",
        {"version": 1, "ledger": path, "made": not stood, "exit_code": 0, "at": at()},
    )


@command.command("verify", cls=Verb)
@LEDGER
@JSON
@click.pass_context
def verify(ctx: click.Context, ledger: str | None, config: str | None) -> Result:
    """Audit the whole ledger: every row must say what its chain of events says, and nothing may be missing.

    Exit code 1 says that problems were found. Keep the checkpoint it prints elsewhere: it proves the book up to there.

    \b
    Example:
      endmark ledger verify --json
    """
    progress = Progress()
    progress.stages = ["verifying"]
    ctx.call_on_close(progress.clear)
    report = open_to_read(ctx, settings(ledger, config)).ledger.verify(progress)
    progress.clear()
    exit_code = 0 if report.ok else 1
    lines = [safe(problem) for problem in report.problems]
    if report.problem_count > len(report.problems):
        lines.append(f"... and {report.problem_count - len(report.problems):,} more")
    counts = f"{many(report.attempts, 'attempt')}, {many(report.events, 'event')}"
    if report.ok:
        lines.append(paint(f"The ledger is sound: {counts}.", "green", sys.stdout))
    else:
        found = f"The ledger is not sound: {many(report.problem_count, 'problem')} in {counts}."
        lines.append(paint(found, "red", sys.stdout))
    if report.checkpoint is not None:
        number, last, digest = report.checkpoint
        lines.append(f"checkpoint {number:,}, up to event {last:,}: {digest}")
    document = {"version": 1, "ok": report.ok, **msgspec.structs.asdict(report), "exit_code": exit_code, "at": at()}
    return Result("\n".join(lines), document, exit_code)
