"""The fingerprint names a schema, however its database is called and used; a clone is like its original."""

import time

import pytest
from tests.support.mariadb import MariaWorld, database, query
from tests.support.world import work

from endmark.effects.mariadb import clone

RICH = (
    "CREATE TABLE parents (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20) CHECK (name <> ''))",
    """CREATE TABLE children (id INT PRIMARY KEY, parent INT NOT NULL DEFAULT 1, doubled INT AS (id * 2) STORED,
    CONSTRAINT child_of FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE)""",
    "CREATE TABLE parts (n INT) PARTITION BY RANGE (n) (PARTITION p0 VALUES LESS THAN (10))",
    "CREATE FUNCTION twice(n INT) RETURNS INT DETERMINISTIC RETURN n * 2",
    "CREATE VIEW b_view AS SELECT id, twice(id) AS two FROM parents",
    "CREATE VIEW a_view AS SELECT two FROM b_view",
    "CREATE PROCEDURE note(IN n INT) UPDATE parents SET name = 'x' WHERE id = n",
    "CREATE TRIGGER first_of BEFORE INSERT ON parents FOR EACH ROW SET NEW.name = LOWER(NEW.name)",
    "CREATE TRIGGER second_of BEFORE INSERT ON parents FOR EACH ROW SET NEW.name = TRIM(NEW.name)",
    "CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 00:00:00' DISABLE DO DELETE FROM parts",
    "CREATE SEQUENCE numbers",
)
CHANGES = (
    "ALTER TABLE parents ADD COLUMN x INT",
    "ALTER TABLE parents ADD INDEX by_name (name)",
    "ALTER TABLE parents COMMENT 'hello'",
    "ALTER TABLE parents MODIFY name VARCHAR(21)",
    "ALTER TABLE parts ADD PARTITION (PARTITION p1 VALUES LESS THAN (20))",
    "DROP VIEW a_view",
    "CREATE OR REPLACE VIEW b_view AS SELECT id, id AS two FROM parents",
    "DROP TRIGGER second_of",
    "DROP PROCEDURE note",
    "CREATE OR REPLACE FUNCTION twice(n BIGINT) RETURNS INT DETERMINISTIC RETURN n * 2",
    "ALTER EVENT nightly COMMENT 'now'",
    "DROP SEQUENCE numbers",
    "ALTER DATABASE CHARACTER SET latin1",
)


@pytest.fixture
def rich(name):
    with database(RICH) as made:
        yield made


def of(name, folder):
    with MariaWorld(folder, name).target.open() as session:
        return session.fingerprint()


def test_equal_schemas_have_one_fingerprint_and_every_change_another(rich, tmp_path):
    with database(RICH) as other:
        first = of(rich, tmp_path)
        assert len(first) == 64
        assert of(other, tmp_path) == first
        query(other, "INSERT INTO parents (name) VALUES ('a'), ('b')")
        query(other, "SELECT NEXTVAL(numbers)")
        assert of(other, tmp_path) == first
        seen = {first}
        for change in CHANGES:
            query(other, change)
            seen.add(of(other, tmp_path))
        assert len(seen) == 1 + len(CHANGES)


def test_our_tables_are_left_out(rich, tmp_path):
    world = MariaWorld(tmp_path, rich)
    before = world.fingerprint()
    assert world.apply("j1", ["INSERT INTO parents (name) VALUES ('a')"]).state == "applied"
    assert world.fingerprint() == before


def test_a_rehearsal_shows_what_would_change_and_changes_nothing(rich, tmp_path):
    world = MariaWorld(tmp_path, rich)
    before = world.dump(ours=True)
    job = work(
        ["ALTER TABLE parents ADD COLUMN x INT", "CREATE VIEW c_view AS SELECT x FROM parents"],
        down=["ALTER TABLE parents DROP COLUMN x", "DROP VIEW c_view"],
    )
    with world.target.open() as session:
        session.lock(0)
        found = session.rehearse(job, 10.0, lambda: None)
    assert found.before == found.after_downs == world.fingerprint() != found.after
    added = [(change.what.value, change.kind, change.name) for change in found.changes]
    assert added == [("+", "column", "parents.x"), ("+", "view", "c_view")]
    assert world.dump(ours=True) == before
    assert not [
        row for row in query(None, "SHOW DATABASES") if row[0].startswith(clone.PREFIX + "0") and row[0] == rich
    ]
    outcome = world.apply("j1", list(job.statements), down=list(job.down or ()))
    assert outcome.state == "applied"
    assert world.entry("j1").fingerprint_after == found.after


def test_a_stale_base_is_refused(world):
    outcome = world.apply("j1", ["SELECT 1"], base="0" * 64)
    assert (outcome.state, outcome.exit_code) == ("stale", 14)
    assert world.apply("j2", ["SELECT 1"], base=world.fingerprint()).state == "applied"


@pytest.mark.soak
def test_a_thousand_tables_are_read_quickly(name, tmp_path):
    tables = tuple(f"CREATE TABLE t{n} (id INT PRIMARY KEY, name VARCHAR(20), KEY (name))" for n in range(1_000))
    with database(tables) as made:
        of(made, tmp_path)
        started = time.monotonic()
        of(made, tmp_path)
        assert time.monotonic() - started < 5
