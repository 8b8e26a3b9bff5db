"""Books for the tests of this folder. What is about behaviour asks for `path`, and runs once for each engine."""

import pytest
from tests.support.ledgers import ENGINES, Places, postgres_book, url

__all__ = ["postgres_book", "url"]


@pytest.fixture(params=ENGINES)
def places(request, tmp_path):
    return Places(tmp_path, request.getfixturevalue("postgres_book") if request.param == "postgres" else None)


@pytest.fixture
def path(places):
    """Where a ledger is, or can be made: a file, or the URL of a database."""
    return places.new()
