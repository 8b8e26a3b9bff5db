"""A scratch database with the part of a schema that a plan can reach, and no rows: for rehearsing it.

A plan reaches what it names, the views on that and what those stand on, and the tables tied to it by a foreign key.
"""

import contextlib
import re
from collections.abc import Iterator

import msgspec
import pymysql

from endmark.core.refusal import CannotTry
from endmark.effects.mariadb import fingerprint as schema
from endmark.effects.mariadb.address import Address
from endmark.effects.mariadb.connection import ACCESS, SQL_MODE, Conn, close, code_of, connect, rows, words
from endmark.effects.mariadb.guard import OURS
from endmark.effects.mariadb.lexer import tokens
from endmark.effects.mariadb.lock import key_of

PREFIX = "endmark_rehearsal_"
_DEFINER = re.compile(r" DEFINER=`(?:[^`]|``)*`@`(?:[^`]|``)*`")
_OBJECTS = "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = DATABASE()"
_ROUTINES = "SELECT routine_name, routine_type FROM information_schema.routines WHERE routine_schema = DATABASE()"
_TRIGGERS = (
    "SELECT trigger_name, event_object_table FROM information_schema.triggers WHERE trigger_schema = DATABASE() "
    "ORDER BY event_object_table, action_timing, event_manipulation, action_order"
)
_KEYS = (
    "SELECT table_name, referenced_table_name FROM information_schema.referential_constraints "
    "WHERE constraint_schema = DATABASE()"
)


class Reach(msgspec.Struct, frozen=True):
    """What is copied: `names` in lower case, of tables, views, sequences and routines, and every trigger on those."""

    names: frozenset[str]
    objects: tuple[tuple[str, str], ...]  # name, kind
    routines: tuple[tuple[str, str], ...]
    triggers: tuple[str, ...]

    def copies(self, row: schema.Row) -> bool:
        """Whether a row of `describe` is about something that is copied."""
        kind, name = row[:2]
        if kind in ("database", "event"):
            return False
        return (row[2] if kind == "trigger" else name).lower() in self.names


def reach(conn: Conn, database: str, named: frozenset[str]) -> Reach:
    """What these words, in lower case, reach in `database`, where `conn` is. Raises CannotTry and pymysql's errors."""
    objects = [(name, kind) for name, kind in rows(conn, _OBJECTS) if name.lower() not in OURS]
    routines, triggers = rows(conn, _ROUTINES), rows(conn, _TRIGGERS)
    known = {name.lower() for name, _kind in [*objects, *routines]}
    views = {
        name.lower(): _words(schema.create(conn, database, name, kind)) & known
        for name, kind in objects
        if kind == "VIEW"
    }
    found = (named & known) | {table.lower() for trigger, table in triggers if trigger.lower() in named}
    before = -1
    while len(found) > before:
        before = len(found)
        for view, stands_on in views.items():
            if view in found or stands_on & found:
                found |= {view} | stands_on
    for child, parent in rows(conn, _KEYS):
        pair = {child.lower(), (parent or child).lower()}
        if pair & found:
            found = found | (pair & known)
    return Reach(
        frozenset(found),
        tuple(one for one in objects if one[0].lower() in found),
        tuple(one for one in routines if one[0].lower() in found),
        tuple(trigger for trigger, table in triggers if table.lower() in found),
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(token.text for token in tokens(text) if token.is_name)


class NoClone(CannotTry):
    """No copy can be made: this account may not make a scratch database, or something in reach is broken."""


@contextlib.contextmanager
def scratch(conn: Conn, address: Address, database: str, part: Reach, timeout: float) -> Iterator[Conn]:
    """A connection to a clone of a part of `database`, which `conn` is in and whose lock is held; dropped afterwards.

    Raises NoClone, CannotTry and pymysql's errors.
    """
    name = f"{PREFIX}{key_of(database)}"
    charset, collation = rows(
        conn,
        "SELECT default_character_set_name, default_collation_name FROM information_schema.schemata "
        "WHERE schema_name = DATABASE()",
    )[0]
    try:
        rows(conn, f"DROP DATABASE IF EXISTS `{name}`")
        rows(conn, f"CREATE DATABASE `{name}` CHARACTER SET {charset} COLLATE {collation}")
    except pymysql.err.MySQLError as fault:
        if code_of(fault) in ACCESS:
            raise NoClone(
                f"this account may not make the scratch database {name} for a rehearsal ({words(fault)}); "
                f"grant it ALL ON `{PREFIX.replace('_', chr(92) + '_')}%`.*. Nothing was written."
            ) from None
        raise
    inside = None
    try:
        inside = connect(address, read_timeout=timeout, database=name)
        _fill(conn, inside, database, part)
        yield inside
    finally:
        close(inside)
        with contextlib.suppress(pymysql.err.MySQLError):
            rows(conn, f"DROP DATABASE IF EXISTS `{name}`")


def _fill(conn: Conn, inside: Conn, database: str, part: Reach) -> None:
    rows(inside, "SET SESSION foreign_key_checks = 0")
    for name, kind in sorted(part.objects, key=lambda one: one[1] != "SEQUENCE"):  # defaults may ask a sequence
        if kind != "VIEW":
            rows(inside, schema.create(conn, database, name, kind))
    waiting = [(_text(conn, kind, name), kind, name) for name, kind in part.routines]
    waiting += [
        ((SQL_MODE, schema.create(conn, database, name, kind)), kind, name)
        for name, kind in part.objects
        if kind == "VIEW"
    ]
    waiting += [(_text(conn, "TRIGGER", name), "TRIGGER", name) for name in part.triggers]
    while waiting:  # views stand on views and functions: in rounds, until all stand or none can
        left = []
        for (mode, text), kind, name in waiting:
            rows(inside, "SET SESSION sql_mode = %s", mode)
            try:
                rows(inside, text)
            except pymysql.err.MySQLError as fault:
                left.append(((mode, text), kind, name))
                last = (kind.lower(), name, words(fault))
        if len(left) == len(waiting):
            kind, name, why = last
            raise NoClone(f"the {kind} {name} cannot be copied for a rehearsal ({why}). Nothing was written.")
        waiting = left
    rows(inside, "SET SESSION sql_mode = %s", SQL_MODE)
    rows(inside, "SET SESSION foreign_key_checks = 1")


def _text(conn: Conn, kind: str, name: str) -> tuple[str, str]:
    """The sql_mode and the text of a routine or trigger, less its definer. Raises CannotTry."""
    quoted = name.replace("`", "``")
    _name, mode, text = rows(conn, f"SHOW CREATE {kind} `{quoted}`")[0][:3]
    if text is None:
        raise CannotTry(f"this account may not see the {kind.lower()} {name}. Nothing was written.")
    return str(mode), _DEFINER.sub("", str(text), count=1)
