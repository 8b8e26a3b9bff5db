"""The operator's own command before the first write: what it is given, what is kept of it, and that nothing else runs
where it fails."""

import os
import re
import shutil
import sys
from pathlib import Path

import msgspec
import pytest
from tests.effects.postgres.world import Cluster, PostgresWorld
from tests.support import mariadb
from tests.support.faults import unflushed
from tests.support.mariadb import MariaWorld
from tests.support.servers import postgres, within
from tests.support.world import QUICK, World

from endmark.effects import command
from endmark.effects.postgres import PostgresTarget

UP = ["CREATE TABLE a (x INTEGER)"]
ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}


@pytest.fixture(scope="module")
def cluster():
    found = Cluster(postgres().url, f"endmark_test_backup_{os.getpid()}")
    found.make()
    yield found
    found.remove()


@pytest.fixture
def world(tmp_path, cluster):
    with cluster.database(1) as database:
        yield PostgresWorld(tmp_path, database)


def options(*words, timeout=30.0):
    return msgspec.structs.replace(QUICK, backup_command=words, environ=ENVIRON, backup_timeout=timeout)


def script(tmp_path, text):
    path = tmp_path / "backup.py"
    path.write_text(text)
    return sys.executable, str(path)


def backed_up(world, outcome):
    return [event.data for event in world.events(outcome) if event.event == "backed-up"]


def test_pg_dump_makes_a_whole_dump_without_a_word_about_the_password(world, tmp_path):
    program = shutil.which("pg_dump")
    assert program, "the server is here, and its programs are not"
    to = tmp_path / "{job}-{attempt}.dump"
    outcome = world.apply(
        "j1",
        UP,
        options=options(
            "pg_dump", "--format=custom", f"--file={to}", "--exclude-schema=endmark", "--exclude-table=schema_jobs"
        ),
    )
    assert outcome.state == "applied", outcome.detail
    (kept,) = backed_up(world, outcome)
    (dump,) = tmp_path.glob("j1-att_*.dump")
    assert dump.read_bytes()[:5] == b"PGDMP"
    assert (kept["exit_code"], kept["ended_by"]) == (0, None)
    assert kept["command"][2] == f"--file={dump}"
    assert "pässword" not in str(world.events(outcome))
    world.check_books_agree()


def test_it_gets_the_password_in_its_environment_and_nowhere_else(world, tmp_path):
    note = tmp_path / "note"
    text = (
        "import os, sys\n"
        f"open({str(note)!r}, 'w').write(repr((sys.argv, os.environ['PGPASSWORD'], sorted(os.environ))))\n"
        "print('secret', os.environ['PGPASSWORD'], '\\x1b[31mred')\n"
    )
    outcome = world.apply("j1", UP, options=options(*script(tmp_path, text), "{database}", "{user}", "{unknown}", "{"))
    assert outcome.state == "applied"
    arguments, password, names = eval(note.read_text())  # our own script's
    assert arguments[1:] == [world.database.name, world.database.cluster.gate, "{unknown}", "{"]
    assert password == "pässword"
    assert {"PGHOST", "PGDATABASE", "PGUSER", "PATH"} <= set(names)
    (kept,) = backed_up(world, outcome)
    assert kept["output"] == "secret *** \\x1b[31mred"
    assert "pässword".encode() not in world.ledger.read_bytes()


FAILS = {
    "it says no": ("import sys; print('disk full'); sys.exit(3)", "ended with 3: disk full"),
    "it dies": ("import os; os.kill(os.getpid(), 9)", "ended with -9"),
}


@pytest.mark.parametrize(("text", "part"), FAILS.values(), ids=FAILS)
def test_without_a_backup_nothing_is_written(world, tmp_path, text, part):
    before = world.dump()
    outcome = world.apply("j1", UP, options=options(*script(tmp_path, text)))
    assert (outcome.state, outcome.exit_code) == ("failed", 20)
    assert part in outcome.detail
    assert world.dump() == before
    assert len(backed_up(world, outcome)) == 1
    world.check_books_agree()


def test_a_program_that_is_missing_is_said(world):
    before = world.dump()
    outcome = world.apply("j1", UP, options=options("/no/such/program"))
    assert (outcome.state, "cannot be run" in outcome.detail) == ("failed", True)
    assert world.dump() == before


def test_one_that_does_not_end_is_ended_with_all_it_started(world, tmp_path):
    note = tmp_path / "pid"
    text = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    before = world.dump()
    outcome = world.apply("j1", UP, options=options(*script(tmp_path, text), timeout=1.5))
    assert (outcome.state, "was ended after" in outcome.detail) == ("failed", True)
    assert world.dump() == before
    assert backed_up(world, outcome)[0]["ended_by"] == "timeout"
    child = int(note.read_text())
    with within(10) as clock:
        while clock() and is_alive(child):
            pass


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")  # one that has ended waits for its parent there
    state = stat.read_text().rpartition(")")[2].split()[0] if stat.exists() else ""
    return state != "Z"


def test_an_interruption_ends_it(world, tmp_path):
    stop = iter([None] * 3)
    outcome = world.apply(
        "j1",
        UP,
        options=options(*script(tmp_path, "import time; time.sleep(600)")),
        more={"stop": lambda: next(stop, "SIGTERM")},
    )
    assert (outcome.state, outcome.signal) == ("failed", "interrupted")
    assert backed_up(world, outcome)[0]["ended_by"] == "SIGTERM"


def test_mariadb_dump_is_told_where_to_go(tmp_path):
    mariadb.needed()
    program = shutil.which("mariadb-dump") or shutil.which("mysqldump")
    assert program
    with mariadb.database() as name, unflushed():
        world = MariaWorld(tmp_path, name)
        words = [program, "--user={user}", "--single-transaction", f"--result-file={tmp_path}/{{job}}-{{attempt}}.sql"]
        words += ["--socket={socket}"] if world.target.address.unix_socket else ["--host={host}", "--port={port}"]
        outcome = world.apply("j1", UP, options=options(*words, "{database}"))
        assert outcome.state == "applied", outcome.detail
        (dump,) = tmp_path.glob("j1-att_*.sql")
        assert "CREATE TABLE `users`" in dump.read_text()


def test_a_file_of_sqlite_is_not_given_to_a_command(tmp_path):
    world = World(tmp_path, "rollback")
    before = world.dump()
    outcome = world.apply("j1", UP, options=options("true"))
    assert (outcome.state, "copied by endmark" in outcome.detail) == ("failed", True)
    assert world.dump() == before


def test_the_end_of_what_it_says_is_kept_and_no_part_of_a_secret(tmp_path):
    text = "print('x' * 100_000); print('pass' + 'word-' * 300); print('the end')"
    done = command.run(script(tmp_path, text), ENVIRON, 30, ("pass" + "word-" * 300,), lambda: None)
    assert done.output.endswith("***\nthe end")
    assert len(done.output) <= 4 * command.OUTPUT_MAX
    assert not re.search("word", done.output)


def test_the_password_of_a_target_is_in_its_environment_alone():
    reach = PostgresTarget("postgresql://u:s3cret@h:6000/d").reach()
    assert reach.environ["PGPASSWORD"] == "s3cret"
    assert "s3cret" not in str(reach.words)
    assert reach.secrets == ("s3cret",)
