"""A folder, a database with ledger and queue, and nothing in them."""

import pytest
from tests.faces.worker.site import site


@pytest.fixture
def here(tmp_path):
    with site(tmp_path) as made:
        yield made
