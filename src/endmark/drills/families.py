"""Families of faults: for one payload, every cut, every flip, a fault at every token or event, mutations of a seed.

A family is counted, and each of its faults is known by its number alone: so a sweep can be cut in parts, resumed,
run on several processes, and gives the same faults again.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import msgspec

from endmark.drills import damage, edges, faults, structure
from endmark.drills.body import Body
from endmark.drills.damage import Close, DropSentinel, OfKey, Put, Splice, Zero
from endmark.drills.faults import BadFault, Both, Broken, Cut, DropTerminal, Duplicate, Edge, End, Fault, Flip, Lie
from endmark.drills.faults import Stall as Stall

DEFAULT_COUNT = 1000  # of those families that have no end of their own


class Family(msgspec.Struct, frozen=True):
    """Some faults of one kind. `spec` is how it was asked for; `seed` and `most` are for what has no natural end."""

    spec: str
    seed: int = 0

    @property
    def kind(self) -> str:
        return self.spec.partition(":")[0]

    def count(self, body: Body) -> int:
        """How many faults it has for `body`."""
        if self.kind in _SEEDED:
            return int(self.spec.partition(":")[2] or DEFAULT_COUNT)
        return _COUNTED[self.kind][0](body) if self.kind in _COUNTED else len(self._listed(body))

    def fault(self, body: Body, number: int) -> Broken:
        """Its fault `number`."""
        if self.kind in _SEEDED:
            return Broken(_SEEDED[self.kind](body, self._chance(number)))
        if self.kind in _COUNTED:
            return _COUNTED[self.kind][1](number)
        return self._listed(body)[number]

    def payloads(self, body: Body, numbers: range) -> Iterator[bytes] | None:
        """What the faults of `numbers` leave of the body, made at speed; None where there is no such way."""
        if self.kind == "cuts":
            data = body.data
            return (data[:at] for at in numbers)
        return _flipped(body.data, numbers) if self.kind == "flips" else None

    def _listed(self, body: Body) -> list[Broken]:
        return _listed(self.spec, body)

    def _chance(self, number: int) -> random.Random:
        return random.Random(f"{self.seed}:{self.kind}:{number}")  # noqa: S311  # mutations are no secrets


NAMES = {
    "cuts": "the payload cut at every byte",
    "flips": "every bit of it flipped",
    "tokens": "cut before and after every JSON token, and every token lost",
    "closes": "cut at every byte, and the JSON closed",
    "keys": "every key of the outer object twice, missing, null",
    "sentinel": "an envelope without its end, as it is and with a header that fits",
    "splices": "its first bytes, then the other payload (or its own rest) from the same place on",
    "gaps": "some bytes lost, or there twice, at every edge of a token",
    "events": "only the first events of a stream",
    "dups": "each event twice",
    "terminal": "a stream without its last event",
    "lies": "a stream cut at every byte, closed by a server that claims a normal stop",
    "mutations": "bytes set, put in, lost, doubled and zeroed by chance, from the seed; 'mutations:5000' for so many",
    "pairs": "two faults at once, from the seed; 'pairs:5000' for so many",
    "shorts": "the transport ends at every byte, short of the length that was declared",
    "fins": "the transport ends at every byte, without the last chunk",
    "rsts": "the transport is reset at every byte; of a request only --effect can tell what came of it",
    "stalls": "silence from every event edge on",
}


def parse(spec: str, seed: int) -> list[Family]:
    """The families that a list such as `cuts,flips,mutations:5000` names. Raises BadFault."""
    found = []
    for name in (part.strip() for part in spec.split(",")):
        kind, colon, count = name.partition(":")
        if kind not in NAMES:
            raise BadFault(f"{name[:40]!a} is no family of faults; some of {', '.join(NAMES)} were expected")
        if colon and (kind not in _SEEDED or not re.fullmatch(r"[1-9][0-9]{0,8}", count)):
            raise BadFault(f"{name[:40]!a}: only mutations and pairs take a number, as in mutations:5000")
        found.append(Family(name, seed))
    if len({family.kind for family in found}) != len(found):
        raise BadFault(f"{spec[:60]!a} names a family twice")
    return found


def only(text: str) -> Family:
    """The family of one fault, from its text form. Raises BadFault."""
    faults.parse_broken(text)
    return Family(f"only:{text}")


def of_data(broken: Broken, body: Body) -> bytes:
    """The bytes that are sent for a fault. Raises DoesNotFit."""
    return b"".join(part for part in broken.fault.play(body) if isinstance(part, bytes))


# --- families with a fault for every place

_COUNTED: dict[str, tuple[Callable[[Body], int], Callable[[int], Broken]]] = {
    "cuts": (lambda body: len(body.data), lambda at: Broken(Cut(at))),
    "flips": (lambda body: 8 * len(body.data), lambda place: Broken(Flip(place // 8, place % 8))),
    "closes": (lambda body: len(body.data), lambda at: Broken(Close(at))),
    "lies": (lambda body: len(body.data), lambda at: Broken(Lie(at))),
    "shorts": (lambda body: len(body.data), lambda at: Broken(Cut(at), End.SHORT)),
    "fins": (lambda body: len(body.data), lambda at: Broken(Cut(at), End.FIN)),
    "rsts": (lambda body: len(body.data), lambda at: Broken(Cut(at), End.RST)),
}


def _flipped(data: bytes, numbers: range) -> Iterator[bytes]:
    changed = bytearray(data)
    for place in numbers:
        at, mask = place >> 3, 1 << (place & 7)
        changed[at] ^= mask
        yield bytes(changed)
        changed[at] ^= mask


# --- families that are listed


@lru_cache(maxsize=16)
def _listed(spec: str, body: Body) -> list[Broken]:
    if spec.startswith("only:"):
        return [faults.parse_broken(spec.removeprefix("only:"))]
    return [Broken(fault) for fault in _LISTED[spec](body)]


@lru_cache(maxsize=4)
def _edges(body: Body) -> list[int]:
    """Where tokens begin and end; without tokens, where events do."""
    tokens = structure.of(body.data).tokens
    found = {edge for token in tokens for edge in (token.start, token.end)}
    return sorted(found) or edges.edges(body.data, body.shape)


def _tokens(body: Body) -> Sequence[Fault]:
    tokens = structure.of(body.data).tokens
    cuts: list[Fault] = [Cut(at) for at in _edges(body) if at < len(body.data)]
    return [*cuts, *(Splice("A", token.start, "A", token.end) for token in tokens)]


def _keys(body: Body) -> Sequence[Fault]:
    keys = [member.key for member in structure.of(body.data).members if damage.spellable(member.key)]
    found: list[Fault] = [OfKey(how, key) for key in keys for how in ("dup", "drop", "null")]
    if structure.is_envelope(body.data):
        found += [OfKey("dup", key, refix=True) for key in keys]
    return found


def _sentinel(body: Body) -> Sequence[Fault]:
    ends = structure.of(body.data).sentinel is not None
    return [DropSentinel(), DropSentinel(refix=True)] if ends else []


def _splices(body: Body) -> Sequence[Fault]:
    if body.other is None:
        return []
    most = min(len(body.data), len(body.other))
    return [Splice("A", at, "B", at) for at in range(1, most)] + [Splice("B", at, "A", at) for at in range(1, most)]


def _gaps(body: Body) -> Sequence[Fault]:
    marks = _edges(body)
    found: list[Fault] = []
    for steps in (1, 3, 7):
        for start, end in zip(marks, marks[steps:], strict=False):
            found += [Splice("A", start, "A", end), Splice("A", end, "A", start)]
    return found


def _stalls(body: Body) -> Sequence[Fault]:
    marks = edges.edges(body.data, body.shape) if body.shape in edges.STREAMS else _edges(body)
    return [Stall(at) for at in marks if at < len(body.data)]


def _events(body: Body) -> int:
    return len(body.events()) if body.shape in edges.STREAMS else 0


_LISTED: dict[str, Callable[[Body], Sequence[Fault]]] = {
    "tokens": _tokens,
    "keys": _keys,
    "sentinel": _sentinel,
    "splices": _splices,
    "gaps": _gaps,
    "events": lambda body: [Edge(count) for count in range(_events(body))],
    "dups": lambda body: [Duplicate(at) for at in range(_events(body))],
    "terminal": lambda body: [DropTerminal()] if _events(body) else [],
    "stalls": _stalls,
}


# --- families of a seed

_TEMPTING = (b"}", b'"}', b"]", b"null", b"\0", b"\n", b" ", b"0", b'"', b"\\", b"\xef\xbb\xbf", b"{}", b"NaN", b"\xff")


def _mutation(body: Body, chance: random.Random) -> Fault:
    size, marks = len(body.data), _edges(body)
    at = chance.choice(marks) if marks and chance.randrange(2) else chance.randrange(size + 1)
    span = min(size - at, chance.choice((1, 1, 2, 3, 8, 32, 128)))
    other = chance.randrange(size + 1)
    match chance.randrange(6):
        case 0 if span:
            return Put("set", at, chance.randbytes(span))
        case 1 if span:
            return Zero(at, at + span)
        case 2:
            return Put("insert", at, chance.choice(_TEMPTING))
        case 3 if span:
            return Put("set", at, (chance.choice(_TEMPTING) * span)[:span])
        case 4:
            return Splice("A", at, "A", at + span)
    return Splice("A", at, "A", other)


def _pair(body: Body, chance: random.Random) -> Fault:
    first = _mutation(body, chance) if chance.randrange(2) else Flip(chance.randrange(len(body.data)), 3)
    if chance.randrange(3) == 0 and _keeps(first):
        return Both(first, Cut(chance.randrange(len(body.data))))
    flips = [Flip(chance.randrange(len(body.data)), chance.randrange(8)) for _ in range(2)]
    return Both(flips[0], flips[1])


def _keeps(fault: Fault) -> bool:
    """Whether a fault surely leaves the body as long as it is."""
    return isinstance(fault, Flip | Zero) or (isinstance(fault, Put) and fault.how in ("set", "insert"))


_SEEDED: dict[str, Callable[[Body, random.Random], Fault]] = {"mutations": _mutation, "pairs": _pair}
