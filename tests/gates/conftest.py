"""The gate's own tests wait for no disk, but for those whose other processes do: killed ones, and many at once."""

import pytest
from tests.support.faults import unflushed


@pytest.fixture(autouse=True)
def _unflushed():
    with unflushed():
        yield
