"""What a statement destroys, in words; anything the parser is not sure of is for people to read."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.effects.destroys import NOT_UNDERSTOOD, destroys, dialect_of

SAYS = {
    "DROP TABLE IF EXISTS main.users": "drops the table main.users and every row in it",
    'DROP TABLE "we""ird"': 'drops the table we"ird and every row in it',
    "/* x */ DROP TABLE users -- y": "drops the table users and every row in it",
    "DROP VIEW v": "drops the view v",
    "DROP INDEX i": "drops the index i",
    "ALTER TABLE t DROP COLUMN c": "drops the column c of t with what it holds",
    "ALTER TABLE t RENAME TO u": "renames t to u",
    "ALTER TABLE t RENAME COLUMN a TO b": "renames the column a of t to b",
    "DELETE FROM t": "deletes every row of t",
    "WITH x AS (SELECT 1) DELETE FROM t": "deletes every row of t",
    "DELETE FROM t WHERE 1": "deletes every row of t, or none: its WHERE names no column",
    "DELETE FROM t WHERE id = 3": "deletes the rows of t that its WHERE finds",
    "UPDATE t SET a = 1": "overwrites every row of t",
    "UPDATE t SET a = 1 WHERE id = 2": "overwrites the rows of t that its WHERE finds",
    "TRUNCATE TABLE t": "deletes every row of t",
    "INSERT OR REPLACE INTO t VALUES (1)": "replaces rows of t that are in the way",
    "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2": "overwrites rows of t that are there already",
}
HARMLESS = [
    "CREATE TABLE t (a INT)",
    "CREATE TABLE t AS SELECT 1",
    "CREATE UNIQUE INDEX i ON t (a) WHERE a > 1",
    "CREATE VIEW v AS SELECT 1",
    "INSERT INTO t VALUES (1)",
    "INSERT INTO t SELECT * FROM u",
    "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO NOTHING",
    "ALTER TABLE t ADD COLUMN x INT",
    "SELECT 1 UNION SELECT 2",
]
UNCLEAR = [
    "",
    "-- nothing",
    "garbage here",
    "DROP TABLE a; DROP TABLE b",
    "CREATE TRIGGER tr AFTER INSERT ON t BEGIN DELETE FROM u; END",
    "REPLACE INTO t VALUES (1)",
    "PRAGMA user_version = 3",
    "VACUUM",
    "COMMIT",
    "ATTACH 'x' AS y",
    "EXPLAIN DELETE FROM t",
    "DELETE FROM t WHERE 'unfinished",
    "(" * 5_000,
    "\ud800",
    "SELECT '" + "x" * 200_000 + "'",
]


@pytest.mark.parametrize(("statement", "says"), SAYS.items())
def test_what_is_destroyed(statement, says):
    assert destroys(statement) == (says,)


@pytest.mark.parametrize("statement", HARMLESS)
def test_what_is_not(statement):
    assert destroys(statement) == ()


@pytest.mark.parametrize("statement", UNCLEAR, ids=range(len(UNCLEAR)))
def test_what_people_must_read(statement):
    assert destroys(statement) == (NOT_UNDERSTOOD,)


def test_the_parser_is_quiet(caplog, capfd):
    destroys("VACUUM INTO 'x'")
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")
    assert not logging.getLogger("sqlglot").disabled


@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            ["DROP", "TABLE", "DELETE", "FROM", "UPDATE", "SET", "WHERE", "(", ")", ",", ";", "'", '"', "t", "1", "*"]
        )
    ).map(" ".join)
)
def test_it_never_raises(statement):
    assert all(isinstance(clause, str) for clause in destroys(statement))


def test_a_target_is_read_in_its_own_dialect():
    assert dialect_of("postgresql://h:5432/d") == "postgres"
    assert dialect_of("mariadb://h:3306/d") == "mysql"
    assert dialect_of("sqlite:////a.db") == dialect_of(None) == "sqlite"
    rename = "ALTER TABLE users ALTER COLUMN name TYPE integer USING name::integer"
    assert destroys(rename, "postgres")
