"""One guarded repository for all pushes that are refused, and a copy for each test that changes one."""

import pytest
from tests.gates.pushes.world import World


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Not guarded yet; nobody writes to it."""
    return World(tmp_path_factory.mktemp("made")).build()


@pytest.fixture(scope="session")
def shared(made, tmp_path_factory):
    """Guarded, and only ever refused: whoever pushes there sees that nothing moved."""
    world = made.copy(tmp_path_factory.mktemp("shared") / "world")
    world.guard()
    return world


@pytest.fixture
def plain(made, tmp_path):
    """A copy of its own, not guarded."""
    return made.copy(tmp_path / "world")


@pytest.fixture
def world(plain):
    """A copy of its own, guarded."""
    plain.guard()
    return plain
