"""What the verbs share: how one runs, and how its one result gets out."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import click
import msgspec

from endmark.core import mc1
from endmark.core.decision import Next
from endmark.core.outcome import Outcome, could_not_try, of_refusal
from endmark.core.refusal import CannotTry, NotThere, NotYours, Refused
from endmark.faces.api import now
from endmark.faces.cli import HELP
from endmark.faces.interrupt import EXIT, Interrupts, Terminated
from endmark.faces.misuse import Misuse
from endmark.faces.output import OUR_FAULT, give_up, write
from endmark.faces.terminal import is_terminal, paint, safe, say
from endmark.faces.words import colour, facts, sentence
from endmark.sources import files


def together(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator."""

    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of words.")
FILE = click.argument("file", metavar="FILE|-")


class Result(msgspec.Struct, frozen=True):
    """What a verb found: for people, for programs, and as an exit code. `raw` bytes go out as they are."""

    text: str
    document: Any = None
    exit_code: int = 0
    raw: bytes | None = None


class Group(click.Group):
    """Verbs under one name."""

    def get_help_option(self, ctx: click.Context) -> click.Option:
        return HELP


class Verb(click.Command):
    """A verb: its callback returns a Result or an Outcome, and whatever it raises becomes an Outcome too.

    Answers go to standard output; that there is none is said on standard error, unless `--json` wants the object.
    """

    def get_help_option(self, ctx: click.Context) -> click.Option:
        return HELP

    def invoke(self, ctx: click.Context) -> int:
        as_json = bool(ctx.params.pop("as_json", False))
        try:
            _check_text(ctx)
            found = super().invoke(ctx)
        except Refused as refused:
            found = refused.outcome if isinstance(refused.outcome, Outcome) else of_refusal(refused, at())
        except click.ClickException:
            raise
        except (Exception, KeyboardInterrupt, Terminated) as fault:  # noqa: BLE001  # told, with exit code 70
            if os.environ.get("ENDMARK_DEBUG") == "1":
                _trace()
            found = _of_fault(fault, ctx)
            if not as_json:
                say(f"endmark: {safe(found.detail)}")
                return found.exit_code
        return _deliver(of_outcome(found) if isinstance(found, Outcome) else found, as_json)


def of_outcome(outcome: Outcome) -> Result:
    """An outcome as the one result."""
    text = paint(sentence(outcome), colour(outcome.state), sys.stdout)
    return Result("\n".join(filter(None, (text, facts(outcome)))), outcome, outcome.exit_code)


def not_tried(signal: str, detail: str, exit_code: int, onward: Next = Next.NONE) -> Outcome:
    """The outcome of a call that did not get to an answer."""
    return Outcome(state="not-tried", signal=signal, detail=detail, next=onward, exit_code=exit_code, at=at())


def usage(detail: str, exit_code: int) -> int:
    """Answer a command line that asked for `--json` and could not be read. Returns the exit code."""
    return _deliver(of_outcome(not_tried("usage", _sentence(detail), exit_code)), as_json=True)


def at() -> str:
    """The time in the spelling of records."""
    return now().isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def read(file: str) -> bytes:
    """All of FILE or of standard input, up to just over what any reader here accepts. Raises Unreadable."""
    if file == files.STDIN and is_terminal(sys.stdin):
        say("Reading from the terminal until its end (Ctrl-D).")
    return files.read(file, mc1.DEFAULT_CAP + mc1.HEADER_MAX + 1)


def _deliver(result: Result, as_json: bool) -> int:
    try:
        write(_bytes(result, as_json))
        return result.exit_code
    except BrokenPipeError as fault:  # whoever reads has seen enough, unless what is missing is half an envelope
        code = give_up(fault)
        return result.exit_code or (0 if result.raw is None else code)
    except OSError as fault:
        code = give_up(fault, f"It was: {sentence(result.document)}" if isinstance(result.document, Outcome) else "")
        return result.exit_code or code


def _bytes(result: Result, as_json: bool) -> bytes:
    if as_json:
        # In ASCII no byte can drive a terminal, whatever the strings hold.
        text = json.dumps(msgspec.to_builtins(result.document), ensure_ascii=True, allow_nan=False)
        return text.replace("\x7f", "\\u007f").encode("ascii") + b"\n"
    if result.raw is not None:
        return result.raw
    return f"{result.text}\n".encode(getattr(sys.stdout, "encoding", None) or "utf-8", "backslashreplace")


def _check_text(ctx: click.Context) -> None:
    """Records hold text; only the name of a file to read may be any bytes. Raises Misuse."""
    for name, value in ctx.params.items():
        if name != "file" and isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Misuse(f"{name}: {value} is not UTF-8") from None


def _of_fault(fault: BaseException, ctx: click.Context) -> Outcome:
    stop = ctx.meta.get("stop")
    noted = stop.first if isinstance(stop, Interrupts) else None
    if isinstance(fault, KeyboardInterrupt | Terminated) or (noted and isinstance(fault, CannotTry)):
        name = noted or ("SIGTERM" if isinstance(fault, Terminated) else "SIGINT")
        said = _sentence(fault.detail) if isinstance(fault, CannotTry) else "Nothing was written."
        return not_tried("interrupted", f"{name} ended it. {said}", EXIT[name])
    if isinstance(fault, CannotTry):
        onward = Next.ASK if isinstance(fault, NotThere | NotYours) else Next.WAIT
        return could_not_try(_sentence(fault.detail), at(), ctx.meta.get("job_id"), ctx.meta.get("target"), onward)
    if isinstance(fault, Misuse | files.Unreadable):
        return not_tried("usage", _sentence(str(fault)), 2)
    detail = (
        f"{type(fault).__name__}: {fault}. This is a mistake in endmark. If a job was being applied, "
        "'endmark reconcile' settles it; ENDMARK_DEBUG=1 shows where it happened."
    )
    return msgspec.structs.replace(not_tried("our-fault", detail, OUR_FAULT, Next.ASK), state="unknown")


def _sentence(clause: str) -> str:
    return clause if clause.endswith(".") else f"{clause}."


def _trace() -> None:
    import traceback

    for line in traceback.format_exc().splitlines():
        say(safe(line))
