"""One message of the protocol, judged before the SDK sees it.

The SDK replaces bytes that are no UTF-8, keeps the last of two equal keys, and takes a line that the end of the stream
cut. Here a message is one whole strict JSON object, or it is refused with words and leads to nothing.
"""

import json
import re

from endmark.core import mc1, strictjson
from endmark.core.refusal import Refused

MOST_BYTES = 2 * mc1.DEFAULT_CAP
"""The largest message, in bytes: a plan at its cap, with room for the escapes of a string in a string."""

_ESCAPED_HALF = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def fault_of(raw: bytes) -> bytes | None:
    """The answer to a message that is not whole and strict, a JSON-RPC error on one line; None for a good one."""
    if len(raw) > MOST_BYTES:
        return refusal(None, f"a message of over {MOST_BYTES:,} bytes arrived; hand over a file instead")
    try:
        strictjson.loads(raw)
    except Refused as refused:
        return refusal(_id_in(raw), f"{refused.signal}: {refused.detail}; received {refused.received_bytes:,} bytes")
    return None


def refusal(request_id: str | int | None, why: str) -> bytes:
    """A JSON-RPC error, on one line without its end."""
    said = f"Parse error: {why}. Nothing was taken and nothing was applied: send the whole message again, unchanged."
    error = {"code": -32700, "message": said}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode("ascii")


def _id_in(raw: bytes) -> str | int | None:
    """Whom to answer where only half a surrogate pair is wrong, which hosts do send; nothing else is read from it."""
    try:
        found = strictjson.loads(_ESCAPED_HALF.sub(rb"\\u003f", raw)).get("id")
    except Refused:
        return None
    return found if type(found) in (str, int) else None
