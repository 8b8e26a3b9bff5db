"""`endmark key`: the keys that sign envelopes."""

import click

from endmark.faces.cli.common import Group, Result, Verb


@click.group("key", cls=Group)
def command() -> None:
    """Keys for signing envelopes (Ed25519)."""


@command.command("new", cls=Verb)
@click.argument("file", metavar="FILE")
def new(file: str) -> Result:
    """Make a key: FILE, readable by you alone, and FILE.pub for those who check.

    Whoever can read FILE can sign in your name. Nothing is ever overwritten.

    \b
    Example:
      endmark key new sealer.key
      endmark seal answer.json --key sealer.key | endmark check - --trusted-keys sealer.key.pub
    """
    from endmark.sources import keys

    private, public, keyid = keys.new(file)
    return Result(
        f"{private} signs; keep it to yourself.\n{public} checks; its key id is {keyid}.",
        {"version": 1, "private": str(private), "public": str(public), "keyid": keyid, "exit_code": 0},
    )
