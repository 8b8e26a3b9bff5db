"""What reading the words cannot see, the server tells: a transaction that ended, a setting that moved."""

import time
from contextlib import closing

import pymysql
import pytest
from tests.support.mariadb import connect, url_of
from tests.support.world import work

from endmark.apply_gate import Options
from endmark.core.refusal import CannotTry, Signal
from endmark.effects.mariadb import MariadbTarget, judging
from endmark.effects.mariadb.guard import Does, Judged
from endmark.effects.target import Failed

ROW = "INSERT INTO users VALUES (3, 'cid')"
RECEIPTS = (
    "CREATE TABLE schema_jobs (job_id VARCHAR(128) PRIMARY KEY, stmt_count INT, sha256 CHAR(64), status CHAR(20))"
)


@pytest.fixture
def blind(monkeypatch):
    """The words are not looked at: every statement is taken for one about rows."""
    monkeypatch.setattr(judging, "judge", lambda _text, _databases: Judged(Does.ROWS))


@pytest.mark.parametrize(
    "statement",
    [
        "COMMIT",
        "COMMIT AND CHAIN",
        "ROLLBACK AND CHAIN",
        "CREATE TABLE x (y INT)",
        "TRUNCATE users",
        "START TRANSACTION",
        "SET autocommit = 1",
        "LOCK TABLES users WRITE",
        "GRANT SELECT ON *.* TO root@localhost",
        "ANALYZE TABLE users",
        "FLUSH TABLES",
        "XA START 'x'",
        "SAVEPOINT endmark",
        "DO RELEASE_ALL_LOCKS()",
        "SET SESSION sql_mode = ''",
        "SET foreign_key_checks = 0",
        "UPDATE schema_jobs SET status = 'failed' WHERE job_id = 'other'",
        "DELETE FROM schema_jobs",
    ],
)
def test_a_statement_that_slips_through_is_caught(world, blind, statement):
    """Either nothing stands, or the job is partial and says so; never applied."""
    world.query(RECEIPTS)
    world.query("INSERT INTO schema_jobs VALUES ('other', 1, '', 'applied')")
    outcome = world.apply("j1", [ROW, statement, "INSERT INTO users VALUES (4, 'dan')"])
    if statement in ("SAVEPOINT endmark", "SET autocommit = 1"):  # which alone are harmless
        assert outcome.state == "applied"
        return
    rows = world.query("SELECT id FROM users WHERE id > 2")
    if outcome.state == "failed":
        assert rows == [] or statement == "TRUNCATE users"
        assert world.receipts() == {"other": (1, "", "applied")}
        assert world.apply("j2", [ROW]).state == "applied"
        return
    assert (outcome.state, outcome.exit_code, outcome.next) == ("partial", 15, "ask-person")
    assert world.receipts()["j1"][2] == "partial"
    with pytest.raises(CannotTry, match="endmark settle"):
        world.apply("j2", [ROW])


def test_a_table_without_transactions_is_refused_by_its_name(world):
    world.query("CREATE TABLE notes (x INT) ENGINE=MyISAM")
    before = world.dump()
    outcome = world.apply("j1", [ROW, "INSERT INTO Notes VALUES (1)"])
    assert (outcome.state, outcome.signal) == ("failed", "forbidden-statement")
    assert "notes, whose engine MyISAM has no transactions" in outcome.detail
    assert world.dump() == before


def test_a_table_without_transactions_behind_a_view_makes_the_job_partial(world):
    world.query("CREATE TABLE notes (x INT) ENGINE=MyISAM")
    world.query("CREATE VIEW v AS SELECT x FROM notes")
    outcome = world.apply("j1", [ROW, "INSERT INTO v VALUES (1)"])
    assert (outcome.state, outcome.exit_code) == ("partial", 15)
    assert "without transactions" in outcome.detail
    assert world.query("SELECT * FROM notes") == [(1,)]
    assert world.query("SELECT id FROM users WHERE id = 3") == []


_FOUR = "job_id VARCHAR(128) {}, stmt_count INT, sha256 CHAR(64), status TEXT{}"
NOT_RECEIPTS = {
    "CREATE VIEW schema_jobs AS SELECT 1 AS job_id": "not a table",
    "CREATE TABLE schema_jobs (a INT)": "begins with the columns a",
    f"CREATE TABLE schema_jobs ({_FOUR.format('PRIMARY KEY', '')}) ENGINE=MyISAM": "kept by MyISAM",
    f"CREATE TABLE schema_jobs ({_FOUR.format('', '')})": "no unique",
    f"CREATE TABLE schema_jobs ({_FOUR.format('', ', UNIQUE (job_id(5))')})": "no unique",
}


def test_the_receipts_tables_must_be_what_they_should_be(world):
    for made, said in NOT_RECEIPTS.items():
        world.query(made)
        with pytest.raises(CannotTry, match=said):
            world.apply("j1", [ROW])
        world.query(f"DROP {'VIEW' if 'VIEW' in made else 'TABLE'} schema_jobs")
    assert world.entries() == []


def test_a_trigger_on_the_receipts_is_not_trusted(world):
    assert world.apply("j1", [ROW]).state == "applied"
    world.query("CREATE TRIGGER t BEFORE INSERT ON schema_jobs FOR EACH ROW SET NEW.status = 'applied'")
    with pytest.raises(CannotTry, match="trigger t"):
        world.apply("j2", [ROW])


def test_ids_are_told_apart_by_case_and_never_padded(world):
    world.query(
        "CREATE TABLE schema_jobs (job_id VARCHAR(128) COLLATE utf8mb4_general_ci PRIMARY KEY, stmt_count INT,"
        " sha256 CHAR(64), status VARCHAR(20))"
    )
    world.query("INSERT INTO schema_jobs VALUES ('Job ', 1, '', 'applied'), ('other', 1, '', 'applied')")
    with world.target.open() as session:
        assert session.receipt("Job") is None
        assert session.receipt("OTHER") is None
        assert session.receipt("other").status == "applied"


def test_a_statement_that_runs_too_long_is_ended(world):
    started = time.monotonic()
    outcome = world.apply("j1", [ROW, "SELECT SLEEP(60)"], options=Options(lock_timeout=0, statement_timeout=0.5))
    assert (outcome.state, outcome.signal) == ("failed", "statement-timeout")
    assert time.monotonic() - started < 20
    assert world.query("SELECT id FROM users WHERE id = 3") == []
    assert world.apply("j2", [ROW]).state == "applied"


def test_somebody_may_ask_to_stop_while_a_statement_runs(world):
    asked = []

    def stop():
        asked.append(1)
        return "SIGTERM" if len(asked) > 4 else None

    with pytest.raises(Failed) as failed:
        world.run(work(["SELECT SLEEP(60)"]), timeout=60.0, stop=stop)
    assert failed.value.signal is Signal.INTERRUPTED
    assert "SIGTERM" in failed.value.detail


def test_a_connection_killed_in_the_middle_rolls_back(world):
    before = world.dump()

    def kill(done, _total):
        if done == 2:
            _kill_runner(world.name)

    outcome = world.apply("j1", [ROW, "INSERT INTO users VALUES (4, 'dan')", "SELECT 1"], more={"progress": kill})
    assert (outcome.state, outcome.signal) == ("failed", "target-fault")
    assert world.dump() == before
    assert world.apply("j2", [ROW]).state == "applied"


def _kill_runner(name):
    with closing(connect()) as conn, conn.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s ORDER BY id DESC LIMIT 1", (name,))
        (number,) = cursor.fetchone()
        cursor.execute(f"KILL CONNECTION {number}")


def test_who_holds_the_lock_is_named(world):
    with world.target.open() as holder:
        holder.lock(0)
        with pytest.raises(CannotTry, match=r"locked by another gate \(connection [0-9]+ of root"):
            world.apply("j1", [ROW])
    assert world.entries() == []
    assert world.apply("j1", [ROW]).state == "applied"


def test_no_two_statements_are_taken_by_the_server_either(name):
    target = MariadbTarget(url_of(name))
    with target.open() as session, pytest.raises(pymysql.err.ProgrammingError):
        session._conn.query("SELECT 1; SELECT 2")


def test_a_password_is_in_no_message_and_no_identity(name):
    target = MariadbTarget(f"mysql://somebody:secret%21@LOCALHOST/{name}")
    assert target.identity == f"mariadb://127.0.0.1:3306/{name}"
    with pytest.raises(CannotTry) as refused:
        target.open()
    assert "secret" not in refused.value.detail
    for url in (
        "mariadb://u:secret@",
        "mariadb://u:secret@h:x/db",
        "mariadb://u:secret@h/db?secret=1&a",
        "mariadb://h/a/b",
    ):
        with pytest.raises(CannotTry) as refused:
            MariadbTarget(url)
        assert "secret" not in refused.value.detail.replace("option secret", "")


def test_a_missing_database_is_said(name):
    with pytest.raises(CannotTry, match="does not exist"):
        MariadbTarget(url_of("endmark_no_such")).open()
