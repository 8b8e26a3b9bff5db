"""Popular parsers that make a value of a part, drilled where they are installed. What they are good at is not judged:
only at how many cuts of a verdict and of a plan they hand over an object as if it were whole.

They are named here as a user names his own callable; nothing in endmark reads with them.
"""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from endmark.core import mc1, proof, strictjson
from endmark.drills import structure
from endmark.drills.body import Body
from endmark.drills.families import Family
from endmark.drills.sweep.batch import Bench
from endmark.drills.targets.answer import Answer, Rules
from endmark.drills.targets.calling import CallPlayer

VERDICT = b'{"verdict": "pass", "diff_sha": "9f2c41d07be3", "policy_version": "gate-2026-07", "findings": []}'


class Peer(NamedTuple):
    """A parser. `package` as it is installed, "" for Python's own; `call` as `module:function`, `more` arguments."""

    name: str
    package: str
    call: str
    more: dict[str, Any]


PEERS = (
    Peer("json.loads", "", "json:loads", {}),
    Peer("orjson.loads", "orjson", "orjson:loads", {}),
    Peer("json_repair.loads", "json_repair", "json_repair:loads", {}),
    Peer("partial_json_parser.loads", "partial-json-parser", "partial_json_parser:loads", {}),
    Peer("jiter.from_json, partial", "jiter", "jiter:from_json", {"partial_mode": True}),
    Peer("pydantic_core.from_json, partial", "pydantic_core", "pydantic_core:from_json", {"allow_partial": True}),
    Peer("yaml.safe_load", "PyYAML", "yaml:safe_load", {}),
    Peer("json5.loads", "json5", "json5:loads", {}),
    Peer("hjson.loads", "hjson", "hjson:loads", {}),
    Peer("dirtyjson.loads", "dirtyjson", "dirtyjson:loads", {}),
    Peer("untruncate_json.complete", "untruncate-json", "untruncate_json:complete", {}),
)


class Row(NamedTuple):
    """Of `tried` faults: at how many an object came, at how many one whose verdict reads `pass`, and what crashed.

    `control`: empty, or what became of the whole payload instead of being handed over.
    """

    name: str
    version: str
    tried: int
    handed: int
    passed: int
    crashed: int
    control: str


def rows(body: Body | None = None, limit: float = 5.0) -> Iterator[Row]:
    """One row for each parser that is installed, and endmark's own at the end. Every cut of `body` is tried."""
    payload = body or Body(VERDICT)
    for peer in PEERS:
        found = _version(peer.package)
        parse = _found(peer) if found is not None else None
        if parse is not None and found is not None:
            yield _row(peer.name, found, parse, payload, limit)
    whole = payload.data if structure.is_envelope(payload.data) else mc1.seal(payload.data)
    yield _row("endmark.check, sealed", _version("endmark") or "", _endmark, Body(whole), limit)


def _row(name: str, its_version: str, parse: Callable[[str], Any], body: Body, limit: float) -> Row:
    passes: set[str] = set()

    def handed_over(text: str) -> object:
        value = parse(text)
        if not isinstance(value, dict) or not value:
            raise ValueError("no object")
        if value.get("verdict") == "pass":
            passes.add(text)
        return value

    player = CallPlayer(handed_over, text=True, rules=Rules())
    numbers = range(len(body.data))
    batch = Bench(player, None, body, limit).play(Family("cuts"), numbers)
    handed = batch.cells.count(ord(Answer.ACCEPTED.value))
    passes.discard(body.data.decode())
    crashed = batch.cells.count(ord(Answer.CRASHED.value))
    return Row(name, its_version, len(numbers), handed, len(passes), crashed, batch.control)


def _endmark(text: str) -> object:
    raw = text.encode()
    envelope = mc1.read(raw)
    proof.prove(raw)
    return strictjson.loads(raw, envelope.start, envelope.end)


def _found(peer: Peer) -> Callable[[str], Any] | None:
    module, _, name = peer.call.partition(":")
    try:
        parse = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        return None
    if peer.more:
        return lambda text: parse(text.encode(), **peer.more)
    return parse  # type: ignore[no-any-return]  # a function, as its table says


def _version(package: str) -> str | None:
    if not package:
        return ".".join(map(str, sys.version_info[:3]))
    try:
        return version(package)
    except PackageNotFoundError:
        return None
