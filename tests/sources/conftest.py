"""One server for a module's tests."""

import pytest
from tests.support.server import serving


@pytest.fixture(scope="module")
def server():
    with serving() as made:
        yield made
