"""Reading what the host wrote, all of it, and the answer in words."""

import os
import select
from collections.abc import Mapping

from endmark.core import strictjson
from endmark.core.printable import safe
from endmark.core.refusal import Refused
from endmark.faces.hooks import judge
from endmark.faces.hooks.guarded import Guarded
from endmark.faces.misuse import Misuse

MOST_BYTES = 64 << 20
"""The largest request that is judged, in bytes."""

_FENCE = "This is a fence for agents that mean well, no lock; whoever runs this can take it away."


def answer(host: str, words: list[str], environ: Mapping[str, str]) -> str:
    """Why the call on standard input is blocked, for the agent; empty to let it through.

    Raises OSError where standard input cannot be read.
    """
    raw = read(0)  # to its end in any case: a host that cannot write it all lets the call run
    try:
        config = _config(words)
        return judged(raw, host, config, environ)
    except (Misuse, Refused) as fault:
        detail = fault.detail if isinstance(fault, Refused) else str(fault)
        return f"endmark: nothing is let through: {safe(detail)}\n"


def judged(raw: bytes, host: str, config: str | None, environ: Mapping[str, str]) -> str:
    """The same for the bytes of a request. Raises Refused for one that is not whole, and Misuse."""
    if len(raw) > MOST_BYTES:
        raise Misuse(f"the request of {host} is over {MOST_BYTES:,} bytes, which nobody judges.")
    document = strictjson.loads(raw)
    event, tool, given = document.get("hook_event_name"), document.get("tool_name"), document.get("tool_input")
    if event != "PreToolUse":
        raise Misuse("the request is for no PreToolUse event; name this hook under PreToolUse only.")
    if not isinstance(tool, str) or not tool or not isinstance(given, dict):
        raise Misuse("the request names no tool with an object of arguments; this version of the host is not known.")
    where = document.get("cwd")
    folder = where if isinstance(where, str) and os.path.isabs(where) and "\0" not in where else os.getcwd()
    why = judge.judge(tool, given, folder, Guarded.read(config, folder, environ))
    return "" if why is None else f"endmark: {safe(tool)} was not run. {why}\n{_FENCE}\n"


def read(descriptor: int) -> bytes:
    """All bytes to the end; of what is over the most, only that it is more."""
    pieces: list[bytes] = []
    size = 0
    while True:
        # In turns of a second: Python obeys a signal that came just before a read only after it.
        if not select.select([descriptor], [], [], 1.0)[0]:
            continue
        piece = os.read(descriptor, 1 << 20)
        if not piece:
            return b"".join(pieces)
        if size <= MOST_BYTES:
            pieces.append(piece)
        size += len(piece)


def _config(words: list[str]) -> str | None:
    if not words:
        return None
    if len(words) == 2 and words[0] == "--config" and words[1]:
        return words[1]
    raise Misuse("the hook takes --config FILE and nothing else.")
