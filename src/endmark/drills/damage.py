"""Faults of what a body says, for any payload: a key twice, a sentinel gone, two bodies mixed up, bytes put in.

Those of an MC1 envelope come in two forms: as the damage leaves it, or, with `+refix`, with a header that fits again,
as somebody writes it who seals what was damaged before.
"""

import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from endmark.core import mc1
from endmark.drills import lies, structure
from endmark.drills.body import Body, DoesNotFit, Part, has
from endmark.drills.structure import Member

_LONGEST = 1 << 20  # bytes that a text form may bring


class DropSentinel(msgspec.Struct, frozen=True):
    """`drop-sentinel`: an envelope without its last line."""

    refix: bool = False

    def __str__(self) -> str:
        return f"drop-sentinel{_refix(self.refix)}"

    def play(self, body: Body) -> list[Part]:
        if not structure.is_envelope(body.data) or not body.data.endswith(mc1.SENTINEL):
            raise DoesNotFit("the body is no envelope with a sentinel")
        return _sent(body.data[: -len(mc1.SENTINEL)], self.refix)


class OfKey(msgspec.Struct, frozen=True):
    """`dup-key:verdict`: the key of the outer object stands twice, with its value; `drop-key:`: not at all;
    `null-key:`: with the value null."""

    how: Literal["dup", "drop", "null"]
    key: str
    refix: bool = False

    def __str__(self) -> str:
        return f"{self.how}-key:{self.key}{_refix(self.refix)}"

    def play(self, body: Body) -> list[Part]:
        data, members = body.data, structure.of(body.data).members
        at = next((at for at, member in enumerate(members) if member.key == self.key), None)
        if at is None:
            raise DoesNotFit(f"the body has no key {self.key!a}")
        member = members[at]
        whole = data[member.start : member.end]
        if self.how == "dup":
            changed = data[: member.end] + b", " + whole + data[member.end :]
        elif self.how == "null":
            changed = data[: member.value] + b"null" + data[member.end :]
        else:
            changed = _without(data, members, at)
        return _sent(changed, self.refix and structure.is_envelope(data))


class Splice(msgspec.Struct, frozen=True):
    """`splice:A@10,B@40`: the first 10 bytes of body A, then body B from its byte 40 on. A is the body, B the other.

    `splice:A@10,A@40` loses 30 bytes in the middle, `splice:A@40,A@10` has them twice.
    """

    first: Literal["A", "B"]
    until: int
    second: Literal["A", "B"]
    onward: int

    def __str__(self) -> str:
        return f"splice:{self.first}@{self.until},{self.second}@{self.onward}"

    def play(self, body: Body) -> list[Part]:
        first, second = (_which(body, name) for name in (self.first, self.second))
        has(self.until, len(first), "bytes")
        has(self.onward, len(second), "bytes")
        return [first[: self.until] + second[self.onward :]]


class Put(msgspec.Struct, frozen=True):
    """`insert:17=7d7d`: these bytes, in hex, come before byte 17; `set:17=7d`: in the place of what stands there."""

    how: Literal["insert", "set"]
    at: int
    data: bytes

    def __str__(self) -> str:
        return f"{self.how}:{self.at}={self.data.hex()}"

    def play(self, body: Body) -> list[Part]:
        taken = len(self.data) if self.how == "set" else 0
        has(self.at + taken, len(body.data), "bytes")
        return [body.data[: self.at] + self.data + body.data[self.at + taken :]]


class Zero(msgspec.Struct, frozen=True):
    """`zero:512-1024`: bytes 512 to 1,023 are zero, as a page is that was never written."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"zero:{self.start}-{self.end}"

    def play(self, body: Body) -> list[Part]:
        has(self.end, len(body.data), "bytes")
        if self.start >= self.end:
            raise DoesNotFit("nothing stands between its two places")
        return [body.data[: self.start] + bytes(self.end - self.start) + body.data[self.end :]]


class Close(msgspec.Struct, frozen=True):
    """`close:1882`: the first 1,882 bytes, and then what closes the JSON, as a repairing step writes it."""

    at: int

    def __str__(self) -> str:
        return f"close:{self.at}"

    def play(self, body: Body) -> list[Part]:
        has(self.at, len(body.data), "bytes")
        start = structure.of(body.data).text
        if start is None or self.at <= start.start:
            raise DoesNotFit("there is no JSON to close")
        kept = body.data[: self.at]
        try:
            return [kept + lies.closing(kept[start.start :].decode()).encode()]
        except (lies.NoLie, UnicodeDecodeError):
            raise DoesNotFit("the JSON cannot be closed here") from None


class Input(msgspec.Struct, frozen=True):
    """`input:7b7d`: these bytes, in hex, instead of the body; what a minimiser finds."""

    data: bytes

    def __str__(self) -> str:
        return f"input:{self.data.hex()}"

    def play(self, body: Body) -> list[Part]:
        return [self.data]


def _put(how: Any, at: str, digits: str) -> Put:
    return Put(how, int(at), bytes.fromhex(digits))


_HEX = rf"((?:[0-9a-f]{{2}}){{1,{_LONGEST}}})"
_KEY = r"(\w[\w.:$-]{0,127})"

# As in `faults`: the pattern of a text form, how the value is made of the groups, and an example.
FORMS: tuple[tuple[str, Callable[..., Any], str], ...] = (
    (r"drop-sentinel(\+refix)?", lambda refix: DropSentinel(bool(refix)), "drop-sentinel"),
    (
        rf"(dup|drop|null)-key:{_KEY}(\+refix)?",
        lambda how, key, refix: OfKey(how, key, bool(refix)),
        "dup-key:verdict+refix",
    ),
    (
        r"splice:([AB])@(\d{1,10}),([AB])@(\d{1,10})",
        lambda a, until, b, onward: Splice(a, int(until), b, int(onward)),
        "splice:A@10,B@40",
    ),
    (rf"(insert|set):(\d{{1,10}})={_HEX}", _put, "insert:17=7d"),
    (r"zero:(\d{1,10})-(\d{1,10})", lambda start, end: Zero(int(start), int(end)), "zero:512-1024"),
    (r"close:(\d{1,10})", lambda at: Close(int(at)), "close:1882"),
    (rf"input:{_HEX.replace('1,', '0,')}", lambda digits: Input(bytes.fromhex(digits)), "input:7b7d"),
)


def spellable(key: str) -> bool:
    """Whether a fault of this key has a text form."""
    return re.fullmatch(_KEY, key, re.ASCII) is not None


def _refix(refix: bool) -> str:
    return "+refix" if refix else ""


def _sent(data: bytes, refix: bool) -> list[Part]:
    return [structure.reseal(data) if refix else data]


def _which(body: Body, name: str) -> bytes:
    if name == "A":
        return body.data
    if body.other is None:
        raise DoesNotFit("there is no other body to mix it up with; name one")
    return body.other


def _without(data: bytes, members: tuple[Member, ...], at: int) -> bytes:
    if len(members) == 1:
        return data[: members[0].start] + data[members[0].end :]
    if at + 1 < len(members):
        return data[: members[at].start] + data[members[at + 1].start :]
    return data[: members[at - 1].end] + data[members[at].end :]
