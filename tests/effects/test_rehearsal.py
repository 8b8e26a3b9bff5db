"""A rehearsal before SQLite: what it finds, what it shows, and that the target keeps nothing of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.world import FOREVER, MODES, SEED, files, make_database, run, work

from endmark.core import schemadiff
from endmark.core.refusal import CannotTry, Signal
from endmark.effects.sqlite import SqliteTarget, rehearsal
from endmark.effects.target import Failed, Rehearses

UP = (
    "CREATE TABLE invoices (id INTEGER PRIMARY KEY, user INTEGER)",
    "ALTER TABLE users ADD COLUMN email TEXT DEFAULT 'none'",
    "CREATE INDEX by_name ON users (name)",
    "UPDATE users SET name = upper(name)",
)
DOWN = ("DROP TABLE invoices", "ALTER TABLE users DROP COLUMN email", "DROP INDEX by_name", "SELECT 1")


@pytest.fixture(params=MODES)
def database(request, tmp_path):
    path = tmp_path / "target.db"
    make_database(path, request.param)
    return path


def rehearse(path, statements, *, timeout=5.0, stop=lambda: None, **more):
    with SqliteTarget(path).open() as session:
        assert isinstance(session, Rehearses)
        return session.rehearse(work(statements, **more), timeout, stop)


def test_it_says_what_would_become_of_the_schema_and_changes_nothing(database):
    before = files(database)
    found = rehearse(database, UP, down=DOWN)
    assert schemadiff.lines(found.changes) == [
        "+ column users.email",
        "    + TEXT DEFAULT 'none'",
        "+ index by_name",
        "    + CREATE INDEX by_name ON users (name)",
        "+ table invoices",
        "    + CREATE TABLE invoices (id INTEGER PRIMARY KEY, user INTEGER)",
        "~ table users",
        "    - CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)",
        "    + CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, email TEXT DEFAULT 'none')",
    ]
    assert found.rows == (("users", 2),)
    assert found.rows_changed == (0, 0, 0, 2)
    assert found.after_downs == found.before != found.after
    assert {name: raw for name, raw in files(database).items() if not name.endswith(("-wal", "-shm"))} == {
        name: raw for name, raw in before.items() if not name.endswith(("-wal", "-shm"))
    }
    assert run(database, UP).fingerprint_after == found.after


BAD = {
    "an error in the seventh": ([*("SELECT 1",) * 6, "INSERT INTO nowhere VALUES (1)"], Signal.SQL_ERROR, 7),
    "a column that is missing": (["UPDATE users SET city = 'x'"], Signal.SQL_ERROR, 1),
    "a commit": (["COMMIT"], Signal.FORBIDDEN_STATEMENT, 1),
    "another file": (["ATTACH 'other.db' AS o"], Signal.FORBIDDEN_STATEMENT, 1),
    "two statements": (["SELECT 1; SELECT 2"], Signal.FORBIDDEN_STATEMENT, 1),
    "a write to the receipts": (["SELECT 1", "DELETE FROM schema_jobs"], Signal.FORBIDDEN_STATEMENT, 2),
    "a statement without end": (["SELECT 1", FOREVER], Signal.STATEMENT_TIMEOUT, 2),
}


@pytest.mark.parametrize(("statements", "signal", "at"), BAD.values(), ids=BAD)
def test_what_would_fail_is_found_with_its_number(database, statements, signal, at):
    before = files(database)
    with pytest.raises(Failed) as caught:
        rehearse(database, statements, timeout=0.3)
    assert (caught.value.signal, caught.value.statement) == (signal, at)
    assert f"statement {at}" in caught.value.detail
    assert files(database)["target.db"] == before["target.db"]


DOWNS = {
    "one that does not bring it back": (
        (*DOWN[:2], "SELECT 1", "SELECT 1"),
        Signal.CHECK_FAILED,
        None,
        "index by_name",
    ),
    "one that fails": (
        (*DOWN[:1], "ALTER TABLE users DROP COLUMN phone", *DOWN[2:]),
        Signal.SQL_ERROR,
        2,
        "statement 2",
    ),
    "one that commits": ((*DOWN[:3], "COMMIT"), Signal.FORBIDDEN_STATEMENT, 4, "the down of statement 4"),
}


@pytest.mark.parametrize(("down", "signal", "at", "part"), DOWNS.values(), ids=DOWNS)
def test_downs_have_to_lead_back(database, down, signal, at, part):
    with pytest.raises(Failed, match=part) as caught:
        rehearse(database, UP, down=down)
    assert (caught.value.signal, caught.value.statement) == (signal, at)


def test_a_broken_foreign_key_is_found(tmp_path):
    make_database(tmp_path / "t.db", statements=(*SEED, "CREATE TABLE o (u REFERENCES users)"))
    with pytest.raises(Failed, match="foreign_key_check"):
        rehearse(tmp_path / "t.db", ["INSERT INTO o VALUES (9)"])


def test_a_large_database_is_rehearsed_without_its_rows(database, monkeypatch):
    run(
        database,
        ["CREATE VIEW v AS SELECT name FROM users", "CREATE TRIGGER tr AFTER INSERT ON users BEGIN SELECT 1; END"],
    )
    whole = rehearse(database, UP, job_id="j2", down=DOWN, after=("j1",))
    monkeypatch.setattr(rehearsal, "WHOLE_MAX", 0)
    found = rehearse(database, UP, job_id="j2", down=DOWN, after=("j1",))
    assert (found.before, found.after, found.changes) == (whole.before, whole.after, whole.changes)
    assert found.rows_changed is None
    assert "rows" in found.limits[0]
    assert found.rows == (("users", 2),)


def test_up_to_its_limit_a_database_is_copied_whole(database, monkeypatch):
    size = 2 * 4096  # as it is made: a page for the schema, and one for the table
    for limit, how in ((size, "a copy"), (size - 1, "a copy of the schema")):
        monkeypatch.setattr(rehearsal, "WHOLE_MAX", limit)
        assert rehearse(database, UP).how == how


def test_a_copy_with_another_schema_is_not_rehearsed_on(database, monkeypatch):
    monkeypatch.setattr(rehearsal, "WHOLE_MAX", 0)
    monkeypatch.setattr(rehearsal, "fingerprint", lambda conn: str(id(conn)))
    with pytest.raises(CannotTry, match="cannot be copied faithfully"):
        rehearse(database, UP)


def test_an_interruption_ends_the_copying(database):
    with pytest.raises(Failed, match="SIGINT while the copy was made") as caught:
        rehearse(database, UP, stop=lambda: "SIGINT")
    assert caught.value.signal is Signal.INTERRUPTED


def test_what_cannot_be_copied_without_rows_is_said(tmp_path, monkeypatch):
    make_database(tmp_path / "t.db", statements=("CREATE VIRTUAL TABLE words USING fts5(text)",))
    monkeypatch.setattr(rehearsal, "WHOLE_MAX", 0)
    with pytest.raises(CannotTry, match="virtual table words"):
        rehearse(tmp_path / "t.db", UP[:1])


def test_the_jobs_it_comes_after_must_stand(database):
    with pytest.raises(Failed, match="comes after job other"):
        rehearse(database, UP, after=("other",))


def test_whoever_writes_meanwhile_is_not_waited_for(database):
    with SqliteTarget(database).open() as writer:
        writer.lock(0)
        assert rehearse(database, UP).before == writer.fingerprint()


def test_an_interruption_ends_it(database):
    asked = iter([None] * 3)
    with pytest.raises(Failed) as caught:
        rehearse(database, [*UP[:1], FOREVER], stop=lambda: next(asked, "SIGINT"))
    assert caught.value.signal is Signal.INTERRUPTED


_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.support.world import work
from endmark.effects.sqlite import SqliteTarget
asked = iter(range(3))
def stop():
    if next(asked, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
big = "CREATE TABLE big AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 90000) " \\
    "SELECT randomblob(900) FROM c"
with SqliteTarget(Path(sys.argv[1])).open() as session:
    session.rehearse(work([big, "CREATE INDEX i ON big (1)"]), 60, stop)
"""


def test_killed_it_leaves_nothing_at_all(database, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environ = {**os.environ, "TMPDIR": str(scratch), "SQLITE_TMPDIR": str(scratch), "PYTHONPATH": str(Path.cwd())}
    before = files(database)["target.db"]
    done = subprocess.run([sys.executable, "-c", _KILLED, str(database)], env=environ, check=False, timeout=60)
    assert done.returncode == -9
    assert list(scratch.iterdir()) == []
    assert files(database)["target.db"] == before
    assert [path.name for path in tmp_path.iterdir() if "rehears" in path.name] == []
