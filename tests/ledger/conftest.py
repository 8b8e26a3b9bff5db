"""Books for the tests of this folder. What is about behaviour asks for `path`, and runs once for each engine."""

import pytest
from tests.support.ledgers import ENGINES, Places, make, new_database


@pytest.fixture(scope="session")
def postgres_book():
    """A book in a database of this process, made once. Its rules stay as they are."""
    with new_database() as url:
        yield make(url)


@pytest.fixture(params=ENGINES)
def places(request, tmp_path):
    return Places(tmp_path, request.getfixturevalue("postgres_book") if request.param == "postgres" else None)


@pytest.fixture
def path(places):
    """Where a ledger is, or can be made: a file, or the URL of a database."""
    return places.new()


@pytest.fixture
def url(postgres_book):
    """The URL of an empty book in PostgreSQL."""
    return Places(None, postgres_book).new()
