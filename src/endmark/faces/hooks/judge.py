"""The rules: which tool calls would reach something guarded by another road than the gate."""

import itertools
import os
import re
from collections.abc import Iterator
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
_WRITERS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit", "apply_patch"})
_PATHS = ("file_path", "notebook_path", "path")
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)
_FOLDERS = 16  # the last folders of a script that are remembered
_PERSONS = ("approve", "settle", "restore")

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
        for command in commands(text):
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
    if program.startswith("python") and "-m" in words and "endmark" in words:
        at = words.index("endmark")
        program, words = "endmark", words[at + 1 :]
    if program == "endmark":
        return None if guarded.may_approve else _endmark(words)
    if program == "git":
        return gitrules.judge(words, folder, guarded.branches)
    engine = _ENGINE.get(program)
    if engine is not None:
        what = _server(engine, words, guarded)
        if what is not None:
            return f"{program} would reach {what} past its gate. {_INSTEAD}"
    if program in ("export", "unset") and not guarded.may_approve:
        said = " ".join(words)
        if "ENDMARK_AGENT_MAY_APPROVE" in said:
            return "Who may approve is a person's to say. Leave that variable alone, and tell the person what waits."
    if program == "find" and _FIND_ACTS.intersection(words):
        what = _found(words, folder, guarded)
        if what is not None:
            return f"find would act on {what}, which changes through endmark alone. {_INSTEAD}"
    if program in _SQLITE and (what := _in_variable(words, guarded)) is not None:
        return f"{program} would reach {what} past its gate. {_INSTEAD}"
    if program not in _LOOKS:
        what = _mentioned(words, folder, guarded)
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


def _found(words: tuple[str, ...], folder: str, guarded: Guarded) -> str | None:
    """A guarded file that `find` is given, by its path or its name."""
    for path, what in guarded.files.items():
        if os.path.basename(path) in words:
            return what
    start = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    for name in start:
        found = guarded.file_at(name, folder)
        if found is not None:
            return found
    return None


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
    verbs = [word for word in words if not word.startswith("-")]
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
