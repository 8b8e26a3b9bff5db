"""A form's fields: small, urlencoded, each named once."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from endmark.faces.http.problems import not_tried

_MOST = 16 * 1024  # bytes
_PATIENCE = 10.0  # seconds
_TYPE = "application/x-www-form-urlencoded"


async def read(request: Request) -> dict[str, str]:
    """The fields. Raises Problem for anything but a whole form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        raise not_tried("unsupported-media", f"A form was expected, as {_TYPE}. Nothing was done.", close=True)
    raw = bytearray()
    try:
        async with asyncio.timeout(_PATIENCE):
            async for piece in request.stream():
                raw += piece
                if len(raw) > _MOST:
                    raise not_tried("usage", f"A form has {_MOST:,} bytes at most. Nothing was done.", close=True)
    except (TimeoutError, ClientDisconnect):
        raise not_tried("usage", "The form did not arrive whole. Nothing was done.", close=True) from None
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, strict_parsing=bool(raw), errors="strict")
    except ValueError:
        raise not_tried("usage", "That is no form. Nothing was done.", close=True) from None
    if len({name for name, _ in pairs}) != len(pairs):
        raise not_tried("usage", "The form names a field twice. Nothing was done.", close=True)
    if any("\0" in word for pair in pairs for word in pair):
        raise not_tried("usage", "A field of the form holds a NUL byte. Nothing was done.", close=True)
    return dict(pairs)
