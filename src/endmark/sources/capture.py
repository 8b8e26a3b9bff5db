"""What a source hands over: the bytes of one answer, and how they stopped coming."""

import hashlib
from functools import cached_property

import msgspec

from endmark.core import mc1
from endmark.core.ending import Ending
from endmark.core.refusal import Refused, Signal
from endmark.sources import coding

# Of the bytes as they passed. An answer's framing is many times its text; the cap of what is sealed is another.
DEFAULT_LIMIT = mc1.DEFAULT_CAP + 64 * 1024


class Capture(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One body as it passed: after the transfer coding, before the content coding (CA2).

    `ending` is evidence to judge, and `why` one clause about it. `facts` are further words for the record. `wire`,
    `max_output_tokens` and `stop_sequences` come from the request, where it was seen. `allow_close_delimited`: whoever
    made the capture takes a body that only the close of its connection ended; the record says so.
    """

    raw: bytes
    ending: Ending
    content_encoding: str = ""
    wire: str | None = None
    max_output_tokens: int | None = None
    stop_sequences: bool = False
    allow_close_delimited: bool = False
    facts: tuple[str, ...] = ()
    why: str = ""

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of `raw`, in lower-case hex: the name of this capture in every record."""
        return hashlib.sha256(self.raw).hexdigest()

    def body(self, cap: int = DEFAULT_LIMIT) -> bytes:
        """The bytes without their content coding, completely decoded. Raises Refused (`coding.decode`)."""
        if self.ending is Ending.TOO_LONG:
            raise Refused(Signal.OVER_CAP, len(self.raw), None, self.why or "more bytes arrived than are captured")
        return coding.decode(self.raw, self.content_encoding, cap)


def of_file(raw: bytes, *, wire: str | None = None, limit: int = DEFAULT_LIMIT) -> Capture:
    """The capture that a file or a pipe holds. It has no transport of its own, and says so."""
    if len(raw) > limit:
        why = f"{len(raw):,} bytes or more arrived, over the limit of {limit:,}"
        return Capture(raw=raw[:limit], ending=Ending.TOO_LONG, wire=wire, why=why)
    return Capture(raw=raw, ending=Ending.END_OF_FILE, wire=wire)
