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
TEXT = (
    r'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u(?:[0-9a-ce-fA-CE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))'
    r'[^"\\\x00-\x1f]*)*'
)
WHOLE = r"(?:0|[1-9][0-9]{0,17})"  # fits 64 bits
_NUMBER = rf"-?{WHOLE}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{{1,2}})?"  # and is finite

LONGEST = 1 << 16  # characters; a longer event is worth a full reading


def cut(
    document: str, free: Collection[Path], lists: Collection[Path] = ()
) -> tuple[re.Pattern[str], dict[Path, int]] | None:
    """A pattern that matches what spells `document` with other values at the paths in `free`, and the group of each.

    `document` is strict JSON, an object, without a key twice. Paths that it lacks, or where neither a string nor a
    whole number stands, are not freed. A list at a path in `lists` may be of any length, with elements spelled like its
    first one but for the inside of strings and the digits of numbers. None when nothing is freed.
    """
    tokens = list(_TOKEN.finditer(document))
    pattern: list[str] = []
    groups: dict[Path, int] = {}
    path: list[str | int] = []
    done, at, key_comes = 0, 0, False
    while at < len(tokens):
        token = tokens[at]
        word = token.group()
        if word == "[" and tuple(path) in lists:
            pattern.append(re.escape(document[done : token.start()]))
            like, at = _like(tokens, at)
            pattern.append(like)
            done = tokens[at - 1].end()
            continue
        at += 1
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
            if text or re.fullmatch(WHOLE, word):
                quote = 1 if text else 0
                pattern += [re.escape(document[done : token.start() + quote]), f"({TEXT if text else WHOLE})"]
                done = token.end() - quote
                groups[tuple(path)] = len(groups) + 1
    if not groups:
        return None
    pattern.append(re.escape(document[done:]))
    return re.compile("".join(pattern)), groups


def _like(tokens: list[re.Match[str]], at: int) -> tuple[str, int]:
    """A pattern for the values spelled like the one that starts at a token, and the token after it.

    Keys and white space are as they are, so no key can come twice; strings and numbers are any, lists of any length.
    """
    word = tokens[at].group()
    if word[0] == '"':
        return f'"{TEXT}"', at + 1
    if word[0] in "-0123456789":
        return _NUMBER, at + 1
    if word == "[":
        return _list_like(tokens, at)
    if word != "{":
        return word, at + 1  # null, true, false
    made, value_comes = ["\\{"], False
    at += 1
    while (word := tokens[at].group()) != "}":
        if value_comes and not word.isspace():
            value, at = _like(tokens, at)
            made.append(value)
            value_comes = False
        else:  # a key, a colon, a comma, white space
            made.append(re.escape(word))
            value_comes = word == ":" or value_comes
            at += 1
    return "".join([*made, "\\}"]), at + 1


def _list_like(tokens: list[re.Match[str]], at: int) -> tuple[str, int]:
    """A list by its first element, which stands once in the pattern, however deep the lists are nested in one another.

    One that is empty, or has white space before its first element, is taken as it is.
    """
    end, depth = at, 0
    while end == at or depth:
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(tokens[end].group(), 0)
        end += 1
    if tokens[at + 1].group() == "]" or tokens[at + 1].group().isspace():
        return re.escape("".join(token.group() for token in tokens[at:end])), end
    element, after = _like(tokens, at + 1)
    space = ""
    if tokens[after].group() == "," and tokens[after + 1].group().isspace():
        space = tokens[after + 1].group()
    return rf"\[(?:{element}(?:,{space}(?=[^\]])|(?=\])))*\]", end
