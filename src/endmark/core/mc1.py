"""The MC1 envelope: `MC1 SP length SP sha256 LF body` (spec/mc1.md, rules M1-M11). Read and seal in one place."""

import hashlib
import re

import msgspec

from endmark.core.refusal import Refused, Signal

SENTINEL = b"\nEND\n"
DEFAULT_CAP = 64 * 1024 * 1024
HEADER_MAX = 4 + 10 + 1 + 64 + 1

# M3: one spelling. [0-9] and not \d, match() and not $, so that no other digit or line end slips in.
_HEADER = re.compile(rb"MC1 ([1-9][0-9]{0,9}) ([0-9a-f]{64})\n")
_HEADER_CUT = re.compile(rb"M(?:C(?:1(?: (?:[1-9][0-9]{0,9}(?: [0-9a-f]{0,64})?)?)?)?)?\Z")


class Envelope(msgspec.Struct, frozen=True):
    """A proven envelope: its JSON text is `raw[start:end]` of the bytes that were read.

    `sha256` is the digest of the whole body, sentinel included; `expected_bytes` counts header and body.
    """

    start: int
    end: int
    sha256: str
    expected_bytes: int


def looks_like(raw: bytes) -> bool:
    """Whether `raw` sets out to be an envelope; no JSON text begins with this letter (M2)."""
    return raw[:1] == b"M"


def read(raw: bytes, cap: int = DEFAULT_CAP) -> Envelope:
    """Where the JSON of an envelope that arrived whole stands in `raw`. `cap`: the largest body accepted, in bytes.

    Raises `Refused` for any other bytes, checked in the order of the rules, and TypeError for what is not `bytes`.
    """
    if not isinstance(raw, bytes):
        raise TypeError(f"bytes were expected, not {type(raw).__name__}")
    received = len(raw)
    if not raw:
        raise Refused(Signal.EMPTY, 0, None, "nothing arrived: 0 bytes")  # M1
    header = _HEADER.match(raw)
    if header is None:
        if _HEADER_CUT.match(raw):  # M4
            raise Refused(
                Signal.HEADER_CUT, received, None, lambda: f"the header ended early, after {received:,} bytes"
            )
        raise Refused(Signal.BAD_HEADER, received, None, lambda: _header_fault(raw))  # M3
    start = header.end()
    length = int(header[1])
    end = start + length
    if length > cap:  # M5: before a byte of the body is hashed
        raise Refused(
            Signal.OVER_CAP, received, end, lambda: f"the header declares {length:,} bytes, over the cap of {cap:,}"
        )
    if received < end:  # M6
        raise Refused(Signal.BODY_CUT, received, end, lambda: f"received {received:,} of {end:,} bytes")
    text_end = end - len(SENTINEL)
    if text_end < start or not raw.startswith(SENTINEL, text_end):  # M7
        raise Refused(
            Signal.NO_SENTINEL,
            received,
            end,
            lambda: f"the last {len(SENTINEL)} declared bytes are not the sentinel END",
        )
    if received > end:  # M8
        raise Refused(
            Signal.BYTES_AFTER_END,
            received,
            end,
            lambda: f"{received - end:,} bytes follow the declared end at byte {end:,}",
        )
    digest = hashlib.sha256(memoryview(raw)[start:]).hexdigest()
    if digest.encode("ascii") != header[2]:  # M9
        raise Refused(
            Signal.ENVELOPE_DIGEST,
            received,
            end,
            lambda: f"the body's SHA-256 is {digest[:12]}..., the header declares {header[2][:12].decode('ascii')}...",
        )
    return Envelope(start, text_end, digest, end)


def seal(text: bytes) -> bytes:
    """`text`, which the caller has proven to be one strict JSON object, in an envelope. Two seals are byte-equal."""
    body = text + SENTINEL  # M11
    return b"MC1 %d %s\n%s" % (len(body), hashlib.sha256(body).hexdigest().encode("ascii"), body)


def _header_fault(raw: bytes) -> str:
    line = raw[:HEADER_MAX].split(b"\n", 1)[0]
    parts = line.rstrip(b"\r").split(b" ")
    if line.endswith(b"\r"):
        return "the header ends in CR LF, one LF was expected"
    if parts[0] != b"MC1":
        return f"the header begins with {line[:8]!r}, 'MC1 ' was expected"
    if len(parts) > 1 and not re.fullmatch(rb"[1-9][0-9]{0,9}", parts[1]):
        found = parts[1][:24].decode("ascii", "backslashreplace")
        return f"the declared length {found!r} is not a decimal number of 1-10 digits without a leading zero"
    return "the header is not 'MC1 length sha256' with single spaces, 64 lower-case hex digits and one LF"
