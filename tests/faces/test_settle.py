"""`endmark settle`: a person closes what nothing else can."""

import pytest
from tests.faces.shell import HERE

from endmark.core.states import State
from endmark.faces.api import now
from endmark.ledger.book import Ledger


@pytest.fixture
def gone(shell):
    """A job that stands `applying` in a database that is no more."""
    shell.stage()
    shell.app.unlink()
    with Ledger.open(shell.folder / "ledger.db", create=False) as ledger:
        entry = ledger.by_job("job-1")
        assert entry is not None
        ledger.move(entry.attempt_id, State.STAGED, (State.APPROVED, State.APPLYING), now(), approver="ann")
    return shell


def state(shell):
    return shell.entry("job-1").state


def test_a_target_that_is_gone(gone):
    said = gone.run("settle", "job-1", "--gone", "--reason", "the disk burnt", "--yes", "--json")
    assert (said.code, said.object["state"], said.object["next"]) == (1, "settled", "none")
    assert "target-gone" in said.object["evidence"]
    shown = gone.run("show", "job-1").text
    assert "the disk burnt" in shown
    assert gone.run("ledger", "verify").code == 0
    again = gone.run("settle", "job-1", "--gone", "--reason", "once more", "--yes")
    assert (again.code, state(gone)) == (1, "settled")
    assert "nothing to settle" in again.talk


def test_without_gone_an_applying_job_stays(gone):
    said = gone.run("settle", "job-1", "--reason", "x", "--yes")
    assert (said.code, state(gone)) == (20, "applying")
    assert "nothing to settle" in said.talk


def test_a_target_that_can_be_reached_is_not_gone(gone):
    gone.app.write_bytes(b"")
    said = gone.run("settle", "job-1", "--gone", "--reason", "x", "--yes", "--json")
    assert (said.code, state(gone)) == (20, "applying")
    assert "can be reached" in said.object["detail"]


def test_it_needs_a_person(gone):
    assert gone.run("settle", "job-1", "--gone", "--reason", "x").code == 20
    gone.setenv(CLAUDECODE="1")
    said = gone.run("settle", "job-1", "--gone", "--reason", "x", "--yes", "--json")
    assert (said.code, state(gone)) == (20, "applying")
    assert "agent" in said.object["detail"]


def test_a_person_is_asked(gone):
    no = gone.terminal("settle", "job-1", "--gone", "--reason", "x", answers=[(b"[y/n]", b"n\r")])
    assert (no.code, state(gone)) == (20, "applying")
    yes = gone.terminal("settle", "job-1", "--gone", "--reason", "x", answers=[(b"[y/n]", b"y\r")])
    assert (yes.code, state(gone)) == (1, "settled")


@pytest.mark.parametrize("reason", ["", "  "])
def test_a_reason_is_given(gone, reason):
    assert gone.run("settle", "job-1", "--gone", "--reason", reason, "--yes").code == 2
    assert gone.run("settle", "job-1", "--gone", "--yes").code == 2
    assert state(gone) == "applying"


def test_an_applied_job_stays_applied(shell):
    assert shell.apply().code == 0
    said = shell.run("settle", "job-1", "--reason", "x", "--yes")
    assert said.code == 0
    assert "nothing to settle" in said.talk
    assert shell.run("settle", "nobody", "--reason", "x", "--yes").code == 20
    assert HERE
