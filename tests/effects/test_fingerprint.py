"""The schema's fingerprint: what it sees, what it does not, and that it is spelled as the page says."""

import hashlib
import sqlite3
from contextlib import closing

import pytest
from tests.support.world import MODES, make_database, query, run

from endmark.effects.sqlite import SqliteTarget

SCHEMA = (
    "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)",
    "CREATE INDEX customers_name ON customers (name)",
)
PUBLISHED = "582ccf8d58dbbbc37228489c994e28a9eb68643ba54a810acfad4ef4550dcf9c"
WIDE = (
    'CREATE TABLE "Žluť" (id INTEGER PRIMARY KEY, "🂡" TEXT UNIQUE)',
    'CREATE TABLE "äpfel" (id)',
    'CREATE TABLE "zebra" (id)',
    'CREATE TABLE "\uff5e" (id)',
    'CREATE TABLE "\U0001f600" (id)',
    "CREATE VIEW v AS SELECT '∎' AS qed",
    "CREATE TRIGGER t AFTER INSERT ON zebra BEGIN SELECT 1; END",
)


def fingerprint(path):
    with SqliteTarget(path).open() as session:
        return session.fingerprint()


def by_the_page(path):
    """Rule P22, written a second time: in Python, from the rows alone."""
    ours = ("schema_jobs", "endmark_receipts")
    text = b"endmark-fingerprint-sqlite-1\n"
    rows = query(path, "SELECT type, name, tbl_name, sql FROM main.sqlite_schema")
    for row in sorted(rows, key=lambda row: (row[0].encode(), row[1].encode())):
        folded = [field.lower() if field.isascii() else field for field in row[1:3]]
        if not row[1].startswith("sqlite_") and not set(folded) & set(ours):
            for field in row:
                encoded = (field or "").encode()
                text += b"%d:%s," % (len(encoded), encoded)
    return hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize("mode", MODES)
def test_it_is_the_published_one(tmp_path, mode):
    path = tmp_path / "target.db"
    make_database(path, mode, SCHEMA)
    assert fingerprint(path) == PUBLISHED == by_the_page(path)


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
@pytest.mark.parametrize("schema", [(), SCHEMA, WIDE], ids=["empty", "plain", "wide"])
def test_it_is_as_the_page_says_in_every_encoding(tmp_path, schema, encoding):
    path = tmp_path / "target.db"
    make_database(path, "rollback", (f"PRAGMA encoding = '{encoding}'", *schema))
    before = fingerprint(path)
    assert before == by_the_page(path)
    ran = run(path, ["CREATE TABLE \"naïve\" (x DEFAULT 'Ω')"])
    assert ran.fingerprint_after == fingerprint(path) == by_the_page(path) != before


SAME = {
    "rows": "INSERT INTO customers (name) VALUES ('ann')",
    "numbers of the file": "PRAGMA user_version = 9",
    "a new file": "VACUUM",
    "statistics": "ANALYZE",
    "an index rebuilt": "REINDEX",
    "a table of the receipts": "CREATE TABLE Schema_Jobs (job_id TEXT PRIMARY KEY, stmt_count, sha256, status)",
    "an index on the receipts": "CREATE TABLE schema_jobs (job_id TEXT UNIQUE, stmt_count, sha256, status)",
    "the counts": "CREATE TABLE endmark_receipts (x)",
    "a temporary table": "CREATE TEMP TABLE t (x)",
    "another journal": "PRAGMA journal_mode = WAL",
}
OTHER = {
    "a table": "CREATE TABLE t (x)",
    "a column": "ALTER TABLE customers ADD COLUMN age",
    "a name": "ALTER TABLE customers RENAME TO clients",
    "a name of a column": "ALTER TABLE customers RENAME COLUMN name TO title",
    "a column less": "ALTER TABLE customers DROP COLUMN id_",
    "an index": "CREATE INDEX i ON customers (id, name)",
    "an index less": "DROP INDEX customers_name",
    "a view": "CREATE VIEW v AS SELECT 1",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON customers BEGIN SELECT 1; END",
    "a name that is nearly ours": "CREATE TABLE schema_jobs_ (x)",
    "a name that only looks like ours": "CREATE TABLE endmar\u212a_receipts (x)",
    "a table of a module": "CREATE VIRTUAL TABLE f USING fts5(x)",
}
EXTRA = (*SCHEMA[:1], "ALTER TABLE customers ADD COLUMN id_", *SCHEMA[1:])


CHANGES = [(change, group is OTHER) for group in (SAME, OTHER) for change in group.values()]


@pytest.mark.parametrize(("change", "moves"), CHANGES)
def test_it_moves_with_the_schema_and_with_nothing_else(tmp_path, change, moves):
    path = tmp_path / "target.db"
    make_database(path, "rollback", EXTRA)
    before = fingerprint(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute(change).fetchall()
    assert (fingerprint(path) != before) is moves
    assert fingerprint(path) == by_the_page(path)


def test_the_order_of_making_does_not_count(tmp_path):
    found = set()
    for n, schema in enumerate((WIDE[:6], (WIDE[2], WIDE[0], WIDE[5], WIDE[1], WIDE[4], WIDE[3]))):
        path = tmp_path / f"{n}.db"
        make_database(path, "rollback", schema)
        found.add(fingerprint(path))
    assert len(found) == 1


def test_a_plan_sees_it_move_within_its_own_transaction(tmp_path):
    path = tmp_path / "target.db"
    make_database(path, "rollback", SCHEMA)
    ran = run(path, ["CREATE TABLE t (x)", "DROP TABLE t"])
    assert ran.fingerprint_after == PUBLISHED == fingerprint(path)
    assert query(path, "SELECT fingerprint_before, fingerprint_after FROM endmark_receipts") == [(PUBLISHED, PUBLISHED)]
