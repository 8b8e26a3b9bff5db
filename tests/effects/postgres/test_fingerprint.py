"""Equal schemas have equal fingerprints, on any database; whatever changes a schema changes it."""

import time

import pytest
from tests.effects.postgres.plans import ELEVEN

RICH = (
    "CREATE SCHEMA app",
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE DOMAIN zip AS text CHECK (VALUE ~ '^[0-9]+$')",
    "CREATE TABLE p (id int GENERATED ALWAYS AS IDENTITY, m mood DEFAULT 'ok', z zip, t text) PARTITION BY RANGE (id)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (1) TO (100)",
    "CREATE TABLE q (id serial PRIMARY KEY, p integer, at timestamptz DEFAULT '2026-01-01Z', gone integer, n int)",
    "ALTER TABLE q DROP COLUMN gone",
    "CREATE INDEX q_p ON q (p) WHERE p > 3",
    "CREATE VIEW v AS SELECT id FROM q WHERE at > '2026-02-01'::timestamptz",
    "CREATE MATERIALIZED VIEW mv AS SELECT count(*) FROM q",
    "CREATE FUNCTION f(a integer) RETURNS integer LANGUAGE sql AS 'SELECT a + 1'",
    "CREATE AGGREGATE agg (integer) (sfunc = int4pl, stype = integer, initcond = '0')",
    "CREATE FUNCTION tf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE TRIGGER tr BEFORE INSERT ON q FOR EACH ROW EXECUTE FUNCTION tf()",
    "CREATE RULE r AS ON DELETE TO q DO INSTEAD NOTHING",
    "CREATE SEQUENCE s INCREMENT 2",
    "CREATE STATISTICS st ON p, n FROM q",
    "CREATE POLICY pol ON q USING (p > 0)",
    "CREATE TYPE pair AS (a integer, b text)",
    "CREATE TYPE span AS RANGE (subtype = integer)",
)
MOVES = [
    "ALTER TABLE q ALTER COLUMN p SET (n_distinct = 5)",
    "CREATE SCHEMA more",
    "CREATE TABLE more (n integer)",
    "CREATE UNLOGGED TABLE more (n integer)",
    "DROP SCHEMA app",
    "ALTER SCHEMA app RENAME TO app2",
    "ALTER TABLE q RENAME TO q2",
    "ALTER TABLE q RENAME COLUMN p TO p2",
    "ALTER TABLE q ADD COLUMN more text",
    "ALTER TABLE q DROP COLUMN n",
    "ALTER TABLE q ALTER COLUMN p SET DEFAULT 1",
    "ALTER TABLE q ALTER COLUMN p SET NOT NULL",
    "ALTER TABLE q ALTER COLUMN n TYPE bigint",
    'ALTER TABLE p ALTER COLUMN t TYPE text COLLATE "C"',
    "ALTER TABLE q ADD CHECK (p > 0)",
    "ALTER TABLE q ADD CHECK (p > 0) NOT VALID",
    "ALTER TABLE q ADD UNIQUE (p)",
    "ALTER TABLE q ADD FOREIGN KEY (p) REFERENCES q",
    "ALTER TABLE q SET (fillfactor = 50)",
    "ALTER TABLE q REPLICA IDENTITY FULL",
    "ALTER TABLE q ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE q FORCE ROW LEVEL SECURITY",
    "ALTER TABLE q DISABLE TRIGGER tr",
    "ALTER TABLE p DETACH PARTITION p1",
    "CREATE TABLE p2 PARTITION OF p DEFAULT",
    "CREATE INDEX more ON q (p)",
    "ALTER INDEX q_p RENAME TO q_p2",
    "CLUSTER q USING q_pkey",
    "DROP INDEX q_p",
    "CREATE OR REPLACE VIEW v AS SELECT id FROM q",
    "CREATE VIEW v2 AS SELECT 1",
    "DROP MATERIALIZED VIEW mv",
    "CREATE OR REPLACE FUNCTION f(a integer) RETURNS integer LANGUAGE sql AS 'SELECT a + 2'",
    "ALTER FUNCTION f STRICT",
    "ALTER FUNCTION f SET work_mem = '1MB'",
    "DROP AGGREGATE agg (integer)",
    "CREATE OR REPLACE RULE r AS ON DELETE TO q DO ALSO NOTHING",
    "DROP TRIGGER tr ON q",
    "ALTER SEQUENCE s INCREMENT 3",
    "ALTER SEQUENCE s OWNED BY q.p",
    "ALTER SEQUENCE s CYCLE",
    "DROP STATISTICS st",
    "ALTER POLICY pol ON q USING (p > 1)",
    "DROP POLICY pol ON q",
    "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'",
    "ALTER DOMAIN zip SET NOT NULL",
    "ALTER DOMAIN zip ADD CHECK (length(VALUE) < 9)",
    "ALTER TYPE pair ADD ATTRIBUTE c integer",
    "CREATE TYPE more AS ENUM ('a')",
    "CREATE EXTENSION pg_trgm",
    "CREATE OPERATOR === (LEFTARG = integer, RIGHTARG = integer, FUNCTION = int4eq)",
]
STAYS = [
    "INSERT INTO q (p) VALUES (1)",
    "SELECT nextval('s')",
    "COMMENT ON TABLE q IS 'rows'",
    "GRANT SELECT ON q TO PUBLIC",
    "ANALYZE",
    "REFRESH MATERIALIZED VIEW mv",
    "CREATE TEMP TABLE more (n integer)",
    "SET datestyle = 'German'",
    "SET timezone = 'Asia/Tokyo'",
    "SET search_path = app",
    "SET quote_all_identifiers = on",
]


@pytest.fixture(scope="module")
def rich(cluster):
    with cluster.database("rich") as made:
        for statement in RICH:
            made.as_gate(statement)
        yield made


def moved(database, statement):
    """The fingerprints before a statement and after it, in a plan that is not committed."""
    from tests.support.world import work

    with database.target.open() as session:
        session.lock(0)
        before = session.fingerprint()
        ran = session.run(work([statement]), 10.0, lambda done, total: None, lambda: None)
        return before, ran.fingerprint_after


@pytest.mark.parametrize("statement", MOVES)
def test_a_change_of_the_schema_moves_it(rich, statement):
    before, after = moved(rich, statement)
    assert len(before) == len(after) == 64
    assert before != after


@pytest.mark.parametrize("statement", STAYS)
def test_what_is_no_schema_does_not(rich, statement):
    before, after = moved(rich, statement)
    assert before == after


def test_it_is_equal_on_two_databases(cluster, rich):
    with cluster.database("other") as other:
        bare = other.fingerprint()
        other.as_gate("CREATE TABLE noise (n integer)")  # other numbers for everything that follows
        other.as_gate("DROP TABLE noise")
        assert other.fingerprint() == bare
        for statement in RICH:
            other.query(statement.replace(", gone integer", "") if "DROP COLUMN" not in statement else "SELECT 1")
        assert other.fingerprint() == rich.fingerprint() != bare


def test_receipts_are_left_out(database):
    before = database.fingerprint()
    assert database.run(["SELECT 1"]).fingerprint_after == before
    assert database.run(ELEVEN, "j2").fingerprint_after == database.fingerprint() != before


@pytest.mark.soak
def test_a_thousand_tables_take_no_half_second(database):
    for low in range(0, 1000, 50):
        body = "; ".join(
            f"CREATE TABLE t{n} (id serial PRIMARY KEY, a text, b text UNIQUE)" for n in range(low, low + 50)
        )
        database.query(body)
    database.fingerprint()
    began = time.perf_counter()
    database.fingerprint()
    assert time.perf_counter() - began < 0.5
