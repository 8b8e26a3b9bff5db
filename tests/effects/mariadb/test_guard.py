"""What a statement may not do: refused before anything runs, or caught with an honest end. After each: the world."""

import pytest
from tests.support.world import work

from endmark.core.refusal import Signal
from endmark.effects.mariadb.guard import Denied, Does, judge
from endmark.effects.target import Failed

# statement -> a part of the sentence. Each stands alone, and as the second of a plan of rows.
REFUSED = {
    "COMMIT": "say COMMIT",
    "/* c */ commit ;": "say COMMIT",
    "-- c\n COMMIT": "say COMMIT",
    "# c\nCOMMIT AND CHAIN": "say COMMIT",
    "ROLLBACK": "say ROLLBACK",
    "ROLLBACK TO SAVEPOINT endmark": "say ROLLBACK",
    "BEGIN": "say BEGIN",
    "BEGIN NOT ATOMIC COMMIT; END": "say BEGIN",
    "START TRANSACTION": "say START",
    "SAVEPOINT endmark": "say SAVEPOINT",
    "RELEASE SAVEPOINT endmark": "say RELEASE",
    "XA START 'x'": "say XA",
    "XA PREPARE 'x'": "say XA",
    "SET autocommit = 1": "say SET",
    "SET SESSION sql_mode = ''": "say SET",
    "SET GLOBAL max_connections = 1": "say SET",
    "SET STATEMENT max_statement_time = 0 FOR DELETE FROM users": "say SET",
    "SET foreign_key_checks = 0": "say SET",
    "SET SESSION lock_wait_timeout = 1": "say SET",
    "SET CONSTRAINTS ALL IMMEDIATE": "say SET",
    "RESET ROLE": "say RESET",
    "PREPARE TRANSACTION 'x'": "say PREPARE",
    "DO $$ BEGIN COMMIT; END $$": "say DO",
    "COPY users TO PROGRAM 'touch /tmp/endmark-was-here'": "say COPY",
    "CREATE RULE r AS ON INSERT TO users DO INSTEAD NOTHING": "CREATE RULE",
    "CREATE TEMPORARY TABLE schema_jobs (job_id INT)": "CREATE TEMPORARY",
    "SET PASSWORD = PASSWORD('x')": "say SET",
    "SET ROLE NONE": "say SET",
    "LOCK TABLES users WRITE": "say LOCK",
    "UNLOCK TABLES": "say UNLOCK",
    "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE users": "say LOAD",
    "LOAD DATA INFILE '/etc/passwd' INTO TABLE users": "say LOAD",
    "SELECT 1 INTO OUTFILE '/tmp/endmark-test'": "OUTFILE",
    "SELECT 1 INTO DUMPFILE '/tmp/endmark-test'": "DUMPFILE",
    "SELECT LOAD_FILE('/etc/passwd')": "load_file",
    "SELECT `load_file`('/etc/passwd')": "load_file",
    "USE mysql": "say USE",
    "DELIMITER //": "say DELIMITER",
    "PREPARE s FROM 'DROP TABLE schema_jobs'": "say PREPARE",
    "EXECUTE s": "say EXECUTE",
    "EXECUTE IMMEDIATE 'COMMIT'": "say EXECUTE",
    "CALL p()": "say CALL",
    "DO RELEASE_ALL_LOCKS()": "say DO",
    "SELECT RELEASE_ALL_LOCKS()": "release_all_locks",
    "SELECT RELEASE_LOCK('endmark')": "release_lock",
    "SELECT GET_LOCK('x', 1)": "get_lock",
    "UPDATE users SET name = RELEASE_LOCK('x')": "release_lock",
    "GRANT ALL ON *.* TO root": "say GRANT",
    "REVOKE ALL ON *.* FROM root": "say REVOKE",
    "CREATE USER x": "CREATE USER",
    "CREATE DATABASE x": "CREATE DATABASE",
    "DROP DATABASE mysql": "DROP DATABASE",
    "ALTER DATABASE CHARACTER SET latin1": "ALTER DATABASE",
    "DROP SCHEMA mysql": "DROP SCHEMA",
    "CREATE EVENT e ON SCHEDULE EVERY 1 SECOND DO DELETE FROM users": "CREATE EVENT",
    "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x')": "CREATE SERVER",
    "SHUTDOWN": "say SHUTDOWN",
    "KILL 1": "say KILL",
    "FLUSH TABLES WITH READ LOCK": "say FLUSH",
    "RESET MASTER": "say RESET",
    "CHANGE MASTER TO MASTER_HOST = 'x'": "say CHANGE",
    "INSTALL SONAME 'x'": "say INSTALL",
    "HANDLER users OPEN": "say HANDLER",
    "ANALYZE UPDATE users SET id = 9": "say ANALYZE",
    "EXPLAIN SELECT 1": "say EXPLAIN",
    "SHOW TABLES": "say SHOW",
    "INSERT INTO schema_jobs VALUES ('x', 1, '', 'applied')": "schema_jobs",
    "DELETE FROM `Schema_Jobs`": "schema_jobs",
    "UPDATE endmark_receipts SET statements_run = 0": "endmark_receipts",
    "UPDATE users, endmark_journal SET state = 'done'": "endmark_journal",
    "DROP TABLE schema_jobs": "schema_jobs",
    "DROP TABLE users, schema_jobs": "drops several",
    "ALTER TABLE schema_jobs ADD x INT": "schema_jobs",
    "RENAME TABLE schema_jobs TO other": "schema_jobs",
    "TRUNCATE schema_jobs": "schema_jobs",
    "CREATE TABLE IF NOT EXISTS schema_jobs (x INT) SELECT 1 AS x": "schema_jobs",
    "CREATE OR REPLACE TABLE schema_jobs (x INT)": "schema_jobs",
    "CREATE TRIGGER t AFTER INSERT ON schema_jobs FOR EACH ROW SET @x = 1": "schema_jobs",
    "CREATE TRIGGER t AFTER INSERT ON users FOR EACH ROW DELETE FROM schema_jobs": "schema_jobs",
    "CREATE VIEW v AS SELECT * FROM schema_jobs": "schema_jobs",
    "CREATE VIEW v AS SELECT 'schema_jobs' AS x": "names the receipts",
    "CREATE PROCEDURE p() BEGIN PREPARE s FROM 'x'; EXECUTE s; END": "PREPARE",
    "CREATE PROCEDURE p() COMMIT": "COMMIT",
    "CREATE PROCEDURE p() START TRANSACTION": "START",
    "CREATE FUNCTION f() RETURNS INT BEGIN SET SESSION sql_mode = ''; RETURN 1; END": "changes a setting",
    "CREATE FUNCTION f() RETURNS INT BEGIN SET @@sql_mode = ''; RETURN 1; END": "changes a setting",
    "CREATE FUNCTION f() RETURNS INT RETURN RELEASE_ALL_LOCKS()": "release_all_locks",
    "CREATE DEFINER = root@localhost VIEW v AS SELECT 1": "CREATE ROOT",
    "CREATE DEFINER = `root`@localhost VIEW v AS SELECT 1": "CREATE ROOT",
    "CREATE DEFINER = view@localhost EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM users": "definer",
    "CREATE FUNCTION f RETURNS STRING SONAME 'x.so'": "SONAME",
    "CREATE AGGREGATE FUNCTION f RETURNS STRING SONAME 'x.so'": "CREATE AGGREGATE",
    "CREATE TEMPORARY TABLE x (y INT)": "CREATE TEMPORARY",
    "CREATE TABLE x (y INT) ENGINE = CONNECT": "engine connect",
    "CREATE TABLE x (y INT) ENGINE FEDERATED CONNECTION = 'mysql://x'": "engine federated",
    "CREATE TABLE x (y INT) ENGINE = 'CSV'": "engine csv",
    "CREATE TABLE x (y INT) DATA DIRECTORY = '/tmp'": "DIRECTORY",
    "INSERT INTO mysql.user VALUES (1)": "database mysql",
    "DELETE FROM `mysql` . `user`": "database mysql",
    "DELETE FROM mysql/**/.user": "database mysql",
    "SELECT 1; COMMIT": "more than one statement",
    "INSERT INTO users VALUES (7, 'x');; DROP TABLE users": "more than one statement",
    "/*! COMMIT */": "servers execute",
    "INSERT INTO users VALUES (7, 'x') /*!50000 , (8, 'y') */": "servers execute",
    "INSERT INTO users VALUES (7, 'x') /*M!100000 , (8, 'y') */": "servers execute",
    "INSERT /*+ SET_VAR(foreign_key_checks=OFF) */ INTO users VALUES (7, 'x')": "SET_VAR",
    "-- nothing": "no SQL",
    "/* nothing */ ;": "no SQL",
    "SELECT 'open": "does not end",
    "SELECT 1 /* open": "does not end",
    "SELECT `open": "does not end",
    "SELECT 1\x00": "NUL",
    "(SELECT 1)": "begin with",
}
ALLOWED = {
    "INSERT INTO users VALUES (3, 'commit; drop table schema_jobs')": Does.ROWS,
    "insert into users (id) values (3);": Does.ROWS,
    "REPLACE INTO users VALUES (1, 'it''s -- \\' # /* no comment */')": Does.ROWS,
    'DELETE FROM users WHERE name = "schema_jobs"': Does.ROWS,
    "SELECT 5--1": Does.READS,
    "SELECT 'a\\' -- '": Does.READS,
    "WITH c AS (SELECT 1 AS n) SELECT n FROM c": Does.READS,
    "WITH c AS (SELECT 1 AS n) DELETE FROM users WHERE id IN (SELECT n FROM c)": Does.ROWS,
    "CREATE TABLE cars (engine VARCHAR(10), definer INT, data INT, `commit` INT)": Does.SCHEMA,
    "CREATE TABLE x (y INT) ENGINE=InnoDB": Does.SCHEMA,
    "CREATE UNIQUE INDEX i ON users (name)": Does.SCHEMA,
    "CREATE OR REPLACE SQL SECURITY INVOKER VIEW v AS SELECT 1 AS n": Does.SCHEMA,
    "CREATE TRIGGER t BEFORE INSERT ON users FOR EACH ROW BEGIN SET NEW.name = 'x'; SET @y = 1; END": Does.SCHEMA,
    "ALTER TABLE users ADD COLUMN a INT, ADD INDEX (a)": Does.SCHEMA,
    "RENAME TABLE users TO u, other TO o": Does.SCHEMA,
    "TRUNCATE users": Does.SCHEMA,
    "CREATE TABLE IF NOT EXISTS schema_jobs (job_id VARCHAR(128) PRIMARY KEY, status TEXT)": Does.NOTHING,
}
LOST = {
    "DROP TABLE users": "rows of a table",
    "DROP SEQUENCE s": "state of a sequence",
    "TRUNCATE TABLE users": "rows of a table",
    "CREATE OR REPLACE TABLE users (id INT)": "table it replaces",
    "ALTER TABLE users DROP COLUMN name": "values of a column",
    "ALTER TABLE users DROP name": "values of a column",
    "ALTER TABLE users ADD x INT, DROP `index`": "values of a column",
    "ALTER TABLE users DROP PARTITION p1": "rows of a partition",
    "ALTER TABLE users TRUNCATE PARTITION p1": "rows of a partition",
    "ALTER TABLE users EXCHANGE PARTITION p WITH TABLE t": "rows of a partition",
    "ALTER TABLE users DISCARD TABLESPACE": "tablespace",
    "ALTER TABLE users DROP SYSTEM VERSIONING": "values",
}
KEPT = (
    "ALTER TABLE users DROP INDEX i",
    "ALTER TABLE users DROP KEY i, DROP PRIMARY KEY",
    "ALTER TABLE users DROP FOREIGN KEY f",
    "ALTER TABLE users ALTER COLUMN name DROP DEFAULT",
    "ALTER TABLE users ADD COLUMN `drop` INT",
    "DROP VIEW v",
    "DROP INDEX i ON users",
)
DATABASES = frozenset({"mysql", "information_schema", "app"})


@pytest.mark.parametrize(("statement", "why"), REFUSED.items())
def test_refused(statement, why):
    with pytest.raises(Denied) as denied:
        judge(statement, DATABASES)
    assert why in str(denied.value)


@pytest.mark.parametrize(("statement", "does"), ALLOWED.items())
def test_allowed(statement, does):
    assert judge(statement, DATABASES).does is does


@pytest.mark.parametrize(("statement", "what"), LOST.items())
def test_what_no_down_brings_back(statement, what):
    assert what in (judge(statement, DATABASES).irreversible or "")


@pytest.mark.parametrize("statement", KEPT)
def test_what_a_down_can_bring_back(statement):
    assert judge(statement, DATABASES).irreversible is None


def test_hostile_plans_leave_no_trace_and_the_next_job_works(world):
    """Each one after a good statement. One ledger, one database: whatever one left would show in the next dump."""
    assert world.apply("first", ["INSERT INTO users VALUES (3, 'cid')"]).state == "applied"
    before, receipts = world.dump(), world.receipts()
    with world.target.open() as session:
        session.lock(0)
        for n, statement in enumerate(REFUSED):
            bad = work(["INSERT INTO users VALUES (9, 'x')", statement], f"bad-{n}")
            with pytest.raises(Failed) as failed:
                session.run(bad, 5.0, lambda _done, _total: None, lambda: None)
            assert failed.value.signal is Signal.FORBIDDEN_STATEMENT, statement
            assert failed.value.statement == 2
    assert world.dump() == before
    assert world.receipts() == receipts
    assert world.apply("next", ["INSERT INTO users VALUES (4, 'dan')"]).state == "applied"
