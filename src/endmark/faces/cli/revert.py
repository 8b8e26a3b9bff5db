"""`endmark revert`: undo an applied job."""

import os

import click
import msgspec

from endmark.core.decision import Next
from endmark.core.outcome import Outcome, of_refusal
from endmark.core.refusal import CannotTry, Refused
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
from endmark.faces.cli.common import JSON, Verb, at


@click.command("revert", cls=Verb)
@click.argument("job")
@YES
@TREATMENT
@LEDGER
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    job: str,
    yes: bool,
    lock_timeout: float | None,
    statement_timeout: float | None,
    backup: str | None,
    no_backup: bool,
    ledger: str | None,
    config: str | None,
) -> Outcome:
    """Undo an applied job by its down statements, last to first, as the job JOB.revert.

    It runs once, only when the schema is still the one that JOB left, and by the same rules of review as 'apply'. What
    the downs cannot bring back is in the backup that 'endmark show JOB' names.

    \b
    Example:
      endmark revert billing-2026-11-30
    """
    found = settings(ledger, config)
    gate = open_to_write(ctx, found)
    applied = gate.job(job).outcome
    if applied.target is None or applied.job_id is None:
        raise CannotTry(f"{job} was never applied to a target, so there is nothing to undo. Nothing was done.")
    place = found.recorded(applied.target, overrides(lock_timeout, statement_timeout, backup, no_backup))
    road, why = review.road(place, yes, False, os.environ)
    use(ctx, gate, place)
    try:
        undo = gate.revert(applied.job_id, place.target, submitter=review.who(os.environ))
    except Refused as refused:
        if refused.outcome is not None:
            raise
        # Nothing was delivered, so there is nothing to send again.
        outcome = of_refusal(refused, at())
        return msgspec.structs.replace(outcome, detail=f"{refused.detail}. Nothing was written.", next=Next.NONE)
    return let_through(ctx, gate, undo, place, road, why)
