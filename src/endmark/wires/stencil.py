"""Events that repeat: recognising the document of one already read by everything but the values that change.

A stream spells the same event thousands of times, with another piece of text in it. Once one has been read as strict
JSON, a second one that is equal to it byte for byte, but for the inside of some strings and the digits of some whole
numbers, spells the same document with those values: nothing else about it can differ, so nothing else is read again.
"""

import re
from collections.abc import Collection

Path = tuple[str | int, ...]

# Of strict JSON: white space, a string, a number, a word, a bracket, a comma, a colon.
_TOKEN = re.compile(r'[ \t\r\n]+|"(?:[^"\\]|\\.)*"|[-0-9][-+.0-9eE]*|[a-z]+|[][{},:]')
# What may stand between the quotes: every escape but half a surrogate pair, and no control character.
_TEXT = (
    r'([^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u(?:[0-9a-ce-fA-CE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))'
    r'[^"\\\x00-\x1f]*)*)'
)
_WHOLE = r"(0|[1-9][0-9]{0,17})"  # fits 64 bits

LONGEST = 1 << 16  # characters; a longer event is worth a full reading


def cut(document: str, free: Collection[Path]) -> tuple[re.Pattern[str], dict[Path, int]] | None:
    """A pattern that matches what spells `document` with other values at the paths in `free`, and the group of each.

    `document` is strict JSON, an object, without a key twice. Paths that it lacks, or where neither a string nor a
    whole number stands, are not freed. None when nothing is.
    """
    pattern: list[str] = []
    groups: dict[Path, int] = {}
    path: list[str | int] = []
    at, key_comes = 0, False
    for token in _TOKEN.finditer(document):
        word = token.group()
        if word in "{[":
            path.append("" if word == "{" else 0)
            key_comes = word == "{"
        elif word in "}]":
            path.pop()
        elif word == ",":
            last = path[-1]
            key_comes = isinstance(last, str)
            if isinstance(last, int):
                path[-1] = last + 1
        elif word == ":":
            key_comes = False
        elif key_comes and word[0] == '"':
            path[-1] = word[1:-1]
        elif tuple(path) in free:
            text = word[0] == '"'
            if text or re.fullmatch(_WHOLE, word):
                quote = 1 if text else 0
                pattern += [re.escape(document[at : token.start() + quote]), _TEXT if text else _WHOLE]
                at = token.end() - quote
                groups[tuple(path)] = len(groups) + 1
    if not groups:
        return None
    pattern.append(re.escape(document[at:]))
    return re.compile("".join(pattern)), groups
