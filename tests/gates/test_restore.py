"""The backup of a job is put back: the database is byte for byte what SQL can see of it then, and the book says so."""

import itertools
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import cast

import msgspec
import pytest
from tests.support.world import MODES, QUICK, World, clock, plan_bytes, query

from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.effects.sqlite import restore as sqlite_restore
from endmark.effects.sqlite.backup import kept_of
from endmark.effects.sqlite.fingerprint import fingerprint
from endmark.effects.target import Failed, Target
from endmark.steps import restoring

UP = ["CREATE TABLE a (x INTEGER)", "UPDATE users SET name = 'gone'"]


@pytest.fixture(params=MODES)
def world(request, tmp_path):
    return World(tmp_path, request.param)


def kept(world):
    return msgspec.structs.replace(QUICK, backups=world.folder / "backups")


def restore(world, job="j1", later=(), *, timeout=0.0, stop=lambda: None):
    with world.book() as ledger:
        return restoring.restore(
            ledger, clock, ledger.by_job(job), world.target, later, "ann", timeout, lambda _done, _total: None, stop
        )


def without_version(lines):
    return [line for line in lines if not line.startswith("user_version")]


def test_the_target_is_what_it_was_before_the_job(world):
    before = world.dump()
    outcome = world.apply("j1", UP, options=kept(world))
    query(world.path, "SELECT 1")
    assert world.dump() != before
    restored, done = restore(world)
    assert world.dump() == before
    assert done.undone == ("j1",)
    assert query(world.path, "PRAGMA integrity_check") == [("ok",)]
    assert (restored.exit_code, "reverted-by:restore" in restored.evidence) == (1, True)
    assert "its effect does not stand" in restored.detail
    events = [event.event for event in world.events(outcome)]
    assert events[-2:] == ["restoring", "restored"]
    assert world.verified().ok
    again = world.deliver(plan_bytes("j1", UP), options=kept(world))  # the same id stays spent
    assert (again.state, again.exit_code) == ("applied", 1)
    assert world.dump() == before
    assert world.apply("j2", UP, options=kept(world)).state == "applied"


def test_later_jobs_have_to_be_named(world):
    world.apply("j1", UP, options=kept(world))
    world.apply("j2", ["CREATE TABLE b (x)"], options=kept(world))
    world.apply("j3", ["CREATE TABLE c (x)"], options=kept(world))
    now = world.files()
    for later in ((), ("j2",), ("other",)):
        with pytest.raises(CannotTry, match="j3"):
            restore(world, later=later)
    assert world.files()["target.db"][100:] == now["target.db"][100:]
    _outcome, done = restore(world, "j2", later=("j3",))
    assert done.undone == ("j2", "j3")
    assert set(world.receipts()) == {"j1"}
    with world.gate() as gate:
        for job in ("j2", "j3"):
            known = gate.submit(_delivery(job), world.target, QUICK)[0]
            assert known.state in ("applied", "rejected")
    assert [event.event for event in world.events(_of(world, "j3"))][-1] == "restored"


def _delivery(job):
    from endmark.apply_gate import Delivery

    return Delivery(raw=plan_bytes(job, ["CREATE TABLE b (x)"]))


def _of(world, job):
    from endmark.ledger.outcomes import outcome_of

    return outcome_of(world.entry(job))


def backup_of(world, job="j1"):
    return Path(world.entry(job).backup)


def flip(path):
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)


def other_database(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("CREATE TABLE evil (x)")


SPOILED = {
    "a flipped bit": flip,
    "cut short": lambda path: os.truncate(path, path.stat().st_size - 1),
    "gone": lambda path: path.unlink(),
    "another database": other_database,
    "no database": lambda path: path.write_bytes(b"x" * 5_000),
    "empty": lambda path: path.write_bytes(b""),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_other_bytes_than_those_on_record_are_not_put_back(world, spoil):
    world.apply("j1", UP, options=kept(world))
    before = world.dump()
    spoil(backup_of(world))
    with pytest.raises(CannotTry, match="Nothing was written"):
        restore(world)
    assert world.dump() == before
    assert world.entry("j1").state == "applied"
    assert "restored" not in [event.event for event in world.events(_of(world, "j1"))]


def test_what_was_not_backed_up_or_not_applied_is_not_put_back(world):
    world.apply("j1", UP)
    world.apply("j2", ["SELECT nothing"], options=kept(world))
    for job, part in (("j1", "no backup of job j1"), ("j2", "is failed")):
        with pytest.raises(CannotTry, match=part):
            restore(world, job)


def backed_up(world):
    outcome = world.apply("j1", UP, options=kept(world))
    return next((world.folder / "backups").iterdir()), outcome


@pytest.mark.parametrize("how", ["gone", "no database"])
def test_a_backup_that_cannot_be_read_is_said_to_be_that(world, how):
    backup, _ = backed_up(world)
    before = world.files()
    if how == "gone":
        backup.unlink()
    else:
        backup.write_bytes(b"no page of a database" * 99)
    said = r"is not there, or may not be read" if how == "gone" else r"the backup .* cannot be used"
    with pytest.raises(CannotTry, match=said):
        world.target.jobs_since(backup)
    assert world.files() == before


def failing(path):
    raise OSError("the disk is gone")


def touched(path):
    found = kept_of(path)
    os.utime(path, ns=(1, 1))
    return found


@pytest.mark.parametrize(("look", "said"), [(failing, "cannot be used"), (touched, "is not the one that was made")])
def test_a_backup_that_changes_while_it_is_looked_at_is_not_put_back(world, monkeypatch, look, said):
    backed_up(world)
    before = world.dump()
    monkeypatch.setattr(sqlite_restore, "kept_of", look)
    with pytest.raises(CannotTry, match=said):
        restore(world)
    assert world.dump() == before


def test_another_schema_than_the_backups_is_an_alarm(world, monkeypatch):
    backed_up(world)
    seen = []

    def looked_at(conn):
        seen.append(fingerprint(conn))
        return seen[0] if len(seen) == 1 else "0" * 64

    monkeypatch.setattr(sqlite_restore, "fingerprint", looked_at)
    with pytest.raises(CannotTry, match="ALARM: the target's schema is 0000"):
        restore(world)


def test_stopping_after_the_last_page_is_too_late(world):
    before = world.dump()
    backed_up(world)
    done = []
    with world.book() as ledger:
        restoring.restore(
            ledger,
            clock,
            ledger.by_job("j1"),
            world.target,
            (),
            "ann",
            0.0,
            lambda so_far, total: done.append(so_far == total),
            lambda: "SIGTERM" if done and done[-1] else None,
        )
    assert done[-1]
    assert world.dump() == before


def moved(world, job, *states):
    """What another process says of a job."""
    with world.book() as ledger:
        for was, now in itertools.pairwise(states):
            more = {"statements_run": 1} if now is State.PARTIAL else {}
            ledger.move(ledger.by_job(job).attempt_id, was, now, clock(), **more)


AT_WORK = (State.STAGED, State.APPROVED, State.APPLYING)


@pytest.mark.parametrize(
    ("states", "said"), [(AT_WORK, "is being applied"), ((*AT_WORK, State.PARTIAL), "stands partly in it")]
)
def test_nothing_is_put_back_under_a_job_that_is_not_through(world, states, said):
    backed_up(world)
    world.stage("j2", ["CREATE TABLE b (x)"])
    moved(world, "j2", *states)
    before = world.dump()
    with pytest.raises(CannotTry, match=said):
        restore(world)
    assert world.dump() == before


def test_a_backup_is_put_back_into_its_own_target_by_endmark_alone(world):
    backed_up(world)

    class Elsewhere:
        identity = "sqlite:///elsewhere.db"

    class Server:
        identity = world.target.identity

    for target, said in ((Elsewhere(), "was applied to"), (Server(), "puts no backup back")):
        with world.book() as ledger, pytest.raises(CannotTry, match=said):
            restoring.find(ledger, ledger.by_job("j1"), cast("Target", target))


def test_a_job_that_another_ledger_applied_since_goes_too(world):
    before = world.dump()
    backed_up(world)
    other = World(world.folder / "other", "rollback")
    other.path, other.target = world.path, world.target
    assert other.apply("j2", ["CREATE TABLE b (x)"]).state == "applied"
    assert restore(world, later=("j2",))[1].undone == ("j1", "j2")
    assert world.dump() == before


def test_whoever_holds_the_target_is_not_pushed_aside(world):
    world.apply("j1", UP, options=kept(world))
    before = world.dump()
    with world.target.open() as session:
        session.lock(0)
        with pytest.raises(CannotTry, match="locked"):
            restore(world)
    assert world.dump() == before
    restore(world)


def test_an_interruption_leaves_the_target_as_it_was(world):
    query_big(world)
    world.apply("j1", UP, options=kept(world))
    before = world.dump()
    with pytest.raises(Failed, match="the target is what it was"):
        restore(world, stop=lambda: "SIGINT")
    assert world.dump() == before
    restore(world)


def query_big(world):
    with closing(sqlite3.connect(world.path, isolation_level=None)) as conn:
        conn.execute(
            "CREATE TABLE big AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 8000) "
            "SELECT n, randomblob(900) AS b FROM c"
        )


_KILLED = """
import os, signal, sys
from pathlib import Path
from endmark.effects.sqlite import SqliteTarget
from endmark.effects.target import Kept
target, backup, sha256, size, after = sys.argv[1:]
left = iter(range(int(after)))
def progress(done, total):
    if next(left, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
SqliteTarget(Path(target)).restore(Path(backup), Kept(sha256, int(size)), ["j1"], 5, progress, lambda: None)
"""


@pytest.mark.parametrize("after", [0, 1, 2])
def test_killed_on_the_way_it_leaves_the_target_whole(world, after):
    query_big(world)
    world.apply("j1", UP, options=kept(world))
    before = world.dump()
    made = next(event.data for event in world.events(_of(world, "j1")) if event.event == "backed-up")
    command = [
        sys.executable,
        "-c",
        _KILLED,
        str(world.path),
        made["to"],
        made["sha256"],
        str(made["bytes"]),
        str(after),
    ]
    done = subprocess.run(command, check=False, timeout=60, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    assert done.returncode == -9
    assert world.dump() == before
    assert query(world.path, "PRAGMA integrity_check") == [("ok",)]
    restore(world)
    assert world.receipts() == {}
