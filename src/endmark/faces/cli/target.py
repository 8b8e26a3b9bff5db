"""`endmark target`: a PostgreSQL database is made ready once, and can be looked at any time."""

from typing import TYPE_CHECKING

import click

from endmark.core.refusal import CannotTry
from endmark.faces.cli.at_gate import LEDGER, settings
from endmark.faces.cli.common import JSON, Group, Result, Verb, at
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import safe

if TYPE_CHECKING:
    from endmark.effects.postgres import PostgresTarget


@click.group("target", cls=Group)
def command() -> None:
    """A PostgreSQL target: make it ready, look at what stands there."""


@command.command("setup", cls=Verb)
@click.argument("target", metavar="NAME|URL")
@click.option("--role", metavar="NAME", help="The role that the gate connects as; else the URL's.")
@click.option("--schema", metavar="NAME", default="public", show_default=True, help="The schema of schema_jobs.")
@click.option("--owner", metavar="NAME", help="The role that is to own the receipts; else endmark_owner.")
@click.option("--print", "only_print", is_flag=True, help="Print the SQL for an administrator; nothing is written.")
@LEDGER
@JSON
@click.pass_context
def setup(
    ctx: click.Context,
    target: str,
    role: str | None,
    schema: str,
    owner: str | None,
    only_print: bool,
    ledger: str | None,
    config: str | None,
) -> Result:
    """Make a PostgreSQL database ready: a role that owns the receipts, three tables, nine functions, one trigger.

    Connect as an administrator of the database, and name with --role whom the gate connects as: a role that neither is
    the administrator nor may become the owner. It all happens in one transaction, and a second time changes nothing.

    \b
    Examples:
      endmark target setup postgresql://admin@db/app --role app_gate
      endmark target setup postgresql://app_gate@db/app --print | psql
    """
    where = _postgres(target, ledger, config)
    ctx.meta["target"] = where.identity
    from endmark.effects.postgres import setup as made

    gate, owning = role or where.user, owner or made.OWNER
    try:
        statements = made.statements(gate, schema, owning)
    except ValueError as fault:
        raise Misuse(str(fault)) from None
    if only_print:
        text = made.script(gate, schema, owning)
        return Result(text.rstrip("\n"), _document(where, sql=statements))
    where.set_up(statements)
    done = f"{where.identity} is ready: the gate connects as {gate}, and {owning} owns the receipts."
    return Result(safe(done), _document(where, role=gate, schema=schema, owner=owning))


@command.command("check", cls=Verb)
@click.argument("target", metavar="NAME|URL")
@LEDGER
@JSON
@click.pass_context
def check(ctx: click.Context, target: str, ledger: str | None, config: str | None) -> Result:
    """Whether receipts can be believed in a PostgreSQL database, seen by the role that the gate connects as.

    Looks at the trigger, at the functions' source, at owners and grants, and at what the role could become. Exit code
    1 says that the gate refuses this target as it is.

    \b
    Example:
      endmark target check prod
    """
    where = _postgres(target, ledger, config)
    ctx.meta["target"] = where.identity
    with where.open() as session:
        found = session.standing()
    refused = bool(found.faults) or (bool(found.powers) and not where.allow_owner)
    lines = [f"{where.identity}, as {found.role}:"]
    lines += [f"refused: {fault}" for fault in found.faults]
    lines += [f"{'allowed by allow_owner' if where.allow_owner else 'refused'}: {power}" for power in found.powers]
    lines += [f"note: {note}" for note in found.notes]
    if not refused and not found.powers:
        lines.append(f"ready: {found.owner} owns the receipts, and {found.role} can write none but through the gate")
    document = _document(
        where,
        role=found.role,
        schema=found.schema,
        owner=found.owner,
        faults=found.faults,
        powers=found.powers,
        notes=found.notes,
        exit_code=int(refused),
    )
    return Result("\n".join(map(safe, lines)), document, int(refused))


def _postgres(target: str, ledger: str | None, config: str | None) -> "PostgresTarget":
    """The PostgreSQL target of this name or URL. Raises Misuse and CannotTry."""
    found = settings(ledger, config).place(target).target
    if not found.identity.startswith("postgresql:"):
        raise CannotTry(f"{found.identity} needs no setup: only PostgreSQL targets do. Nothing was done.")
    from endmark.effects.postgres import PostgresTarget

    assert isinstance(found, PostgresTarget)  # noqa: S101  # its identity says so
    return found


def _document(where: "PostgresTarget", **more: object) -> dict[str, object]:
    return {"version": 1, "target": where.identity, "exit_code": 0, "at": at(), **more}
