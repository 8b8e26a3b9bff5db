"""What a plan may not do, tried after a good statement. After every refusal: the world, and the next honest job."""

import itertools

import pytest

from endmark.core.refusal import Signal
from endmark.effects.target import Failed

NO = Signal.FORBIDDEN_STATEMENT
SQL = Signal.SQL_ERROR
GOOD = ("CREATE TABLE good (n integer)", "INSERT INTO good VALUES (1), (2), (3)")
FORGE = "SELECT endmark.begin_job('forged', 'a', '1', repeat('0', 64), encode(sha256('mine'), 'hex'))"
FINISH = "SELECT endmark.finish('forged', 'mine', NULL)"
SHA = "0" * 64

AT_ONCE = "CREATE TRIGGER t AFTER INSERT ON users FOR EACH ROW EXECUTE FUNCTION t()"
AT_LAST = "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON users INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION t()"
FIRE = "INSERT INTO users VALUES (7, 'eve')"


def body(text):
    return f"CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS $t${text}$t$"


# name -> (statements that follow the good ones, the signal it must end with, a part of the sentence)
TRANSACTION = {
    "COMMIT": (["COMMIT"], NO, "statement 3 may not end the transaction"),
    "COMMIT and more": (["COMMIT", "CREATE TABLE more (n int)"], NO, "statement 3 may not end"),
    "END": (["END"], NO, "may not end"),
    "END TRANSACTION": (["/* x */ end transaction"], NO, "may not end"),
    "COMMIT AND CHAIN": (["COMMIT AND CHAIN", "CREATE TABLE more (n int)"], NO, "may not end"),
    "ROLLBACK": (["ROLLBACK"], NO, "statement 3"),
    "ROLLBACK and go on": (["ROLLBACK", "CREATE TABLE more (n int)", "COMMIT"], NO, "statement 3"),
    "ROLLBACK AND CHAIN": (["ROLLBACK AND CHAIN", "CREATE TABLE more (n int)", "COMMIT"], NO, "statement 3"),
    "ABORT": (["ABORT"], NO, "statement 3"),
    "BEGIN": (["BEGIN"], NO, "may not say BEGIN"),
    "START TRANSACTION": (["START TRANSACTION"], NO, "may not say START TRANSACTION"),
    "SAVEPOINT": (["SAVEPOINT x"], NO, "may not say SAVEPOINT"),
    "undo by savepoint": (["SAVEPOINT x", "CREATE TABLE more (n int)", "ROLLBACK TO x"], NO, "SAVEPOINT"),
    "RELEASE": (["RELEASE x"], SQL, "savepoint"),
    "PREPARE TRANSACTION": (["PREPARE TRANSACTION 'x'"], NO, "may not"),
    "COMMIT PREPARED": (["COMMIT PREPARED 'x'"], NO, "outside of a transaction"),
    "SET CONSTRAINTS": (["SET CONSTRAINTS ALL IMMEDIATE"], NO, "may not end the transaction"),
    "SET CONSTRAINTS, caught": (
        ["DO $$ BEGIN SET CONSTRAINTS ALL IMMEDIATE; EXCEPTION WHEN OTHERS THEN NULL; END $$", "COMMIT"],
        NO,
        "statement 4 may not end",
    ),
    "DO with COMMIT": (["DO $$ BEGIN COMMIT; END $$"], SQL, "invalid transaction termination"),
    "DO with ROLLBACK": (["DO $$ BEGIN ROLLBACK; END $$"], SQL, "invalid transaction termination"),
    "DO with COMMIT, caught": (
        ["DO $$ BEGIN COMMIT; EXCEPTION WHEN OTHERS THEN NULL; END $$", "COMMIT"],
        NO,
        "statement 4 may not end",
    ),
    "CALL with COMMIT": (
        ["CREATE PROCEDURE p() LANGUAGE plpgsql AS 'BEGIN COMMIT; END'", "CALL p()"],
        SQL,
        "invalid transaction termination",
    ),
    "a raised number of ours": (
        ["DO $$ BEGIN RAISE EXCEPTION 'outside of a transaction' USING ERRCODE = '25001'; END $$"],
        SQL,
        "25001",
    ),
}
OUTSIDE = {
    "VACUUM": (["VACUUM"], NO, "outside of a transaction"),
    "CREATE INDEX CONCURRENTLY": (["CREATE INDEX CONCURRENTLY i ON users (name)"], NO, "outside of a transaction"),
    "CREATE DATABASE": (["CREATE DATABASE more"], NO, "outside of a transaction"),
    "DROP DATABASE": (["DROP DATABASE postgres"], NO, "outside of a transaction"),
    "ALTER SYSTEM": (["ALTER SYSTEM SET fsync = off"], (NO, SQL), ""),
    "DISCARD ALL": (["DISCARD ALL"], NO, "outside of a transaction"),
    "COPY TO PROGRAM": (["COPY users TO PROGRAM 'touch /tmp/endmark-was-here'"], SQL, "program"),
    "COPY TO a file": (["COPY users TO '/tmp/endmark-was-here'"], SQL, "file"),
    "COPY TO STDOUT": (["COPY users TO STDOUT"], NO, "copies to or from the client"),
    "COPY FROM STDIN": (["COPY users FROM STDIN"], NO, "copies to or from the client"),
    "COPY FROM STDIN and more": (["COPY users FROM STDIN", "COMMIT"], NO, "copies to or from the client"),
    "lo_export": (["SELECT lo_export(1, '/tmp/endmark-was-here')"], SQL, ""),
    "another encoding": (["SET client_encoding = 'LATIN1'", "INSERT INTO users VALUES (9, 'ž')"], NO, "encoding"),
    "read only from here on": (["SET TRANSACTION READ ONLY"], SQL, "read-only"),
    "another isolation": (["SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"], SQL, "before any query"),
    "end of session": (["SELECT pg_terminate_backend(pg_backend_pid())"], Signal.TARGET_FAULT, "statement 3"),
    "a short life": (
        ["SET idle_in_transaction_session_timeout = '1ms'", "SELECT pg_sleep(0.05)", "SELECT 1/0"],
        SQL,
        "division",
    ),
}
SHAPE = {
    "a client's word": (["DELIMITER //"], SQL, "syntax error"),
    "another server's comment": (["/*! COMMIT */"], NO, "no SQL at all"),
    "a file, in another server's words": (["LOAD DATA INFILE '/etc/passwd' INTO TABLE users"], SQL, "syntax error"),
    "autocommit, in another server's words": (["SET autocommit = 1"], SQL, "unrecognized"),
    "a lock, in another server's words": (["SELECT RELEASE_LOCK('endmark')"], SQL, "does not exist"),
    "two statements": (["SELECT 1; SELECT 2"], NO, "more than one statement"),
    "two, one a commit": (["SELECT 1; COMMIT"], NO, "more than one statement"),
    "two and a comment": (["CREATE TABLE a (n int); -- x\nDROP TABLE a"], NO, "more than one statement"),
    "only a comment": (["-- nothing"], NO, "no SQL at all"),
    "only a long comment": (["/* nothing */"], NO, "no SQL at all"),
    "only a semicolon": ([";"], NO, "no SQL at all"),
    "white space": (["\n\t "], NO, "no SQL at all"),
    "a NUL": (["SELECT 'a\0b'"], NO, "NUL"),
    "a NUL that hides the rest": (["SELECT 1\0; COMMIT"], NO, "NUL"),
    "no SQL": (["SELEC 1"], SQL, "syntax error"),
    "a parameter": (["SELECT $1"], SQL, "parameter"),
    "an open quote": (["SELECT 'a"], SQL, "unterminated"),
    "an open comment": (["/* a"], SQL, "unterminated"),
}
OUR_ROWS = {
    f"{name} {table}": ([statement.replace("{t}", table)], SQL, "")
    for table in ("public.schema_jobs", "endmark.endmark_receipts", "endmark.endmark_alone")
    for name, statement in {
        "INSERT INTO": "INSERT INTO {t} (job_id) VALUES ('x')",
        "UPDATE": "UPDATE {t} SET job_id = 'x'",
        "DELETE FROM": "DELETE FROM {t}",
        "read": "SELECT * FROM {t}",
        "TRUNCATE": "TRUNCATE {t}",
        "DROP": "DROP TABLE {t} CASCADE",
        "ALTER": "ALTER TABLE {t} ADD COLUMN more text",
        "rename": "ALTER TABLE {t} RENAME TO other",
        "own": "ALTER TABLE {t} OWNER TO CURRENT_USER",
        "lock": "LOCK TABLE {t} IN ACCESS EXCLUSIVE MODE",
        "index": "CREATE INDEX i ON {t} (job_id)",
        "refer to": "CREATE TABLE more (j text REFERENCES {t} (job_id))",
        "inherit": "CREATE TABLE more () INHERITS ({t})",
        "like": "CREATE TABLE more (LIKE {t})",
        "trigger": "CREATE TRIGGER t AFTER INSERT ON {t} EXECUTE FUNCTION endmark.whole()",
        "rule": "CREATE RULE r AS ON INSERT TO {t} DO INSTEAD NOTHING",
        "policy": "CREATE POLICY p ON {t}",
        "comment": "COMMENT ON TABLE {t} IS 'mine'",
        "copy into": "COPY {t} FROM '/dev/null'",
        "all triggers off": "ALTER TABLE {t} DISABLE TRIGGER ALL",
        "merge": "WITH x AS (DELETE FROM {t} RETURNING *) SELECT * FROM x",
    }.items()
}
OUR_NAMES = {
    "a temporary table": (["CREATE TEMP TABLE schema_jobs (job_id text)"], NO, "named like"),
    "a temporary table of counts": (["CREATE TEMP TABLE endmark_receipts (job_id text)"], NO, "named like"),
    "another schema's": (
        ["CREATE SCHEMA other", "CREATE TABLE other.schema_jobs (job_id text)"],
        NO,
        "relation other.schema_jobs",
    ),
    "a view over them": (["CREATE VIEW v AS SELECT * FROM schema_jobs"], (NO, SQL), ""),
    "a view named so": (["CREATE TEMP VIEW schema_jobs AS SELECT 1"], NO, "schema_jobs"),
    "a decoy first on the path": (
        [
            "CREATE SCHEMA decoy",
            "CREATE TABLE decoy.schema_jobs (job_id text, stmt_count int, sha256 text, status text)",
            "SET search_path = decoy, public",
            "INSERT INTO schema_jobs VALUES ('j1', 1, 'x', 'applied')",
            "COMMIT",
        ],
        NO,
        "statement 7 may not end",
    ),
    "a rule that writes ours": (
        [
            "CREATE RULE r AS ON INSERT TO users DO ALSO DELETE FROM public.schema_jobs",
            "INSERT INTO users VALUES (7, 'eve')",
        ],
        SQL,
        "permission denied",
    ),
    "a trigger that writes ours": (
        [body("BEGIN DELETE FROM public.schema_jobs; RETURN NULL; END"), AT_ONCE, FIRE],
        SQL,
        "statement 5.*permission denied",
    ),
    "a trigger after the end": (
        [body("BEGIN UPDATE public.schema_jobs SET status = 'applied'; RETURN NULL; END"), AT_LAST, FIRE],
        SQL,
        "the final checks.*permission denied",
    ),
    "another job after the end": (
        [body(f"BEGIN {FORGE}; {FINISH}; RETURN NULL; END".replace("SELECT", "PERFORM")), AT_LAST, FIRE],
        NO,
        "the final checks.*before anything else",
    ),
    "a commit after the end": ([body("BEGIN COMMIT; RETURN NULL; END"), AT_LAST, FIRE], SQL, "invalid transaction"),
}
FORGERY = {
    "a second job": ([FORGE, FINISH], NO, "begins before anything else is written"),
    "a second job in a block": (
        [f"DO $$ BEGIN {FORGE.replace('SELECT', 'PERFORM')}; EXCEPTION WHEN OTHERS THEN NULL; END $$", FINISH],
        NO,
        "was not begun here",
    ),
    "after a rollback": (["ROLLBACK", FORGE, FINISH, "COMMIT"], NO, "statement 3"),
    "finish without the nonce": (["SELECT endmark.finish('j', '', NULL)"], NO, "was not begun here"),
    "finish with its digest": (
        ["SELECT endmark.finish('j', (SELECT nonce_sha256 FROM endmark.endmark_receipts LIMIT 1), NULL)"],
        SQL,
        "permission denied",
    ),
    "count without the nonce": (
        ["SELECT endmark.count_job('j', '', '1', '1', 'x', 'y', now()::text)"],
        NO,
        "only the gate itself may call this",
    ),
    "a job that runs alone": (
        ["SELECT endmark.begin_alone('evil', 'a', repeat('0', 64), 'VACUUM', '', '', NULL)"],
        NO,
        "begins before anything else is written",
    ),
    "the end of one": (["SELECT endmark.end_alone('j', 'applied', NULL, NULL)"], NO, "only the gate itself may call"),
    "prepared and executed": (
        ["PREPARE e AS SELECT endmark.end_alone($1, $2, $3, $4)", "EXECUTE e ('j', 'applied', NULL, NULL)"],
        NO,
        "only the gate itself may call",
    ),
    "said as the gate says it": (["SELECT endmark.end_alone($1, $2, $3, $4)"], SQL, "asks for parameters"),
    "our functions anew": (
        ["CREATE OR REPLACE FUNCTION endmark.finish(text, text, text) RETURNS void LANGUAGE sql AS ''"],
        SQL,
        "permission denied",
    ),
    "our functions gone": (["DROP FUNCTION endmark.whole() CASCADE"], SQL, "must be owner"),
    "our schema gone": (["DROP SCHEMA endmark CASCADE"], SQL, "must be owner"),
    "our schema renamed": (["ALTER SCHEMA endmark RENAME TO other"], SQL, "must be owner"),
    "our trigger gone": (["DROP TRIGGER endmark_whole ON schema_jobs"], SQL, "must be owner"),
    "our trigger called": (["SELECT endmark.whole()"], SQL, "permission denied"),
    "triggers off": (["SET session_replication_role = replica", "COMMIT"], SQL, "permission denied"),
    "another role": (["SET ROLE postgres"], SQL, "permission denied"),
    "another user": (["SET SESSION AUTHORIZATION postgres"], SQL, "permission denied"),
    "a role of one's own": (["RESET ROLE", "RESET SESSION AUTHORIZATION", "COMMIT"], NO, "statement 5 may not end"),
    "all locks given back": (
        ["SELECT pg_advisory_unlock_all()", "SELECT pg_advisory_unlock(1701733485, 1634888497)", "COMMIT"],
        NO,
        "statement 5 may not end",
    ),
    "no limits": (["SET lock_timeout = 0", "SET statement_timeout = 0", "COMMIT"], NO, "statement 5 may not end"),
    "a table locked": (["LOCK TABLE users IN ACCESS EXCLUSIVE MODE", "COMMIT"], NO, "statement 4 may not end"),
    "all settings": (["RESET ALL", "DEALLOCATE ALL", "CLOSE ALL", "DISCARD TEMP", "COMMIT"], NO, "statement 7 may not"),
    "operators of one's own": (
        [
            "CREATE FUNCTION yes(text, text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true'",
            "CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = text, FUNCTION = yes)",
            "CREATE FUNCTION nul(integer, integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 1'",
            "CREATE OPERATOR public./ (LEFTARG = integer, RIGHTARG = integer, FUNCTION = nul)",
            "SET search_path = public, pg_catalog",
            "ROLLBACK",
            "CREATE TABLE more (n int)",
        ],
        NO,
        "statement 8",
    ),
    "our guard prepared anew": (
        ['PREPARE "" AS SELECT 1', "COMMIT"],
        (SQL, NO),
        "",
    ),
}
PLANS = TRANSACTION | OUTSIDE | SHAPE | OUR_ROWS | OUR_NAMES | FORGERY
_NUMBERS = itertools.count(1)


@pytest.mark.parametrize("name", PLANS)
def test_a_hostile_plan_leaves_nothing(shared, name):
    statements, signal, part = PLANS[name]
    number = next(_NUMBERS)
    before = shared.dump()
    with pytest.raises(Failed, match=f"(?s){part}") as caught:
        shared.run([*GOOD, *statements, "SELECT 1"], f"evil{number}")
    assert caught.value.signal in (signal if isinstance(signal, tuple) else (signal,)), caught.value
    assert shared.dump() == before
    if not number % 8:
        honest(shared, f"honest{number}")


def test_the_next_honest_job_goes_through(shared):
    honest(shared, "honest-last")


def honest(database, job_id):
    database.run(["UPDATE users SET name = 'carl' WHERE id = 2", "SELECT 1"], job_id, lock=10)
    receipt = database.receipt(job_id)
    assert (receipt.status, receipt.rows_changed) == ("applied", "1 0")
