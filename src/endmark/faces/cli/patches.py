"""`endmark patches`: the decisions about patches on record, newest first."""

import click

from endmark.core.states import Decision
from endmark.faces.cli.at_gate import LEDGER, settings
from endmark.faces.cli.at_patch import open_ledger
from endmark.faces.cli.common import JSON, Result, Verb
from endmark.faces.terminal import safe
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
    with open_ledger(settings(ledger, config), create=False) as opened:
        book = PatchBook(opened)
        found = book.page(limit, before, Decision(state) if state else None)
        outcomes = [outcome_of(entry, book.reviews(entry.decision_id)) for entry in found]
    rows = [_row(entry) for entry in found]
    document = {"version": 1, "decisions": outcomes, "exit_code": 0}
    return Result("\n".join(rows) if rows else "No decision is on record.", document)


def _row(entry: DecisionEntry) -> str:
    branch = safe(entry.ref.removeprefix("refs/heads/"))
    at = entry.changed_at[:19].replace("T", " ")
    return f"{at}  {entry.state:<10}  {branch:<20}  {entry.head[:12]}  {entry.decision_id}"
