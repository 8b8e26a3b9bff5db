"""The receipt: what it says, and what of the plan it counts; and which `schema_jobs` of others are trusted."""

import pytest
from tests.support.world import MODES, SEED, dump, files, make_database, query, run

from endmark.core import plan
from endmark.core.refusal import CannotTry, Signal
from endmark.effects.sqlite import SqliteTarget
from endmark.effects.target import Failed

PUBLISHED = "CREATE TABLE IF NOT EXISTS schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status TEXT)"


@pytest.fixture(params=MODES)
def database(request, tmp_path):
    path = tmp_path / "target.db"
    make_database(path, request.param)
    return path


def receipt(path, job_id="j1"):
    with SqliteTarget(path).open() as session:
        return session.receipt(job_id)


# --- what it says


def test_the_four_columns_are_exactly_as_published(database):
    statements = [PUBLISHED, "CREATE TABLE a (x)", "INSERT INTO a VALUES (1)"]
    ran = run(database, statements)
    assert [row[1] for row in query(database, "PRAGMA table_info(schema_jobs)")] == [
        "job_id",
        "stmt_count",
        "sha256",
        "status",
    ]
    assert query(database, "SELECT * FROM schema_jobs") == [("j1", 3, plan.digest(statements), "applied")]
    counts = (
        "SELECT job_id, attempt_id, statements_run, rows_changed, fingerprint_after, applied_at FROM endmark_receipts"
    )
    after = ran.fingerprint_after
    assert query(database, counts) == [("j1", "att_test", 3, "0 0 1", after, "2026-03-01T12:00:00.000000Z")]
    found = receipt(database)
    assert (found.status, found.statements_run, found.rows_changed) == ("applied", 3, "0 0 1")
    assert found.fingerprint_after == after


COUNTED = {
    "CREATE TABLE a (x INTEGER PRIMARY KEY, y)": 0,
    "INSERT INTO users (name) VALUES ('c'), ('d'), ('e')": 3,
    "INSERT INTO users (name) SELECT name FROM users": 2,
    "UPDATE users SET name = upper(name)": 2,
    "UPDATE users SET name = 'x' WHERE id > 5": 0,
    "UPDATE users SET name = 'x' RETURNING id, name": 2,
    "DELETE FROM users": 2,
    "DELETE FROM users WHERE id = 1 RETURNING *": 1,
    "REPLACE INTO users VALUES (1, 'x')": 1,
    "INSERT OR IGNORE INTO users VALUES (1, 'x'), (9, 'y')": 1,
    "INSERT INTO users VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET name = excluded.name": 1,
    "INSERT INTO users VALUES (1, 'x') ON CONFLICT DO NOTHING": 0,
    "WITH n AS (SELECT 7 AS i) INSERT INTO users SELECT i, 'seven' FROM n": 1,
    "SELECT * FROM users": 0,
    "VALUES (1), (2)": 0,
    "EXPLAIN QUERY PLAN SELECT * FROM users": 0,
    "ALTER TABLE users RENAME TO people": 0,
    "ALTER TABLE users ADD COLUMN age INTEGER DEFAULT 3": 0,
    "ALTER TABLE users RENAME COLUMN name TO title": 0,
    "ALTER TABLE users DROP COLUMN name": 0,
    "DROP TABLE users": 0,
    "DROP TABLE IF EXISTS missing": 0,
    "DROP INDEX IF EXISTS missing": 0,
    "DROP VIEW IF EXISTS missing": 0,
    "DROP TRIGGER IF EXISTS missing": 0,
    "CREATE TABLE IF NOT EXISTS users (z)": 0,
    "CREATE INDEX by_name ON users (name)": 0,
    "CREATE VIEW v AS SELECT * FROM users": 0,
    "CREATE TEMP TABLE t AS SELECT * FROM users": 0,
    "CREATE TABLE copy AS SELECT * FROM users": 0,
    "CREATE TABLE strict_one (a INT) STRICT": 0,
    "CREATE TABLE narrow (a PRIMARY KEY) WITHOUT ROWID": 0,
    "ANALYZE": 0,
    "ANALYZE users": 0,
    "REINDEX": 0,
    "REINDEX users": 0,
    "REINDEX nocase": 0,
    "PRAGMA user_version = 7": 0,
    "PRAGMA application_id = 7": 0,
    "PRAGMA foreign_key_check": 0,
    "PRAGMA integrity_check": 0,
    "PRAGMA table_info(users)": 0,
    "SELECT * FROM pragma_table_info('users')": 0,
    "SELECT * FROM schema_jobs, endmark_receipts": 0,
    "SELECT 1; -- a comment after it": 0,
    "-- a comment before it\n/* and another */ SELECT 1;": 0,
    "SELECT CAST(x'ff' AS TEXT), x'00ff', NULL, 1.5": 0,
    "UPDATE users SET name = CAST(x'ff' AS TEXT) RETURNING name": 2,
    "INSERT INTO users (name) SELECT zeroblob(1000000)": 1,
}


@pytest.mark.parametrize(("statement", "changed"), COUNTED.items(), ids=[key[:60] for key in COUNTED])
def test_a_statement_is_accepted_and_its_rows_are_counted(database, statement, changed):
    ran = run(database, ["INSERT INTO users (name) VALUES ('z')", "DELETE FROM users WHERE name = 'z'", statement])
    assert ran.rows_changed == (1, 1, changed)
    assert receipt(database).rows_changed == f"1 1 {changed}"


SEQUENCES = {
    "rows a trigger changed belong to the statement that fired it": (
        [
            "CREATE TABLE log (x)",
            "CREATE TRIGGER t AFTER INSERT ON users BEGIN INSERT INTO log VALUES (new.id), (-new.id); END",
            "INSERT INTO users (name) VALUES ('c'), ('d')",
        ],
        (0, 0, 6),
    ),
    "a table with a sequence": (
        [
            "CREATE TABLE s (id INTEGER PRIMARY KEY AUTOINCREMENT, x)",
            "INSERT INTO s (x) VALUES (1)",
            "UPDATE sqlite_sequence SET seq = 41 WHERE name = 's'",
            "INSERT INTO s (x) VALUES (2)",
        ],
        (0, 1, 1, 1),
    ),
    "statistics": (
        ["CREATE INDEX n ON users (name)", "ANALYZE", "DELETE FROM sqlite_stat1 WHERE idx = 'n'"],
        (0, 0, 1),
    ),
    "an index again": (["CREATE INDEX n ON users (name)", "CREATE INDEX IF NOT EXISTS n ON users (name)"], (0, 0)),
    "a trigger again": (
        ["CREATE TRIGGER IF NOT EXISTS t AFTER INSERT ON users BEGIN SELECT 1; END"] * 2,
        (0, 0),
    ),
    "the table that other tools make": ([PUBLISHED, "INSERT INTO users (name) VALUES ('c')"], (0, 1)),
    "a table rebuilt": (
        [
            "CREATE TABLE new_users (id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
            "INSERT INTO new_users SELECT * FROM users",
            "DROP TABLE users",
            "ALTER TABLE new_users RENAME TO users",
        ],
        (0, 2, 0, 0),
    ),
}


@pytest.mark.parametrize(("statements", "changed"), SEQUENCES.values(), ids=SEQUENCES)
def test_a_plan_is_counted_statement_by_statement(database, statements, changed):
    assert run(database, statements).rows_changed == changed
    assert receipt(database).rows_changed == " ".join(map(str, changed))


MODULES = {
    "fts5": [
        "CREATE VIRTUAL TABLE v USING fts5(title, body)",
        "INSERT INTO v VALUES ('a', 'the quick brown fox'), ('b', 'slow')",
        "INSERT INTO v(v) VALUES ('optimize')",
        "SELECT * FROM v WHERE v MATCH 'fox'",
        "DELETE FROM v WHERE title = 'b'",
    ],
    "fts4": [
        "CREATE VIRTUAL TABLE v USING fts4(title, body)",
        "INSERT INTO v VALUES ('a', 'the quick brown fox')",
        "INSERT INTO v(v) VALUES ('optimize')",
        "SELECT * FROM v WHERE v MATCH 'fox'",
        "UPDATE v SET title = 'z'",
    ],
    "rtree": [
        "CREATE VIRTUAL TABLE v USING rtree(id, x0, x1)",
        "INSERT INTO v VALUES (1, 0, 5), (2, 3, 9)",
        "SELECT id FROM v WHERE x0 > 1",
        "DELETE FROM v WHERE id = 1",
        "SELECT rtreecheck('v')",
    ],
}


@pytest.mark.parametrize("statements", MODULES.values(), ids=MODULES)
def test_tables_of_modules_that_live_in_this_file_work(database, statements):
    built = {option for (option,) in query(database, "PRAGMA compile_options")}
    module = statements[0].partition("USING ")[2].partition("(")[0]
    if not any(f"ENABLE_{module.upper()}" in option for option in built):
        pytest.skip(f"this SQLite has no {module}")
    run(database, statements)
    assert query(database, "SELECT count(*) FROM v") == [(1,)]
    run(database, ["DROP TABLE v"], "j2")
    assert query(database, "SELECT name FROM sqlite_master WHERE name GLOB 'v*'") == []


# --- a table of this name that was there before

TRUSTED = {
    "as published": PUBLISHED,
    "more columns": PUBLISHED[:-1] + ", at TEXT DEFAULT CURRENT_TIMESTAMP, who)",
    "unique instead of primary": PUBLISHED.replace("PRIMARY KEY", "UNIQUE"),
    "without rowid": PUBLISHED + " WITHOUT ROWID",
    "other case and quotes": 'CREATE TABLE "Schema_Jobs" ([Job_ID] TEXT UNIQUE, STMT_COUNT INT, Sha256 TEXT, `status`)',
    "not null and strict": (
        "CREATE TABLE schema_jobs (job_id TEXT NOT NULL PRIMARY KEY, stmt_count INT NOT NULL, sha256 TEXT NOT NULL, "
        "status TEXT NOT NULL) STRICT"
    ),
    "conflicts replace": PUBLISHED.replace("KEY", "KEY ON CONFLICT REPLACE"),
}
BARE = "CREATE TABLE schema_jobs (job_id TEXT, stmt_count INT, sha256 TEXT, status TEXT)"
REFUSED = {
    "no key": ([BARE], "no unique job_id"),
    "an index that is not unique": ([BARE, "CREATE INDEX i ON schema_jobs (job_id)"], "no unique job_id"),
    "a partial index": ([BARE, "CREATE UNIQUE INDEX i ON schema_jobs (job_id) WHERE status = 'x'"], "no unique job_id"),
    "an index of two": ([BARE, "CREATE UNIQUE INDEX i ON schema_jobs (job_id, status)"], "no unique job_id"),
    "an index of a term": ([BARE, "CREATE UNIQUE INDEX i ON schema_jobs (job_id || '')"], "no unique job_id"),
    "a compound key": ([BARE[:-1] + ", PRIMARY KEY (job_id, sha256))"], "no unique job_id"),
    "a compound key the other way": ([BARE[:-1] + ", PRIMARY KEY (sha256, job_id))"], "no unique job_id"),
    "a key on another column": ([BARE.replace("status TEXT", "status TEXT PRIMARY KEY")], "no unique job_id"),
    "other columns": (["CREATE TABLE schema_jobs (id TEXT PRIMARY KEY, state TEXT)"], "begins with the columns"),
    "another order": (
        ["CREATE TABLE schema_jobs (job_id TEXT PRIMARY KEY, sha256 TEXT, stmt_count INT, status TEXT)"],
        "begins with the columns",
    ),
    "a computed status": (
        ["CREATE TABLE schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status AS ('applied'))"],
        "begins with the columns",
    ),
    "a view": (
        ["CREATE VIEW schema_jobs AS SELECT 'j1' AS job_id, 1 AS stmt_count, 'x' AS sha256, 'y'"],
        "not a table",
    ),
    "a virtual table": (
        ["CREATE VIRTUAL TABLE schema_jobs USING fts5(job_id, stmt_count, sha256, status)"],
        "no unique job_id",
    ),
    "a trigger on it": (
        [PUBLISHED, "CREATE TRIGGER spy AFTER UPDATE ON schema_jobs BEGIN DELETE FROM users; END"],
        "the trigger spy",
    ),
    "counts of another make": (
        ["CREATE TABLE endmark_receipts (job_id TEXT PRIMARY KEY)"],
        "not the table endmark makes",
    ),
    "counts as a view": (["CREATE VIEW endmark_receipts AS SELECT 1"], "not a table"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("table", TRUSTED.values(), ids=TRUSTED)
def test_a_table_that_can_hold_receipts_is_used(tmp_path, table, mode):
    path = tmp_path / "target.db"
    make_database(path, mode, (*SEED, table))
    run(path, ["CREATE TABLE a (x)"])
    run(path, ["CREATE TABLE b (x)"], "j2")
    assert query(path, "SELECT job_id, stmt_count, status FROM schema_jobs ORDER BY 1") == [
        ("j1", 1, "applied"),
        ("j2", 1, "applied"),
    ]
    before = dump(path)
    with pytest.raises(Failed, match="UNIQUE"):
        run(path, ["CREATE TABLE c (x)"])
    assert dump(path) == before


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("tables", "part"), REFUSED.values(), ids=REFUSED)
def test_a_table_that_cannot_hold_receipts_is_refused(tmp_path, tables, part, mode):
    path = tmp_path / "target.db"
    make_database(path, mode, (*SEED, *tables))
    before, bytes_before = dump(path), files(path)
    with pytest.raises(CannotTry, match=part):
        receipt(path)
    with pytest.raises(CannotTry, match=part):
        run(path, ["CREATE TABLE a (x)"])
    assert (dump(path), files(path)) == (before, bytes_before)


LOUD = {
    "the id is a number": (BARE.replace("job_id TEXT", "job_id INTEGER PRIMARY KEY"), "j1", "mismatch"),
    "the id loses its zeros": (BARE.replace("job_id TEXT", "job_id NUMERIC UNIQUE"), "007", "read back"),
    "a column nobody fills": (PUBLISHED[:-1] + ", who TEXT NOT NULL)", "j1", "who"),
    "a status it does not know": (PUBLISHED[:-1] + ", CHECK (status = 'applied'))", "j1", "CHECK"),
    "a digest that is cut": (PUBLISHED[:-1] + ", CHECK (length(sha256) < 64))", "j1", "CHECK"),
}


@pytest.mark.parametrize(("table", "job_id", "part"), LOUD.values(), ids=LOUD)
def test_a_receipt_that_cannot_be_written_as_it_is_stops_the_job(tmp_path, table, job_id, part):
    path = tmp_path / "target.db"
    make_database(path, "rollback", (*SEED, table))
    before, bytes_before = dump(path), files(path)
    with pytest.raises(Failed, match=part) as caught:
        run(path, ["CREATE TABLE a (x)"], job_id)
    assert caught.value.statement is None  # no statement of the plan is to blame
    assert (dump(path), files(path)) == (before, bytes_before)


@pytest.mark.parametrize("conflict", ["", " ON CONFLICT REPLACE", " ON CONFLICT IGNORE"])
def test_an_id_that_differs_in_case_is_another_job(tmp_path, conflict):
    """Where the table folds case the second job is refused; it is never taken for the first, nor takes its row."""
    path = tmp_path / "target.db"
    table = PUBLISHED.replace("TEXT PRIMARY KEY", f"TEXT COLLATE NOCASE PRIMARY KEY{conflict}")
    make_database(path, "rollback", (*SEED, table))
    run(path, ["CREATE TABLE a (x)"], "JOB")
    assert receipt(path, "job") is None
    before = dump(path)
    with pytest.raises(Failed, match="UNIQUE"):
        run(path, ["CREATE TABLE b (x)"], "job")
    assert dump(path) == before
    assert receipt(path, "JOB").status == "applied"


def test_a_trigger_of_our_name_on_another_table_is_no_table_of_ours(tmp_path):
    path = tmp_path / "target.db"
    trigger = "CREATE TRIGGER schema_jobs AFTER DELETE ON users BEGIN SELECT 1; END"
    make_database(path, "rollback", (*SEED, trigger))
    assert receipt(path) is None
    run(path, ["CREATE TABLE a (x)"])
    assert receipt(path).status == "applied"


def test_a_receipt_of_another_tool_has_no_counts(tmp_path):
    path = tmp_path / "target.db"
    make_database(path, "rollback", (*SEED, PUBLISHED, "INSERT INTO schema_jobs VALUES ('old', 2, 'abc', 'applied')"))
    found = receipt(path, "old")
    assert (found.stmt_count, found.sha256, found.statements_run, found.fingerprint_after) == (2, "abc", None, None)
    assert receipt(path, "none") is None


# --- preconditions that stand in the target


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ({"after": ["j0"]}, "comes after job j0, which has no receipt"),
        ({"after": ["j1", "j0"]}, "comes after job j0"),
        ({"after": ["gone"]}, "comes after job gone, which is reverted"),
        ({"retry_of": "j1"}, "retries job j1, which has a receipt"),
    ],
)
def test_a_precondition_that_does_not_hold_stops_the_job(database, more, part):
    run(database, ["CREATE TABLE a (x)"])
    run(database, ["CREATE TABLE b (x)"], "gone")
    run(database, ["DROP TABLE b"], "gone.revert", after=["gone"], reverts="gone")
    before, bytes_before = dump(database), files(database)
    with pytest.raises(Failed, match=part) as caught:
        run(database, ["CREATE TABLE c (x)"], "j2", **more)
    assert caught.value.signal is Signal.CHECK_FAILED
    assert (dump(database), files(database)) == (before, bytes_before)


def test_preconditions_that_hold_let_the_job_run(database):
    run(database, ["CREATE TABLE a (x)"])
    run(database, ["CREATE TABLE b (x)"], "j2", after=["j1"], retry_of="never")
    assert receipt(database, "j2").status == "applied"
