"""`endmark proxy`: guard a provider's answers, or break them on purpose, without a change in any client."""

import asyncio
import signal
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from endmark.core.refusal import CannotTry
from endmark.faces.api import now
from endmark.faces.cli.common import Result, Verb
from endmark.faces.interrupt import EXIT
from endmark.faces.misuse import Misuse
from endmark.faces.output import write
from endmark.faces.terminal import safe, say
from endmark.sources import files

if TYPE_CHECKING:
    from endmark.drills.proxy.options import Faulting, Guarding, Options, Served
    from endmark.drills.proxy.outbound import Upstream

_LONGEST_FILE = 64 * 1024 * 1024
_ENDS = ("polite", "fin", "short", "rst")
_SWEEPS = ("cut", "edge", "flip", "dup", "lie")
# The flags of single faults, and how each is spelled as a fault.
_FAULTS = {"cut": "cut:{}", "flip": "flip:{}", "stall": "stall:{}", "edge": "edge:{}", "dup": "dup:{}", "lie": "lie:{}"}
_TYPES = {".sse": "text/event-stream", ".ndjson": "application/x-ndjson", ".jsonl": "application/x-ndjson"}
_TYPES |= {".json": "application/json", ".txt": "text/plain"}


@click.command("proxy", cls=Verb)
@click.option("--upstream", metavar="URL", help="Where requests go, e.g. https://api.openai.com.")
@click.option("--guard", is_flag=True, help="Judge every model's answer; one that is not proven whole never ends.")
@click.option("--record", metavar="DIR", help="With --guard: keep each judged answer here, for the owner alone.")
@click.option("--pass-unknown", is_flag=True, help="With --guard: pass streams whose format is not known, unjudged.")
@click.option("--allow-close-delimited", is_flag=True, help="With --guard: take answers without length or chunks.")
@click.option(
    "--wire", metavar="NAME", help="The format of answers, where the path does not say, e.g. openai-chat+vllm."
)
@click.option("--body", metavar="FILE", help="Answer every request with this file; there is no upstream then.")
@click.option("--content-type", metavar="TYPE", help="Of --body; else its name or --wire tells.")
@click.option("--fault", metavar="FAULT", help="A fault in its text form, e.g. cut:1882/rst.")
@click.option("--cut", metavar="N", help="Only the first N bytes of the body.")
@click.option("--flip", metavar="N.B", help="Bit B (0 to 7) of byte N is the other one; both count from 0.")
@click.option(
    "--stall", metavar="N[+S[-]]", help="Silence after N bytes, for good; or for S seconds, then on, or an end (-)."
)
@click.option("--edge", metavar="K", help="Only the first K events.")
@click.option("--drop-terminal", is_flag=True, help="All but the last event.")
@click.option("--dup", metavar="K", help="Event K comes twice; events count from 0.")
@click.option("--lie", metavar="N", help="Cut at N, close the JSON, and claim a normal stop, as some servers do.")
@click.option(
    "--ending", type=click.Choice(_ENDS), help="How a broken body ends: polite, or by FIN, short length or RST."
)
@click.option(
    "--sweep",
    type=click.Choice(_SWEEPS),
    is_flag=False,
    flag_value="cut",
    help="One request, one place: cut (default), ...",
)
@click.option("--start", type=click.IntRange(min=0), default=0, help="The first place of a sweep.")
@click.option("--step", type=click.IntRange(min=1), default=1, help="Of a sweep, only each such place.")
@click.option("--only", metavar="TEXT", default="", help="Break only answers to paths that hold this text.")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8484, show_default=True, help="0 takes a free one.")
@click.option("--cacert", metavar="FILE", help="Trust these certificates (PEM) besides the system's, for the upstream.")
@click.option("--connect-timeout", type=click.FloatRange(min=0.001), default=10.0, show_default=True, help="Seconds.")
@click.option("--idle", type=click.FloatRange(min=0.001), default=600.0, show_default=True, help="Seconds of silence.")
@click.option(
    "--grace", type=click.FloatRange(min=0), default=30.0, show_default=True, help="Seconds to drain at the end."
)
def command(host: str, port: int, grace: float, **given: Any) -> Result:
    """Stand between a client and a model's provider: guard the answers, or break them on purpose.

    With --guard every answer is judged by what its provider itself says at its end. A whole one passes byte for byte.
    From one that is not proven whole, the final chunk or the last bytes are withheld and the connection is reset, so
    that every client raises instead of believing. It cannot catch a server that lies: one that cuts, closes the JSON
    itself and reports a normal stop.

    With neither --guard nor a fault everything passes unjudged; that is said once, loudly, at the start.

    With a fault every answer is read to its end and then played with that fault, the same way each time.

    The first line on standard output is the address. One line is said for each fault and each judged answer.

    \b
    Examples:
      endmark proxy --upstream https://api.anthropic.com --guard
      endmark proxy --upstream http://127.0.0.1:11434 --guard --record answers
      endmark proxy --upstream https://api.openai.com --cut 1882 --ending fin
      endmark proxy --upstream https://api.openai.com --sweep=edge
      endmark proxy --body answer.sse --lie 1882 --wire openai-chat
    """
    try:
        options = _options(given)
    except ImportError:
        raise Misuse("the proxy needs httptools: pip install 'endmark[proxy]'") from None
    return Result("", exit_code=asyncio.run(_run(options, host, port, grace)), raw=b"")


def _options(given: dict[str, Any]) -> "Options":
    from endmark.drills.proxy.options import Options

    guarding, faulting = _guarding(given), _faulting(given)
    if (given["upstream"] is None) == (given["body"] is None):
        raise Misuse("name either --upstream, where answers come from, or --body, a file to answer with.")
    if guarding is not None and (faulting is not None or given["body"] is not None):
        raise Misuse("--guard judges what an upstream sends; faults and --body are for another proxy.")
    return Options(
        upstream=_upstream(given["upstream"], given["cacert"]) if given["upstream"] is not None else None,
        served=_served(given) if given["body"] is not None else None,
        guarding=guarding,
        faulting=faulting,
        connect_timeout=given["connect_timeout"],
        idle=given["idle"],
        log=lambda line: say(f"endmark: {safe(line)}"),
        now=now,
    )


def _guarding(given: dict[str, Any]) -> "Guarding | None":
    from endmark.drills.proxy.options import Guarding

    if not given["guard"]:
        for name in ("record", "pass_unknown", "allow_close_delimited"):
            if given[name]:
                raise Misuse(f"--{name.replace('_', '-')} does something only with --guard; add --guard.")
        return None
    folder = None if given["record"] is None else Path(given["record"])
    if folder is not None and not folder.is_dir():
        raise Misuse(f"--record {folder}: there is no such folder; make it first (mkdir -m 700 {folder}).")
    return Guarding(
        wire=_wire(given["wire"]),
        record=folder,
        pass_unknown=given["pass_unknown"],
        allow_close_delimited=given["allow_close_delimited"],
    )


def _faulting(given: dict[str, Any]) -> "Faulting | None":
    from endmark.drills import faults
    from endmark.drills.proxy.options import Faulting

    texts = [form.format(given[name]) for name, form in _FAULTS.items() if given[name] is not None]
    texts += ["terminal-"] if given["drop_terminal"] else []
    texts += [given["fault"]] if given["fault"] is not None else []
    wanted = len(texts) + (given["sweep"] is not None)
    if wanted > 1:
        raise Misuse("one fault at a time: name one, or --sweep.")
    if not wanted:
        for name in ("ending", "only", "start"):
            if given[name]:
                raise Misuse(f"--{name} needs a fault, or --sweep.")
        return None
    end = faults.End(given["ending"] or "polite")
    more = {"wire": _wire(given["wire"]), "only": given["only"], "end": end}
    if not texts:
        return Faulting(sweep=given["sweep"], start=given["start"], step=given["step"], **more)
    try:
        broken = faults.parse_broken(texts[0])
    except faults.BadFault as fault:
        raise Misuse(f"{fault}.") from None
    return Faulting(broken=faults.Broken(broken.fault, end) if given["ending"] else broken, **more)


def _served(given: dict[str, Any]) -> "Served":
    from endmark.drills import edges
    from endmark.drills.proxy.options import Served

    name = given["body"]
    kind = given["content_type"] or _TYPES.get(Path(name).suffix)
    if kind is None and given["wire"] is not None:
        kind = edges.TYPES[edges.shape_of_wire(given["wire"])]
    return Served(
        body=files.read(name, _LONGEST_FILE), content_type=kind or "application/octet-stream", name=Path(name).name
    )


def _upstream(url: str, cacert: str | None) -> "Upstream":
    from endmark.drills.proxy.outbound import Upstream

    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as fault:
        raise Misuse(f"--upstream {url}: {fault}.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Misuse(f"--upstream {url}: a URL such as https://api.openai.com was expected.")
    if parts.username is not None or parts.password is not None:
        raise Misuse("--upstream holds a user name or a password; clients send their own keys.")
    tls = None
    if parts.scheme == "https":
        tls = ssl.create_default_context()
        tls.set_alpn_protocols(["http/1.1"])
        if cacert is not None:
            try:
                tls.load_verify_locations(cacert)
            except OSError as fault:
                raise Misuse(f"--cacert {cacert}: {fault.strerror or fault}.") from None
    elif cacert is not None:
        raise Misuse("--cacert is for an https upstream.")
    return Upstream(host=parts.hostname, port=port or (443 if tls else 80), prefix=parts.path.rstrip("/"), tls=tls)


def _wire(name: str | None) -> str | None:
    from endmark.wires import names

    if name is not None:
        try:
            names.reader(name)
        except ValueError as fault:
            raise Misuse(f"{fault}.") from None
    return name


async def _run(options: "Options", host: str, port: int, grace: float) -> int:
    """Until a signal comes, or a sweep has handed out its last fault. The exit code."""
    from endmark.drills.proxy.server import Proxy

    proxy = Proxy(options)
    came: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, came.put_nowait, number.name)
    try:
        address = await proxy.listen(host, port)
    except OSError as fault:
        raise CannotTry(f"{host}:{port} cannot be listened on: {fault.strerror or fault}") from None
    write(f"{address}\n".encode())
    if options.guarding is None and options.faulting is None and options.served is None:
        say("endmark: NOTHING IS GUARDED: every answer passes unjudged, cut ones too; add --guard, or a fault to play.")
    first = await _first(came.get, proxy.swept.wait)
    code = EXIT.get(first or "", 0)
    if first is not None:
        say(f"endmark: {first}: takes no more requests, and waits up to {grace:g} seconds for those under way.")
    closing = asyncio.ensure_future(proxy.close(grace))
    hurried = asyncio.ensure_future(came.get())
    await asyncio.wait({closing, hurried}, return_when=asyncio.FIRST_COMPLETED)
    if not closing.done():
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        closing = asyncio.ensure_future(proxy.close(0))
    hurried.cancel()
    left = await closing
    if left:
        options.log(f"{left} connections were reset: their answers had not ended")
    if proxy.sweep is not None:
        options.log(proxy.sweep.summary())
    return code


async def _first(signal_came: Callable[[], Any], swept: Callable[[], Any]) -> str | None:
    """The name of the signal that came, or None when the sweep is over."""
    waiting = {asyncio.ensure_future(signal_came()), asyncio.ensure_future(swept())}
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    found = [result for task in done if isinstance(result := task.result(), str)]
    return found[0] if found else None
