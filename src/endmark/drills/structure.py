"""Where the parts of a whole payload begin and end: the header, each JSON token, each key of the outer object.

Nothing here judges a payload or reads a part of one: a text that is not one strict JSON object has no tokens.
"""

import hashlib
import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from endmark.core import mc1, strictjson
from endmark.core.refusal import Refused

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_LONG = 64  # bytes of a list that is worth to be shown in parts
_HEADER = re.compile(rb"MC1 [0-9]{1,10} [0-9a-f]{64}\n")


class Span(NamedTuple):
    """A named stretch of a payload: `data[start:end]`."""

    name: str
    start: int
    end: int


class Member(NamedTuple):
    """One key of the outer object with its value: `data[start:end]` holds both, `data[value:end]` the value."""

    key: str
    start: int
    value: int
    end: int


class Payload(NamedTuple):
    """What a payload is made of. `text` is where its JSON stands; None where there is none."""

    header: Span | None
    text: Span | None
    sentinel: Span | None
    tokens: tuple[Span, ...]
    members: tuple[Member, ...]


@lru_cache(maxsize=8)
def of(data: bytes) -> Payload:
    """The parts of `data`."""
    found = _HEADER.match(data)
    start = found.end() if found is not None else 0
    header = Span("header", 0, start) if found is not None else None
    sentinel = None
    end = len(data)
    if found is not None and data.endswith(mc1.SENTINEL):
        end -= len(mc1.SENTINEL)
        sentinel = Span("sentinel", end, len(data))
    try:
        strictjson.loads(data, start, end)
    except Refused:
        return Payload(header, None, sentinel, (), ())
    tokens = tuple(
        Span(_kind(match.group()), match.start(), match.end()) for match in _TOKEN.finditer(data, start, end)
    )
    return Payload(header, Span("text", start, end), sentinel, tokens, tuple(_members(data, tokens)))


def spans(data: bytes, content_edges: list[int]) -> list[Span]:
    """What stands under a map of `data`: header, keys and sentinel of a JSON body, else its events, else nothing."""
    payload = of(data)
    named = [span for member in payload.members for span in _named(payload, member)]
    if not named and len(content_edges) > 2:
        pairs = pairwise(content_edges)
        named = [Span(f"event {at}", start, end) for at, (start, end) in enumerate(pairs)]
    return [span for span in (payload.header, *named, payload.sentinel) if span is not None]


def _named(payload: Payload, member: Member) -> list[Span]:
    """A key with its value; a long list as the parts of it."""
    whole = Span(member.key, member.start, member.end)
    inside = [token for token in payload.tokens if member.value <= token.start < member.end]
    if inside[0].name != "[" or member.end - member.start < _LONG:
        return [whole]
    found: list[Span] = []
    depth, start, end = 0, -1, 0
    for token in inside:
        if depth == 1 and start >= 0 and token.name in (",", "]"):
            found.append(Span(f"{member.key}[{len(found)}]", start, end))
            start = -1
        elif depth == 1 and start < 0:
            start = token.start
        depth += (token.name in "{[") - (token.name in "}]")
        end = token.end
    return found or [whole]


def reseal(data: bytes) -> bytes:
    """`data`, an envelope whose body was changed, with the length and the digest of the body that it has now."""
    found = _HEADER.match(data)
    body = data[found.end() :] if found is not None else data
    return b"MC1 %d %s\n%s" % (len(body), hashlib.sha256(body).hexdigest().encode("ascii"), body)


def is_envelope(data: bytes) -> bool:
    return _HEADER.match(data) is not None


def same_value(a: bytes, b: bytes) -> bool:
    """Whether both spell one strict JSON object, with the same keys in the same order."""
    try:
        return _ordered(strictjson.loads(a)) == _ordered(strictjson.loads(b))
    except Refused:
        return False


def is_json(data: bytes) -> bool:
    """Whether `data` is exactly one strict JSON object."""
    try:
        strictjson.loads(data)
    except Refused:
        return False
    return True


def _ordered(value: object) -> object:
    if isinstance(value, dict):
        return [(key, _ordered(item)) for key, item in value.items()]
    if isinstance(value, list):
        return ["list", *map(_ordered, value)]
    return (type(value).__name__, value)


def _kind(token: bytes) -> str:
    return {b'"': "string", b"{": "{", b"}": "}", b"[": "[", b"]": "]", b":": ":", b",": ","}.get(token[:1], "word")


def _members(data: bytes, tokens: tuple[Span, ...]) -> list[Member]:
    found: list[Member] = []
    depth = 0
    key: Span | None = None
    value: int | None = None
    for before, token in zip((None, *tokens), tokens, strict=False):
        if depth == 1 and token.name in (",", "}") and key is not None and value is not None and before is not None:
            found.append(Member(_text(data[key.start : key.end]), key.start, value, before.end))
            key = value = None
        elif depth == 1 and key is None and token.name == "string":
            key = token
        elif depth == 1 and key is not None and value is None and token.name != ":":
            value = token.start
        depth += (token.name in "{[") - (token.name in "}]")
    return found


def _text(token: bytes) -> str:
    return str(next(iter(strictjson.loads(b"{%b:0}" % token))))
