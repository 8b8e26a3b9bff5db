"""`endmark ledger`: make the book of every attempt, and audit it."""

import sys
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from endmark.core.refusal import CannotTry
from endmark.faces.cli import keeping
from endmark.faces.cli.at_gate import LEDGER, make_state_folder, open_to_read, settings
from endmark.faces.cli.common import JSON, Group, Result, Verb, at
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import Progress, paint, safe
from endmark.faces.words import many


@click.group("ledger", cls=Group)
def command() -> None:
    """The book of every attempt, refused ones too: append-only, and chained by hashes.

    \b
    Example:
      endmark ledger verify
    """


@command.command("init", cls=Verb)
@click.option("--print", "print_", is_flag=True, help="Only print the SQL that makes a ledger in PostgreSQL.")
@click.option(
    "--role", metavar="NAME", help="With --print: the role that gates connect as; its rights are printed too."
)
@LEDGER
@JSON
def init(print_: bool, role: str | None, ledger: str | None, config: str | None) -> Result:
    """Make the ledger where the settings say, or find that it stands there.

    With --print nothing is done: an administrator runs the SQL in the ledger's database, as the role that is to own it.

    \b
    Examples:
      endmark ledger init --ledger state/ledger.db
      endmark ledger init --ledger postgresql://db/books --print --role gate
    """
    from endmark.ledger.book import Ledger

    found = settings(ledger, config)
    if print_:
        return _script(found.ledger, role)
    if role is not None:
        raise Misuse("--role goes with --print.")
    if found.ledger_is_ours:
        make_state_folder(found)
    stood = _stands(found.ledger)
    with Ledger.open(found.ledger, create=True) as book:
        path = str(book.place)
    return Result(
        f"{'The ledger stands already' if stood else 'Made the ledger'}: {safe(path)}",
        {"version": 1, "ledger": path, "made": not stood, "exit_code": 0, "at": at()},
    )


def _stands(ledger: Path | str) -> bool:
    """Whether there is a ledger already, or something else that none can be made of."""
    if isinstance(ledger, Path):
        return ledger.exists() and ledger.stat().st_size > 0
    with suppress(CannotTry):  # it is said again when it is opened
        from endmark.ledger.book import Ledger

        Ledger.open(ledger, create=False).close()
        return True
    return False


def _script(ledger: Path | str, role: str | None) -> Result:
    if isinstance(ledger, Path):
        raise Misuse("--print is for a ledger in PostgreSQL; name it with --ledger postgresql://HOST/DATABASE.")
    from endmark.ledger.book import NEEDS_PSYCOPG

    try:
        from endmark.ledger.postgres.place import place_of
    except ImportError:
        raise CannotTry(NEEDS_PSYCOPG) from None
    from endmark.ledger.postgres.schema import script

    place = place_of(ledger)
    sql = script(place.schema, role)
    document = {"version": 1, "ledger": place.shown, "sql": sql, "exit_code": 0, "at": at()}
    return Result(sql.rstrip("\n"), document)


command.add_command(keeping.backup)
command.add_command(keeping.export)


@command.command("verify", cls=Verb)
@click.option("--export", "export", metavar="FILE|-", help="Audit this export instead, without a ledger.")
@LEDGER
@JSON
@click.pass_context
def verify(ctx: click.Context, export: str | None, ledger: str | None, config: str | None) -> Result:
    """Audit the whole ledger: every row must say what its chain of events says, and nothing may be missing.

    Exit code 1 says that problems were found. Keep the checkpoint it prints elsewhere: it proves the book up to there.

    \b
    Examples:
      endmark ledger verify --json
      endmark ledger verify --export audit-2026.jsonl
    """
    what = "ledger"
    if export is not None:
        if ledger is not None:
            raise Misuse("--export and --ledger contradict each other.")
        report, of = keeping.verify_export(ctx, export)
        what = f"export {safe(of)}"
    else:
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
    if report.decisions:
        counts += f", {many(report.decisions, 'decision')}, {many(report.reviews, 'review')}"
    if report.ok:
        lines.append(paint(f"The {what} is sound: {counts}.", "green", sys.stdout))
    else:
        found = f"The {what} is not sound: {many(report.problem_count, 'problem')} in {counts}."
        lines.append(paint(found, "red", sys.stdout))
    if report.checkpoint is not None:
        number, last, digest = report.checkpoint
        lines.append(f"checkpoint {number:,}, up to event {last:,}: {digest}")
    document = {"version": 1, "ok": report.ok, **msgspec.structs.asdict(report), "exit_code": exit_code, "at": at()}
    return Result("\n".join(lines), document, exit_code)
