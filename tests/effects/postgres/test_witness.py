"""The connection beside the one that a job runs on, and the fingerprint's statement that the server keeps."""

import pytest

from endmark.core.refusal import CannotTry
from endmark.effects.postgres import PostgresTarget, holders, questions
from endmark.effects.postgres.channel import Fault, Lost, Step
from endmark.effects.postgres.fingerprint import Kept
from endmark.effects.postgres.witness import Witness

# A plan that makes the server forget what it keeps, and keep a lie by each name.
_LIE = """DO $$ DECLARE kept text; BEGIN
  FOR kept IN SELECT name FROM pg_prepared_statements LOOP
    EXECUTE format('DEALLOCATE %I', kept);
    EXECUTE format('PREPARE %I AS SELECT repeat(''0'', 64)', kept);
  END LOOP;
END $$"""


@pytest.mark.parametrize("says", [_LIE, "DEALLOCATE ALL"])
def test_a_plan_that_tampers_with_the_kept_statement_leaves_the_true_fingerprint(database, says):
    before = database.fingerprint()
    ran = database.run(["CREATE TABLE t (a integer)", says])
    assert ran.fingerprint_after == database.fingerprint() != before


def test_the_lie_would_be_told(database):
    """The plan above does what it is said to do."""
    channel = database.target.connect()
    try:
        kept = Kept()
        seen = channel.ask(questions.BEGIN, questions.own(3000), kept.keep, kept.is_ours, kept.ask, silence=60)
        assert seen[3].rows == [("true",)]
        told = channel.ask(Step(_LIE.encode()), kept.is_ours, kept.ask, silence=60)
        assert (told[1].rows, told[2].rows) == ([("false",)], [("0" * 64,)])
        assert seen[4].rows not in (told[2].rows, [(None,)])
    finally:
        channel.close()


def test_only_under_the_lock_of_the_process_named_is_anything_seen(database):
    holder = database.target.connect()
    try:
        pid = holder.ask(questions.BEGIN, holders.TRY_LOCK, holders.PID, silence=60)[2].rows[0][0]
        for said, is_seen in ((pid, True), (str(int(pid) + 1), False), (None, False)):
            witness = Witness(database.target.connect, 3000)
            witness.look(said)
            assert (witness.saw() is not None) is is_seen
            witness.close()
    finally:
        holder.close()


def test_a_role_that_may_connect_once_still_locks_and_runs(database):
    database.query(f"ALTER ROLE {database.cluster.gate} CONNECTION LIMIT 1")
    try:
        assert database.run(["CREATE TABLE t (a integer)"]).rows_changed == (0,)
    finally:
        database.query(f"ALTER ROLE {database.cluster.gate} CONNECTION LIMIT -1")
    assert database.receipts()["j1"][2] == "applied"


def test_where_the_connection_beside_is_lost_a_new_one_verifies(world):
    """The last statement ends every other backend of the gate's role: the one beside."""
    ends = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE usename = session_user AND datname = current_database() AND pid <> pg_backend_pid()"
    )
    outcome = world.apply("j1", ["CREATE TABLE t (a integer)", ends])
    assert outcome.state == "applied"
    world.check_books_agree()


def test_one_connection_beside_serves_the_look_and_the_verification(world):
    opened = []

    class Counted(PostgresTarget):
        def connect(self):
            opened.append(1)
            return super().connect()

    world.target = Counted(world.database.url)
    assert world.apply("j1", ["CREATE TABLE t (a integer)"]).state == "applied"
    assert len(opened) == 2
    world.check_books_agree()


def test_no_connection_is_left(database):
    with database.target.open() as session:
        session.lock(0)
    with database.target.open() as other, database.target.open() as session:
        other.lock(0)
        with pytest.raises(CannotTry):
            session.lock(0)
    gone = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    for _ in range(200):  # the server notices a little later
        if database.query(gone + " AND pg_sleep(0.02) IS NOT NULL") == [(0,)]:
            return
    pytest.fail("a connection was left open")


@pytest.fixture
def channel(database):
    made = database.target.connect()
    yield made
    made.close()


def test_what_was_asked_ahead_is_heard_before_anything_else_is_said(channel):
    ahead = channel.ask_ahead(*(Step(b"SELECT '%d'" % at) for at in range(4)), silence=60)
    assert ahead.hear(2).rows == [("2",)]
    assert channel.ask(Step(b"SELECT 'more'"), silence=60)[0].rows == [("more",)]
    assert ahead.hear(3).rows == [("3",)]


def test_a_fault_in_what_was_asked_ahead_ends_whatever_comes_next(channel):
    ahead = channel.ask_ahead(questions.BEGIN, Step(b"SELECT 1/0"), Step(b"SELECT 1"), silence=60)
    with pytest.raises(Fault) as found:
        channel.ask(Step(b"SELECT 2"), silence=60)
    assert found.value.sqlstate == "22012"
    with pytest.raises(Lost):
        ahead.hear(2)
    assert channel.ask(questions.ROLLBACK, Step(b"SELECT '3'"), silence=60)[1].rows == [("3",)]


def test_what_was_asked_ahead_can_be_forgotten(channel):
    channel.ask_ahead(questions.BEGIN, Step(b"SELECT pg_sleep(0.1)::text"), Step(b"SELECT 1/0"), silence=60)
    channel.forget()
    assert channel.ask(questions.ROLLBACK, Step(b"SELECT '1'"), silence=60)[1].rows == [("1",)]


def test_a_fingerprint_that_cannot_be_had_is_told_before_anything_is_recorded(world, monkeypatch):
    init = Kept.__init__

    def cannot(self):
        init(self)
        self.ask = Step(b"SELECT (1/0)::text")

    monkeypatch.setattr(Kept, "__init__", cannot)
    before = world.database.dump()
    with pytest.raises(CannotTry, match="22012"):
        world.apply("j1", ["CREATE TABLE t (a integer)"])
    assert not world.entries()
    assert world.database.dump() == before
