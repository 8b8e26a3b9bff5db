"""Faults of a body, as small values with a text form of one line: for a test, the proxy, the command line, a report.

A fault turns a whole body into what is sent of it; an `End` says how that ends. Both are pure: the same fault and the
same body give the same bytes, anywhere. `parse(str(fault)) == fault`.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

import msgspec

from endmark.drills import damage, lies
from endmark.drills.body import Body as Body
from endmark.drills.body import DoesNotFit as DoesNotFit
from endmark.drills.body import Part as Part
from endmark.drills.body import Pause as Pause
from endmark.drills.body import has as _has


class BadFault(ValueError):
    """A text that is no fault. One sentence says what was found and what is one."""


class End(StrEnum):
    """How a broken body ends: as a good one, with FIN in a chunked body, with FIN short of its length, with RST."""

    POLITE = "polite"
    FIN = "fin"
    SHORT = "short"
    RST = "rst"


class Fault(Protocol):
    """One way to break a body."""

    def play(self, body: Body) -> list[Part]:
        """What is sent instead of `body`. Raises DoesNotFit."""


class Cut(msgspec.Struct, frozen=True):
    """`cut:1882`: only the first 1,882 bytes."""

    at: int

    def __str__(self) -> str:
        return f"cut:{self.at}"

    def play(self, body: Body) -> list[Part]:
        _has(self.at, len(body.data), "bytes")
        return [body.data[: self.at]]


class Flip(msgspec.Struct, frozen=True):
    """`flip:17.3`: bit 3 (of value 8) of byte 17 is the other one; bytes and bits count from 0."""

    at: int
    bit: int

    def __str__(self) -> str:
        return f"flip:{self.at}.{self.bit}"

    def play(self, body: Body) -> list[Part]:
        _has(self.at + 1, len(body.data), "bytes")
        changed = bytearray(body.data)
        changed[self.at] ^= 1 << self.bit
        return [bytes(changed)]


class DropTerminal(msgspec.Struct, frozen=True):
    """`terminal-`: the last event is missing, and what follows it; all else is there."""

    def __str__(self) -> str:
        return "terminal-"

    def play(self, body: Body) -> list[Part]:
        return [b"".join(body.events()[:-1])]


class Edge(msgspec.Struct, frozen=True):
    """`edge:3`: only the first 3 events."""

    count: int

    def __str__(self) -> str:
        return f"edge:{self.count}"

    def play(self, body: Body) -> list[Part]:
        parts = body.events()
        _has(self.count, len(parts), "events")
        return [b"".join(parts[: self.count])]


class Duplicate(msgspec.Struct, frozen=True):
    """`dup:2`: event 2 comes twice; events count from 0."""

    index: int

    def __str__(self) -> str:
        return f"dup:{self.index}"

    def play(self, body: Body) -> list[Part]:
        parts = body.events()
        _has(self.index + 1, len(parts), "events")
        return [b"".join([*parts[: self.index + 1], *parts[self.index :]])]


class Stall(msgspec.Struct, frozen=True):
    """`stall:34`: nothing after 34 bytes, for good. `stall:34+2.5`: for 2.5 seconds, then the rest.

    `stall:34+2.5-`: for 2.5 seconds, then the end.
    """

    at: int
    seconds: float | None = None
    goes_on: bool = True

    def __str__(self) -> str:
        if self.seconds is None:
            return f"stall:{self.at}"
        return f"stall:{self.at}+{self.seconds:g}{'' if self.goes_on else '-'}"

    def play(self, body: Body) -> list[Part]:
        _has(self.at, len(body.data), "bytes")
        rest = [body.data[self.at :]] if self.seconds is not None and self.goes_on else []
        return [body.data[: self.at], Pause(self.seconds), *rest]


class Lie(msgspec.Struct, frozen=True):
    """`lie:1882`: of the answer, the events that are whole in 1,882 bytes; then a server closes the JSON in it, claims
    a normal stop and ends the stream as its wire wants it."""

    at: int

    def __str__(self) -> str:
        return f"lie:{self.at}"

    def play(self, body: Body) -> list[Part]:
        _has(self.at, len(body.data), "bytes")
        try:
            return [lies.tell(body.data, self.at, body.wire, body.shape)]
        except lies.NoLie as fault:
            raise DoesNotFit(str(fault)) from None


class Broken(msgspec.Struct, frozen=True):
    """A fault with its end. As text `cut:1882/rst`; without a word for the end it is polite."""

    fault: Fault
    end: End = End.POLITE

    def __str__(self) -> str:
        return str(self.fault) if self.end is End.POLITE else f"{self.fault}/{self.end}"


class Both(msgspec.Struct, frozen=True):
    """`flip:17.3~cut:20`: one fault, and another one of what the first left."""

    first: Fault
    second: Fault

    def __str__(self) -> str:
        return f"{self.first}~{self.second}"

    def play(self, body: Body) -> list[Part]:
        parts = self.first.play(body)
        if not all(isinstance(part, bytes) for part in parts):
            raise DoesNotFit("only the last of two faults can stall")
        left = b"".join(part for part in parts if isinstance(part, bytes))
        return self.second.play(msgspec.structs.replace(body, data=left))


# Each kind of fault: the pattern of its text form, how the value is made of the groups, and an example.
_FORMS: tuple[tuple[str, Callable[..., Fault], str], ...] = (
    (r"cut:(\d{1,10})", lambda at: Cut(int(at)), "cut:1882"),
    (r"flip:(\d{1,10})\.([0-7])", lambda at, bit: Flip(int(at), int(bit)), "flip:17.3"),
    (r"terminal-", DropTerminal, "terminal-"),
    (r"edge:(\d{1,10})", lambda count: Edge(int(count)), "edge:3"),
    (r"dup:(\d{1,10})", lambda index: Duplicate(int(index)), "dup:2"),
    (
        r"stall:(\d{1,10})(?:\+(\d{1,10}(?:\.\d{1,10})?)(-?))?",
        lambda at, seconds, end: Stall(int(at), float(seconds), not end) if seconds else Stall(int(at)),
        "stall:34",
    ),
    (r"lie:(\d{1,10})", lambda at: Lie(int(at)), "lie:1882"),
    *damage.FORMS,
)

# The faults that have one for every place, for a sweep: how many places a body has, and the fault at one of them.
SWEEPS: dict[str, tuple[Callable[[Body], int], Callable[[int], Fault]]] = {
    "cut": (lambda body: len(body.data), Cut),
    "flip": (lambda body: 8 * len(body.data), lambda place: Flip(place // 8, place % 8)),
    "edge": (lambda body: len(body.events()), Edge),
    "dup": (lambda body: len(body.events()), Duplicate),
    "lie": (lambda body: len(body.data), Lie),
}


def parse(text: str) -> Fault:
    """The fault that a text names. Raises BadFault."""
    first, both, second = text.partition("~")
    if both:
        return Both(parse(first), parse(second))
    for pattern, make, _ in _FORMS:
        found = re.fullmatch(pattern, text, re.ASCII)
        if found is not None:
            return make(*found.groups())
    examples = ", ".join(example for _, _, example in _FORMS)
    raise BadFault(f"{text[:40]!a} is no fault; something like {examples} was expected")


def parse_broken(text: str) -> Broken:
    """A fault with its end, as in `cut:1882/rst`. Raises BadFault."""
    fault, slash, end = text.partition("/")
    if not slash:
        return Broken(parse(fault))
    if end not in tuple(End):
        raise BadFault(f"{end[:40]!a} is no end of a body; one of {', '.join(End)} was expected")
    return Broken(parse(fault), End(end))
