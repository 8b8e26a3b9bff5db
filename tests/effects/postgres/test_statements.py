"""What a plan may do, how many rows each statement changed by what the server says, and that it skips the rest."""

import pytest

from endmark.core.refusal import Signal
from endmark.effects.target import Failed

# statement -> the rows it changes
COUNTED = {
    "CREATE TABLE a (n integer)": 0,
    "INSERT INTO a SELECT generate_series(1, 10)": 10,
    "INSERT INTO a VALUES (11), (12) RETURNING n": 2,
    "UPDATE a SET n = n WHERE n > 5": 7,
    "UPDATE a SET n = n WHERE n > 500": 0,
    "DELETE FROM a WHERE n = 12 RETURNING *": 1,
    "WITH gone AS (DELETE FROM a WHERE n = 11 RETURNING n) INSERT INTO a SELECT n + 1 FROM gone": 1,
    "SELECT * FROM a": 0,
    "TABLE a": 0,
    "VALUES (1), (2)": 0,
    "SELECT": 0,
    "CREATE TABLE b AS SELECT * FROM a": 11,
    "SELECT n INTO c FROM a LIMIT 3": 3,
    "CREATE MATERIALIZED VIEW m AS SELECT * FROM a": 11,
    "INSERT INTO a VALUES (1) ON CONFLICT DO NOTHING": 1,
    "TRUNCATE b": 0,
    "EXPLAIN ANALYZE INSERT INTO a VALUES (77)": 0,
    "DO $$ BEGIN INSERT INTO a VALUES (78); END $$": 0,
    "PREPARE add (integer) AS INSERT INTO a VALUES ($1)": 0,
    "EXECUTE add (79)": 1,
    "DEALLOCATE ALL": 0,
    "DECLARE cur CURSOR FOR SELECT n FROM a": 0,
    "FETCH 2 FROM cur": 0,
    "CLOSE ALL": 0,
    "SET search_path = pg_catalog": 0,
    "CREATE TEMP TABLE tmp (n integer)": 0,
    "SET LOCAL statement_timeout = '1h'": 0,
    "SET lock_timeout = 0": 0,
    "SET default_transaction_read_only = on": 0,
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE": 0,
    "LOCK TABLE public.users": 0,
    "LISTEN news": 0,
    "NOTIFY news, 'hello'": 0,
    "SELECT pg_advisory_lock(1)": 0,
    "SELECT pg_advisory_unlock_all()": 0,
    "SET ROLE NONE": 0,
    "/* a comment; with a semicolon */ INSERT INTO public.a VALUES (80);": 1,
    "DISCARD TEMP": 0,
}


def test_rows_are_counted_by_the_server(database):
    said: list[tuple[int, int]] = []
    ran = database.run(list(COUNTED), progress=lambda done, total: said.append((done, total)))
    assert dict(zip(COUNTED, ran.rows_changed, strict=True)) == COUNTED
    assert said == [(n + 1, len(COUNTED)) for n in range(len(COUNTED))]
    assert database.receipt("j1").rows_changed == " ".join(map(str, COUNTED.values()))
    assert database.query("SELECT count(*) FROM a WHERE n > 76") == [(4,)]


def test_a_plan_may_work_as_another_role_that_it_is_a_member_of(database):
    other = f"{database.cluster.prefix}_app"
    database.query(f"CREATE ROLE {other}")
    database.query(f"GRANT {other} TO {database.cluster.gate}")
    database.query(f"GRANT CREATE, USAGE ON SCHEMA public TO {other}")
    database.run([f"SET ROLE {other}", "CREATE TABLE theirs (n integer)"])
    assert database.query("SELECT tableowner FROM pg_tables WHERE tablename = 'theirs'") == [(other,)]
    assert database.receipt("j1").status == "applied"
    before = database.dump()
    with pytest.raises(Failed, match="statement 3 may not end the transaction"):
        database.run([f"SET ROLE {other}", "CREATE TABLE more (n integer)", "COMMIT"], "j2")
    assert database.dump() == before


@pytest.mark.parametrize(
    "how", ["ROLLBACK", "COMMIT", "ROLLBACK AND CHAIN", "SELECT 1/0", "SET client_encoding = 'LATIN1'"]
)
def test_the_server_runs_nothing_after_a_statement_that_ended_the_transaction(database, how):
    """All of it is on its way to the server by then. A sequence remembers whoever asked it, whatever is rolled back."""
    database.query("CREATE SEQUENCE seen")
    database.query(f"GRANT ALL ON seen TO {database.cluster.gate}")
    with pytest.raises(Failed) as caught:
        database.run(["SELECT nextval('seen')", how, *["SELECT nextval('seen')"] * 40])
    assert caught.value.statement == 2
    assert caught.value.statements_run == 1
    assert database.query("SELECT last_value, is_called FROM seen") == [(1, True)]


def test_a_large_plan_is_sent_in_parts(database):
    inserts = [f"INSERT INTO users VALUES ({n}, '{'x' * 300}')" for n in range(10, 3_010)]
    ran = database.run(["SELECT repeat('y', 3000000)", *inserts, f"SELECT '{'z' * 2_000_000}'"], timeout=60)
    assert sum(ran.rows_changed) == 3_000
    assert database.query("SELECT count(*) FROM users") == [(3_002,)]


@pytest.mark.parametrize(
    ("statement", "signal"),
    [
        ("SELECT 1/0", Signal.SQL_ERROR),
        ("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '57P01'; END $$", Signal.TARGET_FAULT),
        ("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '22012'; END $$", Signal.SQL_ERROR),
        ("DO $$ BEGIN RAISE EXCEPTION E'a\\x1b[31mb'; END $$", Signal.SQL_ERROR),
    ],
)
def test_an_error_has_its_statement_and_sqlstate(database, statement, signal):
    before = database.dump()
    with pytest.raises(Failed, match=r"statement 2: \[") as caught:
        database.run(["CREATE TABLE a (n integer)", statement, "SELECT 1"])
    assert (caught.value.signal, caught.value.statement, caught.value.statements_run) == (signal, 2, 1)
    assert database.dump() == before
