"""A database of its own for every test, on the one server of the test session."""

import itertools
import os

import pytest
from tests.effects.postgres.world import Cluster, PostgresWorld
from tests.support.servers import postgres

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def cluster():
    """The server, with two roles of this process and a template that is set up."""
    found = Cluster(postgres().url, f"endmark_test_{os.getpid()}_{next(_NUMBERS)}")
    found.make()
    yield found
    found.remove()


@pytest.fixture
def database(cluster):
    with cluster.database(next(_NUMBERS)) as made:
        yield made


@pytest.fixture(scope="module")
def shared(cluster):
    """One database for a whole module, whose tests leave it as it was."""
    with cluster.database(next(_NUMBERS)) as made:
        yield made


@pytest.fixture
def world(tmp_path, database):
    return PostgresWorld(tmp_path, database)
