"""The schema's fingerprint (spec/plan.md): equal for two databases of one server exactly when it spells their schemas
alike. What changes by use is left out: counters, row counts, dates; and so are definers and the database's own name.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Any

from endmark.core.refusal import CannotTry
from endmark.effects.mariadb.connection import Conn, rows
from endmark.effects.mariadb.guard import OURS

Row = tuple[str, ...]

_OWN = ", ".join(f"'{name}'" for name in sorted(OURS))
_TABLES = (
    "table_name, table_type",
    f"information_schema.tables WHERE table_schema = DATABASE() AND table_name NOT IN ({_OWN})",  # names of our own
)
_DATABASE = (
    "default_character_set_name, default_collation_name, schema_name",
    "information_schema.schemata WHERE schema_name = DATABASE()",
)
_TRIGGERS = (
    "trigger_name, event_object_table, action_timing, event_manipulation, action_order, action_statement, sql_mode",
    "information_schema.triggers WHERE trigger_schema = DATABASE()",
)
_ROUTINES = (
    (
        "routine_name, routine_type, dtd_identifier, routine_definition, is_deterministic, sql_data_access, "
        "security_type, sql_mode, routine_comment"
    ),
    "information_schema.routines WHERE routine_schema = DATABASE()",
)
_PARAMETERS = (
    "specific_name, routine_type, ordinal_position, parameter_mode, parameter_name, dtd_identifier",
    "information_schema.parameters WHERE specific_schema = DATABASE()",
)
_EVENTS = (
    (
        "event_name, event_type, execute_at, interval_value, interval_field, starts, ends, status, on_completion, "
        "event_definition, sql_mode, event_comment"
    ),
    "information_schema.events WHERE event_schema = DATABASE()",
)
_COUNTER = re.compile(r"^(\) ENGINE=\w+) AUTO_INCREMENT=\d+", re.MULTILINE)
_DEFINER = re.compile(r" DEFINER=`(?:[^`]|``)*`@`(?:[^`]|``)*`")


def describe(conn: Conn, events: list[Row] | None = None) -> list[Row]:
    """Every object of the schema as a row of text, sorted. `events` stands for those of the database where given.

    Raises CannotTry for what this account may not see, and pymysql's errors.
    """
    found: list[Row] = [] if events is None else list(events)
    answers = rows(conn, _ALL if events is None else _ALL_BUT_EVENTS)
    database = next(str(row[3]) for row in answers if row[0] == "database")
    for kind, *values in answers:
        row = values[: _WIDTHS[kind]]
        if kind == "database":
            found.append((kind, *_texts(row[:2])))
        elif kind == "routine" and row[3] is None:
            raise CannotTry(f"this account may not see the {row[1].lower()} {row[0]}. Nothing was written.")
        elif kind == "table":
            found.append((_KINDS.get(row[1], "table"), row[0], create(conn, database, row[0], row[1])))
        else:
            found.append((kind, *_texts(row)))
    return sorted(found)


def _together(parts: dict[str, tuple[str, str]]) -> str:
    """One question for all of them: kind, then the columns, filled up with NULL."""
    widest = max(columns.count(",") + 1 for columns, _source in parts.values())
    return " UNION ALL ".join(
        f"SELECT '{kind}', {columns}{', NULL' * (widest - columns.count(',') - 1)} FROM {source}"
        for kind, (columns, source) in parts.items()
    )


_PARTS = {
    "database": _DATABASE,
    "table": _TABLES,
    "trigger": _TRIGGERS,
    "routine": _ROUTINES,
    "parameter": _PARAMETERS,
    "event": _EVENTS,
}
_WIDTHS = {kind: columns.count(",") + 1 for kind, (columns, _source) in _PARTS.items()}
_ALL = _together(_PARTS)
_ALL_BUT_EVENTS = _together({kind: part for kind, part in _PARTS.items() if kind != "event"})
_KINDS = {"VIEW": "view", "SEQUENCE": "sequence"}


def create(conn: Conn, database: str, name: str, kind: str) -> str:
    """The statement that makes a table, view or sequence, as the server spells it, less counters and definers.

    Where the server puts `database`, the one we are in, before a name (a view that broke, a sequence in a default), it
    is left out.
    """
    quoted = "`" + name.replace("`", "``") + "`"
    text = str(rows(conn, f"SHOW CREATE {'VIEW' if kind == 'VIEW' else 'TABLE'} {quoted}")[0][1])
    text = text.replace("`" + database.replace("`", "``") + "`.", "")
    if kind == "VIEW":
        return _DEFINER.sub("", text, count=1)
    return _COUNTER.sub(r"\1", text)


def digest(found: Iterable[Row]) -> str:
    """64 lower-case hex over rows, each as netstrings."""
    sha = hashlib.sha256(b"endmark-fingerprint-mariadb-1\n")
    for row in found:
        sha.update(b"%d;" % len(row))
        for field in row:
            encoded = field.encode()
            sha.update(b"%d:%s," % (len(encoded), encoded))
    return sha.hexdigest()


def fingerprint(conn: Conn) -> str:
    return digest(describe(conn))


def _texts(row: Iterable[Any]) -> Row:
    return tuple("\0" if value is None else str(value) for value in row)
