"""A world of its own for each test."""

import pytest
from tests.incidents.world import World


@pytest.fixture
def world(tmp_path):
    here = World(tmp_path)
    yield here
    here.close()
