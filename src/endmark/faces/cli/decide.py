"""`endmark decide`: decide by a verdict that was made elsewhere."""

import os
from typing import Any

import click

from endmark.core import plan
from endmark.core.patch_outcome import PatchOutcome
from endmark.faces.cli.at_patch import CHANGE, decided
from endmark.faces.cli.common import FILE, JSON, Result, Verb, read
from endmark.faces.cli.outputs import OUTPUTS
from endmark.faces.misuse import Misuse
from endmark.faces.patches import Patches
from endmark.faces.review import who
from endmark.patch_gate import NoSuchReviewer


@click.command("decide", cls=Verb)
@FILE
@click.option("--reviewer", metavar="NAME", help="Whose verdict it is, where the branch asks several.")
@click.option("--job", metavar="ID", help="The id of this attempt, given outside the verdict.")
@CHANGE
@OUTPUTS
@JSON
@click.pass_context
def command(ctx: click.Context, /, file: str, reviewer: str | None, job: str | None, **change: Any) -> Result:
    """Decide by a verdict in an envelope (FILE, or - for standard input) that a reviewer made elsewhere.

    It counts only if it is proven whole, says exactly `pass` or `fail`, and is bound to this change and the policy in
    force: `endmark diff-sha` prints what it must be bound to. Anything else is recorded as incomplete, and blocks.
    Nothing is merged.

    \b
    Example:
      endmark decide verdict.mc1 --base main --head topic
    """
    if job is not None and not plan.ID.fullmatch(job):
        raise Misuse(f"--job: {job[:140]!r} is not 1-128 of A-Z a-z 0-9 . _ : -")
    raw, submitter = read(file), who(os.environ)

    def doing(patches: Patches, names: dict[str, Any]) -> PatchOutcome:
        return patches.decide(raw, **names, reviewer=reviewer, job_id=job, submitter=submitter)

    try:
        return decided(ctx, change, doing)
    except NoSuchReviewer as fault:
        raise Misuse(f"--reviewer: {fault}") from None
