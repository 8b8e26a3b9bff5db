"""What a statement may not do, alone and after a good one, in both journal modes. After every refusal: the world."""

import sqlite3
from contextlib import closing

import pytest
from tests.support.world import MODES, SEED, dump, files, make_database, query, run, work

from endmark.core.refusal import Signal
from endmark.effects.sqlite import SqliteTarget, guard
from endmark.effects.sqlite.guard import OURS, PRAGMAS
from endmark.effects.target import Failed

NO = Signal.FORBIDDEN_STATEMENT
SQL = Signal.SQL_ERROR
GOOD = ("CREATE TABLE good (n INTEGER)", "INSERT INTO good VALUES (1), (2), (3)")
QUOTES = {"bare": "{}", "double": '"{}"', "single": "'{}'", "square": "[{}]", "backtick": "`{}`"}

# statement -> the signal it must end with, and a part of the sentence
TRANSACTION = {
    "COMMIT": (NO, "say COMMIT"),
    "END": (NO, "say COMMIT"),
    "END TRANSACTION": (NO, "say COMMIT"),
    "/*c*/ COMMIT": (NO, "say COMMIT"),
    "-- c\n COMMIT": (NO, "say COMMIT"),
    "; COMMIT": (NO, "say COMMIT"),
    "commit;": (NO, "say COMMIT"),
    "EXPLAIN COMMIT": (NO, "say COMMIT"),
    "ROLLBACK": (NO, "say ROLLBACK"),
    "ROLLBACK TO x": (NO, "savepoint"),
    "BEGIN": (NO, "say BEGIN"),
    "BEGIN EXCLUSIVE": (NO, "say BEGIN"),
    "SAVEPOINT x": (NO, "savepoint"),
    "RELEASE x": (NO, "savepoint"),
    "INSERT OR ROLLBACK INTO users VALUES (1, 'again')": (SQL, "UNIQUE"),
    "UPDATE OR ROLLBACK users SET id = 2 WHERE id = 1": (SQL, "UNIQUE"),
}
OUTSIDE = {
    "ATTACH 'other.db' AS other": (NO, "attach"),
    "ATTACH ':memory:' AS other": (NO, "attach"),
    "DETACH main": (NO, "detach"),
    "VACUUM": (SQL, "VACUUM"),
    "VACUUM INTO 'copy.db'": (SQL, "VACUUM"),
    "SELECT load_extension('x')": (NO, "load_extension"),
    "SELECT LOAD_EXTENSION('x', 'y')": (NO, "load_extension"),
    "SELECT fts3_tokenizer('simple')": (NO, "fts3_tokenizer"),
    "SELECT fts3_tokenizer('simple', x'0000000000000000')": (NO, "fts3_tokenizer"),
    "CREATE VIRTUAL TABLE v USING csv(filename='/etc/passwd')": (NO, "module 'csv'"),
    "CREATE VIRTUAL TABLE v USING dbstat": (NO, "module 'dbstat'"),
    "CREATE VIRTUAL TABLE v USING sqlite_dbpage": (NO, "module 'sqlite_dbpage'"),
    "CREATE VIRTUAL TABLE v USING fts5vocab('a', 'row')": (NO, "module 'fts5vocab'"),
    "CREATE VIRTUAL TABLE temp.v USING dbstat": (NO, "module 'dbstat'"),
}
PRAGMA = {
    f"PRAGMA {text}": (NO, f"use PRAGMA {text.partition('=')[0].partition('(')[0].partition('.')[2] or name}")
    for text in (
        "writable_schema=ON",
        "writable_schema",
        "main.writable_schema=1",
        "journal_mode=WAL",
        "journal_mode=OFF",
        "journal_mode",
        "foreign_keys=ON",
        "synchronous=OFF",
        "locking_mode=EXCLUSIVE",
        "trusted_schema=ON",
        "recursive_triggers(1)",
        "ignore_check_constraints=ON",
        "schema_version=1",
        "temp_store_directory='/tmp'",
        "busy_timeout=0",
        "cache_size=1",
        "page_size=512",
        "data_version=1",
        "encoding='UTF-16'",
        "auto_vacuum=2",
        "mmap_size=0",
        "wal_checkpoint(TRUNCATE)",
        "optimize",
        "query_only=ON",
        "reverse_unordered_selects=1",
        "no_such_pragma",
    )
    for name in [text.partition("=")[0].partition("(")[0]]
} | {
    f"SELECT * FROM pragma_{name}": (NO, f"use PRAGMA {name}")
    for name in ("writable_schema", "journal_mode", "foreign_keys", "synchronous", "locking_mode", "trusted_schema")
}
SHAPE = {
    "CREATE TABLE a (x); CREATE TABLE b (x)": (NO, "more than one statement"),
    "SELECT 1; COMMIT": (NO, "more than one statement"),
    "SELECT 1;;": (NO, "more than one statement"),
    "": (NO, "no SQL at all"),
    ";": (NO, "no SQL at all"),
    "-- only a comment": (NO, "no SQL at all"),
    "/* only a comment */ ;": (NO, "no SQL at all"),
    "/* without an end": (NO, "no SQL at all"),
    "\ufeff": (NO, "no SQL at all"),
    "SELEC 1": (SQL, "syntax error"),
    "SELECT ?": (SQL, "binding"),
    "SELECT :name": (SQL, "binding"),
}
SCHEMA = {
    "INSERT INTO sqlite_master VALUES ('table', 'x', 'x', 0, '')": (SQL, "may not be modified"),
    "UPDATE sqlite_master SET sql = ''": (SQL, "may not be modified"),
    "DELETE FROM sqlite_schema": (SQL, "may not be modified"),
    "DELETE FROM temp.sqlite_master": (SQL, "may not be modified"),
    "DROP TABLE sqlite_master": (SQL, "may not be dropped"),
    "CREATE TABLE sqlite_stat1 (tbl, idx, stat)": (SQL, "reserved"),
}
BOMBS = {
    "INSERT INTO users (name) SELECT zeroblob(1000000000)": (SQL, "too big"),
    "SELECT randomblob(1000000000)": (SQL, "too big"),
    "SELECT " + "(" * 2000 + "1" + ")" * 2000: (SQL, ""),
    "SELECT " + "+".join("1" * 2000): (SQL, "depth"),
}
OUR_ROWS = {
    "INSERT INTO {t} VALUES ('x', 1, 'y', 'applied')": (NO, "write to"),
    "INSERT INTO {t} DEFAULT VALUES": (NO, "write to"),
    "REPLACE INTO {t} (job_id) VALUES ('j1')": (NO, "write to"),
    "INSERT INTO {t} (job_id) VALUES ('j1') ON CONFLICT DO UPDATE SET job_id = 'j9'": (NO, "write to"),
    "UPDATE {t} SET job_id = 'other'": (NO, "write to"),
    "DELETE FROM {t}": (NO, "write to"),
    "DELETE FROM main.{t} WHERE 0": (NO, "write to"),
    "WITH x AS (SELECT 1) DELETE FROM {t} RETURNING *": (NO, "write to"),
    "DROP TABLE {t}": (NO, "drop"),
    "DROP TABLE IF EXISTS main.{t}": (NO, "drop"),
    "ALTER TABLE {t} RENAME TO mine": (NO, "alter"),
    "ALTER TABLE {t} RENAME COLUMN job_id TO id": (NO, "alter"),
    "ALTER TABLE {t} ADD COLUMN more": (NO, "alter"),
    "ALTER TABLE schema_jobs DROP COLUMN sha256": (NO, "alter"),
    "ALTER TABLE endmark_receipts DROP COLUMN attempt_id": (NO, "alter"),
    "ALTER TABLE {t} DROP COLUMN job_id": (SQL, "PRIMARY KEY"),
    "ALTER TABLE users RENAME TO {t}": (SQL, "already another table"),
    "CREATE INDEX i ON {t} (job_id)": (NO, "index"),
    "CREATE TABLE {t} (job_id)": (SQL, "already exists"),
    "CREATE VIEW {t} AS SELECT 1": (NO, "hide"),
    "CREATE TEMP TABLE {t} (job_id)": (NO, "hide"),
    "CREATE TEMP TABLE IF NOT EXISTS {t} AS SELECT 1": (NO, "hide"),
    "CREATE TEMP VIEW {t} AS SELECT 1": (NO, "hide"),
    "CREATE VIRTUAL TABLE temp.{t} USING fts5(job_id)": (NO, "replace"),
    "CREATE TRIGGER t AFTER INSERT ON {t} BEGIN SELECT 1; END": (NO, "put a trigger on"),
    "CREATE TEMP TRIGGER t AFTER UPDATE ON main.{t} BEGIN SELECT 1; END": (NO, "put a trigger on"),
    "CREATE TRIGGER {t} AFTER INSERT ON users BEGIN SELECT 1; END": (NO, "name a trigger"),
    "CREATE TEMP TRIGGER {t} AFTER INSERT ON users BEGIN SELECT 1; END": (NO, "name a trigger"),
}
NAMING = {
    "CREATE TRIGGER t AFTER INSERT ON users BEGIN DELETE FROM {t}; END": "the trigger t names",
    "CREATE TEMP TRIGGER t AFTER INSERT ON users BEGIN DELETE FROM {t}; END": "the trigger t names",
    "CREATE TRIGGER t AFTER INSERT ON users WHEN (SELECT count(*) FROM {t}) BEGIN SELECT 1; END": "the trigger t names",
    "CREATE VIEW v AS SELECT * FROM {t}": "the view v names",
    "CREATE TEMP VIEW v AS SELECT * FROM main.{t}": "the view v names",
    "CREATE VIEW v AS WITH x AS (SELECT (SELECT max(job_id) FROM {t}) AS j) SELECT j FROM x": "the view v names",
    "CREATE TABLE t (j REFERENCES {t} (job_id))": "the table t names",
    "CREATE TABLE t (j, FOREIGN KEY (j) REFERENCES {t})": "the table t names",
    "ALTER TABLE users ADD COLUMN j REFERENCES {t} (job_id)": "the table users names",
    "CREATE VIRTUAL TABLE t USING fts5(job_id, content={t})": "the table t names",
    "CREATE TABLE temp.{t} (job_id)": " names the receipts' table",
}


def hostile():
    for group in (TRANSACTION, OUTSIDE, PRAGMA, SHAPE, SCHEMA, BOMBS):
        yield from ((statement, *expected) for statement, expected in group.items())
    for table in sorted(OURS):
        for statement, expected in OUR_ROWS.items():
            yield (statement.format(t=table), *expected)
    for statement, part in NAMING.items():
        yield statement.format(t="endmark_receipts"), NO, part
        for quote in QUOTES.values():
            if "content" not in statement or quote in ('"{}"', "'{}'"):  # fts5 reads its options itself
                yield statement.format(t=quote.format("sCheMa_JOBS")), NO, part


HOSTILE = list(hostile())


@pytest.fixture(params=MODES)
def database(request, tmp_path):
    path = tmp_path / "target.db"
    make_database(path, request.param)
    return path


def refuse(path, statements, at=None, **more):
    """Run what must fail; the world must be what it was, byte for byte. Returns the failure."""
    before, bytes_before = dump(path), files(path)
    with pytest.raises(Failed) as caught:
        run(path, statements, **more)
    assert dump(path) == before
    assert files(path) == bytes_before
    assert caught.value.statement == at
    return caught.value


@pytest.mark.parametrize(("statement", "signal", "part"), HOSTILE, ids=[row[0][:60] for row in HOSTILE])
def test_a_hostile_statement_leaves_the_world_as_it_was(database, statement, signal, part):
    for before in ((), GOOD):
        at = None if "names" in part else len(before) + 1
        failed = refuse(database, [*before, statement, "CREATE TABLE after (x)"], at)
        assert failed.signal is signal, failed.detail
        assert part in failed.detail
        assert failed.statements_run == (len(before) + 2 if at is None else len(before))
    assert run(database, GOOD).rows_changed == (0, 3)


def test_nothing_is_written_beside_the_target(database):
    for statement in ("ATTACH 'other.db' AS other", "VACUUM INTO 'copy.db'", "ATTACH '' AS t"):
        refuse(database, [statement.replace("'o", f"'{database.parent}/o").replace("'c", f"'{database.parent}/c")], 1)
    assert [path.name for path in database.parent.iterdir()] == ["target.db"]


def test_every_pragma_of_sqlite_is_denied_unless_it_is_listed(database):
    """Also those that SQLite offers as tables; none of the two ways changes anything."""
    known = {name for (name,) in query(database, "PRAGMA pragma_list")}
    assert len(known) > 50
    for name in sorted(known - PRAGMAS - {"data_version", "page_size"}):
        assert refuse(database, [f"PRAGMA {name}"], 1).signal is NO, name
        assert refuse(database, [f"PRAGMA {name}=1"], 1).signal is NO, name
        refuse(database, [f"SELECT * FROM pragma_{name}"], 1)
        refuse(database, [f"SELECT * FROM pragma_{name}('main')"], 1)


@pytest.mark.parametrize("name", ["journal_mode", "COMMIT"])
def test_a_table_that_may_be_written_makes_nothing_else_of_its_name_harmless(database, name):
    """What was judged once is remembered, for writing rows alone."""
    made = (f'CREATE TABLE "{name}" (x)', f'INSERT INTO "{name}" VALUES (1)', f'UPDATE "{name}" SET x = 2')
    what = "COMMIT" if name == "COMMIT" else f"PRAGMA {name} = OFF"
    assert refuse(database, [*made, what], 4).signal is NO


# --- what fires later than it is written


FIRES = {
    "a trigger of statement 1 fires in statement 2": (
        "CREATE TRIGGER t AFTER INSERT ON users BEGIN DELETE FROM schema_jobs; END",
        "INSERT INTO users (name) VALUES ('eve')",
    ),
    "a trigger of statement 1 spells the table in mixed case": (
        "CREATE TRIGGER t BEFORE DELETE ON users BEGIN UPDATE [Schema_Jobs] SET status = 'x'; END",
        "DELETE FROM users",
    ),
    "a temporary trigger writes the counts": (
        "CREATE TEMP TRIGGER t AFTER UPDATE ON users BEGIN DELETE FROM endmark_receipts; END",
        "UPDATE users SET name = 'x'",
    ),
    "a view's own trigger": (
        "CREATE VIEW v AS SELECT 1 AS a",
        "CREATE TRIGGER t INSTEAD OF INSERT ON v BEGIN REPLACE INTO 'schema_jobs' VALUES ('x', 1, 'y', 'z'); END",
        "INSERT INTO v VALUES (1)",
    ),
    "a trigger fires a trigger": (
        "CREATE TABLE relay (x)",
        "CREATE TRIGGER t1 AFTER INSERT ON users BEGIN INSERT INTO relay VALUES (1); END",
        "CREATE TRIGGER t2 AFTER INSERT ON relay BEGIN DELETE FROM `schema_jobs`; END",
        "INSERT INTO users (name) VALUES ('eve')",
    ),
}


@pytest.mark.parametrize("statements", FIRES.values(), ids=FIRES)
def test_what_a_plan_makes_cannot_write_our_rows_when_it_fires(database, statements):
    failed = refuse(database, statements, len(statements))
    assert failed.signal is NO
    assert "write to" in failed.detail


@pytest.mark.parametrize("mode", MODES)
def test_a_trigger_that_was_there_before_cannot_write_our_rows(tmp_path, mode):
    path = tmp_path / "target.db"
    job = "CREATE TABLE schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status TEXT)"
    trap = "CREATE TRIGGER trap AFTER INSERT ON users BEGIN UPDATE schema_jobs SET status = 'never'; END"
    make_database(path, mode, (*SEED, job, trap))
    failed = refuse(path, ["INSERT INTO users (name) VALUES ('eve')"], 1)
    assert (failed.signal, "write to schema_jobs" in failed.detail) == (NO, True)
    run(path, ["UPDATE users SET name = 'x'"])  # it does not fire here, and was there before
    assert query(path, "SELECT status FROM schema_jobs") == [("applied",)]


RAISES = {
    "RAISE(ROLLBACK)": ("CREATE TRIGGER t BEFORE INSERT ON users BEGIN SELECT RAISE(ROLLBACK, 'gone'); END", "gone"),
    "RAISE(ABORT)": ("CREATE TRIGGER t BEFORE INSERT ON users BEGIN SELECT RAISE(ABORT, 'no'); END", "no"),
    "RAISE(FAIL)": ("CREATE TRIGGER t AFTER INSERT ON users BEGIN SELECT RAISE(FAIL, 'half'); END", "half"),
    "ON CONFLICT ROLLBACK": ("CREATE UNIQUE INDEX u ON users (name)", "UNIQUE"),
}


@pytest.mark.parametrize(("trap", "part"), RAISES.values(), ids=RAISES)
def test_a_rollback_in_the_middle_is_a_failure_of_the_whole(database, trap, part):
    """The transaction is gone at once; what stands after it must not run on its own."""
    insert = "INSERT OR ROLLBACK INTO users (name) VALUES ('eve'), ('eve')"
    failed = refuse(database, [*GOOD, trap, insert, "CREATE TABLE after (x)"], 4)
    assert (failed.signal, part in failed.detail) == (SQL, True)


def test_an_ignored_row_is_no_failure(database):
    trap = "CREATE TRIGGER t BEFORE INSERT ON users BEGIN SELECT RAISE(IGNORE); END"
    ran = run(
        database, [trap, "INSERT INTO users (name) VALUES ('eve')", "INSERT OR IGNORE INTO users VALUES (1, 'x')"]
    )
    assert ran.rows_changed == (0, 0, 0)


def test_a_table_of_the_temporary_schema_cannot_take_our_name_later(database):
    failed = refuse(database, ["CREATE TEMP TABLE x (job_id)", "ALTER TABLE temp.x RENAME TO schema_jobs"])
    assert (failed.signal, "the table schema_jobs names" in failed.detail) == (NO, True)


def test_a_trigger_may_be_made_again_as_it_was(tmp_path):
    """Only what is new is refused: a view of the receipts that stood before the plan is its owner's affair."""
    path = tmp_path / "target.db"
    view = "CREATE VIEW done AS SELECT job_id FROM schema_jobs"
    make_database(path, statements=SEED)
    run(path, GOOD)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute(view)
    run(path, ["CREATE TABLE more (x)"], "j2")
    run(path, ["DROP VIEW done", view], "j3")
    refuse(path, ["DROP VIEW done", f"{view} WHERE 1"], job_id="j4")


# --- the nets behind the first one


def test_a_transaction_that_ended_all_the_same_is_noticed(database, monkeypatch):
    """As if SQLite had not asked us: no statement after that one runs, for it would run on its own."""
    monkeypatch.delitem(guard._JUDGES, sqlite3.SQLITE_TRANSACTION)
    failed = refuse(database, [*GOOD, "ROLLBACK", "CREATE TABLE after (x)"], 3)
    assert (failed.signal, failed.detail) == (NO, "statement 3 ended the transaction")


def test_what_was_denied_counts_also_where_a_module_goes_on_without_it(database, monkeypatch):
    """fts4 takes a page size of its own when it may not ask for the file's."""
    monkeypatch.setattr(guard, "ASKED", frozenset())
    failed = refuse(database, ["CREATE VIRTUAL TABLE v USING fts4(x)"], 1)
    assert (failed.signal, failed.detail) == (NO, "statement 1 may not use PRAGMA page_size")


def test_a_name_that_only_looks_like_ours_is_free(database):
    """SQLite folds ASCII letters only: a Kelvin sign is no K."""
    name = "endmar\u212a_receipts"
    run(
        database,
        [f"CREATE TABLE {name} (x)", f"INSERT INTO {name} VALUES (1)", f"CREATE VIEW v AS SELECT * FROM {name}"],
    )


@pytest.mark.parametrize("name", ["schema_jobs_archive", "old_schema_jobs", "schema_jobs2", "my$schema_jobs"])
def test_a_longer_name_that_holds_ours_is_free(database, name):
    run(database, [f"CREATE TABLE {name} (x)", f"CREATE VIEW v AS SELECT * FROM {name}"])


# --- the session afterwards


def test_the_guards_hold_again_after_a_failure_and_nothing_of_them_stays(database):
    with SqliteTarget(database).open() as session:
        conn = session._conn
        for statement in ("COMMIT", "SELECT CAST(x'ff' AS TEXT) FROM missing", "PRAGMA synchronous=OFF"):
            session.lock(0)
            with pytest.raises(Failed):
                session.run(work(["CREATE TABLE good (x)", statement]), 5, lambda *_: None, lambda: None)
            assert not conn.in_transaction
            assert conn.text_factory is str
            assert conn.execute("SELECT name FROM users WHERE id = 1").fetchone() == ("ann",)
            assert conn.execute("PRAGMA synchronous").fetchone() == (3,)  # nobody denies it to us
            assert conn.execute("PRAGMA foreign_keys").fetchone() == (0,)
    assert "good" not in "".join(dump(database))


def test_a_run_without_the_lock_is_refused(database):
    before = dump(database)
    with SqliteTarget(database).open() as session, pytest.raises(RuntimeError, match="needs the lock"):
        session.run(work(GOOD), 5, lambda *_: None, lambda: None)
    assert dump(database) == before
