"""A rehearsal before a real MariaDB server: what it finds and shows; the scratch database never stays."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support import mariadb
from tests.support.mariadb import query
from tests.support.world import work

from endmark.core import schemadiff
from endmark.core.refusal import CannotTry, Signal
from endmark.effects.mariadb.clone import PREFIX
from endmark.effects.mariadb.lock import key_of
from endmark.effects.target import Failed, Lock, Rehearses

UP = (
    "CREATE TABLE invoices (id INT PRIMARY KEY, who INT, FOREIGN KEY (who) REFERENCES users (id))",
    "ALTER TABLE users ADD COLUMN email VARCHAR(40) DEFAULT 'none'",
    "CREATE INDEX by_name ON users (name)",
    "UPDATE users SET name = upper(name)",
)
DOWN = (
    "DROP TABLE invoices",
    "ALTER TABLE users DROP COLUMN email",
    "DROP INDEX by_name ON users",
    "UPDATE users SET id = id",
)


def rehearse(world, statements, *, timeout=10.0, stop=lambda: None, **more):
    with world.target.open() as session:
        session.lock(0)
        assert isinstance(session, Rehearses)
        return session.rehearse(work(statements, **more), timeout, stop)


@contextmanager
def unchanged(world):
    before = world.dump(ours=True)
    yield
    assert world.dump(ours=True) == before
    assert scratch(world) == []


def scratch(world):
    return query(None, "SHOW DATABASES LIKE %s", f"{PREFIX}{key_of(world.name)}")


def test_it_says_what_would_become_of_the_schema_and_changes_nothing(world):
    with unchanged(world):
        found = rehearse(world, UP, down=DOWN)
    shown = schemadiff.lines(found.changes)
    assert [line for line in shown if not line.startswith(" ")] == [
        "+ column users.email",
        "+ constraint invoices.invoices_ibfk_1",
        "+ index invoices.PRIMARY",
        "+ index invoices.who",
        "+ index users.by_name",
        "+ table invoices",
    ]
    assert "    + varchar(40) DEFAULT 'none'" in shown
    assert found.after_downs == found.before != found.after
    assert found.locks == (Lock(1, "users", "exclusive metadata lock"),)
    assert [name for name, _count in found.rows] == ["users"]
    assert found.rows_changed is None
    assert world.apply("j1", UP, down=DOWN).state == "applied"
    assert world.entry("j1").fingerprint_after == found.after


BAD = {
    "an error in the seventh": ([*("SELECT 1",) * 6, "INSERT INTO nowhere VALUES (1)"], Signal.SQL_ERROR, 7),
    "a column that is missing": (["UPDATE users SET city = 'x'"], Signal.SQL_ERROR, 1),
    "a commit": (["SELECT 1", "COMMIT"], Signal.FORBIDDEN_STATEMENT, 2),
    "another database": (["SELECT 1", "DROP TABLE mysql.user"], Signal.FORBIDDEN_STATEMENT, 2),
    "the receipts": (["DELETE FROM schema_jobs"], Signal.FORBIDDEN_STATEMENT, 1),
    "two statements": (["SELECT 1; SELECT 2"], Signal.FORBIDDEN_STATEMENT, 1),
    "a setting": (["SET autocommit = 1"], Signal.FORBIDDEN_STATEMENT, 1),
}


@pytest.mark.parametrize(("statements", "signal", "at"), BAD.values(), ids=BAD)
def test_what_would_fail_is_found_with_its_number(world, statements, signal, at):
    with unchanged(world), pytest.raises(Failed) as caught:
        rehearse(world, statements)
    assert (caught.value.signal, caught.value.statement) == (signal, at)
    assert f"statement {at}" in caught.value.detail


def test_downs_have_to_lead_back(world):
    for down, part in (
        ((*DOWN[:2], "ALTER TABLE users COMMENT 'x'", DOWN[3]), "down of statement 3"),
        ((*DOWN[:2], "DROP INDEX z ON users", DOWN[3]), "down of statement 3"),
    ):
        with unchanged(world), pytest.raises(Failed, match=part):
            rehearse(world, UP, down=down)


def test_the_down_of_a_single_statement_runs_too(world):
    with unchanged(world):
        assert rehearse(world, UP[1:2], down=DOWN[1:2]).after_downs is not None
        with pytest.raises(Failed, match="did not bring back"):
            rehearse(world, UP[1:2], down=["SELECT 1"])


def test_the_jobs_it_comes_after_must_stand(world):
    with unchanged(world), pytest.raises(Failed, match="comes after job other"):
        rehearse(world, UP[:1], after=("other",))


def test_an_account_without_a_scratch_database_is_told(limited):
    with unchanged(limited), pytest.raises(CannotTry, match="grant it ALL ON"):
        rehearse(limited, UP[:1])


def test_an_interruption_ends_it(world):
    with unchanged(world), pytest.raises(Failed) as caught:
        rehearse(world, UP, down=DOWN, stop=lambda: "SIGINT")
    assert caught.value.signal is Signal.INTERRUPTED


_KILLED = """
import os, signal, sys
from tests.support.world import work
from endmark.effects.mariadb import MariadbTarget
with MariadbTarget(sys.argv[1]).open() as session:
    session.lock(0)
    session.rehearse(work(["ALTER TABLE users ADD COLUMN x INT"]), 10, lambda: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_what_a_killed_rehearsal_left_is_removed_by_the_next(world):
    environ = {**os.environ, **mariadb.environ(), "PYTHONPATH": str(Path.cwd())}
    before = world.dump(ours=True)
    command = [sys.executable, "-c", _KILLED, mariadb.url_of(world.name)]
    assert subprocess.run(command, env=environ, check=False, timeout=60).returncode == -9
    assert len(scratch(world)) == 1
    with world.target.open() as session:
        session.lock(30)
        assert session.rehearse(work(UP[:1]), 10, lambda: None).changes
    assert scratch(world) == []
    assert world.dump(ours=True) == before


def test_odd_names_and_every_kind_are_listed(world):
    found = rehearse(
        world,
        [
            "CREATE TABLE `a ``b`` c` (`x y` INT, UNIQUE KEY `k ``k` (`x y`))",
            "CREATE VIEW v AS SELECT name FROM users",
            "CREATE TRIGGER tr BEFORE INSERT ON users FOR EACH ROW SET NEW.name = 'x'",
            "CREATE FUNCTION f(a INT) RETURNS INT DETERMINISTIC RETURN a",
        ],
        down=["DROP TABLE `a ``b`` c`", "DROP VIEW v", "DROP TRIGGER tr", "DROP FUNCTION f"],
    )
    assert {(change.kind, change.name) for change in found.changes} == {
        ("table", "a `b` c"),
        ("index", "a `b` c.k `k"),
        ("view", "v"),
        ("trigger", "tr"),
        ("function", "f"),
        ("parameter", "f 0"),
        ("parameter", "f 1"),
    }
