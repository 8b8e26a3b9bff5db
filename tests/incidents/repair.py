"""Repairers as they are found in the wild, written anew: each makes something that decodes of a JSON text that was cut.

They are what endmark is tested against. Nothing in endmark does any of this.
"""

import json
import re
from collections.abc import Callable, Iterator

from endmark.core import strictjson
from endmark.core.refusal import Refused

_WORD = re.compile(r"(?<=[\s:\[,])(?:t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?|-)\Z")
_HALF_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*(\\(?:u[0-9a-fA-F]{0,3})?)\Z")
_WHOLE_WORD = {"t": "true", "f": "false", "n": "null", "-": "-0"}


class _Scan:
    """How far a JSON text got: what is open, what is expected next, and where its commas stand."""

    def __init__(self, text: str) -> None:
        self.in_string = False
        self.open: list[list[str]] = []  # [bracket, "key" | "colon" | "value" | "comma"]
        self.commas: list[tuple[int, int]] = []  # (place, depth)
        escaped = False
        for at, mark in enumerate(text):
            if self.in_string:
                if escaped:
                    escaped = False
                elif mark == "\\":
                    escaped = True
                elif mark == '"':
                    self.in_string = False
                    self.string_ended()
            elif mark == '"':
                self.in_string = True
            elif mark in "{[":
                self.open.append([mark, "key" if mark == "{" else "value"])
            elif mark in "}]" and self.open:
                self.open.pop()
                self._expect("comma")
            elif mark == ":":
                self._expect("value")
            elif mark == ",":
                self.commas.append((at, len(self.open)))
                self._expect("key" if self.open and self.open[-1][0] == "{" else "value")
            elif not mark.isspace():
                self._expect("comma")

    def _expect(self, what: str) -> None:
        if self.open:
            self.open[-1][1] = what

    def string_ended(self) -> None:
        if self.open:
            self._expect("colon" if self.open[-1][1] == "key" else "comma")


def close(text: str) -> str:
    """Close what is open: the string, then every bracket, innermost first."""
    scan = _Scan(text)
    if scan.in_string:
        half = _HALF_ESCAPE.search(text)
        text = (text[: half.start(1)] if half else text) + '"'
        scan.string_ended()
    else:
        text = _WORD.sub(lambda word: _WHOLE_WORD[word[0][0]], text.rstrip())
    if scan.open:
        expected = scan.open[-1][1]
        if expected == "colon":
            text += ":null"
        elif text.endswith(":"):
            text += "null"
        elif text.endswith(","):
            text = text[:-1]
    return text + "".join("}" if bracket == "{" else "]" for bracket, _ in reversed(scan.open))


def drop_last(text: str) -> str:
    """Go back to the last comma, then close."""
    commas = _Scan(text).commas
    return close(text[: commas[-1][0]]) if commas else "{}"


def whole_pairs(text: str) -> str:
    """Keep the pairs of the outer object that are complete."""
    outer = [at for at, depth in _Scan(text).commas if depth == 1]
    return close(text[: outer[-1]]) if outer else "{}"


def fill(text: str, whole: dict[str, object] | None) -> str:
    """Close, then give every field that the whole has and this lacks the empty value of its type."""
    found = document(close(text).encode()) or {}
    return json.dumps({**found, **{key: type(value)() for key, value in (whole or {}).items() if key not in found}})


REPAIRERS: dict[str, Callable[[str], str]] = {
    "brace": lambda text: text + "}",
    "quote-brace": lambda text: text + '"}',
    "bracket-brace": lambda text: text + "]}",
    "quote-bracket-brace": lambda text: text + '"]}',
    "close": close,
    "drop-last": drop_last,
    "whole-pairs": whole_pairs,
}


def document(raw: bytes) -> dict[str, object] | None:
    """The object that `raw` spells to a strict reader, or None: what a repairer's customer would have believed."""
    try:
        return strictjson.loads(raw)
    except Refused:
        return None


def cuts(whole: bytes) -> Iterator[bytes]:
    """Every proper prefix, the empty one first."""
    return (whole[:n] for n in range(len(whole)))


def repaired(whole: bytes) -> dict[bytes, dict[str, object] | None]:
    """Every cut of a JSON text and every repair of every cut, once, with what it decodes to.

    A text that says all that the whole says (the cut took a closing mark, the repair put it back) lost nothing and is
    left out.
    """
    said = document(whole)
    found: dict[bytes, dict[str, object] | None] = {}
    for cut in cuts(whole):
        text = cut.decode("utf-8", "ignore")
        for candidate in (cut, *(repair(text).encode() for repair in REPAIRERS.values()), fill(text, said).encode()):
            if candidate not in found:
                found[candidate] = document(candidate)
    return {text: value for text, value in found.items() if value is None or value != said}
