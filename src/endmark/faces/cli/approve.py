"""`endmark approve`: let a staged job through."""

import os

import click

from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry
from endmark.faces import review
from endmark.faces.cli.at_gate import (
    LEDGER,
    TREATMENT,
    YES,
    let_through,
    open_to_write,
    overrides,
    settings,
    use,
)
from endmark.faces.cli.common import JSON, Verb


@click.command("approve", cls=Verb)
@click.argument("id")
@YES
@click.option("--later", is_flag=True, help="Only approve it: it is applied by the next 'approve' of it, by anybody.")
@TREATMENT
@LEDGER
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    id: str,
    yes: bool,
    later: bool,
    lock_timeout: float | None,
    statement_timeout: float | None,
    backup: str | None,
    no_backup: bool,
    ledger: str | None,
    config: str | None,
) -> Outcome:
    """Let a staged job through, after a look at it, and apply it.

    Shows the plan, its digest, its evidence and what each statement destroys, and asks; --yes does not. The approval
    binds what was shown: should the target's schema move before the job runs, it is void and the job stays staged.

    With --later the job is approved and not yet applied: it waits as `approved` (exit code 16), for as long as the
    target's `approval_expires` says. 'endmark approve' of an approved job applies it and asks nobody, if the approval
    still holds; if not, the job is staged again. 'endmark decline' takes an approval back.

    \b
    Examples:
      endmark approve billing-2026-11-30
      endmark approve billing-2026-11-30 --later
    """
    found = settings(ledger, config)
    gate = open_to_write(ctx, found)
    job = gate.job(id)
    identity = job.outcome.target
    if identity is None:
        raise CannotTry(f"{id} was recorded without a target, so there is nothing to apply it to. Nothing was done.")
    place = found.recorded(identity, overrides(lock_timeout, statement_timeout, backup, no_backup))
    road, why = review.road(place, yes, False, os.environ, approving=True)
    use(ctx, gate, place)
    return let_through(ctx, gate, job, place, road, why, later=later)
