"""Ledgers for tests in either engine: a file, or a schema of a real PostgreSQL server that is emptied before use."""

import uuid
from contextlib import contextmanager

import psycopg
import pytest
from tests.support.servers import postgres

from endmark.ledger.book import Ledger

ENGINES = ("sqlite", "postgres")
TABLES = ("counts", "bodies", "answers", "events", "checkpoints", "reviews", "decisions", "attempts", "tokens")
_NUMBERED = {"events": "id", "reviews": "n", "decisions": "n", "attempts": "n"}


def administrator():
    """The URL of a role that may do everything on the server of this test session."""
    return postgres().url


def with_database(name):
    """The administrator's URL, for another database of the same server."""
    head, _, tail = administrator().partition("://")
    authority, _, rest = tail.partition("/")
    query = rest.partition("?")[2]
    return f"{head}://{authority}/{name}" + (f"?{query}" if query else "")


@contextmanager
def new_database():
    """The URL of a database that exists until the block is left."""
    name = f"endmark_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(administrator(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
        try:
            yield with_database(name)
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def stranger(place):
    """The book, opened the way an administrator would who goes around the code."""
    with psycopg.connect(place.partition("?schema=")[0], autocommit=True) as connection:
        connection.execute(f"SET search_path = {place.partition('?schema=')[2] or 'endmark'}")
        connection.execute("SET synchronous_commit = off")
        yield connection


@contextmanager
def without_rules(place):
    """The same, with every trigger out of the way."""
    with stranger(place) as connection:
        connection.execute("SET session_replication_role = replica")
        yield connection


def emptied(place):
    """The same book, with nothing in it and its numbers begun anew."""
    with without_rules(place) as connection, connection.transaction():
        for table in TABLES:
            connection.execute(f"DELETE FROM {table}")
        for table, column in _NUMBERED.items():
            connection.execute(f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), 1, false)")
    return place


def rows(place):
    """Everything in the book, table by table."""
    with stranger(place) as connection:
        return [(table, row) for table in TABLES for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2")]


def waiting(place):
    """How many sessions of this database wait for another one's lock."""
    with psycopg.connect(place.partition("?schema=")[0]) as connection:
        (row,) = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return row[0]


class Places:
    """Where new books of one engine can be; each is empty, and the one before it may be gone."""

    def __init__(self, folder, postgres):
        self._folder = folder
        self._postgres = postgres
        self._number = 0

    @property
    def engine(self):
        return "postgres" if self._postgres else "sqlite"

    def new(self):
        self._number += 1
        return emptied(self._postgres) if self._postgres else self._folder / f"ledger-{self._number}.db"


def make(url):
    Ledger.open(url, create=True).close()
    return url


@pytest.fixture(scope="session")
def postgres_book():
    """A book in a database of this process, made once. Its rules stay as they are."""
    with new_database() as url:
        yield make(url)


@pytest.fixture
def url(postgres_book):
    """The URL of an empty book in PostgreSQL."""
    return emptied(postgres_book)
