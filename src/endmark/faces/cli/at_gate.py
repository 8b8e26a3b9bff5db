"""What the verbs of the apply gate share: their options, opening the gate, and the question to a person."""

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry, NotThere
from endmark.faces import review
from endmark.faces.api import Gate, Job
from endmark.faces.cli.common import together
from endmark.faces.config import SECONDS_MAX, Config, Overrides, Place, load
from endmark.faces.interrupt import Interrupts, Terminated
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import Progress, ask, safe, say
from endmark.faces.words import sentence

if TYPE_CHECKING:  # the verbs of patches share the options, and never settle a job
    from endmark.reconcile import Settled

NOT_WAITING = "Nothing was done: the job is not waiting for anybody."


class Seconds(click.FloatRange):
    """A number of seconds, zero or more."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(0, SECONDS_MAX)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if seconds != seconds:  # NaN is neither below nor above
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds


LEDGER = together(
    click.option("--ledger", metavar="URL|PATH", help="The ledger; else ENDMARK_LEDGER, else the configuration's."),
    click.option("--config", metavar="FILE", help="The configuration; else ENDMARK_CONFIG, else ./endmark.toml."),
)
YES = click.option("--yes", is_flag=True, help="Do not ask. An agent's host cannot say it for a person.")
TREATMENT = together(
    click.option("--lock-timeout", type=Seconds(), help="How long to wait for the target's lock."),
    click.option("--statement-timeout", type=Seconds(), help="How long one statement may run."),
    click.option("--backup", metavar="DIR", help="Where the backup goes; else `backups` beside the ledger."),
    click.option("--no-backup", is_flag=True, help="Make no backup before the first write."),
)


def settings(ledger: str | None, config: str | None) -> Config:
    """What flags, environment and endmark.toml say. Raises Misuse."""
    return load(ledger, config, os.environ)


def overrides(
    lock_timeout: float | None, statement_timeout: float | None, backup: str | None, no_backup: bool
) -> Overrides:
    """The options of TREATMENT as a value. Raises Misuse."""
    if backup is not None and no_backup:
        raise Misuse("--backup and --no-backup contradict each other.")
    return Overrides(lock_timeout=lock_timeout, statement_timeout=statement_timeout, backup=backup, no_backup=no_backup)


def open_to_read(ctx: click.Context, found: Config) -> Gate:
    """The gate over a ledger that must be there; nothing is settled."""
    must_exist(found)
    gate: Gate = ctx.with_resource(Gate(found.ledger, create=False, reconcile=False))
    return gate


def open_to_write(
    ctx: click.Context, found: Config, *, create: bool = False, reconcile: bool = True, delivers: bool = False
) -> Gate:
    """The gate over the ledger, with what a crash left settled first; with `create`, a ledger is made if need be.

    `delivers`: a plan is about to be handed over, so what the configuration's trusted keys signed is taken.

    From here on until the result is out, Ctrl-C and SIGTERM are noted, and obeyed between two steps.
    """
    stop: Interrupts = ctx.with_resource(Interrupts())
    progress = Progress()
    ctx.meta["stop"], ctx.meta["progress"] = stop, progress
    ctx.call_on_close(progress.clear)
    if not create:
        must_exist(found)
    elif found.ledger_is_ours:
        make_state_folder(found)

    def asked() -> str | None:
        if threading.current_thread() is threading.main_thread():  # others ask too
            progress.tick()
        return stop()

    gate: Gate = ctx.with_resource(
        Gate(
            found.ledger,
            create=create,
            reconcile=reconcile,
            trusted_keys=found.trusted_keys if delivers else None,
            stop=asked,
            progress=progress,
            target_of=found.target_of,
            outbox=found.outbox,
        )
    )
    if gate.reconciled is not None:
        _tell(gate.reconciled)
    if stop.first is not None:
        raise CannotTry(f"{stop.first} came before anything was done.")
    return gate


def _tell(done: "Settled") -> None:
    for outcome in done.settled:
        say(f"Reconciled job {safe(outcome.job_id or '?')}: {sentence(outcome)}")
    for left in done.left:
        say(f"Not reconciled yet, job {safe(left.job_id or left.attempt_id)}: {safe(left.why)}")


def use(ctx: click.Context, gate: Gate, place: Place) -> None:
    """Treat what `gate` does from now on as `place` wants its target treated.

    A job that a crash left there may be settled only now: the record names its target without a password.
    """
    gate.options = place.options
    left = [] if gate.reconciled is None else gate.reconciled.left
    if any(job.target == place.target.identity for job in left):
        done = gate.reconcile_at(place.target)
        here = [job for job in done.left if job.target == place.target.identity]
        _tell(msgspec.structs.replace(done, left=here))
    ctx.meta["target"] = place.target.identity
    if place.options.backups is not None:
        ctx.meta["progress"].stages = ["backing up", "applying"]


def make_state_folder(found: Config) -> None:
    """The folder of the user's own ledger, private to the user. Raises CannotTry."""
    folder = Path(found.ledger).parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as fault:
        raise CannotTry(
            f"the folder {folder} for the ledger cannot be made: {fault.strerror}. Nothing was done; "
            "name another ledger with --ledger or ENDMARK_LEDGER."
        ) from None


def must_exist(found: Config) -> None:
    if isinstance(found.ledger, Path) and not os.path.lexists(found.ledger):
        raise NotThere(
            f"there is no ledger at {found.ledger}. Nothing was done; 'endmark apply' or 'endmark ledger init' makes "
            "one, and --ledger or ENDMARK_LEDGER names another."
        )


def let_through(
    ctx: click.Context, gate: Gate, job: Job, place: Place, road: review.Road, why: str, *, later: bool = False
) -> Outcome:
    """Take a staged job along its road: apply it, ask a person first, or leave it staged and say why. With `later` it
    is approved where it would be applied."""
    if job.state == "approved":  # an approval that waited to be used; the gate says whether it still holds
        if later:
            say("Nothing was done: the job is approved already.")
            return job.outcome
        return finished(ctx, job.apply(place.target, approver=review.who(os.environ)))
    if job.state != "staged":
        if not job.is_new:
            say(NOT_WAITING)
        return job.outcome
    ctx.meta["job_id"] = job.outcome.job_id
    if road is review.Road.WAIT:
        return _stays(job, why)
    me = review.who(os.environ)
    from endmark.steps.approving import check_person

    try:
        check_person(place.options, job.submitter, me)
    except CannotTry as fault:
        return _stays(job, fault.detail)
    fingerprint = None
    if road is review.Road.ASK:
        with place.target.open() as session:
            fingerprint = session.fingerprint()
        review.show_plan(job.plan, job.outcome, place, fingerprint, job.rehearsal)
        try:
            with ctx.meta["stop"].released():
                if ctx.meta["stop"].first is not None:
                    raise KeyboardInterrupt
                act, to = ("Approve", "for") if later else ("Apply", "to")
                question = f"{act} job {safe(job.outcome.job_id or '')} {to} {safe(place.title)}?"
                answer = ask(question, bool(ctx.meta.get("stdin")))
        except (KeyboardInterrupt, Terminated) as fault:
            ctx.meta["stop"].note("SIGTERM" if isinstance(fault, Terminated) else "SIGINT")
            say()
            return msgspec.structs.replace(job.outcome, exit_code=ctx.meta["stop"].exit_code)
        if answer is None:
            return _stays(job, "Nobody answered.")
        if not answer:
            return job.decline(approver=me)
    if later:
        return job.approve(place.target, approver=me, shown_fingerprint=fingerprint)
    return finished(ctx, job.apply(place.target, approver=me, shown_fingerprint=fingerprint))


def _stays(job: Job, why: str) -> Outcome:
    say(f"Not applied. {safe(why)}")
    return job.outcome


def finished(ctx: click.Context, outcome: Outcome) -> Outcome:
    """The outcome of work that was done just now: interrupted work has the exit code of its signal."""
    ctx.meta["progress"].clear()
    code = ctx.meta["stop"].exit_code
    if outcome.signal == "interrupted" and outcome.state == "failed" and code is not None:
        return msgspec.structs.replace(outcome, exit_code=code)
    return outcome
