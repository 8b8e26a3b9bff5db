"""A database of its own for every test, on a real server; where there is none, the summary says it."""

from contextlib import closing

import pytest
from tests.support import mariadb
from tests.support.faults import unflushed
from tests.support.mariadb import MariaWorld, database

from endmark.effects.mariadb import MariadbTarget


@pytest.fixture
def name():
    mariadb.needed()
    with database() as made:
        yield made


@pytest.fixture
def world(tmp_path, name):
    with unflushed():
        yield MariaWorld(tmp_path, name)


@pytest.fixture
def limited(world):
    """The same world for an account that may do everything in its database, and nothing outside."""
    user = f"u_{world.name[-12:]}"
    with closing(mariadb.connect()) as conn, conn.cursor() as cursor:
        cursor.execute(f"CREATE USER {user}@'%' IDENTIFIED BY 'secret'")
        cursor.execute(f"CREATE USER {user}@localhost IDENTIFIED BY 'secret'")
        cursor.execute(f"GRANT ALL ON {world.name}.* TO {user}@'%', {user}@localhost")
        try:
            world.target = MariadbTarget(mariadb.url_of(world.name, user, "secret"))
            yield world
        finally:
            cursor.execute(f"DROP USER {user}@'%', {user}@localhost")
