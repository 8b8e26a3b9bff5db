"""What a client asks, read so that it can be said in one way: what could be read in two is refused."""

import re

from endmark.drills.proxy import heads
from endmark.drills.proxy.heads import Framing, Headers, Request

_ABSOLUTE = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)


def refused(method: str, version: str, target: bytes, headers: Headers) -> tuple[int, str] | None:
    """Why a request cannot be passed: the status that says so, and one clause. None for one that can."""
    if version not in ("1.0", "1.1"):
        return 505, f"this is HTTP/{version}, and HTTP/1.1 is spoken here"
    if method == "CONNECT" or not _path(target).startswith(b"/"):
        return 400, "this is a reverse proxy: give its address to a client as the base URL"
    if b"#" in target:
        return 400, "the target has a fragment, which is never sent (RFC 9112 section 3.2)"
    if (named := heads.misnamed(headers)) is not None:
        return 400, f"Connection names {named.decode()}, which is not for one connection alone"
    upgrade = heads.values(headers, b"upgrade").lower()
    if "websocket" in upgrade:
        return 501, "the connection is asked to become another protocol, which this proxy does not pass"
    coding = heads.values(headers, b"transfer-encoding").lower()
    if coding not in ("", "chunked"):
        return 501, f"the transfer coding {coding[:40]!a} is not undone here"
    if coding and version == "1.0":  # RFC 9112 section 6.1: its framing is faulty
        return 400, "HTTP/1.0 knows no transfer coding"
    return None


def request(method: str, target: bytes, headers: Headers) -> Request:
    """The request that such a head is."""
    length = heads.values(headers, b"content-length")
    chunked = bool(heads.values(headers, b"transfer-encoding"))
    return Request(
        method=method,
        target=_path(target),
        headers=headers,
        framing=Framing.CHUNKED if chunked else Framing.LENGTH if length else Framing.NONE,
        length=int(length) if length else None,
    )


def without_upgrade(method: str, version: str, target: bytes, headers: Headers) -> bytes:
    """The same head, which does not ask for another protocol."""
    options = [word.strip() for word in heads.values(headers, b"connection").split(",")]
    kept = ", ".join(word for word in options if word.lower() != "upgrade")
    rest = [(name, value) for name, value in headers if name.lower() not in (b"upgrade", b"connection")]
    first = f"{method} {target.decode('latin-1')} HTTP/{version}".encode("latin-1")
    return heads.write(first, [*rest, (b"Connection", kept.encode("latin-1"))] if kept else rest)


def _path(target: bytes) -> bytes:
    """The path with its query; of an absolute target (RFC 9112 section 3.2.2) too, whose authority is ours."""
    absolute = _ABSOLUTE.match(target)
    if absolute is None:
        return target
    path = target[absolute.end() :]
    return path if path.startswith(b"/") else b"/" + path
