"""Marks: fresh words around each block that is shown, which a reviewer echoes in order (spec/prompt.md, rules Q1-Q3).

A missing one proves that the model did not see, or did not say, everything. The chance in them comes from the caller.
"""

import re
from collections.abc import Iterable, Sequence

from endmark.core.refusal import Refused, Signal
from endmark.core.verdict import Verdict

_NONCE = re.compile(r"[0-9a-f]{32,64}")
_RUN_OF_HEX = re.compile(rb"[0-9a-f]{32,}")


class NonceInText(ValueError):
    """A nonce stands in what is to be shown already, so it is none: make fresh ones and assemble again."""


def needed(blocks: int) -> int:
    """How many nonces the marks of so many blocks take: one before, one after each block, one at the end (Q1)."""
    return blocks + 2


def make(nonces: Sequence[str]) -> tuple[str, ...]:
    """The marks in order: each says its place, and carries one nonce of 32 to 64 lower-case hex digits (Q1).

    Raises ValueError for nonces that are no such thing, or not all different.
    """
    for nonce in nonces:
        if not _NONCE.fullmatch(nonce):
            raise ValueError("a nonce is 32 to 64 lower-case hex digits")
    if len(set(nonces)) != len(nonces):
        raise ValueError("every mark needs a nonce of its own")
    return tuple(f"{place}-{nonce}" for place, nonce in enumerate(nonces, 1))


def line(mark: str) -> str:
    """How a mark is shown: a line of its own."""
    return f"[mark {mark}]\n"


def check_fresh(nonces: Iterable[str], texts: Iterable[bytes]) -> None:
    """Raise NonceInText where a nonce stands in any of the texts, in capitals or not (Q2)."""
    # A nonce is all hex digits, so where it stands it is part of a run of them; there are few such runs in a text.
    runs = b" ".join(run for text in texts for run in _RUN_OF_HEX.findall(text.lower()))
    if any(nonce.encode() in runs for nonce in nonces):
        raise NonceInText("a nonce stands in the text that is to be shown; fresh ones are needed")


def verify(verdict: Verdict, expected: Sequence[str], received: int, declared: int | None = None) -> None:
    """Raise Refused where the marks of a verdict are not exactly those expected, in order (Q3, V2).

    That they are the last key of all was seen when the verdict was read (V1).
    """
    echoed = verdict.marks
    if echoed == list(expected):
        return
    if echoed is None:
        why = f"none of the {len(expected)} marks that were asked for is there"
    elif sorted(echoed) == sorted(expected):
        why = "the marks are out of order"
    else:
        missing = sum(mark not in echoed for mark in expected)
        why = f"{missing} of {len(expected)} marks are missing" if missing else "there are marks that nobody asked for"
    raise Refused(Signal.MARKS, received, declared, why)
