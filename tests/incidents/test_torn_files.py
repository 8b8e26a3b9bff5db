"""State files that were torn, emptied or left by a crash: never read as the defaults, never written over."""

import contextlib
import shutil
import signal
import sqlite3
import subprocess
import sys

import pytest
from tests.incidents import payloads
from tests.incidents.rows import agrees
from tests.incidents.world import deliver, settle_all

from endmark.apply_gate import Options
from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.faces.api import Gate

PAGE = 4096
STATEMENTS = ["CREATE TABLE made (x)", "INSERT INTO runs VALUES ('r')"]


def ledgers(world, jobs):
    """The bytes of the closed ledger after each of so many applied jobs."""
    for n in range(jobs):
        world.apply(payloads.witness(f"job-{n}", [f"INSERT INTO runs VALUES ('{n}')"]))
        world.close()
        yield world.ledger_path.read_bytes()
        world.reopen()
    world.close()


def opened(path, raw):
    """Whether a gate takes a job over a ledger file of these bytes. Where it does not, the file is as it was."""
    path.write_bytes(raw)
    try:
        with Gate(path) as gate:
            gate.submit(payloads.witness("new", STATEMENTS), seal=True)
    except CannotTry as fault:
        said = fault.detail
    else:
        return True
    assert str(path) in said
    assert path.read_bytes() == raw
    assert [other.name for other in path.parent.iterdir()] == [path.name], "nothing was left beside it"
    return False


@pytest.fixture
def apart(tmp_path):
    folder = tmp_path / "apart"
    folder.mkdir()
    return folder / "ledger.db"


def test_inc_164_a_torn_ledger_is_refused_and_left_as_it_is(world, apart):
    *_, whole = ledgers(world, 3)
    assert len(whole) % PAGE == 0
    last_page = len(whole) - PAGE
    cuts = {len(whole) // 2, *range(1, 700, 13), *range(512, last_page + 1, 512), *range(PAGE, last_page + 1, PAGE)}
    assert [n for n in sorted(cuts) if opened(apart, whole[:n])] == []
    for n in (len(whole) // 2, last_page):  # the start is torn, the end is there
        assert not opened(apart, bytes(n) + whole[n:])
    assert agrees("INC-164", "not-tried")
    shutil.copy(world.ledger_path, apart)
    with Gate(apart) as gate:
        assert gate.ledger.verify().ok, "the control: the whole file is a ledger"
        assert len(gate.ledger.in_state(State.APPLIED)) == 3


def test_inc_164_a_ledger_torn_in_its_last_page_is_refused(world, apart):
    """Whatever stands in that page, which differs from one job to the next."""
    taken = []
    for jobs, whole in enumerate(ledgers(world, 12), 1):
        for lost in (1, 512, PAGE // 2):
            for path in apart.parent.iterdir():
                path.unlink()
            if opened(apart, whole[:-lost]):
                taken.append((jobs, lost))
    assert taken == []


def test_inc_164_a_torn_plan_file_is_truncated(world):
    whole = payloads.bare("JOB", STATEMENTS)
    path = world.folder / "plan.json"
    for n in (len(whole) // 2, *range(0, len(whole), 11)):
        path.write_bytes(whole[:n])
        assert agrees("INC-164", world.refuses(path.read_bytes()).state)
        assert path.read_bytes() == whole[:n]


STUBS = [b"{}", b"[]", b"null", b"\n", b"\0" * 511, b"\0" * 512, b"\0" * PAGE, b"SQLite format 3\0", b'{"version":1}']


@pytest.mark.parametrize("stub", STUBS, ids=ascii)
def test_inc_165_a_stub_is_no_ledger(apart, stub):
    assert not opened(apart, stub)
    assert agrees("INC-165", "not-tried")


def test_inc_165_a_stub_is_no_plan(world):
    states = [world.refuses(stub).state for stub in (b"", *STUBS)]
    assert all(agrees("INC-165", state) for state in states)
    assert states[:3] == ["truncated", "truncated", "rejected"]


def test_inc_165_an_emptied_ledger_is_no_new_one(apart):
    assert not opened(apart, b"")


def test_inc_165_an_emptied_ledger_makes_no_second_effect(world):
    """Whatever becomes of the book: the receipts stand in the target."""
    raw = payloads.witness("JOB", STATEMENTS)
    assert world.apply(raw).state == "applied"
    world.close()
    world.ledger_path.write_bytes(b"")
    for create in (False, True):
        with pytest.raises(CannotTry):
            Gate(world.ledger_path, create=create)
    world.ledger_path.unlink()
    world.reopen()
    again = world.apply(raw)
    assert (again.state, "receipt-found" in again.evidence) == ("applied", True)
    assert world.refuses(payloads.witness("JOB", STATEMENTS[1:])).signal == "id-reused"
    assert world.runs() == ["r"]


WRITER = """\
import os, signal, sys
with open(sys.argv[1], "wb") as file:
    file.write(sys.stdin.buffer.read())
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
def test_inc_167_a_writer_killed_after_it_emptied_the_file(world, part):
    """The plan file was whole; its writer opens it for writing, gets so far and is killed."""
    whole = payloads.witness("JOB", STATEMENTS)
    path = world.folder / "plan.json"
    path.write_bytes(whole)
    arrived = whole[: int(len(whole) * part)]
    done = subprocess.run([sys.executable, "-c", WRITER, str(path)], input=arrived, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == arrived
    said = world.refuses(path.read_bytes())
    assert agrees("INC-167", said.state)
    assert said.received_bytes == len(arrived)


class Killed(BaseException):
    pass


def test_inc_167_a_backup_has_its_name_only_when_it_is_whole(world):
    """Our own files: broken off while the backup is copied, nothing stands under its name, and nothing was applied."""
    before = world.dump()

    def die(_done, _total):
        raise Killed

    world.close()
    backups = world.folder / "backups"
    raw = payloads.witness("JOB", STATEMENTS)
    with Gate(world.ledger_path, options=Options(backups=backups), progress=die) as gate, pytest.raises(Killed):
        gate.submit(raw, target=world.url, seal=True).apply(world.url)
    assert list(backups.glob("*.db")) == []
    (settled,) = settle_all(world)
    assert (settled.state, settled.signal) == ("failed", "lost")
    assert world.dump() == before
    world.gate.options = Options(backups=backups)
    assert world.apply(payloads.witness("JOB-2", STATEMENTS, retry_of="JOB")).state == "applied"
    (copy,) = backups.glob("*.db")
    with contextlib.closing(sqlite3.connect(copy)) as conn:
        assert list(conn.iterdump()) == before


POINTS = {"run": "failed", "2": "failed", "ran": "failed", "committed": "applied"}


@pytest.mark.parametrize("point", POINTS)
def test_inc_168_a_crash_between_two_files_is_finished_or_undone(world, point):
    """The target commits, then the ledger is told. Killed at each point, the next start makes the two agree."""
    raw = payloads.envelope("JOB", STATEMENTS)
    assert deliver(world, raw, point) == -signal.SIGKILL
    (settled,) = settle_all(world)
    assert agrees("INC-168", settled.state)
    assert settled.state == POINTS[point]
    assert world.runs() == (["r"] if settled.state == "applied" else [])
    assert ("made" in world.tables()) == (settled.state == "applied")
    assert settle_all(world) == [], "once is enough"
    assert world.gate.ledger.verify().ok


@pytest.mark.parametrize("point", POINTS)
def test_inc_168_a_crash_and_then_the_ledger_s_log_is_deleted(world, point):
    """Somebody tidies up the files beside the ledger: what it knew of the job is gone, the target's receipt is not."""
    raw = payloads.envelope("JOB", STATEMENTS)
    world.close()
    assert deliver(world, raw, point) == -signal.SIGKILL
    for beside in ("-wal", "-shm"):
        world.ledger_path.with_name(world.ledger_path.name + beside).unlink(missing_ok=True)
    world.reopen()
    assert world.apply(raw).state == "applied"
    assert world.runs() == ["r"]
