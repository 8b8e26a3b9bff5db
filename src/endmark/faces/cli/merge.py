"""`endmark merge`: merge what a recorded pass binds to."""

import os
from typing import Any

import click

from endmark.core.refusal import Refused
from endmark.effects.git import Git, hooks, open_repository
from endmark.faces.cli.at_gate import settings
from endmark.faces.cli.at_patch import CHANGE, opened, refused, result
from endmark.faces.cli.common import JSON, Result, Verb
from endmark.faces.misuse import Misuse
from endmark.faces.review import MAY_APPROVE, agent_marker, who


@click.command("merge", cls=Verb)
@CHANGE
@click.option("--key", metavar="FILE", help="What signs the record (else merge.key of endmark.toml).")
@click.option("--approve", is_flag=True, help="A person looked at what the policy leaves to a person.")
@click.option("--name", default="endmark", show_default=True, help="Who the merge commit is by.")
@click.option("--email", default="endmark@localhost", show_default=True, help="The address in the merge commit.")
@JSON
@click.pass_context
def command(ctx: click.Context, /, key: str | None, approve: bool, name: str, email: str, **change: Any) -> Result:
    """Merge a change, if a recorded pass binds to exactly this base, head, merge result and policy.

    The branch moves by compare-and-swap from the base that was judged to the merge that was, or stays where it is. The
    merge commit carries the record of the decision, signed with --key; where 'endmark hook git install' guards the
    repository, there is no merge without one. A branch that is checked out somewhere is not moved.

    \b
    Example:
      endmark merge --base main --head topic --key gate.key
    """
    marker = agent_marker(os.environ)
    if approve and marker is not None:
        raise Misuse(
            f"--approve: {marker} says that an agent's host runs this, so nothing is approved here. A person approves "
            f"it, or sets {MAY_APPROVE}=1."
        )
    signer = key or settings(change["ledger"], change["config"]).merge_key
    if signer is None and hooks.guards(open_repository(Git(os.environ), change["repo"])):
        raise Misuse(
            "--key: this repository takes no merge without a signed record. Nothing was merged; give --key FILE, or "
            "set key in [merge] of endmark.toml."
        )
    approver = who(os.environ) if approve else None
    names = {option: change.pop(option) for option in ("base", "head", "ref")}
    try:
        with opened(ctx, **change, create=False) as patches:
            return result(patches.merge(**names, key=signer, approver=approver, name=name, email=email))
    except Refused as refusal:
        return refused(refusal)
