"""`endmark reconcile`: settle what a crash left."""

import os
from pathlib import Path
from typing import Any

import click

from endmark.core.refusal import CannotTry, Signal
from endmark.faces.api import Gate, now
from endmark.faces.cli.at_gate import LEDGER, Seconds, open_to_write, settings
from endmark.faces.cli.common import JSON, Result, Verb, at
from endmark.faces.terminal import safe
from endmark.faces.words import sentence


@click.command("reconcile", cls=Verb)
@click.option(
    "--lock-timeout", type=Seconds(), default=10.0, show_default=True, help="How long to wait for each target's lock."
)
@click.option("--repo", metavar="DIR", help="A repository whose merges are settled too (default: this one, if it is).")
@LEDGER
@JSON
@click.pass_context
def command(
    ctx: click.Context, lock_timeout: float, repo: str | None, ledger: str | None, config: str | None
) -> Result:
    """Settle what a crash left `applying`, by the receipt in its target and under the target's lock.

    A receipt for the same statements: the job is applied. None: it is failed, and nothing was committed. 'apply',
    'approve', 'decline' and 'revert' do the same at their start, without waiting; this waits for targets that are busy.

    In a repository, a pass whose branch holds its merge commit is recorded as merged, and a review that has waited for
    longer than its policy allows is ended as incomplete.

    Exit code 20 says that a target was out of reach, so its job stays as it is; 1, that a receipt is for something
    else, or that a branch holds a merge that should not stand.

    \b
    Example:
      endmark reconcile --lock-timeout 60
    """
    gate = open_to_write(ctx, settings(ledger, config), reconcile=False)
    done = gate.reconcile(lock_timeout=lock_timeout)
    patches = _patches(gate, repo)
    alarm = any(outcome.signal == Signal.ID_REUSED for outcome in done.settled) or patches["alarms"]
    exit_code = 20 if done.left else 1 if alarm else 0
    lines = [f"{safe(outcome.job_id or '?')}: {sentence(outcome)}" for outcome in done.settled]
    lines += [f"{safe(left.job_id or left.attempt_id)}: left as it is: {safe(left.why)}" for left in done.left]
    lines += [f"{one.decision_id}: {one.state}: {safe(one.detail)}" for one in patches["merged"] + patches["alarms"]]
    lines += [f"{safe(name)}: nobody will answer it; it is incomplete." for name in patches["reviews_ended"]]
    return Result(
        "\n".join(lines) or "Nothing to settle.",
        {"version": 1, "settled": done.settled, "left": done.left, **patches, "exit_code": exit_code, "at": at()},
        exit_code,
    )


def _patches(gate: Gate, repo: str | None) -> dict[str, list[Any]]:
    """What was settled of patches. Raises CannotTry for a repository that was named and cannot be read."""
    from endmark.effects.git import Gate as GitGate
    from endmark.effects.git import Git, open_repository
    from endmark.ledger.patch_book import PatchBook
    from endmark.reconcile_patches import reconcile_patches

    try:
        repository = open_repository(Git(os.environ), repo or ".")
    except CannotTry:
        if repo is not None:
            raise
        return {"merged": [], "alarms": [], "reviews_ended": []}
    with GitGate(repository) as git:
        done = reconcile_patches(PatchBook(gate.ledger), git, str(Path(repository.common_dir).resolve()), now)
    return {"merged": done.merged, "alarms": done.alarms, "reviews_ended": done.ended}
