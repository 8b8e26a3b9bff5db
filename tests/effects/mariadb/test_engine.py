"""Which servers are taken, by their version. What MySQL says here was written down from its documentation."""

import pytest
from tests.effects.mariadb.wire import saying

from endmark.core.refusal import CannotTry
from endmark.effects.mariadb import MariadbTarget
from endmark.effects.mariadb.engine import is_mariadb

MYSQL = "MySQL Community Server - GPL"
TAKEN = {
    ("10.11.14-MariaDB-0+deb12u2", "Debian 12"): True,
    ("10.6.0-MariaDB", "MariaDB Server"): True,
    ("11.8.2-MariaDB-ubu2404-log", "mariadb.org binary distribution"): True,
    ("8.0.39", MYSQL): False,
    ("8.4.3", MYSQL): False,
    ("9.1.0-commercial", "MySQL Enterprise Server - Commercial"): False,
    ("8.0.39-0ubuntu0.22.04.1", "(Ubuntu)"): False,
    ("8.0.36-28", "Percona Server (GPL), Release 28, Revision 47601f19"): False,
    ("8.0.35-google", "(Google)"): False,
}
NOT_TAKEN = {
    ("10.5.27-MariaDB", "MariaDB Server"): "does not undo",
    ("5.5.68-MariaDB", "MariaDB Server"): "does not undo",
    ("5.7.44-log", MYSQL): "does not undo",
    ("8.0.11-TiDB-v7.5.0", "TiDB Server (Apache License 2.0) Community Edition"): "was expected",
    ("8.0.30-Vitess", "Version: 19.0.4"): "was expected",
    ("8.0.39-cluster", "MySQL Cluster Community Server - GPL"): "was expected",
    ("8.0.33", "Dolt"): "was expected",
    ("5.7.25-OceanBase-v4.2.1", "OceanBase_CE"): "was expected",
    ("8.0.39-somethingelse", ""): "was expected",
    ("8.0", MYSQL): "was expected",
    ("", ""): "was expected",
    ("latest", "x\x1b[2J"): "was expected",
}


@pytest.mark.parametrize(("said", "maria"), TAKEN.items(), ids=lambda one: str(one))
def test_taken(said, maria):
    assert is_mariadb(*said) is maria


@pytest.mark.parametrize(("said", "why"), NOT_TAKEN.items(), ids=lambda one: ascii(one))
def test_not_taken(said, why):
    with pytest.raises(CannotTry, match=why) as refused:
        is_mariadb(*said)
    assert refused.value.detail.isprintable()


def test_another_server_is_refused_before_anything_else_is_asked():
    with saying("8.0.11-TiDB-v7.5.0", "TiDB Server") as (port, asked), pytest.raises(CannotTry, match="TiDB"):
        MariadbTarget(f"mysql://root@127.0.0.1:{port}/shop").open()
    assert [question.split()[0].upper() for question in asked if not question.upper().startswith("SET")] == ["SELECT"]


def test_mysql_8_gets_as_far_as_its_next_question():
    with saying("8.0.39", MYSQL) as (port, asked), pytest.raises(CannotTry, match="a fake says no"):
        MariadbTarget(f"mysql://root@127.0.0.1:{port}/shop").open()
    assert "wsrep_on" in asked[-1]
