"""`endmark rehearse`: what would a plan do?"""

from typing import Any

import click
import msgspec

from endmark.core.decision import row_of
from endmark.core.outcome import Outcome
from endmark.core.plan import Plan
from endmark.effects.target import Failed
from endmark.faces import review
from endmark.faces.api import rehearse
from endmark.faces.cli.at_gate import Seconds, overrides, settings
from endmark.faces.cli.check import configured
from endmark.faces.cli.common import FILE, JSON, Result, Verb, at, read
from endmark.faces.interrupt import Interrupts
from endmark.faces.terminal import safe
from endmark.faces.words import many
from endmark.steps.rehearsing import facts


@click.command("rehearse", cls=Verb)
@FILE
@click.option("--to", required=True, metavar="NAME|URL", help="A target of endmark.toml, or a URL.")
@click.option("--lock-timeout", type=Seconds(), help="How long to wait for the target's lock.")
@click.option("--statement-timeout", type=Seconds(), help="How long one statement may run.")
@click.option("--config", metavar="FILE", help="The configuration; else ENDMARK_CONFIG, else ./endmark.toml.")
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    to: str,
    lock_timeout: float | None,
    statement_timeout: float | None,
    config: str | None,
) -> Result:
    """Prove a plan whole and run it where nothing of it stays: what would it do to the schema?

    Every statement runs under the guards of the real thing, then every `down`, and the schema has to be the one from
    before. SQLite: on a copy. PostgreSQL: in a transaction that is rolled back, or on a clone where the target names
    `rehearse_in`. MariaDB: on a clone of what the plan reaches. No job id is spent, and no ledger is written.

    Exit code 0 says that it went through, 1 that it did not.

    \b
    Examples:
      endmark rehearse plan.mc1 --to prod
      agent-job | endmark rehearse - --to sqlite:///app.db --json
    """
    place = settings(None, config).place(to, overrides(lock_timeout, statement_timeout, None, no_backup=True))
    raw = read(file)
    stop = ctx.with_resource(Interrupts())
    ctx.meta["stop"], ctx.meta["target"] = stop, place.target.identity
    try:
        proven, found = rehearse(raw, place.target, options=place.options, trusted_keys=configured(config), stop=stop)
    except Failed as failed:
        return _failed(failed, place.target.identity)
    plan = proven.value
    assert isinstance(plan, Plan)  # noqa: S101  # what was rehearsed is one
    kept = facts(found)
    outcome = Outcome(
        job_id=plan.job_id,
        state="rehearsed",
        signal="complete",
        received_bytes=proven.received_bytes,
        expected_bytes=proven.expected_bytes,
        sha256=plan.sha256,
        stmt_count=plan.stmt_count,
        statements_run=plan.stmt_count,
        target=place.target.identity,
        evidence=list(proven.evidence),
        detail=f"{many(plan.stmt_count, 'statement')} went through in rehearsal; nothing was written.",
        exit_code=0,
        at=at(),
    )
    lines = [outcome.detail, "", *review.rehearsal_lines(kept)]
    if plan.down is None:
        lines.append("  not tried the way back: the plan has no downs")
    return Result("\n".join(lines), {**msgspec.to_builtins(outcome), "rehearsal": kept})


def _failed(failed: Failed, target: str) -> Result:
    row = row_of(failed.signal)
    outcome = Outcome(
        state="failed",
        signal=failed.signal.value,
        statements_run=failed.statements_run,
        target=target,
        detail=f"Found in rehearsal: {failed.detail}. Nothing was written.",
        next=row.next,
        exit_code=row.exit_code,
        at=at(),
    )
    document: dict[str, Any] = {**msgspec.to_builtins(outcome), "statement": failed.statement, "rehearsal": None}
    return Result(safe(outcome.detail), document, outcome.exit_code)
