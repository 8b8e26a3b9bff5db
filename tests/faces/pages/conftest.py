"""The pages over a world with something of everything."""

import pytest
from tests.faces.pages.site import furnished, served


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Nobody writes here."""
    with served(tmp_path_factory.mktemp("pages")) as found:
        found.merged = furnished(found)
        yield found


@pytest.fixture
def empty(tmp_path):
    """A service with nothing on record."""
    with served(tmp_path) as found:
        yield found
