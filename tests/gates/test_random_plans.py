"""Plans by chance, some with a statement that fails: everything is applied, exactly, or the target is what it was."""

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from tests.support.world import MODES, SEED, World, make_database, plain_dump

NAMES = st.sampled_from(["a", "b", "users", '"odd name"', "log"])
NUMBERS = st.integers(-3, 3)
MAKING = st.one_of(
    st.builds("CREATE TABLE {} (x INTEGER UNIQUE, y)".format, NAMES),
    st.builds("CREATE TABLE IF NOT EXISTS {} (x INTEGER UNIQUE, y DEFAULT 'ž')".format, NAMES),
    st.builds("CREATE INDEX IF NOT EXISTS i_{1} ON {0} (y)".format, NAMES, st.integers(0, 2)),
    st.builds("CREATE VIEW v{1} AS SELECT * FROM {0}".format, NAMES, st.integers(0, 2)),
    st.builds(
        "CREATE TRIGGER t{1} AFTER INSERT ON {0} BEGIN UPDATE users SET name = 'seen'; END".format,
        NAMES,
        NUMBERS.map(abs),
    ),
    st.builds("DROP TABLE IF EXISTS {}".format, NAMES),
    st.builds("ALTER TABLE {} ADD COLUMN z DEFAULT 5".format, NAMES),
    st.builds("ALTER TABLE {} RENAME TO {}".format, NAMES, NAMES),
)
WRITING = st.one_of(
    st.builds("INSERT INTO {} VALUES ({}, 'x')".format, NAMES, NUMBERS),
    st.builds("INSERT OR REPLACE INTO {} VALUES ({}, 'y')".format, NAMES, NUMBERS),
    st.builds("INSERT OR ROLLBACK INTO {} VALUES ({}, 'y')".format, NAMES, NUMBERS),
    st.builds("INSERT OR FAIL INTO {0} SELECT {1}, 'a' UNION ALL SELECT {1}, 'b'".format, NAMES, NUMBERS),
    st.builds("UPDATE {} SET x = x + {}".format, NAMES, NUMBERS),
    st.builds("UPDATE users SET name = name || {} RETURNING *".format, NUMBERS),
    st.builds("DELETE FROM {}".format, NAMES),
    st.just("PRAGMA user_version = 8"),
)
FAILING = st.sampled_from(
    [
        "COMMIT",
        "ROLLBACK",
        "SELECT * FROM missing",
        "INSERT INTO users VALUES (77001, 'one'), (77001, 'again')",
        "INSERT OR ROLLBACK INTO users VALUES (77002, 'one'), (77002, 'again')",
        "DELETE FROM schema_jobs",
        "PRAGMA journal_mode = OFF",
        "CREATE TABLE x (y); DROP TABLE x",
        "SELECT RAISE(ABORT, 'x')",
        "CREATE VIEW w AS SELECT * FROM endmark_receipts",
    ]
)
GOOD = st.lists(st.one_of(MAKING, WRITING), min_size=1, max_size=8)


def alone(path, statements):
    """What SQLite itself makes of the statements: the dump afterwards, or None when one fails."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("BEGIN")
        try:
            for statement in statements:
                conn.execute(statement).fetchall()
                if not conn.in_transaction:
                    return None
        except sqlite3.Error:
            return None
        conn.execute("COMMIT")
    return plain_dump(path)


def check(statements, mode):
    with TemporaryDirectory() as folder:
        world = World(Path(folder), mode)
        reference = Path(folder, "reference.db")
        make_database(reference, mode, SEED)
        expected = alone(reference, statements)
        before = world.files()
        outcome = world.apply("j1", statements)
        if expected is None:
            assert outcome.state == "failed", statements
            assert world.files() == before, statements
        else:
            assert outcome.state == "applied", (outcome.detail, statements)
            assert plain_dump(world.path) == expected, statements
        return outcome


@given(GOOD, st.sampled_from(MODES))
def test_a_plan_is_applied_exactly_or_not_at_all(statements, mode):
    check(statements, mode)


@given(GOOD, FAILING, st.integers(0, 8), st.sampled_from(MODES))
def test_one_failing_statement_anywhere_undoes_all(statements, failing, at, mode):
    with TemporaryDirectory() as folder:
        world = World(Path(folder), mode)
        before = world.files()
        outcome = world.apply("j1", [*statements[:at], failing, *statements[at:]])
        assert outcome.state == "failed", (outcome.detail, statements)
        assert world.files() == before, statements
        assert world.receipts() == {}
