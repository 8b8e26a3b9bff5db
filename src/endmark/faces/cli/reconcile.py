"""`endmark reconcile`: settle what a crash left."""

import click

from endmark.core.refusal import Signal
from endmark.faces.cli.at_gate import LEDGER, Seconds, open_to_write, settings
from endmark.faces.cli.common import JSON, Result, Verb, at
from endmark.faces.terminal import safe
from endmark.faces.words import sentence


@click.command("reconcile", cls=Verb)
@click.option(
    "--lock-timeout", type=Seconds(), default=10.0, show_default=True, help="How long to wait for each target's lock."
)
@LEDGER
@JSON
@click.pass_context
def command(ctx: click.Context, lock_timeout: float, ledger: str | None, config: str | None) -> Result:
    """Settle what a crash left `applying`, by the receipt in its target and under the target's lock.

    A receipt for the same statements: the job is applied. None: it is failed, and nothing was committed. 'apply',
    'approve', 'decline' and 'revert' do the same at their start, without waiting; this waits for targets that are busy.

    Exit code 20 says that a target was out of reach, so its job stays as it is; 1, that a receipt is for something
    else.

    \b
    Example:
      endmark reconcile --lock-timeout 60
    """
    gate = open_to_write(ctx, settings(ledger, config), reconcile=False)
    done = gate.reconcile(lock_timeout=lock_timeout)
    alarm = any(outcome.signal == Signal.ID_REUSED for outcome in done.settled)
    exit_code = 20 if done.left else 1 if alarm else 0
    lines = [f"{safe(outcome.job_id or '?')}: {sentence(outcome)}" for outcome in done.settled]
    lines += [f"{safe(left.job_id or left.attempt_id)}: left as it is: {safe(left.why)}" for left in done.left]
    return Result(
        "\n".join(lines) or "Nothing to settle.",
        {"version": 1, "settled": done.settled, "left": done.left, "exit_code": exit_code, "at": at()},
        exit_code,
    )
