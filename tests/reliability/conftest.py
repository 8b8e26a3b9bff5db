"""Crashes are staged on bytes: nothing waits for a disk but the traced gate, which is a process of its own."""

import pytest
from tests.support.faults import unflushed


@pytest.fixture(autouse=True)
def _unflushed():
    with unflushed():
        yield
