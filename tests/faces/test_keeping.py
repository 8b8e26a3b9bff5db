"""A ledger is kept elsewhere, put back and brought up, by the command line."""

import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from tests.faces.shell import STATEMENTS
from tests.support import ledgers
from tests.support.world import query

from endmark.core import strictjson
from endmark.core.states import State
from endmark.faces.api import now
from endmark.ledger.book import Ledger

FIRST = Path(__file__).resolve().parent.parent / "vectors" / "ledger" / "version-1.sql"


def put_back(folder, copy):
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        (folder / name).unlink(missing_ok=True)
    shutil.copy(folder / copy, folder / "ledger.db")


def test_a_restored_ledger_does_not_apply_twice(shell):
    """The job came after the backup; its receipt in the target is found."""
    assert shell.apply("job-1").code == 0
    said = shell.run("ledger", "backup", "copy.db", "--json").object
    assert (said["attempts"], said["exit_code"]) == (1, 0)
    more = ["INSERT INTO invoices VALUES (2, 'once')"]
    assert shell.apply("job-2", more).code == 0
    put_back(shell.folder, "copy.db")
    assert shell.run("ledger", "verify").code == 0
    assert shell.run("show", "job-2").code != 0
    again = shell.apply("job-2", more)
    assert (again.code, again.object["state"]) == (0, "applied")
    assert "receipt-found" in again.object["evidence"]
    other = shell.apply("job-1", [*STATEMENTS, "SELECT 1"])
    assert (other.code, other.object["signal"]) == (12, "id-reused")
    assert query(shell.app, "SELECT id FROM invoices ORDER BY id") == [(1,), (2,)]
    assert shell.run("ledger", "verify").code == 0


def test_a_job_that_was_being_applied_when_it_was_backed_up(shell):
    """The copy says `applying`; `reconcile` settles it by the receipt."""
    shell.apply("job-1")
    shell.run("ledger", "backup", "copy.db")
    with closing(sqlite3.connect(shell.folder / "copy.db")) as copy:
        assert copy.execute("SELECT state FROM attempts").fetchall() == [("applied",)]
    staged = shell.stage("job-2", ["INSERT INTO invoices VALUES (2, 'x')"])
    assert staged.code == 16
    with Ledger.open(shell.folder / "ledger.db", create=False) as ledger:
        (entry,) = ledger.in_state(State.STAGED)
        ledger.move(entry.attempt_id, State.STAGED, (State.APPROVED, State.APPLYING), now(), approver="ann")
    shell.run("ledger", "backup", "applying.db")
    put_back(shell.folder, "applying.db")
    assert shell.run("reconcile").code in (0, 1)
    with Ledger.open(shell.folder / "ledger.db", create=False) as ledger:
        assert [entry.job_id for entry in ledger.in_state(State.FAILED)] == ["job-2"]  # no receipt: it never ran
        assert ledger.verify().ok
    assert query(shell.app, "SELECT id FROM invoices") == [(1,)]


def test_an_export_is_verified_without_its_ledger(shell):
    shell.apply("job-1")
    assert (
        shell.run("ledger", "export", "e.jsonl", "--json").object["bytes"] == (shell.folder / "e.jsonl").stat().st_size
    )
    assert (shell.folder / "e.jsonl").stat().st_mode & 0o777 == 0o600
    streamed = shell.run("ledger", "export", "-").out
    assert strictjson.loads(streamed.splitlines()[-1])["end"] == "endmark-export-1"
    (shell.folder / "ledger.db").unlink()
    assert shell.run("ledger", "verify", "--export", "e.jsonl").code == 0
    assert shell.run("ledger", "verify", "--export", "-", stdin=streamed).code == 0
    cut = shell.run("ledger", "verify", "--export", "-", "--json", stdin=streamed[:-9])
    assert (cut.code, cut.object["signal"]) == (10, "no-trailer")
    assert cut.object["received_bytes"] == len(streamed) - 9


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("export", "there"), 20, "is there already"),
        (("export", "none/e.jsonl"), 20, "cannot be written"),
        (("export", "e", "--since", "yesterday"), 2, "no date or time"),
        (("export", "e", "--format", "csv"), 2, "csv"),
        (("backup", "there"), 20, "is there already"),
        (("backup", "c.db", "--ledger", "none.db"), 20, "there is no ledger"),
        (("backup", "c.db", "--ledger", "postgresql://127.0.0.1/x"), 2, "pg_dump"),
        (("verify", "--export", "none"), 2, "cannot be read"),
        (("verify", "--export", "there", "--ledger", "ledger.db"), 2, "contradict"),
        (("verify", "--export", "there"), 10, "no whole export"),
    ],
)
def test_what_cannot_be_done_is_said(shell, words, code, said):
    shell.apply("job-1")
    shell.write("there", "mine")
    found = shell.run("ledger", *words)
    assert (found.code, said in found.text + found.talk) == (code, True), found
    assert (shell.folder / "there").read_text() == "mine"
    assert sorted(path.name for path in shell.folder.iterdir() if path.name in ("e", "c.db", "e.jsonl")) == []


def test_postgresql_by_its_own_tools(shell, url):
    """What docs/ledger.md shows: pg_dump, and back into an empty database."""
    shell.setenv(ENDMARK_LEDGER=url)
    assert shell.apply("job-1").code == 0
    where = url.partition("?")[0]
    made = subprocess.run(["pg_dump", "-n", "endmark", where], capture_output=True, check=True).stdout
    with ledgers.new_database() as other:
        subprocess.run(["psql", "-q", "-v", "ON_ERROR_STOP=1", other], input=made, check=True, capture_output=True)
        shell.setenv(ENDMARK_LEDGER=other)
        assert shell.run("ledger", "verify").code == 0
        assert [job["state"] for job in shell.run("jobs", "--json").object["jobs"]] == ["applied"]
        assert shell.apply("job-1").object["state"] == "applied"
        shell.run("ledger", "export", "pg.jsonl")
    assert shell.run("ledger", "verify", "--export", "pg.jsonl").code == 0
    assert query(shell.app, "SELECT count(*) FROM invoices") == [(1,)]


def test_the_first_versions_ledger_goes_on(shell):
    """Brought up by whatever opens it first, then every verb works on it."""
    with closing(sqlite3.connect(shell.folder / "ledger.db", isolation_level=None)) as old:
        old.executescript(FIRST.read_text())
    assert shell.run("ledger", "verify").code == 0
    jobs = shell.run("jobs", "--json", "--limit", "100").object["jobs"]
    assert {job["state"] for job in jobs} > {"applied", "truncated", "staged", "partial"}
    for job in jobs:
        assert job["state"] in shell.run("show", job["attempt_id"]).text
    shell.run("reconcile")
    assert shell.apply("new-1").object["state"] == "applied"
    assert shell.run("patches").code == 0
    assert shell.run("ledger", "backup", "copy.db").code == 0
    assert shell.run("ledger", "export", "e.jsonl").code == 0
    assert shell.run("ledger", "verify", "--export", "e.jsonl").code == 0
    assert shell.run("ledger", "verify").code == 0
