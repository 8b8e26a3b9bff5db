"""The heads of requests and answers: what belongs to one connection alone stays there, everything else passes."""

from collections.abc import Iterable
from enum import Enum
from http import HTTPStatus

import msgspec

from endmark.core import strictjson

Headers = list[tuple[bytes, bytes]]

# RFC 9110 section 7.6.1, and what only the next hop may answer.
_HOP = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    )
)

# What a message means, and how it is framed: no `Connection` takes these away (RFC 9110 section 7.6.1).
_END_TO_END = frozenset(
    (
        *(b"content-length", b"transfer-encoding", b"host", b"content-type", b"content-encoding", b"content-range"),
        *(b"authorization", b"cookie", b"set-cookie", b"cache-control", b"accept-encoding"),
    )
)


class Framing(Enum):
    """How the end of a body is told (RFC 9112 section 6.3)."""

    NONE = "none"  # there is no body
    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"


class Request(msgspec.Struct, kw_only=True):
    """The head of a request. `target` is the path with its query, as it came.

    `length`: bytes of body, as `Content-Length` declares them; None where it is framed otherwise.
    """

    method: str
    target: bytes
    headers: Headers
    framing: Framing
    length: int | None = None

    @property
    def path(self) -> str:
        """Without the query, which may hold a key."""
        return self.target.partition(b"?")[0].decode("latin-1")

    @property
    def query(self) -> str:
        return self.target.partition(b"?")[2].decode("latin-1")


class Answer(msgspec.Struct, kw_only=True):
    """The head of an answer. `length`: bytes of body that it declares, None where it declares none."""

    status: int
    reason: bytes
    headers: Headers
    framing: Framing
    length: int | None = None

    def get(self, name: bytes) -> str:
        """The values of a header, joined as RFC 9110 section 5.3 says."""
        return values(self.headers, name)


def values(headers: Headers, name: bytes) -> str:
    return ", ".join(value.decode("latin-1") for key, value in headers if key.lower() == name)


def misnamed(headers: Headers) -> bytes | None:
    """The first header that `Connection` names and that is not of one connection alone."""
    return min(_named(headers) & _END_TO_END, default=None)


def passed(headers: Headers, *dropped: bytes) -> Headers:
    """Without what belongs to one connection, what `Connection` names besides, what frames the body, and what is
    `dropped`. Whoever sends the rest says how it is framed."""
    left_out = _HOP | (_named(headers) - _END_TO_END) | {b"content-length", *dropped}
    return [(key, value) for key, value in headers if key.lower() not in left_out]


def _named(headers: Headers) -> set[bytes]:
    return {word.strip().lower().encode("latin-1") for word in values(headers, b"connection").split(",")}


def write(first: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A whole head."""
    return first + b"\r\n" + b"".join(b"%b: %b\r\n" % pair for pair in headers) + b"\r\n"


def problem(status: int, detail: str) -> tuple[Answer, bytes]:
    """An answer of the proxy's own, as RFC 9457 says: one clear sentence."""
    title = HTTPStatus(status).phrase
    body = strictjson.dumps({"type": "about:blank", "title": title, "status": status, "detail": f"endmark: {detail}"})
    headers = [(b"Content-Type", b"application/problem+json"), (b"Content-Length", b"%d" % len(body))]
    return (
        Answer(status=status, reason=title.encode(), headers=headers, framing=Framing.LENGTH, length=len(body)),
        body,
    )
