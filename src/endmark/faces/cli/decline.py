"""`endmark decline`: end a staged job without effect."""

import os

import click
import msgspec

from endmark.core.outcome import Outcome
from endmark.faces import review
from endmark.faces.cli.at_gate import LEDGER, NOT_WAITING, open_to_write, settings
from endmark.faces.cli.common import JSON, Verb
from endmark.faces.terminal import say


@click.command("decline", cls=Verb)
@click.argument("id")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the record.")
@LEDGER
@JSON
@click.pass_context
def command(ctx: click.Context, id: str, reason: str, ledger: str | None, config: str | None) -> Outcome:
    """End a job that waits, staged or approved, without effect. Any other stays what it is.

    Exit code 1 says that the job ended with a no, as everywhere; 20 that it was applied already and stays so.

    \b
    Example:
      endmark decline billing-2026-11-30 --reason "drops the wrong table"
    """
    gate = open_to_write(ctx, settings(ledger, config))
    job = gate.job(id)
    if job.state not in ("staged", "approved"):
        say(NOT_WAITING)
    outcome = job.decline(approver=review.who(os.environ), reason=reason)
    if outcome.exit_code != 0:
        return outcome
    detail = f"It was not declined: it is {outcome.state} already. {outcome.detail}".rstrip()
    return msgspec.structs.replace(outcome, detail=detail, exit_code=20)  # X2: nobody may read a 0 as "declined"
