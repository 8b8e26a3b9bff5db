"""`endmark check`: is it whole?"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from endmark.core.outcome import Outcome
from endmark.core.plan import Plan
from endmark.core.proof import Form, Proven
from endmark.core.refusal import Signal
from endmark.core.verdict import Verdict
from endmark.faces.api import check
from endmark.faces.cli.common import FILE, JSON, Verb, at, read
from endmark.faces.words import many

if TYPE_CHECKING:
    from pathlib import Path


@click.command("check", cls=Verb)
@FILE
@click.option(
    "--trusted-keys",
    metavar="KEYS",
    help="Accept only what a key in this file of public keys has signed; else the configuration's trusted_keys.",
)
@click.option("--config", metavar="FILE", help="The configuration; else ENDMARK_CONFIG, else ./endmark.toml.")
@JSON
def command(file: str, trusted_keys: str | None, config: str | None) -> Outcome:
    """Is it whole? Reads a plan, a verdict or any MC1 body; writes nothing.

    Exit code 0 says that the bytes are proven to have arrived whole, with the evidence that proves it. It does not say
    that the SQL or the verdict in them is right.

    \b
    Examples:
      endmark check plan.mc1
      agent-job | endmark check - --json
      endmark check plan.signed --trusted-keys sealer.key.pub
    """
    keys: str | tuple[Path, ...] | None = trusted_keys or configured(config)
    proven = check(read(file), trusted_keys=keys)
    plan = proven.value if isinstance(proven.value, Plan) else None
    return Outcome(
        job_id=None if plan is None else plan.job_id,
        state="whole",
        signal=Signal.COMPLETE.value,
        received_bytes=proven.received_bytes,
        expected_bytes=proven.expected_bytes,
        sha256=None if plan is None else plan.sha256,
        stmt_count=None if plan is None else plan.stmt_count,
        evidence=list(proven.evidence),
        detail=f"{_what(proven)}. Evidence: {', '.join(proven.evidence)}.",
        exit_code=0,
        at=at(),
    )


def configured(config: str | None) -> tuple[Path, ...] | None:
    """The keys that a configuration names, which is imported only where one may be. Raises Misuse."""
    if not (config or os.environ.get("ENDMARK_CONFIG") or os.path.lexists("endmark.toml")):
        return None
    from endmark.faces.config import trusted_keys

    return trusted_keys(config, os.environ)


def _what(proven: Proven) -> str:
    value = proven.value
    if isinstance(value, Plan):
        form = "a plan in witness form" if proven.form is Form.WITNESS else "a plan"
        return f"{form} of {many(value.stmt_count, 'statement')}"
    if isinstance(value, Verdict):
        return f"a verdict, {value.verdict}"
    return "a body that endmark does not read further"
