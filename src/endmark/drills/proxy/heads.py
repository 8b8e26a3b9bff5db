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


class Framing(Enum):
    """How the end of a body is told (RFC 9112 section 6.3)."""

    NONE = "none"  # there is no body
    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"


class Request(msgspec.Struct, kw_only=True):
    """The head of a request. `target` is the path with its query, as it came."""

    method: str
    target: bytes
    headers: Headers
    framing: Framing
    minor: int = 1  # of HTTP/1.x

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


def passed(headers: Headers, *dropped: bytes) -> Headers:
    """Without what belongs to one connection, what `Connection` names besides, and what is `dropped`."""
    named = {word.strip().lower().encode("latin-1") for word in values(headers, b"connection").split(",")}
    return [(key, value) for key, value in headers if (low := key.lower()) not in _HOP | named and low not in dropped]


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
