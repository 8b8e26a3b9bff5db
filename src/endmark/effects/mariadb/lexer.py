"""The words of a statement as MariaDB and MySQL read them under our `sql_mode`. Statements are read, never cut."""

import re
from enum import Enum

import msgspec


class Kind(Enum):
    WORD = "word"  # a keyword or a bare name, or a number
    NAME = "name"  # a name in backticks
    STRING = "string"
    VARIABLE = "variable"  # @x or @@x
    SIGN = "sign"


class Token(msgspec.Struct, frozen=True):
    """`text` is lower case for words and names, without quotes; `depth` counts the open parentheses around it."""

    kind: Kind
    text: str
    depth: int

    def is_word(self, *words: str) -> bool:
        return self.kind is Kind.WORD and self.text in words

    @property
    def is_name(self) -> bool:
        """Whether it can name something: keywords are names as well in many places."""
        return self.kind in (Kind.WORD, Kind.NAME)


class Unreadable(Exception):
    """What cannot be read the way the server would, or hides SQL where a reader does not look. `str()` says what."""


# `--` begins a comment only before white space, a control character or the end.
_TOKEN = re.compile(
    r"""(?P<space>[ \t\n\v\f\r]+|\#[^\n]*|--(?=[\x00-\x20]|\Z)[^\n]*|/\*(?P<inside>.*?)\*/)
    |(?P<string>'(?:[^'\\]++|''|\\.)*+'|"(?:[^"\\]++|""|\\.)*+")
    |(?P<name>`(?:[^`]++|``)*+`)
    |(?P<variable>@@?(?:[A-Za-z0-9_$.\x80-\U0010ffff]+|`(?:[^`]++|``)*+`|'(?:[^'\\]++|''|\\.)*+'|"(?:[^"\\]++|""|\\.)*+")?)
    |(?P<word>[A-Za-z0-9_$\x80-\U0010ffff]+)
    |(?P<sign>[^A-Za-z0-9_$\x80-\U0010ffff \t\n\v\f\r'"`])""",
    re.VERBOSE | re.DOTALL,
)


_KINDS = {kind.value: kind for kind in Kind}


def tokens(statement: str) -> list[Token]:
    """Every token but comments. Raises Unreadable."""
    if "\x00" in statement:
        raise Unreadable("holds a NUL character")
    found: list[Token] = []
    at = depth = 0
    while at < len(statement):
        match = _TOKEN.match(statement, at)
        if match is None or (match["sign"] == "/" and statement.startswith("/*", at)):
            raise Unreadable("holds a quote or a comment that does not end")
        at = match.end()
        if match["space"] is not None:
            _check_comment(match["inside"])
            continue
        kind = _KINDS[match.lastgroup or ""]
        text = match[kind.value]
        if kind is Kind.NAME:
            text = text[1:-1].replace("``", "`")
        depth -= text == ")" and kind is Kind.SIGN
        found.append(Token(kind, text if kind is Kind.STRING else text.lower(), depth))
        depth += text == "(" and kind is Kind.SIGN
    return found


def has_comment(statement: str) -> bool:
    """Whether a statement that `tokens` reads holds a comment of any kind."""
    at = 0
    while (match := _TOKEN.match(statement, at)) is not None:
        at = match.end()
        if match["space"] is not None and not match["space"].isspace():
            return True
    return False


def _check_comment(inside: str | None) -> None:
    if inside is None:
        return
    if inside.startswith(("!", "M!", "m!")):
        raise Unreadable("holds a comment that some servers execute (/*! ... */)")
    if inside.startswith("+") and "set_var" in inside.lower():
        raise Unreadable("holds a hint that changes a setting (SET_VAR)")
