"""Shell text as simple commands, as far as that can be told without running it."""

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePath

import msgspec

_ENDS = frozenset(";&|()\n")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "su"})
_WRAPPERS = frozenset(
    {"sudo", "doas", "env", "command", "exec", "nohup", "time", "nice", "xargs", "timeout", "setsid", "stdbuf", "then"}
    | {"do", "else", "if", "while", "until", "!", "{"}
)
_ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_DEEPEST = 6  # shells in shells


class Command(msgspec.Struct, frozen=True):
    """One simple command: the program's name without its folder, its words, and the files it redirects to."""

    program: str
    words: tuple[str, ...]
    writes: tuple[str, ...]


def commands(text: str, depth: int = 0) -> Iterator[Command]:
    """The simple commands in a line or script, also those handed to another shell. Advisory: no shell is emulated."""
    for words in _split(text):
        if depth < _DEEPEST:
            for word in words:
                for within in _substituted(word):
                    yield from commands(within, depth + 1)
        plain, writes, after = [], [], ""
        for word in words:
            if after:
                if ">" in after:
                    writes.append(word)
                else:
                    plain.append(word)
                after = ""
            elif word and set(word) <= set("<>&|"):
                after = word
            else:
                plain.append(word)
        rest = _unwrapped(plain)
        if not rest:
            if writes:
                yield Command("", (), tuple(writes))
            continue
        program = PurePath(rest[0]).name
        yield Command(program, tuple(rest[1:]), tuple(writes))
        inner = _inner(program, rest[1:])
        if inner is not None and depth < _DEEPEST:
            yield from commands(inner, depth + 1)


def _unwrapped(words: list[str]) -> list[str]:
    """From the program's name on: without assignments and what only runs another program."""
    rest, wrapped = list(words), False
    while rest:
        name = PurePath(rest[0]).name
        if _ASSIGNS.match(rest[0]) or name in _WRAPPERS:
            wrapped = wrapped or name in _WRAPPERS
            rest.pop(0)
        elif wrapped and rest[0].startswith("-"):
            # An option of a wrapper: with -u NAME and its like the next word is no program.
            takes = rest.pop(0) in ("-u", "-n", "-k", "-s", "-g", "-C", "-I", "-S")
            if takes and len(rest) > 1:
                rest.pop(0)
        elif wrapped and re.fullmatch(r"[0-9.]+[smhd]?", rest[0]):
            rest.pop(0)
        else:
            break
    return rest


def _inner(program: str, words: list[str]) -> str | None:
    if program == "eval":
        return " ".join(words)
    if program in _SHELLS:
        for at, word in enumerate(words[:-1]):
            if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*|--command", word):
                return words[at + 1]
    return None


def _substituted(word: str) -> Iterator[str]:
    """What stands in `$(...)` inside a quoted word; without its end, the rest."""
    at = word.find("$(")
    while at >= 0:
        depth, end = 1, at + 2
        while end < len(word) and depth:
            depth += {"(": 1, ")": -1}.get(word[end], 0)
            end += 1
        yield word[at + 2 : end - (not depth)]
        at = word.find("$(", end)


def _split(text: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(text.replace("`", "\n"), posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        words = list(lexer)
    except ValueError:  # quotes that do not close: whatever stands there is looked at word by word
        words = re.findall(r"[;&|()<>\n]+|[^\s;&|()<>'\"]+", text)
    found: list[str] = []
    for word in words:
        if word and set(word) <= _ENDS:
            yield found
            found = []
        else:
            found.append(word)
    yield found
