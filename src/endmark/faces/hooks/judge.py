"""The rules: which tool calls would reach something guarded by another road than the gate."""

import fnmatch
import itertools
import os
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from endmark.core import proof
from endmark.core.dsse import looks_like
from endmark.core.printable import safe
from endmark.core.proof import Form
from endmark.core.refusal import Refused, Signal
from endmark.faces.hooks import gitrules
from endmark.faces.hooks.guarded import Guarded
from endmark.faces.hooks.shell import Command, commands

_SQLITE = frozenset({"sqlite3", "sqlite", "litecli", "sqldiff", "sqlcipher"})
_POSTGRES = frozenset(
    {"psql", "pgcli", "pg_restore", "pg_dump", "createdb", "dropdb", "vacuumdb", "reindexdb", "pgbench"}
)
_MARIADB = frozenset({"mariadb", "mysql", "mycli", "mariadb-admin", "mysqladmin", "mysqlimport", "mariadb-import"})
_ENGINE = {**dict.fromkeys(_POSTGRES, "postgresql"), **dict.fromkeys(_MARIADB, "mariadb")}
# Options of an engine's clients whose value is the next word and names no database; and those that name one.
_TAKES_VALUE = {
    "postgresql": frozenset(
        {*(f"-{letter}" for letter in "cfvFPRTLohpUnNtj"), "--command", "--file", "--set", "--variable", "--output"}
        | {"--host", "--port", "--username", "--pset", "--field-separator", "--record-separator", "--log-file"}
    ),
    "mariadb": frozenset(
        {*(f"-{letter}" for letter in "euhPS"), "--execute", "--user", "--host", "--port", "--socket", "--protocol"}
    ),
}
_NAMES = {"postgresql": re.compile(r"-d|--dbname\b"), "mariadb": re.compile(r"-D|--database\b")}
# Programs that only look at a file, whatever they are given.
_LOOKS = frozenset(
    {
        "ls",
        "stat",
        "file",
        "du",
        "wc",
        "head",
        "tail",
        "cat",
        "grep",
        "rg",
        "find",
        "echo",
        "printf",
        "test",
        "[",
        "git",
    }
    | {"sha256sum", "md5sum", "cmp", "diff", "realpath", "readlink", "basename", "dirname", "cd", "endmark", "less"}
)
_FIND_ACTS = frozenset({"-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprintf", "-fls"})
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_NAMES = frozenset({"-name", "-iname"})
_FIND_PATHS = frozenset({"-path", "-ipath", "-wholename", "-iwholename"})
# Programs that take files away or write over them, and see what a `*` stands for; those that take whole folders.
_DESTROYS = frozenset({"rm", "mv", "unlink", "shred", "truncate", "tee", "sed", "perl", "cp", "install", "ln", "dd"})
_RECURSIVE = re.compile(r"-[a-zA-Z]*[rR][a-zA-Z]*|--rec[a-z]*")
_EXPORTS = frozenset({"export", "unset", "declare", "typeset", "setenv", "set"})
_WRITERS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit", "apply_patch"})
_PATHS = ("file_path", "notebook_path", "path")
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)
_FOLDERS = 16  # the last folders of a script that are remembered
_PERSONS = ("approve", "settle", "restore")
_KNOWN = frozenset({*_SQLITE, *_ENGINE, *_DESTROYS, "find", "git", "endmark"})
_MAY_APPROVE = "ENDMARK_AGENT_MAY_APPROVE"

_INSTEAD = (
    "Write the plan to a file and hand it over with the tool apply_schema_file, or with 'endmark apply FILE --to "
    "NAME'; a person approves it."
)


def judge(tool: str, given: dict[str, Any], folder: str, guarded: Guarded) -> str | None:
    """Why the call is blocked, and what to do instead; None to let it through."""
    name = tool.rpartition("__")[2]
    if name in ("apply_schema", "submit_verdict"):
        return _whole(name, given)
    start = next((value for key in ("workdir", "cwd") if isinstance(value := given.get(key), str)), "")
    for text in _texts(given):
        # What a path is seen from. Nobody runs the `cd`s here, so each folder that was gone to counts until the end.
        folders = _gone_to([folder], start)
        for command in commands(text, _KNOWN):
            for seen_from in folders:
                why = _command(command, seen_from, guarded)
                if why is not None:
                    return why
            if command.program in ("cd", "pushd"):
                folders = _gone_to(folders, next((word for word in command.words if not word.startswith("-")), "~"))
    if name in _WRITERS:
        for path in _written(given):
            what = guarded.file_at(path, folder)
            if what is not None:
                return f"{safe(path)} is {what}, which changes through endmark or by a person. {_INSTEAD}"
    return None


def _gone_to(folders: list[str], path: str) -> list[str]:
    """Those folders, and what `path` leads to from each; no more than a handful."""
    if not path or "\0" in path or len(path) > 4096:
        return folders
    found = [os.path.normpath(os.path.join(folder, os.path.expanduser(path))) for folder in folders]
    return list(dict.fromkeys([*folders, *found]))[-_FOLDERS:]


def _texts(given: dict[str, Any]) -> Iterator[str]:
    """What a shell will be given: hosts call it `command` or `cmd`, a text or a list of words."""
    for key in ("command", "cmd", "script"):
        value = given.get(key)
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            words = [word for word in value if isinstance(word, str)]
            import shlex

            yield shlex.join(words)


def _written(given: dict[str, Any]) -> Iterator[str]:
    yield from (value for key in _PATHS if isinstance(value := given.get(key), str))
    for key in ("command", "input", "patch"):
        if isinstance(value := given.get(key), str):
            yield from _PATCHED.findall(value)


def _whole(name: str, given: dict[str, Any]) -> str | None:
    """A plan or a verdict that is not whole is stopped here already, before it spends an id."""
    key = "plan" if name == "apply_schema" else "verdict"
    text = given.get(key)
    if not isinstance(text, str):
        return f"{name} takes the whole {key} as one string, {key!r}, and none was found. Send it whole."
    raw = text.encode("utf-8", "surrogatepass")
    try:
        found = proof.prove(raw)
    except Refused as refused:
        if refused.signal is Signal.WEAK_EVIDENCE and _is_signed(raw):
            return None  # whose signatures count is the gate's to say
        expected = "not declared" if refused.expected_bytes is None else f"{refused.expected_bytes:,}"
        return (
            f"The {key} is not whole ({refused.signal}): {safe(refused.detail)}. Received bytes: "
            f"{refused.received_bytes:,}. Expected bytes: {expected}. Nothing was written. Send the whole again under "
            "a new job_id, in smaller plans if it was cut; never append to it and never continue it."
        )
    wanted = (Form.PLAN, Form.WITNESS) if key == "plan" else (Form.VERDICT,)
    return None if found.form in wanted else f"A whole {found.form} was found where a {key} was expected. Send that."


def _is_signed(raw: bytes) -> bool:
    from endmark.core import strictjson

    return looks_like(strictjson.loads(raw))


def _command(command: Command, folder: str, guarded: Guarded) -> str | None:
    program, words = command.program, command.words
    for path in command.writes:
        what = guarded.file_at(path, folder)
        if what is not None:
            return f"It writes over {safe(path)}, which is {what}. {_INSTEAD}"
    if not guarded.may_approve and any(_MAY_APPROVE in word for word in _assigned(command)):
        return "Who may approve is a person's to say. Leave that variable alone, and tell the person what waits."
    if guarded.branches and (why := gitrules.configures((), _assigned(command))) is not None:
        return why
    program, words = _module(program, words)
    if program == "endmark":
        return None if guarded.may_approve else _endmark(words)
    if program == "git":
        what = gitrules.files(
            words, folder, partial(_held, guarded=guarded), partial(_held, guarded=guarded.untracked())
        )
        if what is not None:
            return f"git would take away or write over {what}, which changes through endmark alone. {_INSTEAD}"
        return gitrules.judge(words, folder, guarded.branches, command.assigns)
    engine = _ENGINE.get(program)
    if engine is not None:
        what = _server(engine, words, guarded)
        if what is not None:
            return f"{program} would reach {what} past its gate. {_INSTEAD}"
    if program == "find" and _FIND_ACTS.intersection(words):
        what = _found(words, folder, guarded)
        if what is not None:
            return f"find would act on {what}, which changes through endmark alone. {_INSTEAD}"
    if program in _SQLITE and (what := _in_variable(words, guarded)) is not None:
        return f"{program} would reach {what} past its gate. {_INSTEAD}"
    if program not in _LOOKS:
        what = _mentioned(words, folder, guarded) or _taken(command, folder, guarded)
        if what is not None:
            return f"{safe(program)} is given {what}, which changes through endmark alone. {_INSTEAD}"
    return None


def _server(engine: str, words: tuple[str, ...], guarded: Guarded) -> str | None:
    """Which target of this engine a client would reach: by its database, a URL or a variable; or by saying none."""
    text = " ".join(words)
    what = _in_variable(words, guarded)
    if what is not None:
        return what
    targets = {name: what for (its, name), what in guarded.databases.items() if its == engine}
    for name, what in targets.items():
        if name and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", text):
            return what
    says_none = not _names_database(engine, words) and "--version" not in words and "--help" not in words
    return next(iter(targets.values()), None) if says_none else None


def _in_variable(words: tuple[str, ...], guarded: Guarded) -> str | None:
    text = " ".join(words)
    found = (what for name, what in guarded.variables.items() if re.search(rf"\$\{{?{re.escape(name)}\b", text))
    return next(found, None)


def _assigned(command: Command) -> tuple[str, ...]:
    """The variables that a command sets for itself, or for what comes after it."""
    return (*command.assigns, *(command.words if command.program in _EXPORTS else ()))


def _module(program: str, words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """A program and its words; those of endmark where Python runs that."""
    if program.startswith("python"):
        for at, word in enumerate(words):
            if word == "-mendmark" or (word == "endmark" and words[at - 1 : at] == ("-m",)):
                return "endmark", words[at + 1 :]
    return program, words


def _found(words: tuple[str, ...], folder: str, guarded: Guarded) -> str | None:
    """A guarded file that `find` would act on: by its path, its name, or because it lies below and no name is asked."""
    start = list(itertools.takewhile(lambda word: not word.startswith(("-", "(", "!")), words))
    for what in (guarded.file_at(name, folder) for name in start):
        if what is not None:
            return what
    real, asked, names = os.path.realpath(folder), False, []
    for before, option, value in zip(("", *words), words, words[1:], strict=False):
        if option in (*_FIND_NAMES, *_FIND_PATHS, "-regex", "-iregex") and before not in ("!", "-not"):
            asked = True
            names += [value.casefold()] if option in _FIND_NAMES else []
            names += [os.path.normpath(os.path.join(real, value)).casefold()] if option in _FIND_PATHS else []
    for path, what in guarded.files.items():
        if any(fnmatch.fnmatchcase(one.casefold(), name) for name in names for one in (path, os.path.basename(path))):
            return what
    runs = [words[at + 1] for at, word in enumerate(words[:-1]) if word in _FIND_RUNS]
    acts = "-delete" in words or any(os.path.basename(run) in _DESTROYS for run in runs)
    only_folders = any(pair == ("-type", "d") for pair in itertools.pairwise(words))
    if asked or only_folders or not acts:
        return None
    return next((what for name in start or ["."] if (what := _held(name, folder, True, guarded)) is not None), None)


def _taken(command: Command, folder: str, guarded: Guarded) -> str | None:
    """A guarded file that goes with its folder, or that a `*` or the words of a pipe stand for."""
    if command.program not in _DESTROYS | {"rsync"}:
        return None
    plain = [word for word in command.words if not word.startswith("-")]
    whole: list[str] = []  # what goes with all that is in it
    if command.program == "mv":
        whole = plain[:-1]
    elif command.program == "rm" and any(_RECURSIVE.fullmatch(word) for word in command.words):
        whole = plain
    elif command.program == "rsync" and any(word.startswith("--del") for word in command.words):
        whole = plain[-1:]
    words = [*((word, True) for word in whole), *((word, False) for word in plain)]
    words += [(word, False) for word in command.fed]
    return next((what for word, below in words if (what := _held(word, folder, below, guarded)) is not None), None)


def _held(word: str, folder: str, below: bool, guarded: Guarded) -> str | None:
    """What is guarded at the path or pattern `word`, or (`below`) in the folder that it is."""
    if not word or "\0" in word or len(word) > 4096:
        return None
    path = os.path.join(os.path.realpath(folder), os.path.expanduser(word))
    globs = any(mark in word for mark in "*?[")
    asked = (os.path.normpath(path) if globs else os.path.realpath(path)).rstrip("/").split("/")
    for file, what in guarded.files.items():
        parts = file.split("/")
        if len(asked) == len(parts) or (below and len(asked) < len(parts)):
            pairs = zip(parts, asked, strict=False)
            if all(part == one or (globs and _matches(part, one)) for part, one in pairs):
                return what
    return None


def _matches(name: str, pattern: str) -> bool:
    """Whether a shell puts `name` in the place of `pattern`."""
    return fnmatch.fnmatchcase(name, pattern) and (pattern.startswith(".") or not name.startswith("."))


def _names_database(engine: str, words: tuple[str, ...]) -> bool:
    """Whether a database is said at all, by an option or by a word that is no option's value: else the client goes to
    the one of its environment."""
    rest = iter(words)
    for word in rest:
        if _NAMES[engine].match(word) or (word and not word.startswith("-")):
            return True
        if word in _TAKES_VALUE[engine]:
            next(rest, None)
    return False


def _mentioned(words: tuple[str, ...], folder: str, guarded: Guarded) -> str | None:
    """A guarded file among the words, as a path, in a URL, or inside a script that is handed over as one."""
    names = {os.path.basename(path): what for path, what in guarded.files.items()}
    for word in words:
        for part in {
            word,
            word.partition("=")[2],
            word.partition(":")[2].lstrip("/"),
            "/" + word.rpartition(":///")[2],
        }:
            what = guarded.file_at(part, folder)
            if what is not None:
                return what
        if re.search(r"[\s'\"(;=,]", word):
            for name, what in names.items():
                if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", word):
                    return what
    return None


def _endmark(words: tuple[str, ...]) -> str | None:
    if "--help" in words or "-h" in words:
        return None
    verbs = list(itertools.dropwhile("endmark".__eq__, (word for word in words if not word.startswith("-"))))
    verb = verbs[0] if verbs else ""
    if verb in _PERSONS:
        return f"'endmark {verb}' is a person's to run, at a shell of their own. Tell them what waits."
    if verb == "apply" and "--yes" in words:
        return "--yes speaks for a person. Leave it out: the plan is staged, and a person approves it."
    if verb == "merge" and "--approve" in words:
        return "--approve says that a person looked. Leave it out, and tell them what waits."
    if verbs[:3] == ["hook", "git", "uninstall"]:
        return "The guards of a repository are a person's to take away."
    return None
