"""Shell text as simple commands, as far as that can be told without running it."""

import re
import shlex
from collections.abc import Container, Iterator
from pathlib import PurePath

import msgspec

_ENDS = frozenset(";&|()\n")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "su"})
_WRAPPERS = frozenset(
    {"sudo", "doas", "env", "command", "exec", "nohup", "time", "nice", "xargs", "timeout", "setsid", "stdbuf", "then"}
    | {"do", "else", "if", "while", "until", "!", "{"}
)
# Programs that run another one, in a place of their own or after words that only they understand.
_CARRIES = frozenset(
    {"docker", "docker-compose", "podman", "podman-compose", "nerdctl", "kubectl", "oc", "ssh", "chroot", "nsenter"}
    | {"uv", "uvx", "pipx", "poetry", "pdm", "hatch", "rye", "pixi", "conda", "mamba", "micromamba", "nix", "nix-shell"}
    | {"watch", "parallel", "busybox", "script", "strace", "ionice", "taskset", "chronic", "unbuffer"}
)
_CONTAINERS = frozenset({"docker", "docker-compose", "podman", "podman-compose", "nerdctl"})
_FEEDS = frozenset({"xargs", "parallel"})
_ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_DEEPEST = 6  # shells in shells


class Command(msgspec.Struct, frozen=True):
    """One simple command: the program's name without its folder, its words, and the files it redirects to.

    `assigns`: what stands before it as NAME=VALUE. `fed`: the words before it in a pipe that hands it its arguments.
    """

    program: str
    words: tuple[str, ...]
    writes: tuple[str, ...]
    assigns: tuple[str, ...] = ()
    fed: tuple[str, ...] = ()


def commands(text: str, known: Container[str] = (), depth: int = 0) -> Iterator[Command]:
    """The simple commands in a line or script, also those handed to another shell. Advisory: no shell is emulated.

    `known`: programs that are looked for among the words of those that run another one.
    """
    before: list[str] = []
    for words, ends in _split(text):
        if depth < _DEEPEST:
            for word in words:
                for within in _substituted(word):
                    yield from commands(within, known, depth + 1)
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
        wrapped = plain[: len(plain) - len(rest)]
        assigns = tuple(word for word in wrapped if _ASSIGNS.match(word))
        program = PurePath(rest[0]).name if rest else ""
        fed = tuple(before) if _FEEDS.intersection(PurePath(word).name for word in (*wrapped, program)) else ()
        before = [*before, *plain] if ends in ("|", "|&") else []
        if not rest:
            if writes or assigns:
                yield Command("", (), tuple(writes), assigns)
            continue
        yield Command(program, tuple(rest[1:]), tuple(writes), assigns, fed)
        if depth < _DEEPEST:
            inner = _inner(program, rest[1:])
            if inner is not None:
                yield from commands(inner, known, depth + 1)
            if program in _CARRIES:
                for carried in _carried(program, rest[1:], known):
                    yield from commands(carried, known, depth + 1)


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


def _carried(program: str, words: list[str], known: Container[str]) -> Iterator[str]:
    """What a program such as `docker exec` or `uvx` runs: from the first word on that is a known program's name, and
    each word that is a line of its own."""
    if program in _CONTAINERS and "exec" not in words:
        return  # `run` and `pull` name images, which are called as the programs in them
    for at, word in enumerate(words):
        if any(mark in word for mark in " \t\n"):
            yield word
        elif (name := PurePath(word).name) in known or name.startswith("python") or name in _SHELLS:
            yield shlex.join(words[at:])
            return


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


def _split(text: str) -> Iterator[tuple[list[str], str]]:
    """The words between what ends a command, each with what ended it."""
    lexer = shlex.shlex(text.replace("`", "\n"), posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        words = list(lexer)
    except ValueError:  # quotes that do not close: whatever stands there is looked at word by word
        words = re.findall(r"[;&|()<>\n]+|[^\s;&|()<>'\"]+", text)
    found: list[str] = []
    for word in words:
        if word and set(word) <= _ENDS:
            yield found, word
            found = []
        else:
            found.append(word)
    yield found, ""
