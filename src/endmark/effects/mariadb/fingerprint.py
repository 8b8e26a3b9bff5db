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
    "SELECT table_name, table_type FROM information_schema.tables "
    f"WHERE table_schema = DATABASE() AND table_name NOT IN ({_OWN})"  # names of our own
)
_DATABASE = (
    "SELECT default_character_set_name, default_collation_name FROM information_schema.schemata "
    "WHERE schema_name = DATABASE()"
)
_TRIGGERS = (
    "SELECT trigger_name, event_object_table, action_timing, event_manipulation, action_order, action_statement, "
    "sql_mode FROM information_schema.triggers WHERE trigger_schema = DATABASE()"
)
_ROUTINES = (
    "SELECT routine_name, routine_type, dtd_identifier, routine_definition, is_deterministic, sql_data_access, "
    "security_type, sql_mode, routine_comment FROM information_schema.routines WHERE routine_schema = DATABASE()"
)
_PARAMETERS = (
    "SELECT specific_name, routine_type, ordinal_position, parameter_mode, parameter_name, dtd_identifier "
    "FROM information_schema.parameters WHERE specific_schema = DATABASE()"
)
_EVENTS = (
    "SELECT event_name, event_type, execute_at, interval_value, interval_field, starts, ends, status, on_completion, "
    "event_definition, sql_mode, event_comment FROM information_schema.events WHERE event_schema = DATABASE()"
)
_COUNTER = re.compile(r"^(\) ENGINE=\w+) AUTO_INCREMENT=\d+", re.MULTILINE)
_DEFINER = re.compile(r" DEFINER=`(?:[^`]|``)*`@`(?:[^`]|``)*`")


def describe(conn: Conn, events: list[Row] | None = None) -> list[Row]:
    """Every object of the schema as a row of text, sorted. `events` stands for those of the database where given.

    Raises CannotTry for what this account may not see, and pymysql's errors.
    """
    found = [("database", *_texts(row)) for row in rows(conn, _DATABASE)]
    for name, kind in rows(conn, _TABLES):
        found.append((_KINDS.get(kind, "table"), name, create(conn, name, kind)))
    found += [("trigger", *_texts(row)) for row in rows(conn, _TRIGGERS)]
    for row in rows(conn, _ROUTINES):
        if row[3] is None:
            raise CannotTry(f"this account may not see the {row[1].lower()} {row[0]}. Nothing was written.")
        found.append(("routine", *_texts(row)))
    found += [("parameter", *_texts(row)) for row in rows(conn, _PARAMETERS)]
    found += events_of(conn) if events is None else events
    return sorted(found)


_KINDS = {"VIEW": "view", "SEQUENCE": "sequence"}


def events_of(conn: Conn) -> list[Row]:
    return [("event", *_texts(row)) for row in rows(conn, _EVENTS)]


def create(conn: Conn, name: str, kind: str) -> str:
    """The statement that makes a table, view or sequence, as the server spells it, less counters and definers.

    Where the server puts the database before a name (a view that broke, a sequence in a default), it is left out.
    """
    database = str(rows(conn, "SELECT DATABASE()")[0][0]).replace("`", "``")
    quoted = "`" + name.replace("`", "``") + "`"
    text = str(rows(conn, f"SHOW CREATE {'VIEW' if kind == 'VIEW' else 'TABLE'} {quoted}")[0][1])
    text = text.replace(f"`{database}`.", "")
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
