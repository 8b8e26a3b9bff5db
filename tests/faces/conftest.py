"""The command line for tests: in this process where that is enough, as a process of its own where it is not."""

import pytest
from tests.faces.shell import Shell
from tests.support.ledgers import postgres_book, url
from tests.support.world import make_database

from endmark.faces.review import MARKERS, MAY_APPROVE

__all__ = ["postgres_book", "url"]


@pytest.fixture
def shell(tmp_path, monkeypatch, capfdbinary):
    """A folder with a database, app.db, and a ledger, ledger.db, that is made when first needed."""
    for name in (*MARKERS, MAY_APPROVE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENDMARK_LEDGER", "ledger.db")
    make_database(tmp_path / "app.db")
    return Shell(tmp_path, monkeypatch, capfdbinary)
