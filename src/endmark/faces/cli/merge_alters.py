"""`endmark merge-alters`: several ALTERs of one table as one, in a plan of its own."""

import click

from endmark.core.decision import row_of
from endmark.core.outcome import of_refusal
from endmark.core.refusal import Refused
from endmark.effects.target import Failed
from endmark.faces.api import merge_alters
from endmark.faces.cli.at_gate import Seconds, overrides, settings
from endmark.faces.cli.check import configured
from endmark.faces.cli.common import FILE, Result, Verb, at, read
from endmark.faces.interrupt import Interrupts
from endmark.faces.terminal import safe, say
from endmark.faces.words import listed, sentence


@click.command("merge-alters", cls=Verb)
@FILE
@click.option("--to", required=True, metavar="NAME|URL", help="A MariaDB or MySQL target of endmark.toml, or a URL.")
@click.option("--job", required=True, metavar="ID", help="The id of the new plan.")
@click.option("--lock-timeout", type=Seconds(), help="How long to wait for the target's lock.")
@click.option("--statement-timeout", type=Seconds(), help="How long one statement may run.")
@click.option("--config", metavar="FILE", help="The configuration; else ENDMARK_CONFIG, else ./endmark.toml.")
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    to: str,
    job: str,
    lock_timeout: float | None,
    statement_timeout: float | None,
    config: str | None,
) -> Result:
    """Write a new plan, as MC1 on standard output, in which ALTERs of one table are one statement.

    MariaDB and MySQL commit each statement about the schema; one ALTER with many changes is atomic. The words of each
    are kept, their downs are put together in reverse, and both plans are rehearsed: they have to leave one schema.
    Nothing is submitted, and FILE stays as it is: read the new plan and apply it like any other, in the place of the
    old one. A signature is not carried over.

    \b
    Example:
      endmark merge-alters plan.mc1 --to shop --job billing-7b > merged.mc1
    """
    place = settings(None, config).place(to, overrides(lock_timeout, statement_timeout, None, no_backup=True))
    raw = read(file)
    stop = ctx.with_resource(Interrupts())
    ctx.meta["stop"], ctx.meta["target"] = stop, place.target.identity
    try:
        made, merged = merge_alters(
            raw, place.target, job, options=place.options, trusted_keys=configured(config), stop=stop
        )
    except Refused as refused:  # standard output is the plan's: whatever else there is to say is told beside it
        outcome = of_refusal(refused, at())
        say(f"endmark: {sentence(outcome)}")
        return Result("", exit_code=outcome.exit_code, raw=b"")
    except Failed as failed:
        say(f"endmark: {safe(failed.detail)}. Nothing was written.")
        return Result("", exit_code=row_of(failed.signal).exit_code, raw=b"")
    for merge in merged.merges:
        say(f"endmark: statements {listed(merge.numbers)} alter {safe(merge.table)} and are one now:")
        for line in merge.statement.split("\n"):
            say(f"     | {safe(line)}")
    for clause in merged.apart:
        say(f"endmark: {safe(clause)}")
    say(f"endmark: both plans were rehearsed and leave one schema. This is a new plan, {safe(job)}; apply only one.")
    return Result("", raw=made)
