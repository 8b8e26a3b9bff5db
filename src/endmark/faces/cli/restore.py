"""`endmark restore`: put the backup of a job back."""

import os

import click
import msgspec

from endmark.core.decision import Next
from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry
from endmark.effects.target import Failed
from endmark.faces import review
from endmark.faces.api import now
from endmark.faces.cli.at_gate import LEDGER, YES, Seconds, open_to_write, overrides, settings, use
from endmark.faces.cli.common import JSON, Verb, at
from endmark.faces.interrupt import Terminated
from endmark.faces.terminal import ask, safe, say
from endmark.steps import restoring


@click.command("restore", cls=Verb)
@click.argument("job")
@click.option("--later-jobs-too", "later", multiple=True, metavar="JOB", help="A job applied since that goes with it.")
@click.option("--lock-timeout", type=Seconds(), help="How long to wait for the target's lock.")
@YES
@LEDGER
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    job: str,
    later: tuple[str, ...],
    lock_timeout: float | None,
    yes: bool,
    ledger: str | None,
    config: str | None,
) -> Outcome:
    """Put the backup of an applied job back: the SQLite target becomes what it was before that job, rows included.

    Everything written since is lost. Jobs that were applied since are named, and each has to be named with
    --later-jobs-too. The bytes of the backup must be those on record. Exit code 0 says that it was put back.

    \b
    Example:
      endmark restore billing-2026-11-30
    """
    found = settings(ledger, config)
    gate = open_to_write(ctx, found)
    wanted = gate.job(job)
    entry = gate.ledger.get(wanted.outcome.attempt_id or "")
    if entry is None or entry.target is None:
        raise CannotTry(f"{job} was never applied to a target, so there is nothing to put back. Nothing was done.")
    place = found.place(entry.target, overrides(lock_timeout, None, None, no_backup=True))
    road, why = review.road(place, yes, False, os.environ, approving=True)
    use(ctx, gate, place)
    kept = restoring.find(gate.ledger, entry, place.target)
    others = [name for name in kept.undone if name != entry.job_id and name not in later]
    if others:
        raise CannotTry(
            f"jobs that were applied since would be undone too: {', '.join(others)}. Nothing was written; name each "
            "one with --later-jobs-too if that is meant."
        )
    if road is review.Road.WAIT:
        raise CannotTry(f"a person puts a backup back. {why} Nothing was done.")
    if road is review.Road.ASK:
        say(f"Backup     {safe(str(kept.path))}, {kept.kept.size:,} bytes of {kept.at[:19].replace('T', ' ')} UTC")
        say(f"sha256     {kept.kept.sha256}")
        say(f"Undoes     {safe(', '.join(kept.undone) or 'no job')}, and whatever else was written since")
        if not _agreed(ctx, f"Make {safe(place.title)} what it was then?"):
            return msgspec.structs.replace(wanted.outcome, exit_code=ctx.meta["stop"].exit_code or 1)
    stop = ctx.meta["stop"]
    try:
        outcome, done = restoring.restore(
            gate.ledger,
            now,
            entry,
            place.target,
            later,
            review.who(os.environ),
            place.options.lock_timeout,
            ctx.meta["progress"],
            stop,
        )
    except Failed as failed:
        raise CannotTry(f"{failed.detail}.") from None
    ctx.meta["progress"].clear()
    undone = ", ".join(done.undone) or "no job"
    detail = f"Restored: the target is the one from before job {entry.job_id}. Undone: {undone}."
    return msgspec.structs.replace(outcome, detail=detail, exit_code=0, next=Next.NONE, at=at())


def _agreed(ctx: click.Context, question: str) -> bool:
    try:
        with ctx.meta["stop"].released():
            answer = ask(question, False)
    except (KeyboardInterrupt, Terminated) as fault:
        ctx.meta["stop"].note("SIGTERM" if isinstance(fault, Terminated) else "SIGINT")
        say()
        answer = None
    if not answer:
        say("Nothing was done.")
    return answer is True
