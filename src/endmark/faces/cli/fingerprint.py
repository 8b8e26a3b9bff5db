"""`endmark fingerprint`: what a plan's `base` needs."""

import click

from endmark.faces.cli.at_gate import LEDGER, settings
from endmark.faces.cli.common import JSON, Result, Verb, at


@click.command("fingerprint", cls=Verb)
@click.argument("target", metavar="NAME|URL")
@LEDGER
@JSON
@click.pass_context
def command(ctx: click.Context, target: str, ledger: str | None, config: str | None) -> Result:
    """The fingerprint of a database's schema: 64 hex digits over every table, index, view and trigger.

    A plan whose `base` is this is applied only while the schema is still spelled the same.

    \b
    Example:
      endmark fingerprint sqlite:///app.db
    """
    place = settings(ledger, config).place(target)
    ctx.meta["target"] = place.target.identity
    with place.target.open() as session:
        found = session.fingerprint()
    return Result(
        found, {"version": 1, "target": place.target.identity, "fingerprint": found, "exit_code": 0, "at": at()}
    )
