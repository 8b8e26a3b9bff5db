"""A folder with a database, a configuration that opens it to agents, and the real server of it."""

import pytest
from tests.faces.mcp.desk import Room
from tests.support.world import make_database


@pytest.fixture
def room(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_database(tmp_path / "app.db")
    made = Room(tmp_path)
    made.configure()
    return made
