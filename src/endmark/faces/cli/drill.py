"""`endmark drill`: break a payload in every way, and see what a gate takes for whole."""

from typing import Any

import click
import msgspec

from endmark.faces.cli import at_drill
from endmark.faces.cli.common import JSON, Group, Result, Verb
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import safe, say


@click.group("drill", cls=Group)
def command() -> None:
    """Break a whole payload at every byte, and see at which ones a gate takes it for whole.

    The whole payload is given first and must be accepted, and again after each batch of faults: a drill that cannot
    fail proves nothing. Exit code 0: no hole. 1: holes, or it is inconclusive.

    \b
    Example:
      endmark drill command --payload good.json -- ./gate --strict
    """


@command.command("command", cls=Verb)
@at_drill.PAYLOAD
@at_drill.WIRE
@at_drill.options(world=True)
@click.argument("argv", metavar="-- CMD [ARG]...", nargs=-1, required=True, type=click.UNPROCESSED)
def of_command(payload: str, wire: str | None, argv: tuple[str, ...], **given: Any) -> Result:
    """Drill any command. It gets the bytes on standard input, or in a file whose name takes the place of {}.

    Exit 0 is an acceptance, any other exit a refusal, a signal a crash. With --effect the world is looked at too: an
    error that was reported is no proof that nothing was written. --reset sets that world back before every fault.

    \b
    Examples:
      endmark drill command --payload good.json -- python gate.py
      endmark drill command --payload plan.mc1 --faults cuts,flips --effect 'sqlite3 app.db .dump' \\
        --reset 'cp clean.db app.db' -- ./apply {} app.db
      endmark drill command --payload good.json --only cut:1882 -- python gate.py
    """
    from endmark.drills.targets.command import CommandTarget

    target = CommandTarget(argv=argv, limit=given["timeout"], rules=at_drill.rules_of(given))
    return at_drill.run(target, at_drill.body_of(payload, given, wire), given, default="cuts", verb="command")


@command.command("python", cls=Verb)
@click.argument("call", metavar="MODULE:FUNCTION")
@at_drill.PAYLOAD
@at_drill.WIRE
@click.option("--text", is_flag=True, help="The function takes a string, not bytes.")
@at_drill.options(world=True)
def of_python(call: str, payload: str, wire: str | None, text: bool, **given: Any) -> Result:
    """Drill a Python callable, in a process of its own. It gets the bytes; to return is to accept.

    ValueError, and any exception that is not Python's own, is a refusal; a KeyError or another of Python's own is a
    crash, unless --refused-if raises:KeyError says otherwise.

    \b
    Examples:
      endmark drill python mygate:parse --payload good.json
      endmark drill python json:loads --payload good.json --faults cuts,flips,keys
    """
    from endmark.drills.targets.calling import PythonTarget, find

    target = PythonTarget(call=call, text=text, rules=at_drill.rules_of(given))
    body = at_drill.body_of(payload, given, wire)
    with at_drill.set_aside():
        find(call)
        return at_drill.run(target, body, given, default="cuts", verb="python")


def _own(gate: Any, payload: str, given: dict[str, Any], wire: str | None = None, tool: str | None = None) -> Result:
    from endmark.drills import structure
    from endmark.drills.targets.inprocess import GateTarget

    body = at_drill.body_of(payload, given, wire)
    default = "cuts,events,terminal" if gate == "stream" else "cuts,flips,tokens,keys,sentinel,gaps,mutations"
    if gate != "stream" and not structure.is_envelope(body.data):
        default = "cuts,closes"
        say(
            "endmark: no envelope: only cuts are tried; --faults flips shows what the digest of a bare plan leaves out."
        )
    target = GateTarget(gate=gate, wire=wire, tool=tool)
    return at_drill.run(target, body, given, default=default, verb=gate, own_gate=True, batch=4096)


@command.command("plan", cls=Verb)
@at_drill.PAYLOAD
@click.option("--to", metavar="URL", help="Apply to a copy of this database, and look at the copy: sqlite:///FILE.")
@at_drill.options(world=False)
def of_plan(payload: str, to: str | None, **given: Any) -> Result:
    """Drill endmark's own proof of a plan, in this process; with --to the whole gate.

    With --to each fault is delivered to a fresh copy of a SQLite database, with a fresh ledger: what applies is a hole,
    and so is a refusal after which the copy differs. The database itself is only read.

    In an MC1 envelope nothing may be accepted. A bare plan has ids that its digest does not cover, and a witness form
    proves its end only: what is accepted there is told.

    \b
    Example:
      endmark drill plan --payload plan.mc1 --faults cuts,flips,mutations:100000
      endmark drill plan --payload plan.mc1 --to sqlite:///app.db
    """
    if to is None:
        return _own("plan", payload, given)
    from endmark.drills.targets.applied import ApplyTarget
    from endmark.effects.sqlite import SqliteTarget
    from endmark.faces.targets import target_at

    target = target_at(to)
    if not isinstance(target, SqliteTarget):
        raise Misuse("--to: of a SQLite database a copy can be made; sqlite:///FILE was expected.")
    body = at_drill.body_of(payload, given)
    drilled = ApplyTarget(path=str(target.path), timeout=given["timeout"])
    return at_drill.run(drilled, body, given, default="cuts", verb="plan", own_gate=True, batch=512)


@command.command("verdict", cls=Verb)
@at_drill.PAYLOAD
@at_drill.options(world=False)
def of_verdict(payload: str, **given: Any) -> Result:
    """Drill endmark's own proof of a verdict, in this process.

    \b
    Example:
      endmark drill verdict --payload verdict.mc1
    """
    return _own("verdict", payload, given)


@command.command("stream", cls=Verb)
@at_drill.PAYLOAD
@click.option("--wire", metavar="NAME", required=True, help="The format, e.g. anthropic or openai-chat+vllm.")
@click.option("--tool", metavar="NAME", help="The tool whose call is wanted; without it the answer's text.")
@at_drill.options(world=False)
def of_stream(payload: str, wire: str, tool: str | None, **given: Any) -> Result:
    """Drill endmark's own reading of a captured stream, every cut of it ended politely by its transport.

    \b
    Example:
      endmark drill stream --payload answer.sse --wire anthropic --tool apply_schema
    """
    return _own("stream", payload, given, wire, tool)


@command.command("http", cls=Verb)
@click.argument("url", metavar="URL")
@at_drill.PAYLOAD
@at_drill.WIRE
@click.option("--method", metavar="METHOD", default="POST", show_default=True, help="Of each request.")
@click.option("--header", "headers", metavar="NAME:VALUE", multiple=True, help="Sent with each request.")
@at_drill.options(world=True)
def of_http(url: str, payload: str, wire: str | None, method: str, headers: tuple[str, ...], **given: Any) -> Result:
    """Drill any HTTP endpoint: the payload is the body of a request.

    A status below 300 is an acceptance, one below 500 a refusal, 500 and more a crash, and so is a connection that is
    closed without an answer. The families 'shorts' and 'fins' end the request itself badly; to hang up is then right.
    After 'rsts' nobody hears an answer: only --effect tells what the endpoint did.

    \b
    Examples:
      endmark drill http http://127.0.0.1:8000/jobs --payload plan.mc1 --faults cuts,flips,shorts
      endmark drill http http://127.0.0.1:8000/jobs --payload good.json --refused-if status:422 \\
        --reset './fresh-database' --effect 'psql -Atc "select count(*) from jobs"'
    """
    from endmark.drills.targets.http import HttpTarget

    pairs = tuple((name.strip(), value.strip()) for name, _, value in (text.partition(":") for text in headers))
    target = HttpTarget(
        url=url,
        method=method.upper(),
        headers=pairs,
        limit=given["timeout"],
        rules=at_drill.rules_of(given),
        watched=bool(given["effect"] or given["counter"]),
    )
    if any(not name or any(mark in name + value for mark in "\r\n") for name, value in pairs):
        raise Misuse("--header: a name and a value were expected, as in 'Authorization: Bearer token'.")
    return at_drill.run(
        target, at_drill.body_of(payload, given, wire), given, default="cuts,shorts,fins", verb="http", batch=512
    )


@command.command("client", cls=Verb)
@at_drill.PAYLOAD
@at_drill.WIRE
@click.option("--content-type", metavar="TYPE", help="Of the answer (default: by the wire, else JSON).")
@at_drill.options(world=True)
@click.argument("argv", metavar="-- CMD [ARG]...", nargs=-1, required=True, type=click.UNPROCESSED)
def of_client(payload: str, wire: str | None, content_type: str | None, argv: tuple[str, ...], **given: Any) -> Result:
    """Drill a client: it asks at {url}, gets a broken answer, and exit 0 says that it took that for whole.

    \b
    Example:
      endmark drill client --payload answer.sse --wire openai-chat --faults cuts,terminal,fins \\
        -- python examples/with_openai.py {url}/v1
    """
    from endmark.drills.targets.client import URL, ClientTarget, type_of

    if not any(URL in word for word in argv):
        raise Misuse(f"the client's command needs {URL}, the address where it is to ask.")
    body = at_drill.body_of(payload, given, wire)
    target = ClientTarget(
        argv=argv,
        content_type=type_of(body, content_type),
        limit=given["timeout"],
        rules=at_drill.rules_of(given),
    )
    body = msgspec.structs.replace(body, content_type=target.content_type)
    return at_drill.run(target, body, given, default="cuts,terminal,shorts,fins,rsts", verb="client")


@command.command("peers", cls=Verb)
@click.option("--payload", metavar="FILE|-", help="A whole payload for the parsers (default: a small verdict).")
@JSON
def of_peers(payload: str | None) -> Result:
    """How popular parsers and SDKs do, where they are installed.

    A parser: at how many cuts does it hand over an object as if that were whole? An SDK: at how many cuts of a stream
    that is then ended politely does it raise nothing, and hand over a call whose arguments read as an object?

    \b
    Example:
      endmark drill peers
    """
    from endmark.drills import peers

    parsers = list(peers.rows(at_drill.body_of(payload, {"other": None}) if payload is not None else None))
    try:
        from endmark.drills import peer_clients

        clients = list(peer_clients.rows())
    except ImportError:  # without the proxy there is nothing to ask
        say("endmark: SDKs are drilled behind the proxy, which needs httptools: pip install 'endmark[proxy]'")
        clients = []
    names = [f"{row.name} {row.version}" for row in parsers] + [f"{row.name} {row.version}" for row in clients]
    wide = max(map(len, names))
    lines = [f"{'parser':<{wide}}   cuts   an object handed over   ... that reads pass"]
    lines += [_line(row, row.handed, row.passed, wide) for row in parsers]
    if clients:
        lines += ["", f"{'SDK':<{wide}}   cuts                no error   ... and a call that reads"]
        lines += [_line(row, row.silent, row.calls, wide) for row in clients]
    document = {
        "version": 1,
        "rows": [row._asdict() for row in parsers],
        "clients": [row._asdict() for row in clients],
        "exit_code": 0,
    }
    return Result("\n".join(map(str.rstrip, lines)), document)


def _line(row: Any, first: int, second: int, wide: int) -> str:
    control = f"   the whole: {safe(row.control)}" if row.control else ""
    name = f"{row.name} {row.version}"
    return f"{name:<{wide}}  {row.tried:>5}  {_share(first, row.tried):>22}  {_share(second, row.tried):>20}{control}"


def _share(count: int, of: int) -> str:
    return f"{count:,} ({count / of:.0%})" if count else "0"
