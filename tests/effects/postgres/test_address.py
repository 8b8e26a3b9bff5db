"""One spelling for one place, whatever the URL; and no password in anything that is said."""

import pytest

from endmark.core.refusal import CannotTry
from endmark.effects.postgres import PostgresTarget
from endmark.effects.postgres.address import address

HERE = "postgresql://db.example.org:5432/app"
SAME = [
    "postgresql://db.example.org/app",
    "postgres://db.example.org/app",
    "postgresql://DB.Example.ORG:5432/app",
    "postgresql://ann@db.example.org/app",
    "postgresql://ann:secret@db.example.org:5432/app",
    "postgresql://ann:s%40cr%3At@db.example.org/app?sslmode=verify-full&application_name=x",
    "postgresql://db.example.org/app?connect_timeout=3&options=-csearch_path%3Dx&keepalives_idle=5",
    "postgresql:///app?host=db.example.org&port=5432",
    "postgresql://db.example.org?dbname=app",
    "postgresql://app@db.example.org",
    HERE,
]
OTHER = {
    "postgresql://db.example.org:5433/app": "postgresql://db.example.org:5433/app",
    "postgresql://db.example.org/App": "postgresql://db.example.org:5432/App",
    "postgresql://db.example.org/a%2Fb%20c": "postgresql://db.example.org:5432/a%2Fb%20c",
    "postgresql://[::1]/app": "postgresql://[::1]:5432/app",
    "postgresql://10.0.0.1/app": "postgresql://10.0.0.1:5432/app",
    "postgresql:///app?host=/var/run/postgresql": "postgresql://%2Fvar%2Frun%2Fpostgresql:5432/app",
    "postgresql://a,b:6432/app": "postgresql://a:5432,b:6432/app",
    "postgresql://a:1,b:1/app?target_session_attrs=read-write": "postgresql://a:1,b:1/app",
}
REFUSED = {
    "postgresql://u:secret@h:port/app": "not one that PostgreSQL knows",
    "postgresql://u:secret@h/app?no_such=secret": "not one that PostgreSQL knows",
    "postgresql://u:secret@[::1/app": "not one that PostgreSQL knows",
    "postgresql://u:secret%ZZ@h/app": "not one that PostgreSQL knows",
    "postgresql://u:secret@h/app\0": "not one that PostgreSQL knows",
    "postgresql:///?service=secret": "the option service",
    "postgresql://h/app?replication=database": "the option replication",
}


@pytest.mark.parametrize("url", SAME)
def test_equal_places_have_one_identity(url, monkeypatch):
    monkeypatch.setenv("PGUSER", "someone")
    assert PostgresTarget(url).identity == HERE


@pytest.mark.parametrize("url", OTHER)
def test_an_identity_names_its_place_again(url):
    identity = address(url).identity
    assert identity == OTHER[url]
    assert address(identity).identity == identity


@pytest.mark.parametrize("url", REFUSED)
def test_a_url_that_means_nothing_is_refused_without_its_password(url):
    with pytest.raises(CannotTry, match=REFUSED[url]) as caught:
        PostgresTarget(url)
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(caught.value.__cause__)


def test_every_wait_has_an_end():
    plain = address("postgresql://u@h/app").parameters
    assert {plain[name] for name in ("connect_timeout", "tcp_user_timeout", "keepalives")} == {"10", "30000", "1"}
    assert address("postgresql://u@h/app?connect_timeout=3").parameters["connect_timeout"] == "3"
    assert address("postgresql://u@h/app?client_encoding=LATIN1").parameters["client_encoding"] == "UTF8"


@pytest.mark.parametrize("url", ["postgresql://u:secret@127.0.0.1:1/app", "postgresql://u:secret@h.invalid/app"])
def test_a_password_is_not_said_by_a_failure(url):
    with pytest.raises(CannotTry) as caught:
        PostgresTarget(url).open()
    assert "secret" not in str(caught.value)


def test_a_wrong_password_or_database_is_no_password_said(database):
    missing = database.url.replace(database.name, "no_such_database")
    with pytest.raises(CannotTry, match="no_such_database") as caught:
        PostgresTarget(missing).open()
    assert "pässword" not in str(caught.value)
