"""Targets on servers: reached, set up or not, and their clocks."""

from datetime import timedelta

import pytest
from tests.effects.mariadb.conftest import name  # noqa: F401  # fixtures
from tests.effects.postgres.conftest import cluster, database  # noqa: F401  # fixtures
from tests.effects.postgres.world import make_url
from tests.support import mariadb

from endmark.faces.api import now

CONFIG = '[targets.prod]\nurl = "env:PROD_URL"\nreview = "required"\n'


@pytest.fixture
def doctor(shell):
    """doctor(url): the exit code and what is to be done about the target."""
    shell.write("endmark.toml", CONFIG)
    shell.run("ledger", "init")

    def doctor(url):
        shell.setenv(PROD_URL=url)
        said = shell.run("doctor", "--json")
        found = [one for one in said.object["findings"] if one["family"] == "targets"]
        assert "secret" not in said.text
        return said.code, {one["what"]: one["says"] for one in found if one["level"] != "well"}, len(found)

    return doctor


def test_postgresql(doctor, cluster, database, monkeypatch):  # noqa: F811
    before = database.fingerprint()
    code, found, looked = doctor(database.url)
    assert (code, found, looked) == (0, {}, 5)
    code, found, _ = doctor(make_url(cluster.url, "postgres", database.name))
    assert code == 1
    assert "superuser" in found["prod: role"]
    monkeypatch.setattr("endmark.faces.doctor.targets.now", lambda: now() + timedelta(minutes=10))
    code, found, _ = doctor(database.url)
    assert (code, list(found)) == (1, ["prod: clock"])
    assert database.fingerprint() == before


def test_postgresql_that_was_not_set_up(doctor, cluster):  # noqa: F811
    with cluster.database("raw", template="template0") as raw:
        code, found, _ = doctor(raw.url)
        assert code in (1, 20)
        assert any("not set up" in said for said in found.values())


def test_mariadb(doctor, name, monkeypatch):  # noqa: F811
    code, found, looked = doctor(mariadb.url_of(name))
    assert (code, found, looked) == (0, {}, 4)
    monkeypatch.setattr("endmark.faces.doctor.targets.now", lambda: now() - timedelta(minutes=10))
    code, found, _ = doctor(mariadb.url_of(name))
    assert (code, list(found)) == (1, ["prod: clock"])


def test_a_server_that_is_not_there(doctor):
    code, found, _ = doctor("postgresql://nobody:secret@127.0.0.1:1/none")
    assert (code, list(found)) == (20, ["prod"])
