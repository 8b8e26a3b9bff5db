"""What the verbs of the patch gate share: their options, what they open, and how a decision is said."""

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from endmark.core.patch_outcome import PatchOutcome, Reviewed, of_refusal
from endmark.core.policy import PolicyRefused
from endmark.core.refusal import Refused
from endmark.effects.git import Gate, Git, open_repository
from endmark.effects.git.fetch import fetch_missing
from endmark.faces.api import now
from endmark.faces.cli.at_gate import LEDGER, make_state_folder, must_exist, settings, together
from endmark.faces.cli.common import Result, at
from endmark.faces.config import Config
from endmark.faces.interrupt import Interrupts
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import paint, safe
from endmark.ledger.book import Ledger
from endmark.patch_case import Place, read_place
from endmark.patch_gate import PatchGate
from endmark.reviewing import Reviewers, Reviewing

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


class Opened:
    """A repository, the place of a change in it, and the gate over the ledger."""

    def __init__(self, git: Gate, place: Place, ledger: Ledger, patches: PatchGate) -> None:
        self.git = git
        self.place = place
        self.ledger = ledger
        self.patches = patches


@contextmanager
def opened(
    ctx: click.Context,
    *,
    base: str,
    head: str,
    repo: str,
    ref: str | None,
    fetch: str | None,
    policy: str | None,
    ledger: str | None,
    config: str | None,
    create: bool,
) -> Iterator[Opened]:
    """Everything that a verb needs. Raises Misuse, CannotTry, PolicyRefused.

    From here on until the result is out, Ctrl-C and SIGTERM are noted, and obeyed between two steps.
    """
    found = settings(ledger, config)
    stop: Interrupts = ctx.with_resource(Interrupts())
    ctx.meta["stop"] = stop
    repository = open_repository(Git(os.environ, stop=stop), repo)
    if fetch is not None:
        repository = fetch_missing(repository, fetch)
    with Gate(repository) as git, open_ledger(found, create=create) as book:
        place = read_place(git, base=base, head=head, ref=ref, policy_file=Path(policy) if policy else None)
        gate = PatchGate(book, now, reviewing=reviewing(git, found), stop=stop)
        yield Opened(git, place, book, gate)


def open_ledger(found: Config, *, create: bool) -> Ledger:
    """The ledger, made if it is missing and `create` says so. Raises CannotTry."""
    if not create:
        must_exist(found)
    elif found.ledger_is_ours:
        make_state_folder(found)
    return Ledger.open(found.ledger, create=create)


def reviewing(git: Gate, found: Config) -> Reviewing:
    """How reviewers are asked, and whose signatures count."""
    return Reviewing(Reviewers(git, os.environ), lambda: secrets.token_hex(16), _verifier(found))


def _verifier(found: Config) -> Any:
    if not found.trusted_keys:
        return None
    from endmark.sources.keys import verifier

    return verifier(found.trusted_keys)


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
    return f"{line}: {safe(one.detail)}" if one.detail else line
