"""Strict JSON: one object, one spelling, or `Refused` (spec/json.md, rules J1-J10).

Only the stdlib scanner shows every key to `object_pairs_hook`; orjson, msgspec, jiter, pydantic and simdjson keep the
last of two equal keys silently. This is the one module that may touch the `json` module's readers, and msgspec's: where
a count of quotes proves that no key was dropped, that one reads three times as fast (docs/decisions/0017).
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from endmark.core.decision import first
from endmark.core.refusal import Refused, Signal

MAX_DEPTH = 64
_SAFE_DEPTH = 1000  # as deep as the decoder may go on any stack, whatever limit the host has set
_BLOCK = 1 << 14
INT_MIN, INT_MAX = -(2**63), 2**63 - 1

_SPACE = " \t\r\n"
# What is skipped for depth: all that is no bracket, and whole strings without escapes. A bounded number of
# them, because each round of a group takes memory; no possessive group, which matches too much before Python 3.11.5.
_SKIP = re.compile(rb'(?:[^"\\\[{\]}]+|"[^"\\]*"){0,1000}')
_IN_STRING = re.compile(rb'[^"\\]*')
# Where a text ends early, this much may stand behind the byte at which the decoder gave up.
_UNFINISHED = re.compile(r"(?:t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?|-|\.|[eE][+-]?|u[0-9a-fA-F]{0,4})?")
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")

_SAYS = {
    Signal.TOO_DEEP: f"brackets are nested deeper than {MAX_DEPTH}",
    Signal.TWO_DOCUMENTS: "something follows the end of the JSON object",
    Signal.NOT_AN_OBJECT: "a JSON object was expected, another kind of value was found",
    Signal.DUPLICATE_KEY: "a key stands twice in one object",
    Signal.NOT_FINITE: "NaN, Infinity or a number too large for a double was found",
    Signal.INTEGER_SIZE: "an integer does not fit in 64 bits",
    Signal.LONE_SURROGATE: "a \\u escape spells half a surrogate pair, which is no character",
}


def loads(raw: bytes, start: int = 0, end: int | None = None, expected: int | None = None) -> dict[str, Any]:
    """The object that the bytes `raw[start:end]` spell.

    A refusal reports `len(raw)` as received and `expected` as expected bytes; offsets in its detail count in `raw`.
    Raises `Refused` for every input that is not exactly one strict JSON object. Nothing else comes out for any bytes,
    but a caller that passes no bytes gets TypeError, and one with no stack left its RecursionError.
    """
    if not isinstance(raw, bytes):
        raise TypeError(f"bytes were expected, not {type(raw).__name__}")
    stop = len(raw) if end is None else end
    # J4, seen early: what opens an object and never closes one cannot decode. Most cuts end here, before any copy.
    if not raw.endswith(b"}", start, stop) and raw.startswith(b"{", start, stop) and raw.find(b"}", start, stop) < 0:
        signal = Signal.TOO_DEEP if _is_deep(raw, start, stop) else Signal.NOT_JSON
        raise Refused(signal, len(raw), expected, lambda: _explain(signal, raw, start, stop))
    found: list[Signal] = []
    shallow = False
    try:
        opened, escapes = _glance(raw, start, stop)
        if not escapes and opened <= _SAFE_DEPTH and (plain := _plain(raw, start, stop)) is not None:
            return plain
        shallow = opened <= MAX_DEPTH
        if opened > _SAFE_DEPTH:
            if _is_deep(raw, start, stop):  # J1
                raise Refused(Signal.TOO_DEEP, len(raw), expected, _SAYS[Signal.TOO_DEEP])
            shallow = True
        text = str(memoryview(raw)[start:stop], "utf-8")  # J3
        value = _decode(text, found)  # J4
        del text  # up to four bytes a character: it goes before the value is looked at
    except (ValueError, RecursionError) as fault:
        undecodable = _why_undecodable(fault, raw, start, stop, shallow)
        raise Refused(undecodable, len(raw), expected, lambda: _explain(undecodable, raw, start, stop)) from None
    if not isinstance(value, dict):
        found.append(Signal.NOT_AN_OBJECT)  # J5
    # J1. The value is quick to ask; but where a key stands twice, part of the text is no longer in it.
    if not shallow and (_is_deep(raw, start, stop) if found else _deeper_than(value, MAX_DEPTH)):
        found.append(Signal.TOO_DEEP)
    if escapes and not found and _has_half_pair(raw, start, stop, value):
        found.append(Signal.LONE_SURROGATE)  # J9
    if found:
        loose = first(found)
        raise Refused(loose, len(raw), expected, _SAYS[loose])
    return value  # type: ignore[no-any-return]  # a dict: J5 has just been checked


class Documents:
    """`loads` for the many small documents of one stream, without what pays only for large ones."""

    __slots__ = ()

    def loads(self, raw: bytes) -> dict[str, Any]:
        """What `loads(raw)` returns or raises. Whatever is not plainly strict goes there to be judged."""
        # Bytes as numbers: in a short text a needle of type bytes costs five times as much.
        if raw.count(0x5B) > MAX_DEPTH // 2 or raw.count(0x7B) > MAX_DEPTH // 2:
            return loads(raw)
        try:
            text = raw.decode()
            value, end = _SCAN(text, 0)
        except (ValueError, StopIteration, RecursionError, _NotStrict):
            return loads(raw)
        if end != len(text) or type(value) is not dict or (0x5C in raw and _HALF_PAIR.search(raw)):
            return loads(raw)
        return value


def dumps(value: Any) -> bytes:
    """The canonical bytes of `value`: UTF-8, no spaces, keys in the order given (J10). Raises ValueError for NaN."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def dumps_ascii(value: Any) -> bytes:
    """`value` as JSON of printable ASCII alone: no byte of it can drive a terminal. Raises ValueError for NaN."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("\x7f", "\\u007f").encode("ascii")


def short(value: Any) -> str:
    """What was found, for a sentence: its JSON spelling in at most 40 printable ASCII characters, or its kind."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value[:40] if isinstance(value, str) else value).replace("\x7f", "\\u007f")
    return text if len(text) <= 40 else text[:37] + "..."


class _NotStrict(Exception):
    """What was read is not strict; the text may yet turn out not to decode at all."""


def _plain(raw: bytes, start: int, stop: int) -> dict[str, Any] | None:
    """The object that a text without a backslash spells, where it is flat; None where the slower reader must judge.

    Such a text holds two quotes for each of its strings. A decoder that dropped a key was left with fewer strings than
    that, so equal numbers prove that it dropped none (J6).
    """
    try:
        value = _QUICK.decode(memoryview(raw)[start:stop])
    except (msgspec.MsgspecError, RecursionError):
        return None
    if type(value) is not dict:
        return None
    strings = len(value)
    for item in value.values():
        kind = type(item)
        if kind is str:
            strings += 1
        elif kind is list:
            if not _TEXT.issuperset(map(type, item)):
                return None
            strings += len(item)
        elif kind is int:
            if not INT_MIN <= item <= INT_MAX:
                return None
        elif kind is not bool and item is not None:
            return None
    # a byte as a number: a needle of type bytes costs five times as much in a short text
    return value if raw.count(0x22, start, stop) == 2 * strings else None


_QUICK = msgspec.json.Decoder()
_TEXT = frozenset((str,))


def _stop(_signal: Signal) -> None:
    raise _NotStrict


def _decode(text: str, found: list[Signal]) -> Any:
    """The value of a text, and in `found` what is not strict in it. Raises ValueError for what does not decode."""
    try:
        return _STRICT.decode(text)
    except _NotStrict:  # what, and whether the text decodes at all, is asked only now
        return _decoder(lambda signal: None if signal in found else found.append(signal)).decode(text)


def _decoder(note: Callable[[Signal], None]) -> json.JSONDecoder:
    """A decoder that tells `note` of all that is not strict, and reads on if that returns."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(items)
        if len(value) != len(items):
            note(Signal.DUPLICATE_KEY)  # J6, escapes already resolved
        return value

    def integer(digits: str) -> int:
        # Judged by its length first: int() of 5,000 digits raises, of a million it would be slow.
        if len(digits) > 20 or not INT_MIN <= (number := int(digits)) <= INT_MAX:
            note(Signal.INTEGER_SIZE)  # J8
            return 0
        return number

    def real(digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            note(Signal.NOT_FINITE)  # J7
        return number

    def constant(_name: str) -> float:
        note(Signal.NOT_FINITE)  # J7
        return 0.0

    return json.JSONDecoder(object_pairs_hook=pairs, parse_int=integer, parse_float=real, parse_constant=constant)


_STRICT = _decoder(_stop)
_SCAN: Callable[[str, int], tuple[Any, int]] = _STRICT.scan_once  # type: ignore[attr-defined]


def _why_undecodable(fault: Exception, raw: bytes, start: int, stop: int, shallow: bool) -> Signal:
    if not shallow and _is_deep(raw, start, stop):
        return Signal.TOO_DEEP  # J1 is judged on the brackets alone, so it does not matter what else is wrong
    if isinstance(fault, RecursionError):
        raise fault  # the caller has used up the stack, which says nothing about the bytes
    if isinstance(fault, UnicodeDecodeError):
        stop = start + fault.start
        if raw.find(b"}", start, stop) < 0:
            return Signal.NOT_JSON
    elif not (isinstance(fault, json.JSONDecodeError) and fault.msg == "Extra data"):
        return Signal.NOT_JSON
    # J2: nothing is missing if a whole object stands before that; something is too much.
    text = str(memoryview(raw)[start:stop], "utf-8").lstrip(_SPACE)
    try:
        value, _ = _decoder(lambda _signal: None).raw_decode(text)
    except ValueError:
        return Signal.NOT_JSON
    return Signal.TWO_DOCUMENTS if isinstance(value, dict) else Signal.NOT_JSON


def _glance(raw: bytes, start: int, stop: int) -> tuple[int, bool]:
    """How many brackets open, in strings or not, and whether there is any escape. Counting stops where enough is known.

    Block by block, so that a large text is fetched from memory once and not once for each of the three.
    """
    if stop - start <= _BLOCK:  # bytes as numbers: in a short text a needle of type bytes costs five times as much
        return raw.count(0x5B, start, stop) + raw.count(0x7B, start, stop), raw.find(0x5C, start, stop) >= 0
    opened, escapes, block = 0, False, start
    while block < stop:
        end = block + _BLOCK if block + _BLOCK < stop else stop
        escapes = escapes or raw.find(b"\\", block, end) >= 0
        for bracket in (b"[", b"{"):
            at = raw.find(bracket, block, end)
            while at >= 0 and opened <= _SAFE_DEPTH:
                opened += 1
                at = raw.find(bracket, at + 1, end)
        block = end
    return opened, escapes


def _is_deep(raw: bytes, start: int, stop: int) -> bool:
    """Whether brackets outside strings nest deeper than MAX_DEPTH, read left to right whatever else is wrong (J1)."""
    if _glance(raw, start, stop)[0] <= MAX_DEPTH:
        return False
    depth, at = 0, start
    while at < stop:
        at = _SKIP.match(raw, at, stop).end()  # type: ignore[union-attr]  # it matches anything
        while (mark := raw[at : at + 1]) and mark in b"[]{}" and at < stop:
            depth += 1 if mark in b"[{" else -1
            if depth > MAX_DEPTH:
                return True
            at += 1
        if mark == b"\\":
            at += 2
        elif mark == b'"':  # one that holds an escape, or never ends
            at = _IN_STRING.match(raw, at + 1, stop).end()  # type: ignore[union-attr]
            while raw[at : at + 1] == b"\\" and at + 2 < stop:
                at = _IN_STRING.match(raw, at + 2, stop).end()  # type: ignore[union-attr]
            at += 1
    return False


def _deeper_than(value: Any, limit: int) -> bool:
    """Whether containers in a decoded value nest deeper than `limit`; level by level, without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


def _has_half_pair(raw: bytes, start: int, stop: int, value: Any) -> bool:
    """Whether any decoded string holds half a pair. Raw UTF-8 cannot, so only escapes are looked for."""
    if not _HALF_PAIR.search(raw, start, stop):
        return False
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _explain(signal: Signal, raw: bytes, start: int, stop: int) -> str:
    """One clause for people: what was found, or the byte of `raw` at which the text ended early or is malformed."""
    if signal is not Signal.NOT_JSON:
        return _SAYS[signal]
    early = f"the JSON ended early, after {stop:,} bytes"
    try:
        text = str(memoryview(raw)[start:stop], "utf-8")
        _decode(text, [])
    except UnicodeDecodeError as fault:
        # A sequence that merely stops at the last byte was cut; any other is malformed where it starts.
        if fault.reason == "unexpected end of data":
            return early
        return f"the JSON is malformed at byte {start + fault.start:,} (not UTF-8)"
    except json.JSONDecodeError as fault:
        if fault.msg.startswith("Unterminated string") or _UNFINISHED.fullmatch(text.rstrip(_SPACE), fault.pos):
            return early
        return f"the JSON is malformed at byte {start + len(text[: fault.pos].encode()):,} ({fault.msg})"
    except RecursionError:
        pass
    return "the JSON could not be read"
