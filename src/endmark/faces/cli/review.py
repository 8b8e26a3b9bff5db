"""`endmark review`: ask the reviewers of a branch about a change, and decide."""

import os
from typing import Any

import click

from endmark.faces.cli.at_patch import CHANGE, decided
from endmark.faces.cli.common import JSON, Result, Verb
from endmark.faces.cli.outputs import OUTPUTS
from endmark.faces.review import who


@click.command("review", cls=Verb)
@CHANGE
@OUTPUTS
@JSON
@click.pass_context
def command(ctx: click.Context, /, **change: Any) -> Result:
    """Ask every reviewer that the branch's policy names about a change, and decide by their verdicts.

    The policy, the instructions and the reviewers' files are those of the base commit. A verdict counts only if it is
    proven whole, bound to this change and this policy, and echoes every mark. What was decided is not asked again: a
    fail is never asked into a pass. Nothing is merged.

    \b
    Examples:
      endmark review --base main --head topic
      endmark review --base origin/main --head HEAD --ref main --json
      endmark review --base main --head topic --sarif findings.sarif --post github
    """
    submitter = who(os.environ)
    return decided(ctx, change, lambda patches, names: patches.review(**names, submitter=submitter))
