"""How a book in PostgreSQL is opened, made and brought up, or refused with one sentence and left as it was."""

import shutil
import subprocess
import threading
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.ledger.plans import BODY, NOW, a_plan, book_with
from tests.support import ledgers
from tests.support.servers import restart_postgres, start_postgres

from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.ledger.book import Ledger
from endmark.ledger.postgres import schema
from endmark.ledger.postgres.place import place_of


def refusal(url, create=True, **options):
    """The one sentence; it holds no password and says what was not done."""
    with pytest.raises(CannotTry) as caught:
        Ledger.open(url, create=create, **options)
    assert "hunter2" not in caught.value.detail
    assert "othing was " in caught.value.detail
    return caught.value.detail


def schemas(url):
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT nspname, count(c.oid) FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid "
            "WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' GROUP BY 1 ORDER BY 1"
        ).fetchall()


def test_what_may_be_shown():
    place = place_of("postgres://ann:hunter2@DB.example.com/books?schema=gate&sslmode=require")
    assert place.shown == "postgresql://db.example.com:5432/books?schema=gate"
    assert (place.schema, place.parameters["sslmode"], place.parameters["password"]) == ("gate", "require", "hunter2")
    assert place_of("postgresql://ann@[::1]:5433/b").shown == "postgresql://[::1]:5433/b"
    assert place_of("postgresql://ann@%2Fvar%2Frun/b").shown == "postgresql://%2Fvar%2Frun:5432/b"
    assert place_of("postgresql://ann@a,b:6432/x").database == "postgresql://a:5432,b:6432/x"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter2@h:x/db",
        "postgresql://ann:hunter2@h/db?nonsense=1",
        "postgresql://ann:hunter2@h/db?schema=Endmark",
        "postgresql://ann:hunter2@h/db?schema=a;b",
        "postgresql://ann:hunter2@h/db?schema=",
        "postgresql://ann:hunter2@h/db?schema=pg_x",
        "postgresql://ann:hunter2@h/db?schema=a&schema=b",
        "postgresql://ann:hunter2@h/db?options=-csearch_path%3Dx",
        "postgresql://ann:hunter2@h/db?service=x",
        "postgresql://ann:hunter2@[h/db",
    ],
)
def test_a_url_that_is_not_taken(url):
    refusal(url)


def test_nothing_there(url):
    parts = urlsplit(url)
    detail = refusal(f"{url}?schema=none", create=False)
    assert "there is no schema none" in detail
    assert "endmark ledger init" in detail
    assert "none" not in dict(schemas(url))
    assert "does not exist" in refusal(parts._replace(path="/endmark_no_such_database").geturl())
    assert "cannot be reached" in refusal("postgresql://ann:hunter2@127.0.0.1:1/x", timeout=1.0)


def test_the_schema_of_another_is_left_alone(url):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA foreign_one CREATE TABLE attempts (x int)")
        connection.execute("CREATE SCHEMA foreign_two CREATE TABLE ledger_version (application text, version int)")
        connection.execute("INSERT INTO foreign_two.ledger_version VALUES ('other', 1)")
        connection.execute("CREATE SCHEMA foreign_three")
    try:
        before = schemas(url)
        for name in ("foreign_one", "foreign_two", "foreign_three"):
            for create in (False, True):
                assert "?schema=NAME" in refusal(f"{url}?schema={name}", create=create)
        assert schemas(url) == before
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA foreign_one, foreign_two, foreign_three CASCADE")


def test_many_make_it_at_once(url):
    place, failures = f"{url}?schema=made_at_once", []

    def make():
        try:
            with Ledger.open(place, create=True) as ledger:
                book_with(ledger, State.APPLIED)
        except CannotTry as failure:
            failures.append(failure)

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Ledger.open(place, create=False) as ledger:
        assert (failures, ledger.verify().problems, len(ledger.page(10))) == ([], (), 6)


NEWEST = schema.MIGRATIONS[-1][0]
NEXT = (NEWEST + 1, ("ALTER TABLE @.attempts ADD COLUMN branch text", "CREATE TABLE @.comments (n bigint)"))


def test_an_older_version_is_brought_up_by_one(url, monkeypatch):
    place = f"{url}?schema=older"
    with Ledger.open(place, create=True) as ledger:
        entry = book_with(ledger, State.STAGED)
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, NEXT])
    opened = []
    threads = [threading.Thread(target=lambda: opened.append(Ledger.open(place, create=False))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [ledger.get(entry.attempt_id) for ledger in opened] == [entry] * 4
    assert opened[0].store.ask("SELECT version FROM ledger_version") == [(NEWEST + 1,)]
    assert opened[0].store.ask("SELECT branch FROM attempts") == [(None,)]
    for ledger in opened:
        ledger.close()
    monkeypatch.undo()
    assert f"it has version {NEWEST + 1}; expected version {NEWEST} or older; nothing was changed" in refusal(place)


def test_a_migration_that_fails_changes_nothing(url, monkeypatch):
    place = f"{url}?schema=failing"
    Ledger.open(place, create=True).close()
    before = schemas(url)
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, (NEWEST + 1, (*NEXT[1], "SELECT 1 / 0"))])
    assert "division by zero" in refusal(place, create=False)
    assert schemas(url) == before


def test_a_database_of_another_encoding(url):
    with psycopg.connect(ledgers.administrator(), autocommit=True) as admin:
        admin.execute("CREATE DATABASE endmark_test_ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
        try:
            place = ledgers.with_database("endmark_test_ascii")
            assert "its database holds SQL_ASCII; expected one that holds UTF8" in refusal(place)
        finally:
            admin.execute("DROP DATABASE endmark_test_ascii WITH (FORCE)")


def test_a_database_that_is_read_only(url):
    with Ledger.open(url, create=False) as ledger:
        before = ledgers.rows(url)
        ledger.store.connection.execute("SET default_transaction_read_only = on")
        with pytest.raises(CannotTry, match="it is read-only"):
            ledger.record(a_plan(), NOW, body=BODY)
        assert ledgers.rows(url) == before


def test_a_text_that_postgresql_cannot_keep(url):
    with Ledger.open(url, create=False) as ledger:
        with pytest.raises(CannotTry, match=r"a value cannot be kept \(PostgreSQL text fields cannot contain NUL"):
            ledger.record(a_plan(detail="a\0b"), NOW, body=BODY)
        assert ledger.page(10) == []
        entry = book_with(ledger, State.STAGED)
        with pytest.raises(CannotTry, match="NUL"):
            ledger.move(entry.attempt_id, State.STAGED, State.DECLINED, NOW, detail="a\0b")
        assert ledger.get(entry.attempt_id) == entry


@pytest.mark.parametrize("default", ["on", "off"])
def test_what_is_flushed(url, default):
    """A durable commit waits for the disk whatever a role's default says; another one does not."""
    seen = []
    with ledgers.stranger(url) as admin:
        name = urlsplit(url).path[1:]
        admin.execute(f"ALTER DATABASE {name} SET synchronous_commit = {default}")
        try:
            with Ledger.open(url, create=False) as ledger:
                for durable in (True, False, True):
                    with ledger.store.transaction(durable):
                        seen += ledger.store.ask("SHOW synchronous_commit")
        finally:
            admin.execute(f"ALTER DATABASE {name} RESET synchronous_commit")
    assert seen == [("on",), ("off",), ("on",)]


def test_a_record_that_is_flushed_later(url):
    """The function sets it for its own transaction only."""
    with Ledger.open(url, create=False) as ledger:
        ledger.record(a_plan(), NOW, body=BODY, durable=False)
        assert ledger.store.ask("SHOW synchronous_commit") == [("on",)]
        assert ledger.verify().problems == ()


def test_an_interrupted_act_leaves_nothing(url):
    with Ledger.open(url, create=False) as ledger:
        entry = book_with(ledger, State.STAGED)
        before = ledgers.rows(url)
        for error in (MemoryError, ZeroDivisionError, KeyboardInterrupt):
            with pytest.raises(error):
                interrupted(ledger, entry, error)
            assert ledgers.rows(url) == before
        assert ledger.move(entry.attempt_id, State.STAGED, State.DECLINED, NOW).state is State.DECLINED


def interrupted(ledger, entry, error):
    with ledger.store.transaction(True):
        ledger._append(ledger._row(entry.attempt_id), entry.received_at, "gone", None, None, {}, {})
        raise error


def test_rows_nobody_wrote_cannot_be_read(url):
    for change in (
        "UPDATE attempts SET state = 'nonsense'",
        "UPDATE attempts SET signal = 'nonsense'",
        "UPDATE attempts SET statement_rows = 'a b'",
        "UPDATE events SET data = '{'",
        "UPDATE events SET to_state = 'nonsense'",
    ):
        ledgers.emptied(url)
        with Ledger.open(url, create=False) as ledger:
            entry = book_with(ledger, State.APPLIED)
            with ledgers.without_rules(url) as other:
                other.execute(change)
            with pytest.raises(CannotTry, match="endmark ledger verify"):
                (ledger.get(entry.attempt_id), ledger.events(entry.attempt_id))
            assert not ledger.verify().ok


def test_the_server_is_cut_off_and_comes_back():
    """A real server of its own, ended as a power cut would: what was durable is there, and the same object goes on."""
    private = start_postgres()
    try:
        with Ledger.open(private.url, create=True) as ledger:
            entries = [book_with(ledger, State.APPLIED) for _ in range(3)]
            last, _ = ledger.record(a_plan(), NOW, body=BODY)
            restart_postgres(private)
            assert ledger.page(10) == [last, *reversed(entries)]
            restart_postgres(private)
            moved = ledger.move(last.attempt_id, State.STAGED, State.DECLINED, NOW)
            restart_postgres(private)
            entry, created = ledger.record(a_plan(), NOW, body=BODY)
            assert created
            assert ledger.page(2) == [entry, moved]
            assert ledger.verify().problems == ()
    finally:
        subprocess.run(private.stop, check=False, capture_output=True, timeout=60)
        shutil.rmtree(private.folder, ignore_errors=True)
