"""`endmark token`: who may ask the service for what."""

import os
from datetime import timedelta

import click
import msgspec

from endmark.faces.api import now
from endmark.faces.cli.at_gate import LEDGER, make_state_folder, must_exist, settings
from endmark.faces.cli.common import JSON, Group, Result, Verb, at
from endmark.faces.config import Config, duration
from endmark.faces.misuse import Misuse
from endmark.faces.review import who
from endmark.faces.terminal import safe, say
from endmark.faces.words import table
from endmark.ledger.book import Ledger
from endmark.ledger.entry import stamp
from endmark.ledger.tokens import SCOPES, Token, Tokens


@click.group("token", cls=Group)
def command() -> None:
    """Who may ask the service for what: make a token, list them, end one."""


@command.command("create", cls=Verb)
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), required=True, help="What it may do.")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Only for this target; may be said again.")
@click.option("--branch", "branches", multiple=True, metavar="NAME", help="Only for this branch; may be said again.")
@click.option("--expires", metavar="TIME", help="After 30m, 24h, 90d; never without it.")
@LEDGER
@JSON
@click.pass_context
def create(
    ctx: click.Context,
    name: str,
    scopes: tuple[str, ...],
    targets: tuple[str, ...],
    branches: tuple[str, ...],
    expires: str | None,
    ledger: str | None,
    config: str | None,
) -> Result:
    """Make a token, and print it once: the ledger keeps only its SHA-256.

    Records name whoever submitted or approved by the token's name, and nobody approves what came under the same name.
    From the first token on, the service lets nobody in without.

    \b
    Examples:
      endmark token create billing-agent --scope submit --target prod --expires 90d
      endmark token create ann --scope review --scope approve
    """
    found = settings(ledger, config)
    unknown = [target for target in targets if target not in found.targets]
    if unknown:
        raise Misuse(f"--target: {unknown[0]} is no target of {found.file}. Nothing was done.")
    try:
        end = None if expires is None else now() + timedelta(seconds=duration(expires))
    except ValueError:
        raise Misuse(f"--expires: {expires!r} is not a time like 30m, 24h or 7d. Nothing was done.") from None
    if found.ledger_is_ours:
        make_state_folder(found)
    with Ledger.open(found.ledger, create=True) as book:
        try:
            secret, token = Tokens(book).create(
                name,
                scopes,
                now(),
                created_by=who(os.environ),
                chance=os.urandom,
                targets=targets or None,
                branches=branches or None,
                expires_at=end,
            )
        except ValueError as fault:
            raise Misuse(f"{fault}. Nothing was done.") from None
    say("This is the only time it is shown.")
    return Result(secret, {"version": 1, "token": secret, **_public(token), "exit_code": 0, "at": at()})


@command.command("list", cls=Verb)
@LEDGER
@JSON
@click.pass_context
def listed(ctx: click.Context, ledger: str | None, config: str | None) -> Result:
    """Every token there ever was, without its secret.

    \b
    Example:
      endmark token list
    """
    found = settings(ledger, config)
    with _book(found) as book:
        tokens = Tokens(book).all()
    rows = [
        (
            safe(token.name),
            _standing(token),
            " ".join(token.scopes),
            safe(" ".join(token.targets or ("any",))),
            safe(" ".join(token.branches or ("any",))),
            (token.expires_at or "never")[:19].replace("T", " "),
        )
        for token in tokens
    ]
    head = ("NAME", "STATE", "SCOPES", "TARGETS", "BRANCHES", "EXPIRES (UTC)")
    document = {"version": 1, "tokens": [_public(token) for token in tokens], "exit_code": 0, "at": at()}
    return Result(table(head, rows) if rows else "No tokens.", document)


@command.command("revoke", cls=Verb)
@click.argument("name")
@LEDGER
@JSON
@click.pass_context
def revoke(ctx: click.Context, name: str, ledger: str | None, config: str | None) -> Result:
    """End a token for good; the service goes by it within two seconds.

    \b
    Example:
      endmark token revoke billing-agent
    """
    found = settings(ledger, config)
    with _book(found) as book:
        token = Tokens(book).revoke(name, now())
    said = f"The token {token.name} counts no more."
    return Result(safe(said), {"version": 1, **_public(token), "exit_code": 0, "at": at()})


def _book(found: Config) -> Ledger:
    must_exist(found)
    return Ledger.open(found.ledger, create=False)


def _public(token: Token) -> dict[str, object]:
    shown: dict[str, object] = msgspec.to_builtins(token)
    del shown["sha256"]
    return {**shown, "state": _standing(token)}


def _standing(token: Token) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= stamp(now()) else "counts"
