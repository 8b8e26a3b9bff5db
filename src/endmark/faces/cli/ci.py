"""`endmark ci`: a review as a CI system runs it."""

import os
from typing import Any

import click

from endmark.core.patch_outcome import PatchOutcome
from endmark.core.refusal import CannotTry, Refused
from endmark.effects.git import Git, open_repository
from endmark.effects.git.fetch import fetch_change
from endmark.faces import ci, patch_records
from endmark.faces.cli.at_gate import LEDGER
from endmark.faces.cli.at_patch import decided
from endmark.faces.cli.common import JSON, Result, Verb
from endmark.faces.review import who


@click.command("ci", cls=Verb)
@click.argument("forge", type=click.Choice(list(ci.STARTED)))
@click.option("--repo", metavar="DIR", default=".", help="The repository that was checked out (default: this one).")
@click.option("--remote", default="origin", show_default=True, help="Where the history is fetched from.")
@click.option("--policy", metavar="FILE", help="A policy on this machine, instead of the base commit's.")
@click.option("--sarif", metavar="FILE", help="Write the findings there, as SARIF 2.1.0.")
@click.option("--no-post", is_flag=True, help="Post no check run or commit status.")
@LEDGER
@JSON
@click.pass_context
def command(
    ctx: click.Context, /, forge: str, repo: str, remote: str, sarif: str | None, no_post: bool, **rest: Any
) -> Result:
    """Review what this run of a CI system was started for, and tell the forge.

    Reads the event (pull request, merge queue, merge request), fetches history until it reaches where base and head
    parted, asks the reviewers, posts a check run or commit status on the head, and writes the run's summary and
    outputs: state, decision_id, diff_sha, exit_code. Only a pass is a success.

    \b
    Examples:
      endmark ci github
      endmark ci gitlab --sarif findings.sarif
    """
    found: list[PatchOutcome] = []
    summary = ""

    def review(patches: Any, names: dict[str, Any]) -> PatchOutcome:
        nonlocal summary
        outcome: PatchOutcome = patches.review(**names, submitter=who(os.environ))
        found.append(outcome)
        if outcome.decision_id is not None:
            told = [] if outcome.state == "incomplete" else patches.findings(outcome.decision_id)
            summary = patch_records.report_of(outcome, told).summary
        return outcome

    try:
        started = ci.STARTED[forge](os.environ)
        _, base = fetch_change(
            open_repository(Git(os.environ), repo), remote, started.ref, started.head, base=started.base
        )
        outputs = {"sarif": sarif, "record": None, "key": None, "post": None if no_post else forge, "repository": None}
        rest["policy"] = rest["policy"] or None  # an input of the action that was not given
        change = {"base": base, "head": started.head, "ref": started.ref, "repo": repo, "fetch": None}
        done = decided(ctx, {**change, **outputs, **rest}, review)
    except (Exception, KeyboardInterrupt) as fault:
        said = fault.detail if isinstance(fault, CannotTry | Refused) else str(fault)
        ci.hand_back(forge, None, ci.page(None, "", 20, patch_records.plain(said)), 20, os.environ)
        raise
    outcome = found[0] if found else None
    problem = "The forge, or a file, was not told; the log says why." if done.exit_code == 20 else ""
    ci.hand_back(forge, outcome, ci.page(outcome, summary, done.exit_code, problem), done.exit_code, os.environ)
    return done
