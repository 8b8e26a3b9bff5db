"""What a statement takes away, in words, for a person who decides about it.

A parser's opinion and nothing more: no gate asks here. What the parser does not know for harmless is not passed over.
"""

from typing import Any

NOT_UNDERSTOOD = "not understood; read it yourself"
_LONGEST = 100_000  # characters; the parser is slow, and nobody reads an opinion about a longer one


_DIALECTS = {"postgresql": "postgres", "mariadb": "mysql", "mysql": "mysql"}


def dialect_of(target: str | None) -> str:
    """The dialect in which statements for a target are read, by its identity; SQLite's where there is none."""
    return _DIALECTS.get((target or "").partition(":")[0], "sqlite")


def destroys(statement: str, dialect: str = "sqlite") -> tuple[str, ...]:
    """One clause for each thing that `statement` drops, deletes, overwrites or renames; none for a harmless one.

    `(NOT_UNDERSTOOD,)` for anything the parser cannot judge. Never raises.
    """
    if len(statement) > _LONGEST:
        return (NOT_UNDERSTOOD,)
    try:
        parsed = parse(statement, dialect)
        if len(parsed) != 1:
            return (NOT_UNDERSTOOD,)
        return tuple(dict.fromkeys(_judge(parsed[0])))
    except Exception:  # noqa: BLE001  # a parser's bug, whatever it is, must not keep anybody from reading the statement
        return (NOT_UNDERSTOOD,)


def parse(statement: str, dialect: str) -> list[Any]:
    """What sqlglot makes of a text: one expression a statement. Raises whatever it raises."""
    import logging

    import sqlglot  # slow to import, so only when something is shown

    log = logging.getLogger("sqlglot")  # it talks about what it does not know; the answer says so already
    before, log.disabled = log.disabled, True
    try:
        return list(sqlglot.parse(statement, dialect=dialect))
    finally:
        log.disabled = before


def _judge(found: Any) -> list[str]:
    from sqlglot import expressions as sql

    match found:
        case sql.Drop():
            return _drops(found)
        case sql.TruncateTable():
            return [f"deletes every row of {_name(table)}" for table in found.expressions]
        case sql.Delete():
            return [f"deletes {_rows(found)}"]
        case sql.Update():
            return [f"overwrites {_rows(found)}"]
        case sql.Alter():
            return [clause for action in found.args.get("actions") or [None] for clause in _alters(found, action)]
        case sql.Insert():
            return _inserts(found)
        case sql.Create():
            return [f"replaces the {_kind(found)} {_name(found.this)}"] if found.args.get("replace") else []
        case sql.Select() | sql.SetOperation() | sql.Analyze():
            return []
    return [NOT_UNDERSTOOD]


def _drops(found: Any) -> list[str]:
    kind = _kind(found)
    and_rows = " and every row in it" if kind == "table" else ""
    return [f"drops the {kind} {_name(thing)}{and_rows}" for thing in found.args.get("tables") or [found.this]]


def _alters(found: Any, action: Any) -> list[str]:
    from sqlglot import expressions as sql

    table = _name(found.this)
    match action:
        case sql.Drop():
            columns = action.args.get("tables") or [action.this]
            return [f"drops the {_kind(action)} {_name(column)} of {table} with what it holds" for column in columns]
        case sql.AlterRename():
            return [f"renames {table} to {_name(action.this)}"]
        case sql.RenameColumn():
            return [f"renames the column {_name(action.this)} of {table} to {_name(action.args['to'])}"]
        case sql.ColumnDef() | sql.AddConstraint():
            return []
    return [NOT_UNDERSTOOD]


def _inserts(found: Any) -> list[str]:
    if str(found.args.get("alternative") or "").upper() == "REPLACE" or found.args.get("overwrite"):
        return [f"replaces rows of {_name(found.this)} that are in the way"]
    if found.args.get("conflict") and found.args["conflict"].expressions:
        return [f"overwrites rows of {_name(found.this)} that are there already"]
    return []


def _rows(found: Any) -> str:
    from sqlglot import expressions as sql

    table = _name(found.this)
    where = found.args.get("where")
    if where is None:
        return f"every row of {table}"
    if where.find(sql.Column) is None:
        return f"every row of {table}, or none: its WHERE names no column"
    return f"the rows of {table} that its WHERE finds"


def _kind(found: Any) -> str:
    return str(found.args.get("kind") or "thing").lower()


def _name(thing: Any) -> str:
    from sqlglot import expressions as sql

    thing = thing.this if isinstance(thing, sql.Schema) else thing
    parts = getattr(thing, "parts", None) or [thing]
    return ".".join(part.name for part in parts)
