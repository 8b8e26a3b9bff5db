"""What a plan's statement may not do inside our transaction, asked of SQLite while it compiles each statement."""

import sqlite3
from collections.abc import Callable

OURS = frozenset({"schema_jobs", "endmark_receipts"})


def is_ours(name: str | None) -> bool:
    """Whether `name` names one of our tables to SQLite, which folds ASCII letters only."""
    return name is not None and name.isascii() and name.lower() in OURS


# Reading the schema, and the few settings that are part of the transaction. Every other pragma reaches outside it.
PRAGMAS = frozenset(
    {
        "application_id",
        "defer_foreign_keys",
        "foreign_key_check",
        "foreign_key_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "integrity_check",
        "legacy_alter_table",
        "quick_check",
        "table_info",
        "table_list",
        "table_xinfo",
        "user_version",
    }
)
# What fts5 and rtree ask when a table of theirs is made. Asked only: with a value they would reach outside too.
ASKED = frozenset({"data_version", "page_size"})
# Modules that keep their data in tables of this database. Others may read files or processes.
MODULES = frozenset({"fts3", "fts4", "fts5", "geopoly", "rtree", "rtree_i32"})
FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})

_WRITES = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
# action -> which argument names the table it is about, and the word for it
_ON_TABLE = {
    sqlite3.SQLITE_DROP_TABLE: (0, "drop"),
    sqlite3.SQLITE_ALTER_TABLE: (1, "alter"),
    sqlite3.SQLITE_CREATE_INDEX: (1, "index"),
    sqlite3.SQLITE_DROP_INDEX: (1, "change the indexes of"),
    sqlite3.SQLITE_DROP_TRIGGER: (1, "change the triggers of"),
    sqlite3.SQLITE_CREATE_TEMP_TABLE: (0, "hide"),
    sqlite3.SQLITE_CREATE_TEMP_VIEW: (0, "hide"),
    sqlite3.SQLITE_CREATE_VIEW: (0, "hide"),
    sqlite3.SQLITE_DROP_VTABLE: (0, "drop"),
}


class Guard:
    """Judges each statement while SQLite compiles it, the bodies of fired triggers included.

    `denied` says what the statement now being compiled may not do; `compiled` that there was anything to compile;
    `written` names the tables whose rows were to be written.
    """

    def __init__(self) -> None:
        self.denied: str | None = None
        self.compiled = False
        self.written: set[str | None] = set()
        self.authorizer = self._make_authorizer()

    def _make_authorizer(self) -> Callable[[int, str | None, str | None, str | None, str | None], int]:
        # A closure, and names once judged remembered: SQLite asks for every action of every statement.
        harmless = self.written

        def authorize(action: int, one: str | None, two: str | None, _db: str | None, _by: str | None) -> int:
            self.compiled = True
            if action not in _JUDGES or (action in _WRITES and one in harmless):
                return sqlite3.SQLITE_OK
            denied = _JUDGES[action](one, two)
            if denied is not None:
                self.denied = denied
                return sqlite3.SQLITE_DENY
            if action in _WRITES:
                harmless.add(one)
            return sqlite3.SQLITE_OK

        return authorize


def _write(one: str | None, _two: str | None) -> str | None:
    if is_ours(one):
        return f"write to {one}, which holds the receipts"
    return "write pages past SQL" if (one or "").lower() == "sqlite_dbpage" else None


def _on_table(index: int, word: str) -> Callable[[str | None, str | None], str | None]:
    def judge(one: str | None, two: str | None) -> str | None:
        table = one if index == 0 else two
        return f"{word} {table}, which holds the receipts" if is_ours(table) else None

    return judge


def _trigger(one: str | None, two: str | None) -> str | None:
    if is_ours(two):
        return f"put a trigger on {two}, which holds the receipts"
    return f"name a trigger {one}, as the receipts' table" if is_ours(one) else None


def _module(one: str | None, two: str | None) -> str | None:
    if (two or "").lower() not in MODULES:
        return f"use the virtual table module {two!r}"
    return f"replace {one}, which holds the receipts" if is_ours(one) else None


def _pragma(one: str | None, two: str | None) -> str | None:
    name = (one or "").lower()
    return None if name in PRAGMAS or (name in ASKED and two is None) else f"use PRAGMA {one}"


def _function(_one: str | None, two: str | None) -> str | None:
    return f"call {two}()" if (two or "").lower() in FUNCTIONS else None


_JUDGES: dict[int, Callable[[str | None, str | None], str | None]] = {
    sqlite3.SQLITE_TRANSACTION: lambda one, _two: f"say {one}: the transaction is the gate's",
    sqlite3.SQLITE_SAVEPOINT: lambda one, _two: f"use a savepoint ({one}): the transaction is the gate's",
    sqlite3.SQLITE_ATTACH: lambda _one, _two: "attach or write another database file",
    sqlite3.SQLITE_DETACH: lambda _one, _two: "detach a database",
    sqlite3.SQLITE_PRAGMA: _pragma,
    sqlite3.SQLITE_FUNCTION: _function,
    **dict.fromkeys(_WRITES, _write),
    **{action: _on_table(index, word) for action, (index, word) in _ON_TABLE.items()},
    sqlite3.SQLITE_CREATE_TRIGGER: _trigger,
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER: _trigger,
    sqlite3.SQLITE_CREATE_VTABLE: _module,
}
