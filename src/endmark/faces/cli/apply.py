"""`endmark apply`: the apply gate."""

import os
from typing import TYPE_CHECKING, Any

import click

from endmark.core import plan
from endmark.core.outcome import Outcome
from endmark.faces import review
from endmark.faces.books import keep_apart
from endmark.faces.cli.at_gate import (
    LEDGER,
    TREATMENT,
    YES,
    finished,
    let_through,
    open_to_write,
    overrides,
    settings,
    use,
)
from endmark.faces.cli.captured import CAPTURED, Asked, claims_in
from endmark.faces.cli.common import FILE, JSON, Verb, read
from endmark.faces.misuse import Misuse
from endmark.sources.files import STDIN

if TYPE_CHECKING:
    from endmark.seal import NotSealed, Sealed


def _job_id(_ctx: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is not None and not plan.ID.fullmatch(value):
        raise click.BadParameter(f"{value!r} is no job id: 1-128 of [A-Za-z0-9._:-] were expected.")
    return value


@click.command("apply", cls=Verb)
@FILE
@click.option("--to", required=True, metavar="NAME|URL", help="A target of endmark.toml, or sqlite:///FILE.")
@click.option("--seal", is_flag=True, help="Take the witness form too, and seal it here.")
@CAPTURED
@click.option("--evidence", metavar="FILE", help="What 'endmark seal --evidence' wrote; goes on record as claimed.")
@click.option("--job", metavar="ID", callback=_job_id, help="The job id, as known from outside the body.")
@YES
@TREATMENT
@LEDGER
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: str,
    to: str,
    seal: bool,
    evidence: str | None,
    job: str | None,
    yes: bool,
    lock_timeout: float | None,
    statement_timeout: float | None,
    backup: str | None,
    no_backup: bool,
    ledger: str | None,
    config: str | None,
    **asked: Any,
) -> Outcome:
    """Prove a plan whole and apply it to a database, all of it or nothing.

    The whole input is read before a byte is looked at. Whatever is not proven whole is refused and recorded with its
    byte count, and nothing is written. A plan that is whole is staged; then

    \b
      - a target named in endmark.toml follows its `review`: with "none" (the
        default) it is applied at once, with "required" it waits for
        'endmark approve', whatever --yes says;
      - for a URL, a terminal shows the plan and asks. Without a terminal --yes
        is needed, else the job stays staged (exit code 16).

    With --wire the input is a captured answer: it is sealed here, as 'endmark seal' does, and what stood behind it goes
    on the job's record with the SHA-256 of the capture. Without, an envelope says nothing of the answer it came from.

    It runs in one transaction with its receipt, after a backup. The same id with the same bytes is never applied twice.

    \b
    Examples:
      endmark apply plan.mc1 --to prod
      agent-job | endmark apply - --to sqlite:///app.db --seal --yes --json
      endmark apply stream.sse --wire anthropic --tool apply_schema --to prod
    """
    wanted = Asked(**asked)
    wanted.check()
    if wanted.wire is not None and (seal or evidence is not None):
        raise Misuse("--wire seals the answer here, with its evidence: neither --seal nor --evidence goes with it.")
    found = settings(ledger, config)
    place = found.place(to, overrides(lock_timeout, statement_timeout, backup, no_backup))
    raw = read(file)
    claims = claims_in(evidence) if evidence is not None and raw else None  # a seal that refused wrote neither
    delivered = raw if wanted.wire is None else _sealed(wanted, raw)
    # Before the ledger is opened: to make it where the target belongs would be a write.
    keep_apart(place.target, found.ledger)
    gate = open_to_write(ctx, found, create=True, delivers=True)
    use(ctx, gate, place)
    ctx.meta["job_id"], ctx.meta["stdin"] = job, file == STDIN
    road, why = review.road(place, yes, file == STDIN, os.environ)
    me = review.who(os.environ)
    if road is review.Road.NOW:
        done = gate.apply(delivered, place.target, job_id=job, seal=seal, submitter=me, approver=me, claims=claims)
        return finished(ctx, done)
    staged = gate.submit(delivered, target=place.target, job_id=job, seal=seal, submitter=me, claims=claims)
    if not staged.is_new:
        return staged.outcome  # delivered before: nothing is done, not even a question asked
    return let_through(ctx, gate, staged, place, road, why)


def _sealed(wanted: Asked, raw: bytes) -> "Sealed | NotSealed":
    """The answer in its envelope; where it is refused, that, which is recorded as every refusal is."""
    from endmark.seal import AnswerRefused, NotSealed

    try:
        return wanted.seal(raw)
    except AnswerRefused as refused:
        return NotSealed(raw, refused)
