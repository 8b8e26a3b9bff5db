"""A request's body is read whole, within its limits, before anything is made of it (H1-H7)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from contextlib import suppress

import msgspec
from starlette.requests import Request

from endmark.core.mc1 import HEADER_MAX
from endmark.core.refusal import Refused, Signal
from endmark.faces.http.limits import Room
from endmark.faces.http.protocol import UNREAD
from endmark.faces.http.settings import Settings
from endmark.sources import coding

_DIGESTS: dict[str, Callable[[bytes], bytes]] = {
    "sha-256": lambda raw: hashlib.sha256(raw).digest(),
    "sha-512": lambda raw: hashlib.sha512(raw).digest(),
}
_MEMBER = re.compile(r"[ \t]*([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/=]*):[ \t]*")  # RFC 8941: a byte sequence
_NOBODY = frozenset({Signal.BODY_CUT, Signal.RESET})
_READ = "endmark.body"  # in a request's scope once its body is read
_DRAINED, _DRAIN_SECONDS = 64 * 1024, 1.0


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """What arrived. `raw` is what to look at; where `refused`, it is what is known of the bytes as they came.

    `listening` is false where the client has gone, so that no answer reaches it.
    """

    raw: bytes
    refused: Refused | None = None
    listening: bool = True


async def read(request: Request, settings: Settings, room: Room) -> Body:
    """H1: all of the body, decoded. Raises Problem for want of room, and nothing else."""
    request.scope[_READ] = True
    get, lines = request.headers.get, request.headers.getlist
    expected = int(declared) if (declared := get("content-length")) is not None else None
    cap = settings.max_body + HEADER_MAX
    if expected is not None and expected > cap:  # H3: not a byte of it is read
        return Body(raw=b"", refused=_over(0, expected, cap))
    if expected is not None:
        room.take(expected)
    try:
        raw, refused, listening = await _pieces(request, expected, cap, settings, room)
    except TimeoutError:  # only where nothing had come yet
        raw, refused, listening = b"", _idle(0, expected), True
    if refused is None:
        refused = _digested(raw, _joined(lines("content-digest")), _joined(lines("repr-digest")))
    encoding = _joined(lines("content-encoding"))
    if refused is None and encoding is not None and coding.codings(encoding):
        try:  # H5
            decoded = await asyncio.to_thread(coding.decode, raw, encoding, cap)
        except Refused as fault:
            return Body(raw=raw, refused=fault)
        room.take(len(raw) + len(decoded))
        return Body(raw=decoded)
    return Body(raw=raw, refused=refused, listening=listening)


def _joined(lines: list[str]) -> str | None:
    """A field that came in several lines is one list (RFC 9110, 5.3): no line goes unread."""
    return ", ".join(lines) if lines else None


async def drain(request: Request) -> None:
    """H47: read what is left of a small body that nobody looks at, or a reset takes the answer back from its sender."""
    if request.scope.get(_READ):
        return
    left = _DRAINED
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            while left > 0:
                message = await request.receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    break
                left -= len(message.get("body", b""))


async def _pieces(
    request: Request, expected: int | None, cap: int, settings: Settings, room: Room
) -> tuple[bytes, Refused | None, bool]:
    parts: list[bytes] = []
    received = 0
    loop = asyncio.get_running_loop()
    end = loop.time() + settings.body_timeout
    try:
        async with asyncio.timeout(settings.idle_timeout) as patience:
            while True:  # H2: what is no HTTP ends the connection here
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    parts += request.scope.get("state", {}).get(UNREAD, ())
                    raw = b"".join(parts)
                    return raw, _cut(len(raw), expected), False
                piece = message.get("body", b"")
                if piece:
                    received += len(piece)
                    if received > cap:
                        return b"".join(parts), _over(received - len(piece), expected, cap), True
                    room.take(received)
                    parts.append(piece)
                if not message.get("more_body", False):
                    return (parts[0] if len(parts) == 1 else b"".join(parts)), None, True
                patience.reschedule(min(loop.time() + settings.idle_timeout, end))
    except TimeoutError:
        return b"".join(parts), _idle(received, expected), True


def _cut(received: int, expected: int | None) -> Refused:
    if expected is not None:
        said = f"the connection ended after {received:,} of {expected:,} bytes"
        return Refused(Signal.BODY_CUT, received, expected, said)
    return Refused(
        Signal.RESET, received, None, f"the connection ended after {received:,} bytes, before the last chunk"
    )


def _idle(received: int, expected: int | None) -> Refused:
    of = "" if expected is None else f" of {expected:,}"
    return Refused(Signal.IDLE, received, expected, f"the body stalled after {received:,}{of} bytes")


def _over(received: int, expected: int | None, cap: int) -> Refused:
    what = f"declares {expected:,} bytes" if expected is not None else "grows"
    return Refused(Signal.OVER_CAP, received, expected, f"the body {what}, over the cap of {cap:,}")


def _digested(raw: bytes, *fields: str | None) -> Refused | None:
    """H4: why the body is not what Content-Digest or Repr-Digest says (RFC 9530), or None.

    Both are of the bytes as they came: a request's content is its representation, content coding included.
    """
    for field in fields:
        if field is None:
            continue
        checked = False
        for member in field.split(","):
            found = _MEMBER.fullmatch(member)
            if found is None:
                return Refused(Signal.WRONG_VALUE, len(raw), None, f"{member[:80]!a} is no digest as in RFC 9530")
            make = _DIGESTS.get(found[1])
            if make is None:
                continue
            try:
                said = base64.b64decode(found[2], validate=True)
            except binascii.Error:
                said = b""
            if said != make(raw):
                detail = f"the {found[1]} of the {len(raw):,} bytes that arrived is not the one that was sent with them"
                return Refused(Signal.ENVELOPE_DIGEST, len(raw), None, detail)
            checked = True
        if not checked:  # who sends a digest wants it checked
            known = " and ".join(_DIGESTS)
            return Refused(Signal.WRONG_VALUE, len(raw), None, f"of the digests that were sent none is {known}")
    return None
