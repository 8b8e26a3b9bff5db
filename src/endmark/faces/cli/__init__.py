"""The command line: `endmark VERB`. Each verb is a module of this folder and is imported only when it runs."""

import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import NoReturn

import click

from endmark import __version__

# What `endmark --help` shows, so that it need not import what it shows. The first five are what matters.
VERBS = {
    "Commands": {
        "check": "Is it whole? Reads a plan, a verdict, any MC1 body; writes nothing.",
        "seal": "A body, a witness form or a captured answer, as an MC1 envelope.",
        "apply": "Prove a plan whole and apply it to a database: all, or nothing.",
        "show": "Everything on record about one job, attempt or decision.",
        "approve": "Let a staged job through, after a look at it.",
    },
    "Jobs": {
        "jobs": "The attempts on record, newest first.",
        "rehearse": "Run a plan where nothing stays: what would it do?",
        "merge-alters": "ALTERs of one table as one statement, for MariaDB and MySQL.",
        "decline": "End a staged job without effect.",
        "revert": "Undo an applied job by its down statements.",
        "restore": "Put the backup of a job back, of a SQLite target.",
        "reconcile": "Settle what a crash left, by the receipts in the targets.",
        "settle": "Take charge of a job that stands partly in its target.",
        "ledger": "The book of every attempt: make one, audit it.",
    },
    "Patches": {
        "review": "Ask the reviewers of a branch about a change, and decide.",
        "decide": "Decide by a verdict that was made elsewhere.",
        "merge": "Merge what a recorded pass binds to.",
        "patches": "The decisions on record, newest first.",
        "replay": "Ask about what was judged again: do verdicts repeat?",
        "ci": "Review what a CI run was started for, and tell the forge.",
        "hook": "Guard a repository where its refs move.",
        "diff-sha": "What a verdict on a change must be bound to, in 64 hex digits.",
        "policy": "What decides a merge: is the policy sound?",
        "reaudit": "Which records of an old gate's log prove nothing.",
    },
    "Service": {
        "serve": "The gates over HTTP: agents submit, people approve.",
        "worker": "Apply what is approved, on any number of machines.",
        "queue": "What workers take jobs from: make it, try a parked job again.",
        "token": "Who may ask the service for what.",
    },
    "Drills": {
        "drill": "Break a payload at every byte: what does a gate take for whole?",
        "proxy": "Guard a provider's answers, or break them on purpose.",
    },
    "Agents and operation": {
        "mcp": "The door for agents that speak the Model Context Protocol.",
        "doctor": "Look at everything endmark stands on, and say what to do.",
    },
    "Reference": {
        "decisions": "What each fault is treated as, its state and exit code.",
        "rules": "Durable lines for an agent's instructions.",
        "tool": "The tool definition by which a model hands over a plan.",
        "key": "Keys for signing envelopes: make one.",
        "target": "A PostgreSQL target: make it ready, look at what stands there.",
        "fingerprint": "A database's schema in 64 hex digits, for a plan's `base`.",
        "completion": "The script that completes endmark's words in a shell.",
    },
}
_NAMES = tuple(name for group in VERBS.values() for name in group)

_EPILOG = """\b
Exit codes: 0 whole or applied, 1 no on the merits, 2 usage, 10 truncated,
11 quarantined, 12 rejected, 13 incomplete, 14 stale, 15 partial,
16 waiting for review, 20 could not try, 70 our own fault,
130 and 143 interrupted. 'endmark decisions' has the table.

\b
Example:
  endmark apply plan.mc1 --to sqlite:///app.db
"""


def _show_help(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(ctx.get_help())
        ctx.exit()


# click's own looks for a translation of its text each time a command runs, which takes longer than to prove a plan.
HELP = click.Option(
    ["-h", "--help"],
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_help,
    help="Show this message and exit.",
)


class Verbs(click.Group):
    """The verbs of the table above. The module of one is `endmark.faces.cli.VERB`, `command` in there is click's."""

    def get_help_option(self, ctx: click.Context) -> click.Option:
        return HELP

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _NAMES:
            return None
        command = _import(cmd_name).command
        assert isinstance(command, click.Command)  # noqa: S101  # a verb's module without one is our own mistake
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _NAMES and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], _NAMES, 1)
            ctx.fail(f"there is no command {args[0]!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, verbs in VERBS.items():
            with formatter.section(title):
                formatter.write_dl(list(verbs.items()))


def _import(verb: str) -> ModuleType:
    """A verb's module. Imports make many objects and no garbage: looking for some meanwhile costs milliseconds, and so
    does looking through them again whenever the verb makes many of its own."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(f"endmark.faces.cli.{verb.replace('-', '_')}")
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def _version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"endmark {__version__}")
        ctx.exit()


@click.command(cls=Verbs, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def commands() -> None:
    """Nothing an AI agent emits changes a database until its bytes are proven to have arrived whole."""


def run(arguments: list[str]) -> int:
    """Run one command line in this process and return its exit code."""
    from endmark.faces.interrupt import Terminated

    try:
        code = commands.main(args=arguments, prog_name="endmark", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.UsageError as fault:
        if "--json" in arguments:
            from endmark.faces.cli.common import usage

            return usage(fault.format_message(), fault.exit_code)
        _explain(fault)
        return fault.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except Terminated:
        return 143
    except OSError as fault:  # of help or the version, which click writes itself
        from endmark.faces.output import give_up

        return give_up(fault)


def _explain(fault: click.UsageError) -> None:
    from endmark.faces.terminal import safe, say

    if isinstance(fault, click.exceptions.NoArgsIsHelpError):
        fault.show()
        return
    if fault.ctx is not None:
        say(fault.ctx.get_usage())
        say(f"Try '{fault.ctx.command_path} --help' for help.")
    say(f"Error: {safe(fault.format_message())}")


def main() -> NoReturn:
    """The `endmark` program."""
    from endmark.faces.interrupt import raise_terminated

    raise_terminated()
    code = run(sys.argv[1:])
    gc.freeze()  # the process ends: nothing is collected one by one first
    sys.exit(code)
