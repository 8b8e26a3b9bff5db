"""`python -m bench --only peers`: at how many cuts of one answer the clients in use hand over what is left of it.

Two servers, both real, both over HTTP on this machine. One stops in the middle of the body and ends it politely. The
other cuts the model's text, closes its JSON, and ends the body with a normal reason. The same bytes are given to
`endmark.seal`. docs/peers.md says what is counted.
"""

import json
import platform
import warnings
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from tests.support.server import CHUNKED, Script, Server, serving

from bench.peer_clients import CLIENTS, PARSERS, Ask, Client
from bench.streams import TOOL, WIRES, WITNESS
from endmark.core.ending import Ending
from endmark.seal import AnswerRefused, seal
from endmark.sources.capture import Capture

OFFSETS = 200  # of each sweep, evenly spread; a client takes some milliseconds for each


class Count(NamedTuple):
    """Of `tried` cuts: those at which the client ended without an error, those with a call that reads, endmark's."""

    tried: int
    silent: int
    calls: int
    sealed: int


def spread(length: int, most: int) -> list[int]:
    """At most `most` offsets from 0 to before `length`, evenly spread, the last one among them."""
    if length <= most:
        return list(range(length))
    return sorted({round(at * (length - 1) / (most - 1)) for at in range(most)})


def closed(text: str) -> str:
    """Cut JSON as a server closes it that does not want the cut to be seen."""
    opened: list[str] = []
    in_string = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif in_string:
            escaped, in_string = character == "\\", character != '"'
        elif character == '"':
            in_string = True
        elif character in "[{":
            opened.append("]" if character == "[" else "}")
        elif character in "]}":
            opened.pop()
    text = text[:-1] + '"' if escaped else text + '"' if in_string else text.rstrip(", ")
    return text + "".join(reversed(opened))


def polite(wire: str, most: int) -> Iterator[bytes]:
    """Bodies that stop somewhere."""
    whole = WIRES[wire](WITNESS)
    for at in spread(len(whole), most):
        yield whole[:at]


def lying(wire: str, most: int) -> Iterator[bytes]:
    """Whole bodies of a text that was cut, wherever closing it makes JSON that is not the whole plan."""
    whole, found = json.loads(WITNESS), []
    for at in range(len(WITNESS)):
        text = closed(WITNESS[:at])
        if _read(text) not in (None, whole):
            found.append(text)
    for at in spread(len(found), most):
        yield WIRES[wire](found[at])


def _read(arguments: Any) -> Any:
    """The object that a call's arguments are, or None."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return None
    return arguments if isinstance(arguments, dict) and arguments else None


def _sealed(wire: str, body: bytes) -> bool:
    try:
        seal(Capture(raw=body, ending=Ending.LAST_CHUNK, wire=wire), tool=TOOL)
    except AnswerRefused:
        return False
    return True


def sweep(server: Server, client: Client, ask: Ask, bodies: Iterator[bytes]) -> Count:
    """What the client, and endmark, make of each body."""
    tried = silent = calls = sealed = 0
    kind = "application/x-ndjson" if client.wire == "ollama" else "text/event-stream"
    for body in bodies:
        tried += 1
        server.play(Script(body, CHUNKED, content_type=kind))
        try:
            arguments = ask()
        except Exception:  # noqa: BLE001  # any error is an answer: the client noticed
            pass
        else:
            silent += 1
            calls += _read(arguments) is not None
        sealed += _sealed(client.wire, body)
    return Count(tried, silent, calls, sealed)


def versions(packages: tuple[str, ...]) -> str | None:
    """`name version` of each; None where one is not installed."""
    try:
        return ", ".join(f"{name} {version(name)}" for name in packages)
    except PackageNotFoundError:
        return None


def measured(name: str, most: int) -> tuple[Count, Count]:
    """The polite sweep and the lying one of a client. Raises ValueError where it does not take the whole answer."""
    client = CLIENTS[name]
    with serving() as server:
        ask = client.open(server.url + ("/v1" if client.wire == "openai-chat" else ""))
        server.play(Script(WIRES[client.wire](WITNESS), CHUNKED))
        if _read(ask()) is None:
            raise ValueError(f"{name} does not hand over the call of a whole answer, so nothing can be measured.")
        return (
            sweep(server, client, ask, polite(client.wire, most)),
            sweep(server, client, ask, lying(client.wire, most)),
        )


def parsers() -> list[str]:
    """Rows for what reads a text that was cut, at every character."""
    rows = []
    for name, (package, make) in PARSERS.items():
        found = versions((package,) if package else ())
        if found is None:
            continue
        parse, handed = make(), 0
        for at in range(len(WITNESS)):
            try:
                value = parse(WITNESS[:at])
            except Exception:  # noqa: BLE001  # as above
                continue
            handed += isinstance(value, dict) and bool(value)
        rows.append(
            f"| {name} | {found or platform.python_version()} | {len(WITNESS):,} | {_share(handed, len(WITNESS))} |"
        )
    return rows


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def table(quick: bool) -> str:
    """Everything, as Markdown. Clients that are not installed are left out, and named below."""
    warnings.simplefilter("ignore")
    most = 40 if quick else OFFSETS
    rows, missing = [], []
    for name, client in CLIENTS.items():
        found = versions(client.packages)
        if found is None:
            missing.append(name)
            continue
        cut, lie = measured(name, most)
        sealed = cut.sealed + lie.sealed
        rows.append(
            f"| {name} | {found} | {cut.tried} | {_share(cut.silent, cut.tried)} | {_share(cut.calls, cut.tried)} "
            f"| {lie.tried} | {_share(lie.calls, lie.tried)} | {sealed} |"
        )
    lines = [
        f"Python {platform.python_version()}",
        "",
        "| client | versions | cuts | no error | ... and a call that reads | lies | a call that reads | endmark |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
        "| parser of a cut text | version | cuts | an object |",
        "|---|---|---:|---:|",
        *parsers(),
    ]
    if missing:
        lines += ["", f"Not installed: {', '.join(missing)}."]
    return "\n".join(lines)
