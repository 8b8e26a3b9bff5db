"""What a plan's statement may be on an engine without an authorizer: the kinds below and nothing else.

Each statement is read with the server's own rules for words; what cannot be read, or is not known here, is refused
before anything runs. It is a reader of words and no parser of SQL: what only the server can know (does the transaction
still stand, is the schema the foreseen one) is asked of the server after each statement.
"""

import itertools
import re
from collections.abc import Sequence
from enum import Enum

import msgspec

from endmark.effects.mariadb.lexer import Kind, Token, Unreadable, tokens

OURS = frozenset({"schema_jobs", "endmark_receipts", "endmark_journal"})
_OURS_TEXT = re.compile("|".join(sorted(OURS)), re.IGNORECASE)
ENGINES = frozenset({"innodb", "aria", "myisam", "memory", "archive"})


class Does(Enum):
    """What running a statement means here."""

    ROWS = "rows"  # changes rows, inside a transaction
    READS = "reads"  # gives rows back
    SCHEMA = "schema"  # commits by itself
    NOTHING = "nothing"  # makes the receipts' table, which is there


class Judged(msgspec.Struct, frozen=True):
    """`irreversible` says what no `down` can bring back, or is None; `names` is every word that may name a table."""

    does: Does
    irreversible: str | None = None
    names: frozenset[str] = frozenset()


class Denied(Exception):
    """A statement that may not run. `str()` completes the sentence `statement N ...`."""


_ROWS = frozenset({"insert", "update", "delete", "replace"})
_READS = frozenset({"select", "with", "values"})
_SCHEMA = {
    "create": frozenset({"table", "index", "view", "trigger", "procedure", "function", "sequence"}),
    "alter": frozenset({"table", "view", "procedure", "function", "sequence"}),
    "drop": frozenset({"table", "index", "view", "trigger", "procedure", "function", "sequence"}),
    "rename": frozenset({"table", "tables"}),
    "truncate": frozenset({"table"}),
}
_BODIES = frozenset({"trigger", "procedure", "function"})
# What may stand between CREATE, ALTER or DROP and the kind of object.
_BETWEEN = frozenset(
    {"or", "replace", "algorithm", "undefined", "merge", "temptable", "sql", "security", "definer", "invoker"}
    | {"unique", "fulltext", "spatial", "online", "offline", "ignore"}
)
_WHY = {
    **dict.fromkeys(("begin", "start", "commit", "rollback", "savepoint", "release", "xa"), "the transaction is ours"),
    **dict.fromkeys(("lock", "unlock"), "the locks are the gate's"),
    **dict.fromkeys(("set", "use"), "the session is the gate's"),
    **dict.fromkeys(("call", "prepare", "execute", "deallocate", "do"), "it would run what cannot be read here"),
    "load": "it reads a file",
    "delimiter": "it is a word of a client, not of the server",
}
# Functions and clauses that reach outside the database or for the gate's lock, wherever they stand.
_FUNCTIONS = frozenset({"get_lock", "release_lock", "release_all_locks", "load_file"})
_CLAUSES = frozenset({"outfile", "dumpfile", "soname", "infile"})
_LOOKED_AT = _FUNCTIONS | _CLAUSES | {"definer"}  # where none of these stands in a statement about rows, all is well
# What the body of a routine or trigger may not say. As a name, each can stand in backticks.
_IN_BODIES = frozenset(
    {"prepare", "execute", "deallocate", "commit", "rollback", "savepoint", "xa", "kill", "shutdown", "flush", "reset"}
    | {"lock", "unlock", "grant", "revoke", "purge", "install", "uninstall"}
)
_FOREIGN_ENGINES = frozenset(
    {"connect", "federated", "federatedx", "csv", "spider", "sphinx", "oqgraph", "blackhole", "merge", "mrg_myisam"}
    | {"s3", "mroonga", "columnstore", "ndb", "ndbcluster", "rocksdb", "tokudb", "performance_schema"}
)
_DROP_LOSES_NOTHING = frozenset({"index", "key", "constraint", "foreign", "primary", "check", "default"})
_ALTER_LOSES = {
    "truncate": "the rows of a partition",
    "discard": "a tablespace",
    "import": "a tablespace",
    "exchange": "the rows of a partition",
}


def judge(statement: str, databases: frozenset[str]) -> Judged:
    """What a statement does. `databases`: the names, in lower case, that no statement may put before a dot.

    Raises Denied.
    """
    try:
        found = tokens(statement)
    except Unreadable as fault:
        raise Denied(str(fault)) from None
    while found and found[-1].text == ";" and found[-1].kind is Kind.SIGN:
        found.pop()
    if not found:
        raise Denied("holds no SQL at all")
    verb = found[0].text if found[0].kind is Kind.WORD else ""
    kind = _kind(found, verb)
    if kind not in _BODIES and any(token.text == ";" and token.kind is Kind.SIGN for token in found):
        raise Denied("holds more than one statement")
    names = frozenset(token.text for token in found if token.is_name)
    if kind is not None or not names.isdisjoint(_LOOKED_AT):
        _check_words(found, kind)
    if not names.isdisjoint(databases):
        _check_names(found, databases)
    if kind is not None and _is_receipts_table(found):
        return Judged(Does.NOTHING)
    if not names.isdisjoint(OURS):
        raise Denied(f"names {min(names & OURS)}, which holds the receipts")
    if kind is None:
        changes = verb in _ROWS or (verb == "with" and any(token.is_word(*_ROWS) for token in found if not token.depth))
        return Judged(Does.ROWS if changes else Does.READS, names=names)
    if (kind in _BODIES or kind == "view") and _OURS_TEXT.search(statement):
        raise Denied(f"makes a {kind} that names the receipts' tables")
    return Judged(Does.SCHEMA, _irreversible(found, verb, kind), names)


def _kind(found: Sequence[Token], verb: str) -> str | None:
    """The kind of object that a statement about the schema is about; None for one about rows. Raises Denied."""
    if verb in _ROWS or verb in _READS:
        return None
    if verb not in _SCHEMA:
        said = verb.upper()[:40] if verb else f"begin with {found[0].text[:40]!r}"
        why = _WHY.get(verb)
        raise Denied(f"may not {'say ' if verb else ''}{said}{f': {why}' if why else ''}")
    if verb == "truncate" and found[1:] and not found[1].is_word("table"):
        return "table"
    for at, token in enumerate(found[1:], 1):
        if token.is_word(*_SCHEMA[verb]):
            if verb == "drop" and any(other.text == "," and other.kind is Kind.SIGN for other in found[at:]):
                raise Denied(f"drops several {token.text}s, which is not atomic here: drop one a statement")
            return "table" if token.text == "tables" else token.text
        if token.is_word(*_BETWEEN) or (token.kind is Kind.SIGN and token.text == "="):
            continue
        raise Denied(f"may not say {verb.upper()} {token.text.upper()[:40]}")
    raise Denied(f"may not say {verb.upper()} alone")


def _check_words(found: Sequence[Token], kind: str | None) -> None:
    for at, token in enumerate(found):
        following = found[at + 1] if at + 1 < len(found) else None
        if token.is_name and token.text in _FUNCTIONS:
            raise Denied(f"may not call {token.text}()")
        if token.kind is not Kind.WORD:
            continue
        if token.text in _CLAUSES:
            raise Denied(f"may not say {token.text.upper()}: it reaches outside the database")
        if kind in _BODIES:
            _check_body(token, following)
        if following is None:
            continue
        if kind is not None and token.text in ("data", "index") and following.is_word("directory"):
            raise Denied(f"may not say {token.text.upper()} DIRECTORY: it reaches outside the database")
        if token.text == "definer" and following.text == "=":
            raise Denied("names a definer: it would act as somebody else")
        if kind is not None and token.text == "engine":
            _check_engine(found, at)


def _check_engine(found: Sequence[Token], at: int) -> None:
    is_option = found[at + 1].text == "="
    named = found[at + 2] if is_option and at + 2 < len(found) else found[at + 1]
    engine = named.text.strip("'\"").lower()
    if engine in _FOREIGN_ENGINES or (is_option and engine not in ENGINES):
        raise Denied(f"may not use the engine {engine[:40]}")


def _check_body(token: Token, following: Token | None) -> None:
    if token.text in _IN_BODIES:
        raise Denied(f"has a body that says {token.text.upper()}")
    if following is None:
        return
    if token.text == "start" and following.is_word("transaction", "slave", "replica"):
        raise Denied(f"has a body that says {token.text.upper()}")
    if token.text == "set" and (
        following.is_word("session", "global", "local", "persist", "persist_only", "role", "password", "names")
        or (following.kind is Kind.VARIABLE and following.text.startswith("@@"))
    ):
        raise Denied("has a body that changes a setting")


def _check_names(found: Sequence[Token], databases: frozenset[str]) -> None:
    for token, dot in itertools.pairwise(found):
        if token.is_name and dot.kind is Kind.SIGN and dot.text == "." and token.text in databases:
            raise Denied(
                f"names the database {token.text}: a plan stays in its target, and names its tables without a database"
            )


def _is_receipts_table(found: Sequence[Token]) -> bool:
    """CREATE TABLE IF NOT EXISTS schema_jobs (...), as plans of other tools carry it: our own made it before."""
    head = [token.text for token in found[:7]]
    return (
        head == ["create", "table", "if", "not", "exists", "schema_jobs", "("]
        and all(token.kind is Kind.WORD for token in found[:5])
        and not any(token.is_word("select", "values", "table", "with") for token in found[6:])
        and not any(token.is_name and token.text in OURS for token in found[6:])
    )


def _irreversible(found: Sequence[Token], verb: str, kind: str) -> str | None:
    """What no statement brings back once this one ran."""
    words = [token for token in found if token.depth == 0]
    if verb == "truncate" or (verb == "drop" and kind in ("table", "sequence")):
        return f"the {'rows of a table' if kind == 'table' else 'state of a sequence'}"
    if verb == "create" and kind in ("table", "sequence") and found[1].is_word("or"):
        return f"the {kind} it replaces"
    if verb != "alter" or kind != "table":
        return None
    for token, following in itertools.pairwise(words):
        if token.kind is not Kind.WORD:
            continue
        if token.text == "drop" and not following.is_word(*_DROP_LOSES_NOTHING):
            return "the rows of a partition" if following.is_word("partition") else "the values of a column"
        if token.text in _ALTER_LOSES and following.is_word("partition", "tablespace"):
            return _ALTER_LOSES[token.text]
    return None
