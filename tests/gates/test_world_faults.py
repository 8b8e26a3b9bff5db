"""Targets and ledgers that cannot be used: what is said, what is recorded, and that nothing was written."""

import sqlite3
from contextlib import closing

import pytest
from tests.support.faults import as_user, file_size_limit, injected, locked, open_folder
from tests.support.world import MODES, QUICK, SEED, World, clock, dump, plan_bytes

from endmark import Gate
from endmark.apply_gate import ApplyGate, Delivery, Options
from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.effects.sqlite import SqliteTarget
from endmark.effects.sqlite.target import SqliteSession
from endmark.ledger.book import Ledger

ONE = ["CREATE TABLE a (x)", "INSERT INTO a VALUES (1)"]
COUNT = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 4000)"
GROW = ["CREATE TABLE big (x)", f"INSERT INTO big {COUNT} SELECT randomblob(1000) FROM c"]


@pytest.fixture(params=MODES)
def world(request, tmp_path):
    return World(tmp_path, request.param)


def missing(world):
    world.path.unlink()


def no_database(world):
    world.path.write_bytes(b"these are no pages of a database, whatever they say" * 99)


def a_folder(world):
    world.path.unlink()
    world.path.mkdir()


UNUSABLE = {"missing": missing, "not a SQLite database": no_database, "not a file": a_folder}


@pytest.mark.parametrize("spoil", UNUSABLE.values(), ids=UNUSABLE)
def test_a_target_that_cannot_be_opened_is_not_tried_and_nothing_is_recorded(world, spoil):
    spoil(world)
    before = sorted((path.name, path.is_file() and path.read_bytes()) for path in world.folder.glob("target*"))
    for act in (lambda: world.apply("j1", ONE), lambda: world.stage("j1", ONE)):
        with pytest.raises(CannotTry, match="Nothing was written"):
            act()
    assert world.entries() == []
    assert sorted((path.name, path.is_file() and path.read_bytes()) for path in world.folder.glob("target*")) == before


def test_a_refused_body_needs_no_target(world):
    missing(world)
    assert world.deliver(b'{"tool": "apply_sch').state == "truncated"
    assert not world.path.exists()


@pytest.mark.parametrize("how", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_locked_target_is_not_tried_and_the_same_call_may_be_made_again(world, how):
    before = world.files()
    with locked(world.path, how), pytest.raises(CannotTry, match="locked by another process"):
        world.apply("j1", ONE)
    assert world.entries() == []
    assert world.files() == before
    assert world.apply("j1", ONE).state == "applied"


@pytest.mark.parametrize("mode", MODES)
def test_a_read_only_target_is_not_tried(mode):
    with open_folder() as folder:
        world = World(folder, mode)
        before = world.files()
        world.path.chmod(0o444)
        folder.chmod(0o555)
        world.ledger.parent.chmod(0o777)
        world.ledger.chmod(0o666)
        with as_user():
            with pytest.raises(CannotTry, match="cannot be written"):
                world.apply("j1", ONE)
            assert world.entries() == []
        assert world.files() == before


@pytest.mark.parametrize("size", [4_096, 12_288, 40_960, 1_000_000, 2_500_000])
def test_a_full_disk_under_the_target_fails_the_job_whole(world, size):
    """The ledger is on the same disk here, and small: it may fail as well, and says so."""
    before = world.dump()
    try:
        with file_size_limit(size):
            outcome = world.apply("j1", GROW)
        assert (outcome.state, outcome.signal, outcome.exit_code) in {
            ("failed", "target-fault", 20),
            ("applying", "complete", 20),
        }
    except CannotTry:
        pass
    assert world.dump() == before
    world.reconcile()
    world.check_books_agree()
    assert world.apply("j2", GROW).state == "applied"
    world.check_books_agree()


def test_a_full_database_fails_the_job_whole(world, monkeypatch):
    """`max_page_count` is the connection's own: the gate's is made with it."""
    before, real = world.files(), sqlite3.connect

    def connect(database, *args, **more):
        conn = real(database, *args, **more)
        if "target.db" in str(database):
            conn.execute("PRAGMA max_page_count = 30")
        return conn

    monkeypatch.setattr(sqlite3, "connect", connect)
    outcome = world.apply("j1", GROW)
    monkeypatch.undo()
    assert (outcome.state, outcome.signal, outcome.exit_code) == ("failed", "target-fault", 20)
    assert "database or disk is full" in outcome.detail
    assert world.files() == before
    world.check_books_agree()


def test_a_reader_that_holds_on_fails_the_commit_and_the_job(tmp_path):
    world = World(tmp_path, "rollback")
    with closing(sqlite3.connect(world.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM users").fetchall()
        outcome = world.apply("j1", ONE)
        assert (outcome.state, outcome.signal, outcome.exit_code) == ("failed", "target-fault", 20)
        assert outcome.detail.startswith("The commit did not go through: database is locked")
    assert world.receipts() == {}
    world.check_books_agree()


def test_a_reader_does_not_stand_in_the_way_in_wal_mode(tmp_path):
    world = World(tmp_path, "wal")
    with closing(sqlite3.connect(world.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM users").fetchall()
        assert world.apply("j1", ONE).state == "applied"
    world.check_books_agree()


# --- the ledger


@pytest.mark.parametrize("link", [None, "symlink_to", "hardlink_to"])
def test_the_ledgers_own_file_is_no_target(tmp_path, link):
    world = World(tmp_path, "rollback")
    path = world.ledger if link is None else tmp_path / "link.db"
    if link is not None:
        getattr(path, link)(world.ledger)
    before = dump(world.ledger)
    with Gate(world.ledger) as gate:
        for target in (f"sqlite:///{path}", SqliteTarget(path)):
            with pytest.raises(CannotTry, match="the target's own file"):
                gate.submit(plan_bytes("j1", ONE), target=target)
            with pytest.raises(CannotTry, match="the target's own file"):
                gate.target(target)
    assert dump(world.ledger) == before


def test_a_database_that_is_a_target_is_no_ledger(world):
    world.apply("j1", ONE)
    before = world.files()
    with pytest.raises(CannotTry, match="another application"):
        Gate(world.path)
    assert world.files() == before


def test_a_ledger_that_is_locked_stops_the_job_before_the_target_is_touched(world):
    before = world.files()
    delivery = Delivery(raw=plan_bytes("j1", ONE))
    with (
        locked(world.ledger),
        Ledger.open(world.ledger, create=False, timeout=0) as ledger,
        pytest.raises(CannotTry, match="it stayed locked"),
    ):
        ApplyGate(ledger, clock).apply(delivery, world.target, QUICK, "ann")
    assert world.files() == before
    assert world.entries() == []
    assert world.apply("j1", ONE).state == "applied"


def test_a_ledger_that_is_gone_before_the_commit_stops_the_commit(world):
    """The gate asks its own row again, last of all; without an answer nothing is committed."""

    class LedgerGone:
        def around(self, name, sql, do):
            if name == "target" and sql.startswith("INSERT INTO a"):
                self.gone = True
            if name == "ledger" and self.gone:
                raise sqlite3.OperationalError("the ledger is gone")
            return do()

        gone = False

    before = world.files()
    with injected(LedgerGone(), target="target.db", ledger="ledger.db"):
        outcome = world.apply("j1", ONE)
    assert (outcome.state, outcome.exit_code) == ("applying", 20)
    assert "Everything was rolled back, but the ledger could not be told" in outcome.detail
    assert world.files() == before
    assert world.entry("j1").state == "applying"
    (settled,) = world.reconcile().settled
    assert (settled.state, settled.signal) == ("failed", "lost")
    world.check_books_agree()


def test_a_row_that_somebody_settled_meanwhile_stops_the_commit(world):
    """Whoever took our lock for lost has told the ledger so; committing now would make it lie."""

    def settle_it(done, total):
        if done == total:
            with world.book() as ledger:
                (entry,) = ledger.in_state(State.APPLYING)
                ledger.move(entry.attempt_id, State.APPLYING, State.FAILED, clock(), detail="settled by hand")

    before = world.files()
    outcome = world.apply("j1", ONE, more={"progress": settle_it})
    assert (outcome.state, "Settled by hand" in outcome.detail) == ("failed", True)
    assert world.files() == before
    world.check_books_agree()


def test_a_seeded_target_is_what_it_was_after_every_refusal(world):
    """One after the other, in one world: what is refused does not add up to anything."""
    before = world.files()
    whole = plan_bytes("j1", ONE)
    for raw in (
        whole[:-1],
        whole[1:],
        b"[]",
        b"\x00",
        whole + b"{}",
        plan_bytes("j2", ["COMMIT"]),
        plan_bytes("j3", SEED),
    ):
        assert world.deliver(raw).exit_code in {1, 10, 12}
        assert world.files() == before
    assert world.apply("j1", ONE).state == "applied"


@pytest.mark.parametrize("what", ["removed", "replaced"])
@pytest.mark.parametrize("when", ["before the commit", "after the commit"])
def test_a_ledger_that_is_taken_away_meanwhile_is_noticed(world, monkeypatch, what, when):
    """The gate still holds the file it opened; whoever looks at the path finds another, or none."""
    before, path = world.dump(), world.ledger
    method = "run" if when == "before the commit" else "commit"
    real = getattr(SqliteSession, method)

    def and_take_away(self, *args, **more):
        done = real(self, *args, **more)
        path.unlink()
        if what == "replaced":
            Ledger.open(path, create=True).close()
        return done

    monkeypatch.setattr(SqliteSession, method, and_take_away)
    outcome = world.apply("j1", ["CREATE TABLE made (x)"])
    assert (outcome.state, outcome.exit_code) == ("applying", 20)
    assert "the ledger's file was removed or replaced meanwhile" in outcome.detail
    if when == "before the commit":
        assert "verything was rolled back" in outcome.detail
        assert world.dump() == before
    else:
        assert "and the receipt stands" in outcome.detail
        assert world.receipts()["j1"][-1] == "applied"


# --- a commit that is not what it was called


def lost(session, _real, _world):
    session.rollback()


def made_and_not_told(session, real, _world):
    real(session)
    raise CannotTry("the commit's outcome is unknown: the answer was lost")


def overwritten(session, real, world):
    real(session)
    with closing(sqlite3.connect(world.path)) as conn, conn:
        conn.execute("UPDATE schema_jobs SET status = 'failed'")


def moved_away(session, real, world):
    real(session)
    copy = world.path.with_name("copy")
    copy.write_bytes(world.path.read_bytes())
    copy.replace(world.path)


COMMITS = {
    "lost": (lost, "failed", "nothing was committed"),
    "made and not told": (made_and_not_told, "applied", ""),
    "its receipt overwritten": (overwritten, "failed", "ALARM: the target's receipt for this id says 'failed'"),
    "its file moved away": (moved_away, "applying", "ALARM: the commit was acknowledged, but another file stands"),
}


@pytest.mark.parametrize(("commit", "state", "said"), COMMITS.values(), ids=COMMITS)
def test_a_commit_is_believed_by_the_receipt_that_a_new_connection_reads(tmp_path, monkeypatch, commit, state, said):
    world, real = World(tmp_path, "rollback"), SqliteSession.commit
    monkeypatch.setattr(SqliteSession, "commit", lambda session: commit(session, real, world))
    outcome = world.apply("j1", ONE)
    assert outcome.state == state
    assert said in outcome.detail
    assert bool(world.receipts()) == (commit is not lost)


def test_a_backup_that_a_kill_cut_short_is_removed_by_reconciling(world, tmp_path, monkeypatch):
    backups = tmp_path / "backups"

    def die(self, to, progress, stop):
        to.parent.mkdir()
        to.with_name(to.name + ".part").write_bytes(b"half of the data")
        raise SystemExit

    monkeypatch.setattr(SqliteSession, "backup", die)
    with pytest.raises(SystemExit):
        world.apply("j1", ["CREATE TABLE made (x)"], options=Options(backups=backups))
    monkeypatch.undo()
    assert len(list(backups.iterdir())) == 1
    assert world.entry("j1").state == "applying"
    world.reconcile()
    assert world.entry("j1").state == "failed"
    assert list(backups.iterdir()) == []
    world.check_books_agree()
