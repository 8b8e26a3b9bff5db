"""The verbs about jobs: jobs, show, approve, decline, revert, reconcile, and the ledger's two."""

import sqlite3
from contextlib import closing

import pytest
from tests.faces.shell import HERE, SLOW, STATEMENTS
from tests.support.world import query

from endmark.core.outcome import Outcome

DOWN = ["DROP TABLE invoices", "DELETE FROM invoices"]
KEYS = list(Outcome.__struct_fields__)


@pytest.fixture
def several(shell):
    """One applied, one staged, one cut, one failed; oldest first."""
    shell.apply("done", down=DOWN)
    shell.stage("waits", ("CREATE TABLE w (x)",))
    shell.run("apply", "-", "--to", HERE, "--job", "cut", stdin=b'{"job_id"')
    shell.apply("bad", ("CREATE TABLE users (x)",))
    return shell


def test_jobs(several):
    lines = several.run("jobs").text.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["bad", "failed"],
        ["cut", "truncated"],
        ["waits", "staged"],
        ["done", "applied"],
    ]
    assert lines[0].split()[:4] == ["JOB", "STATE", "BYTES", "STATEMENTS"]


def test_jobs_as_an_object(several):
    found = several.run("jobs", "--json").object
    assert list(found) == ["version", "jobs", "before", "exit_code", "at"]
    assert [list(job) for job in found["jobs"]] == [KEYS] * 4
    assert [job["exit_code"] for job in found["jobs"]] == [1, 10, 16, 0]


def test_jobs_in_one_state(several):
    assert [job["job_id"] for job in several.run("jobs", "--state", "staged", "--json").object["jobs"]] == ["waits"]
    assert several.run("jobs", "--state", "declined").text == "No jobs.\n"
    assert several.run("jobs", "--state", "gone").code == 2


def test_jobs_for_one_target(several):
    assert len(several.run("jobs", "--target", HERE, "--json").object["jobs"]) == 4
    assert several.run("jobs", "--target", "sqlite:///other.db").text == "No jobs.\n"
    assert several.run("jobs", "--target", "nobody").code == 2


def test_jobs_page_by_page(several):
    first = several.run("jobs", "--limit", "3", "--json")
    assert "--before" in first.talk
    assert len(first.object["jobs"]) == 3
    second = several.run("jobs", "--limit", "3", "--before", first.object["before"], "--json")
    assert [job["job_id"] for job in second.object["jobs"]] == ["done"]
    assert second.object["before"] is None
    assert second.err == b""
    assert several.run("jobs", "--limit", "0").code == 2


def test_show(several):
    text = several.run("show", "done").text
    entry = several.entry("done")
    for part in (
        "applied: 2 statements",
        entry.attempt_id,
        entry.sha256,
        entry.fingerprint_before,
        entry.fingerprint_after,
        entry.backup,
        "statements run  2 of 2",
        "rows changed    1",
        "approved > applying",
        "   2 | INSERT INTO invoices VALUES (1, 'Žluť ∎')",
        "     = 1 row changed",
    ):
        assert part in text
    assert several.run("show", entry.attempt_id).text == text


def test_show_as_an_object(several):
    found = several.run("show", "done", "--json").object
    assert list(found["job"]) == KEYS
    assert found["job"]["state"] == "applied"
    assert [event["event"] for event in found["events"]] == [
        "received",
        *["moved"] * 3,
        "backing-up",
        "backed-up",
        "moved",
    ]
    assert found["statements"] == [
        {"sql": STATEMENTS[0], "destroys": [], "rows_changed": 0, "down": DOWN[0]},
        {"sql": STATEMENTS[1], "destroys": [], "rows_changed": 1, "down": DOWN[1]},
    ]
    assert found["record"]["backup"] == several.entry("done").backup
    assert found["statements_missing"] is None


def test_show_says_what_a_statement_destroys(shell):
    shell.stage("job-1", ("DROP TABLE users", "DELETE FROM users\n  WHERE 1"))
    text = shell.run("show", "job-1").text
    assert "   1 | DROP TABLE users\n     ! drops the table users and every row in it\n" in text
    assert "   2 | DELETE FROM users\n     |   WHERE 1\n     ! deletes every row of users, or none" in text
    assert "advice, not proof" in text


def test_show_of_what_was_refused(several):
    said = several.run("show", "cut")
    assert said.code == 0
    assert said.text.startswith("truncated: the JSON ended early, after 9 bytes. Nothing was written.")
    assert " | " not in said.text
    found = several.run("show", "cut", "--json").object
    assert (found["statements"], found["statements_missing"]) == ([], None)


@pytest.mark.parametrize("verb", ["show", "approve", "decline", "revert"])
def test_an_unknown_id(several, verb):
    said = several.run(verb, "nobody", "--json")
    assert (said.code, said.object["state"], said.object["signal"]) == (20, "not-tried", "could-not-try")
    assert "there is no job or attempt nobody" in said.object["detail"]
    assert said.object["next"] == "ask-person"  # to wait for it helps nobody


def test_approve(several):
    no = several.run("approve", "waits", "--json")
    assert (no.code, no.object["state"]) == (16, "staged")
    yes = several.run("approve", "waits", "--yes", "--json")
    assert (yes.code, yes.object["state"], list(yes.object)) == (0, "applied", KEYS)
    assert query(several.app, "SELECT status FROM schema_jobs WHERE job_id = 'waits'") == [("applied",)]
    again = several.run("approve", "waits", "--yes")
    assert again.code == 0
    assert "not waiting" in again.talk


def test_approve_by_the_attempts_id(several):
    assert several.run("approve", several.entry("waits").attempt_id, "--yes").code == 0


@pytest.mark.parametrize(("job", "code"), [("bad", 1), ("cut", 10), ("done", 0)])
def test_what_is_not_staged_is_not_approved(several, job, code):
    before = several.dump()
    assert several.run("approve", job, "--yes").code == code
    assert several.dump() == before


def test_decline(several):
    said = several.run("decline", "waits", "--reason", "drops the wrong table", "--json")
    assert (said.code, said.object["state"]) == (1, "declined")
    assert "drops the wrong table" in several.run("show", "waits").text
    assert several.run("approve", "waits", "--yes").code == 1
    assert not query(several.app, "SELECT 1 FROM sqlite_schema WHERE name = 'w'")
    before = several.dump()
    late = several.run("decline", "done")
    assert (late.code, late.talk) == (20, "Nothing was done: the job is not waiting for anybody.\n")
    assert "it was not declined: it is applied already" in late.text
    assert several.run("decline", "done", "--json").object["state"] == "applied"
    assert several.dump() == before
    assert several.run("decline", "waits").code == 1  # where it was declined, that is said again


def test_revert(several):
    said = several.run("revert", "done", "--yes", "--json")
    assert (said.code, said.object["job_id"]) == (0, "done.revert")
    assert not query(several.app, "SELECT 1 FROM sqlite_schema WHERE name = 'invoices'")
    assert query(several.app, "SELECT status FROM schema_jobs WHERE job_id = 'done'") == [("reverted",)]
    before = several.dump()
    assert several.run("revert", "done", "--yes").code == 0  # once: the stored state
    assert several.dump() == before
    listed = {job["job_id"]: job for job in several.run("jobs", "--json").object["jobs"]}
    assert (listed["done"]["exit_code"], listed["done.revert"]["exit_code"]) == (1, 0)
    assert "reverted-by:done.revert" in listed["done"]["evidence"]
    rows = [line.split() for line in several.run("jobs").text.splitlines()]
    assert [row[1:3] for row in rows if row[0] == "done"] == [["applied,", "reverted"]]


def test_revert_asks_too(several):
    assert several.run("revert", "done").code == 16
    assert several.run("approve", "done.revert", "--yes").code == 0


def test_revert_only_from_the_schema_the_job_left(several):
    query(several.app, "CREATE TABLE later (x)")
    said = several.run("revert", "done", "--yes", "--json")
    assert (said.code, said.object["state"]) == (14, "stale")


def test_revert_without_downs(shell):
    shell.apply()
    said = shell.run("revert", "job-1", "--yes", "--json")
    assert said.code == 12
    assert "without down statements" in said.object["detail"]


@pytest.mark.parametrize("job", ["waits", "bad", "cut"])
def test_revert_of_what_was_not_applied(several, job):
    said = several.run("revert", job, "--yes", "--json")
    assert said.code == 12
    assert said.object["detail"].endswith("only an applied job can be reverted. Nothing was written.")
    assert said.object["next"] == "none"


def test_reconcile(shell):
    before = shell.dump()
    with shell.start("apply", shell.plan("lost", (STATEMENTS[0], SLOW)), "--to", HERE, "--yes") as process:
        shell.wait_until_applying("lost")
        process.kill()
        process.communicate()
    said = shell.run("reconcile", "--json")
    assert said.code == 0
    keys = ["version", "settled", "left", "merged", "alarms", "reviews_ended", "exit_code", "at"]
    assert list(said.object) == keys
    assert [(job["job_id"], job["state"], job["signal"]) for job in said.object["settled"]] == [
        ("lost", "failed", "lost")
    ]
    assert shell.dump() == before
    assert shell.run("reconcile").text == "Nothing to settle.\n"


def test_reconcile_leaves_what_is_at_work(shell):
    with shell.start("apply", shell.plan("runs", (SLOW,)), "--to", HERE, "--yes") as process:
        shell.wait_until_applying("runs")
        said = shell.run("reconcile", "--lock-timeout", "0", "--json")
        beside = shell.run("decline", "nobody")
        process.terminate()
        process.communicate()
    assert said.code == 20
    assert said.object["settled"] == []
    assert [left["job_id"] for left in said.object["left"]] == ["runs"]
    assert "locked" in said.object["left"][0]["why"]
    assert "Not reconciled yet, job runs: " in beside.talk
    assert process.returncode == 143


def test_reconcile_is_loud_about_a_receipt_for_something_else(shell):
    with shell.start("apply", shell.plan("lost", (SLOW,)), "--to", HERE, "--yes") as process:
        shell.wait_until_applying("lost")
        process.kill()
        process.communicate()
    with closing(sqlite3.connect(shell.app)) as app:
        app.execute("CREATE TABLE schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status TEXT)")
        app.execute("INSERT INTO schema_jobs VALUES ('lost', 1, ?, 'applied')", ("0" * 64,))
        app.commit()
    said = shell.run("reconcile")
    assert said.code == 1
    assert "ALARM" in said.text


def test_ledger_init(shell):
    said = shell.run("ledger", "init", "--json")
    assert said.code == 0
    assert (said.object["made"], said.object["ledger"]) == (True, str(shell.folder / "ledger.db"))
    assert shell.run("ledger", "init", "--json").object["made"] is False
    assert shell.run("jobs").text == "No jobs.\n"


def test_ledger_verify(several):
    said = several.run("ledger", "verify")
    assert said.code == 0
    assert said.text.startswith("The ledger is sound: 4 attempts, ")
    found = several.run("ledger", "verify", "--json").object
    assert (found["ok"], found["attempts"], found["problems"], found["exit_code"]) == (True, 4, [], 0)


def test_ledger_verify_finds_a_change(several):
    with closing(sqlite3.connect(several.folder / "ledger.db")) as book:
        book.execute("DROP TRIGGER moves_are_legal")
        book.execute("DROP TRIGGER changes_have_their_event")
        book.execute("UPDATE attempts SET detail = 'nothing to see' WHERE job_id = 'bad'")
        book.commit()
    said = several.run("ledger", "verify")
    assert said.code == 1
    assert "The ledger is not sound" in said.text
    found = several.run("ledger", "verify", "--json").object
    assert (found["ok"], found["exit_code"]) == (False, 1)
    assert found["problem_count"] == len(found["problems"]) > 0
