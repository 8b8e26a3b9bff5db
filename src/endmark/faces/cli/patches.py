"""`endmark patches`: the decisions about patches on record, newest first."""

import click

from endmark.core.states import Decision
from endmark.faces.cli.at_gate import LEDGER, settings
from endmark.faces.cli.at_patch import open_ledger
from endmark.faces.cli.common import JSON, Result, Verb, at
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import safe, say
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import DecisionEntry
from endmark.ledger.patch_outcomes import outcome_of


@click.command("patches", cls=Verb)
@click.option("--state", type=click.Choice([state.value for state in Decision]), help="Only decisions in this state.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many.")
@click.option("--before", metavar="ID", help="Only decisions opened before this one: the next page.")
@LEDGER
@JSON
def command(state: str | None, limit: int, before: str | None, ledger: str | None, config: str | None) -> Result:
    """The decisions about patches on record, newest first. `endmark show ID` has everything about one.

    \b
    Example:
      endmark patches --state incomplete
    """
    with open_ledger(settings(ledger, config)) as opened:
        book = PatchBook(opened)
        if before is not None and book.get(before) is None:
            raise Misuse(f"--before: there is no decision {before[:140]!r} in the ledger.")
        found = book.page(limit + 1, before, Decision(state) if state else None)
        shown, more = found[:limit], len(found) > limit
        outcomes = [outcome_of(entry, book.reviews(entry.decision_id)) for entry in shown]
    onward = shown[-1].decision_id if more else None
    if more:
        say(f"There are more: --before {onward}")
    rows = [_row(entry) for entry in shown]
    document = {"version": 1, "decisions": outcomes, "before": onward, "exit_code": 0, "at": at()}
    return Result("\n".join(rows) if rows else "No decision is on record.", document)


def _row(entry: DecisionEntry) -> str:
    branch = safe(entry.ref.removeprefix("refs/heads/"))
    changed = entry.changed_at[:19].replace("T", " ")
    return f"{changed}  {entry.state:<10}  {branch:<20}  {entry.head[:12]}  {entry.decision_id}"
