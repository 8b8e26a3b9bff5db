"""How the book in a database is opened, made or brought up, or refused with one sentence."""

from typing import Any

import psycopg

from endmark.ledger.postgres import schema
from endmark.ledger.postgres.connection import Connection, cannot, connect, explained
from endmark.ledger.postgres.place import Place
from endmark.ledger.postgres.tables import ABOUT

# In the tables themselves: what functions like to_regnamespace remember may be older than a lock just waited for.
_LOOK = (
    "SELECT count(*) > 0, count(c.oid) > 0 FROM pg_namespace n "
    "LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = %s AND c.relkind = 'r' WHERE n.nspname = %s"
)
_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended('endmark ledger ' || %s, 0))"


def open_connection(place: Place, timeout: float, *, create: bool) -> Connection:
    """A connection to the book at `place`, brought up to the newest version; with `create`, a missing one is made.

    Raises CannotTry, and nothing else, when that is not to be had; a schema that is not ours is left as it was.
    """
    try:
        connection = connect(place, timeout)
        try:
            version = _version(connection, place)
            if version is None and not create:
                raise cannot(
                    place, f"there is no schema {place.schema}", "a ledger", "run `endmark ledger init`, or correct it"
                )
            if version is None or version < schema.MIGRATIONS[-1][0]:
                _bring_up(connection, place)
        except BaseException:
            connection.close()
            raise
        return connection
    except psycopg.Error as error:
        raise explained(error, place, timeout) from error


def _version(connection: psycopg.Connection[Any], place: Place) -> int | None:
    """The version of the book that stands there, or None where there is none. Raises CannotTry for anything else."""
    row = connection.execute(_LOOK, (ABOUT, place.schema)).fetchone()
    if row is None or not row[0]:
        return None
    do = f"name another schema for the ledger with ?schema=NAME, or remove {place.schema} if nobody needs it"
    if not row[1]:
        raise cannot(place, f"its schema {place.schema} is not a ledger's", "a ledger, or no such schema", do)
    rows = connection.execute(f"SELECT * FROM {place.schema}.{ABOUT}").fetchall()  # noqa: S608
    if len(rows) != 1 or len(rows[0]) != 2 or rows[0][0] != schema.APPLICATION or not isinstance(rows[0][1], int):
        raise cannot(place, f"its schema {place.schema} is another application's", "a ledger", do)
    version, newest = rows[0][1], schema.MIGRATIONS[-1][0]
    if version > newest:
        raise cannot(place, f"it has version {version}", f"version {newest} or older", "use a newer endmark for it")
    return version


def _bring_up(connection: psycopg.Connection[Any], place: Place) -> None:
    """Run every missing version in one transaction, one process at a time: it is the newest after it, or as before."""
    with connection.transaction():
        connection.execute(_ALONE, (place.schema,))
        version = _version(connection, place)  # again, now that nobody else can
        for statement in schema.statements(place.schema, version or 0) if version != schema.MIGRATIONS[-1][0] else ():
            connection.execute(statement)
