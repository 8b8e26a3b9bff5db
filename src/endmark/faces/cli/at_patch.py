"""What the verbs of the patch gate share: their options, what they open, and how a decision is said."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
import msgspec

from endmark.core.patch_outcome import PatchOutcome, Reviewed, of_refusal
from endmark.core.policy import PolicyRefused
from endmark.core.refusal import Refused
from endmark.faces.cli.at_gate import LEDGER, make_state_folder, must_exist, settings
from endmark.faces.cli.common import Result, at, together
from endmark.faces.cli.outputs import Outputs
from endmark.faces.config import Config
from endmark.faces.interrupt import Interrupts
from endmark.faces.misuse import Misuse
from endmark.faces.patches import Patches
from endmark.faces.terminal import paint, safe, say
from endmark.ledger.book import Ledger
from endmark.ledger.patch_entry import ADVICE

_NAME = "a branch, a tag, a remote branch, HEAD or a full object id"
CHANGE = together(
    click.option("--base", metavar="B", required=True, help=f"What is merged into: {_NAME}."),
    click.option("--head", metavar="H", required=True, help=f"What is merged: {_NAME}."),
    click.option("--repo", metavar="DIR", default=".", help="The repository, or a folder in it (default: this one)."),
    click.option("--ref", metavar="REF", help="The branch that is merged into, where --base is not its name."),
    click.option("--fetch", metavar="REMOTE", help="First fetch from this remote what a shallow clone lacks."),
    click.option("--policy", metavar="FILE", help="A policy on this machine, instead of the base commit's."),
    LEDGER,
)
_COLOURS = {"pass": "green", "merged": "green", "pending": "yellow"}


@contextmanager
def opened(
    ctx: click.Context, *, repo: str, fetch: str | None, policy: str | None, create: bool, **where: str | None
) -> Iterator[Patches]:
    """The patch gate that the options of CHANGE name. Raises Misuse, CannotTry.

    From here on until the result is out, Ctrl-C and SIGTERM are noted, and obeyed between two steps.
    """
    found = settings(where["ledger"], where["config"])
    stop: Interrupts = ctx.with_resource(Interrupts())
    ctx.meta["stop"] = stop
    if not create:
        must_exist(found)
    elif found.ledger_is_ours:
        make_state_folder(found)
    keys = found.trusted_keys or None
    with Patches(
        found.ledger, repo, policy=policy, fetch=fetch, create=create, trusted_keys=keys, stop=stop
    ) as patches:
        yield patches


def decided(
    ctx: click.Context, change: dict[str, Any], doing: Callable[[Patches, dict[str, Any]], PatchOutcome]
) -> Result:
    """What `doing` decides about the change that the options of CHANGE and OUTPUTS name, as the one result."""
    outputs = Outputs(**{name: change.pop(name) for name in Outputs.__struct_fields__})
    outputs.check()
    names = {name: change.pop(name) for name in ("base", "head", "ref")}
    try:
        with opened(ctx, **change, create=True) as patches:
            outcome = doing(patches, names)
            problems = outputs.write(patches, outcome)
    except Refused as refusal:
        return refused(refusal)
    for problem in problems:
        say(f"endmark: {safe(problem)}")
    found = result(outcome)
    return msgspec.structs.replace(found, exit_code=20) if problems and found.exit_code == 0 else found


def open_ledger(found: Config) -> Ledger:
    """A ledger that must be there. Raises CannotTry."""
    must_exist(found)
    return Ledger.open(found.ledger, create=False)


def result(outcome: PatchOutcome) -> Result:
    """A decision as the one result."""
    return Result("\n".join(lines(outcome)), outcome, outcome.exit_code)


def refused(refusal: Refused) -> Result:
    """The result where there was nothing to decide: the policy or the change cannot be read."""
    if isinstance(refusal, PolicyRefused):
        raise Misuse(f"{refusal.detail}. Nothing was done.")
    return result(of_refusal(refusal, at()))


def lines(outcome: PatchOutcome) -> Iterator[str]:
    """A decision for people."""
    state = paint(outcome.state, _COLOURS.get(outcome.state, "red"), sys.stdout)
    found = "" if outcome.signal in ("complete", outcome.state) else f" ({outcome.signal})"
    yield f"{state}{found}: {safe(outcome.detail)}".rstrip(": ")
    yield from map(_line, outcome.reviews)
    for name, value in (
        ("decision", outcome.decision_id),
        ("diff_sha", outcome.diff_sha),
        ("merged", outcome.merged),
        ("evidence", ", ".join(outcome.evidence)),
    ):
        if value:
            yield f"  {name:<9} {safe(value)}"


def _line(one: Reviewed) -> str:
    line = f"  {safe(one.reviewer)} ({one.purpose}) {one.state}"
    if one.signal not in (None, "complete"):
        line += f" ({one.signal})"
    if one.blocking is not None:
        line += f", {one.blocking} blocking, {one.advisory} advisory"
    if one.received_bytes is not None:
        of = "" if one.expected_bytes is None else f" of {one.expected_bytes:,}"
        line += f", received {one.received_bytes:,}{of} bytes"
    if one.purpose == ADVICE and one.state == "fail":
        line += "; it is advice and blocks nothing"
    return f"{line}: {safe(one.detail)}" if one.detail else line
