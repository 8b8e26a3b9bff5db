"""`endmark rules`: durable lines for an agent's instructions."""

import click

from endmark.core.plan import TRAILER
from endmark.faces.cli.common import JSON, Result, Verb

RULES = (
    "A closed stream is not success. Nothing happened until the answer says `applied` and exit code 0.",
    "A missing trailer, digest or sentinel means the payload was cut. It is never a hint to continue from there.",
    "Never add a closing brace, a default or a trailer to bytes that arrived without one.",
    "When the state is truncated, quarantined, rejected or incomplete, nothing was written. Send it all, as a new job.",
    "A job_id is used once. The same id with the same bytes returns the stored state and does nothing.",
    f'Write the keys in this order: job_id, stmt_count, statements, and last of all "trailer": "{TRAILER}".',
    "Count the statements before you write them. If a plan was cut, send several smaller ones.",
    "One statement per entry, without BEGIN, COMMIT, ROLLBACK, SAVEPOINT or ATTACH: the gate holds the transaction.",
    "Never write to schema_jobs or endmark_receipts: they hold the receipts.",
    "You cannot compute SHA-256. Do not write `sha256` or an MC1 header: the sealer makes them.",
    "Exit code 16 waits for a person. Do not approve your own plan, and do not send it again under another id.",
)


@click.command("rules", cls=Verb)
@JSON
def command() -> Result:
    """Durable lines for an agent's instructions, one rule a line.

    \b
    Example:
      endmark rules >> AGENTS.md
    """
    return Result("\n".join(f"- {rule}" for rule in RULES), {"version": 1, "rules": RULES, "exit_code": 0})
