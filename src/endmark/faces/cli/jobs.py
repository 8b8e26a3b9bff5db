"""`endmark jobs`: what is on record."""

import click

from endmark.core.states import State
from endmark.faces.cli.at_gate import LEDGER, open_to_read, settings
from endmark.faces.cli.common import JSON, Result, Verb, at
from endmark.faces.terminal import safe, say
from endmark.faces.words import table

_STATES = tuple(state.value for state in State if state is not State.RECEIVED)


@click.command("jobs", cls=Verb)
@click.option("--state", type=click.Choice(_STATES), metavar="STATE", help=f"Only these: {', '.join(_STATES)}.")
@click.option("--target", metavar="NAME|URL", help="Only those for this target.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many at most.")
@click.option("--before", metavar="ID", help="Only older ones than this attempt: the next page.")
@LEDGER
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    state: str | None,
    target: str | None,
    limit: int,
    before: str | None,
    ledger: str | None,
    config: str | None,
) -> Result:
    """The attempts on record, newest first; refused ones too, for each has its byte count and its reason.

    \b
    Examples:
      endmark jobs --state staged
      endmark jobs --target prod --limit 100 --json
    """
    from endmark.ledger.outcomes import outcome_of
    from endmark.ledger.queries import reverted, with_revert

    found = settings(ledger, config)
    identity = None if target is None else found.place(target).target.identity
    book = open_to_read(ctx, found).ledger
    entries = book.page(limit + 1, before, None if state is None else State(state), identity)
    shown, more = [with_revert(book, entry) for entry in entries[:limit]], len(entries) > limit
    onward = shown[-1].attempt_id if more else None
    rows = [
        (
            safe(entry.job_id or entry.attempt_id),
            f"{entry.state.value}, reverted" if reverted(entry) else entry.state.value,
            f"{entry.received_bytes:,}",
            "" if entry.stmt_count is None else f"{entry.stmt_count:,}",
            entry.changed_at[:19].replace("T", " "),
            safe(entry.target or ""),
        )
        for entry in shown
    ]
    if more:
        say(f"There are more: --before {onward}")
    return Result(
        table(("JOB", "STATE", "BYTES", "STATEMENTS", "CHANGED (UTC)", "TARGET"), rows) if rows else "No jobs.",
        {"version": 1, "jobs": [outcome_of(entry) for entry in shown], "before": onward, "exit_code": 0, "at": at()},
    )
