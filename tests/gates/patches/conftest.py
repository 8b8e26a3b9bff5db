"""Worlds that are looked at when a test ends: the ledger is sound, and every merge of the gate's has its pass."""

import pytest
from tests.gates.patches.world import World
from tests.support.ledgers import postgres_book

__all__ = ["postgres_book"]


@pytest.fixture
def make_world(tmp_path):
    made: list[World] = []

    def make(rules=None, **more):
        made.append(World(tmp_path / f"world-{len(made)}", rules, **more))
        return made[-1]

    yield make
    for world in made:
        world.end()


@pytest.fixture
def world(make_world):
    one = make_world()
    one.says("pass")
    return one
