"""`endmark settle`: a person takes charge of a job that nothing else can bring to its end."""

import os

import click
import msgspec

from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry
from endmark.faces import review
from endmark.faces.api import Job
from endmark.faces.cli.at_gate import LEDGER, YES, open_to_write, settings, use
from endmark.faces.cli.common import JSON, Verb
from endmark.faces.interrupt import Terminated
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import ask, safe, say


@click.command("settle", cls=Verb)
@click.argument("id")
@click.option("--reason", required=True, metavar="TEXT", help="What was found and done; kept with the record.")
@click.option("--gone", is_flag=True, help="The target is gone for ever; also for a job that stands `applying`.")
@YES
@LEDGER
@JSON
@click.pass_context
def command(
    ctx: click.Context, id: str, reason: str, gone: bool, yes: bool, ledger: str | None, config: str | None
) -> Outcome:
    """Take charge of a partial job, so that its target takes jobs again. Changes nothing else in the target.

    A job is partial when some of its statements stand and could not be undone, on an engine whose DDL commits by
    itself. Look at the target and mend it by hand first: this records who did, and why, and nothing checks it.

    Exit code 1 says that the job did not go through as it was sent, as everywhere.

    \b
    Example:
      endmark settle billing-7 --reason "dropped the half-made index by hand"
    """
    if not reason.strip():
        raise Misuse("--reason: it is empty; say what was found and done.")
    found = settings(ledger, config)
    gate = open_to_write(ctx, found, reconcile=not gone)
    job = gate.job(id)
    if job.outcome.target is None or job.state not in (("partial", "applying") if gone else ("partial",)):
        say(f"Nothing was done: the job is {safe(job.state)}, and there is nothing to settle.")
        return job.outcome
    place = found.recorded(job.outcome.target)
    road, why = review.road(place, yes, False, os.environ, approving=True)
    use(ctx, gate, place)
    if road is review.Road.WAIT:
        raise CannotTry(f"a person settles a job. {why} Nothing was done.")
    if road is review.Road.ASK and not _agreed(ctx, job):
        return msgspec.structs.replace(job.outcome, exit_code=ctx.meta["stop"].exit_code or job.outcome.exit_code)
    return job.settle(place.target, person=review.who(os.environ), reason=reason, gone=gone)


def _agreed(ctx: click.Context, job: Job) -> bool:
    say(safe(job.outcome.detail))
    try:
        with ctx.meta["stop"].released():
            answer = ask(f"Settle job {safe(job.outcome.job_id or '')}?", False)
    except (KeyboardInterrupt, Terminated) as fault:
        ctx.meta["stop"].note("SIGTERM" if isinstance(fault, Terminated) else "SIGINT")
        say()
        answer = None
    if not answer:
        say("Nothing was done.")
    return answer is True
