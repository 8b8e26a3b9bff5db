"""`apply`: what each kind of delivery ends in, by state, exit code, object and database."""

import pytest
from tests.faces.shell import HERE, SLOW, STATEMENTS
from tests.support.world import make_database, plan_bytes, query, witness_bytes

from endmark.core import mc1
from endmark.core.outcome import Outcome

PLAN = plan_bytes("job-1", STATEMENTS)
INTEROP = "CREATE TABLE IF NOT EXISTS schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status TEXT)"


def test_a_whole_plan_is_applied(shell):
    said = shell.run("apply", shell.plan(), "--to", HERE, "--yes")
    assert (said.code, said.err) == (0, b"")
    first, second = said.text.splitlines()
    assert first == "applied: 2 statements, with the receipt in the same transaction."
    entry = shell.entry("job-1")
    assert second == f"job job-1  attempt {entry.attempt_id}  target {entry.target}"
    assert query(shell.app, "SELECT note FROM invoices") == [("Žluť ∎",)]
    assert query(shell.app, "SELECT job_id, stmt_count, status FROM schema_jobs") == [("job-1", 2, "applied")]


def test_the_object(shell):
    said = shell.apply()
    assert list(said.object) == list(Outcome.__struct_fields__)
    assert {key: said.object[key] for key in ("version", "state", "signal", "stmt_count", "statements_run")} == {
        "version": 1,
        "state": "applied",
        "signal": "complete",
        "stmt_count": 2,
        "statements_run": 2,
    }
    assert said.object["target"] == f"sqlite:///{shell.app}"
    assert (said.object["exit_code"], said.object["next"], said.object["received_bytes"]) == (0, "none", len(PLAN))
    assert said.object["evidence"][0] == "bare"
    assert said.object["evidence"][-1] == "self-approved"


def test_a_plan_as_published_elsewhere(shell):
    assert shell.apply("job_1", (INTEROP, "CREATE TABLE a (x)", "CREATE TABLE b (y)")).code == 0
    assert query(shell.app, "SELECT status FROM schema_jobs WHERE job_id = ?", "job_1") == [("applied",)]


def test_from_standard_input_in_an_envelope(shell):
    said = shell.run("apply", "-", "--to", HERE, "--yes", "--json", stdin=mc1.seal(PLAN))
    assert (said.code, said.object["evidence"][0]) == (0, "sealed")


def test_the_same_delivery_again_does_nothing(shell):
    first = shell.apply()
    before = shell.dump()
    again = shell.apply()
    assert (again.code, again.object["attempt_id"]) == (0, first.object["attempt_id"])
    assert again.object["detail"].startswith("Delivered before, nothing was done now.")
    assert shell.dump() == before


def test_an_id_is_used_once(shell):
    shell.apply()
    before = shell.dump()
    other = shell.apply("job-1", ("CREATE TABLE other (x)",))
    assert (other.code, other.object["signal"], other.object["next"]) == (12, "id-reused", "none")
    assert "this id belongs to another body; that job is in state applied" in other.object["detail"].lower()
    make_database(shell.folder / "two.db")
    elsewhere = shell.run("apply", "job-1.json", "--to", "sqlite:///two.db", "--yes", "--json")
    assert (elsewhere.code, elsewhere.object["signal"]) == (12, "id-reused")
    assert shell.dump() == before


@pytest.mark.parametrize(
    ("statements", "flags", "signal"),
    [
        (("CREATE TABLE a (x)", "INSERT INTO nowhere VALUES (1)"), (), "sql-error"),
        (("CREATE TABLE a (x)", "COMMIT"), (), "forbidden-statement"),
        (("CREATE TABLE a (x)", SLOW), ("--statement-timeout", "0.2"), "statement-timeout"),
    ],
)
def test_what_goes_wrong_is_rolled_back(shell, statements, flags, signal):
    before = shell.dump()
    said = shell.apply("job-1", statements, *flags)
    assert (said.code, said.object["state"], said.object["signal"]) == (1, "failed", signal)
    assert "Everything was rolled back" in said.object["detail"]
    assert shell.dump() == before


def test_a_plan_for_another_schema_is_stale(shell):
    fingerprint = shell.run("fingerprint", HERE).text.strip()
    assert len(fingerprint) == 64
    assert shell.apply("job-1", base=fingerprint).code == 0
    before = shell.dump()
    said = shell.apply("job-2", ("CREATE TABLE late (x)",), base=fingerprint)
    assert (said.code, said.object["state"], said.object["next"]) == (14, "stale", "resend-new-job-id")
    assert shell.dump() == before


@pytest.mark.parametrize(
    ("raw", "state", "code"),
    [
        (mc1.seal(PLAN)[:100], "truncated", 10),
        (mc1.seal(PLAN).replace(b"invoices", b"invoicez", 1), "quarantined", 11),
        (PLAN + b"x", "rejected", 12),
        (mc1.seal(b'{"verdict":"pass","diff_sha":"d","policy_version":"1"}'), "rejected", 12),
        (mc1.seal(b"{}"), "rejected", 12),
    ],
)
def test_what_is_not_proven_is_recorded_and_not_applied(shell, raw, state, code):
    before = shell.app.read_bytes()
    said = shell.run("apply", "-", "--to", HERE, "--yes", "--json", stdin=raw)
    assert (said.code, said.object["state"]) == (code, state)
    assert shell.app.read_bytes() == before
    entry = shell.entry(said.object["attempt_id"])
    assert (entry.state, entry.received_bytes) == (state, len(raw))
    with shell.book() as book:
        assert book.body(entry.attempt_id) == (raw if state == "quarantined" else None)


def test_an_id_known_from_outside_is_spent_by_a_cut(shell):
    cut = shell.run("apply", "-", "--to", HERE, "--yes", "--job", "job-1", "--json", stdin=PLAN[:50])
    assert (cut.code, cut.object["job_id"]) == (10, "job-1")
    again = shell.apply()
    assert (again.code, again.object["signal"]) == (12, "id-reused")
    assert "state truncated" in again.object["detail"]


def test_an_id_from_outside_must_be_the_one_in_the_body(shell):
    assert shell.apply("job-1", STATEMENTS, "--job", "job-1").code == 0
    said = shell.apply("job-2", STATEMENTS, "--job", "job-3")
    assert (said.code, said.object["signal"]) == (12, "bad-id")


@pytest.mark.parametrize("job", ["", "a b", "x" * 129, "a\n"])
def test_an_id_that_is_none_is_misuse(shell, job):
    assert shell.apply("job-1", STATEMENTS, "--job", job).code == 2


def test_the_witness_form_wants_the_flag(shell):
    shell.write("w.json", witness_bytes("job-1", STATEMENTS))
    plain = shell.run("apply", "w.json", "--to", HERE, "--yes", "--json")
    assert plain.code == 12
    assert "--seal" in plain.object["detail"]
    shell.write("w.json", witness_bytes("job-2", STATEMENTS))
    sealed = shell.run("apply", "w.json", "--to", HERE, "--yes", "--seal", "--json")
    assert sealed.code == 0
    assert sealed.object["evidence"][0] == "witness"
    assert "sealed-here" in sealed.object["evidence"]


def test_a_url_without_a_terminal_needs_yes(shell):
    before = shell.app.read_bytes()
    said = shell.run("apply", shell.plan(), "--to", HERE, "--json")
    assert (said.code, said.object["state"], said.object["next"]) == (16, "staged", "wait")
    assert "no --yes" in said.talk
    assert shell.app.read_bytes() == before
    again = shell.run("apply", "job-1.json", "--to", HERE, "--yes", "--json")
    assert (again.code, again.object["state"]) == (16, "staged")  # delivered before: nothing is done
    assert shell.app.read_bytes() == before


def test_the_users_own_ledger_is_made_when_first_needed(shell, monkeypatch):
    monkeypatch.delenv("ENDMARK_LEDGER")
    monkeypatch.setenv("XDG_STATE_HOME", str(shell.folder / "deep" / "state"))
    ours = shell.folder / "deep" / "state" / "endmark"
    assert shell.run("jobs").code == 20
    assert not ours.exists()
    assert shell.apply().code == 0
    assert sorted(path.name for path in ours.iterdir() if "-" not in path.name) == ["backups", "ledger.db"]
    assert ours.stat().st_mode & 0o777 == 0o700
    assert shell.run("jobs").code == 0


def test_a_relative_state_folder_is_ignored(shell, monkeypatch):
    monkeypatch.delenv("ENDMARK_LEDGER")
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(shell.folder / "home"))
    assert shell.apply().code == 0
    assert (shell.folder / "home" / ".local" / "state" / "endmark" / "ledger.db").exists()


def test_backups(shell):
    shell.apply("job-1")
    assert [path.suffix for path in (shell.folder / "backups").iterdir()] == [".db"]
    assert query(shell.entry("job-1").backup, "SELECT name FROM users") == [("ann",), ("bob",)]
    shell.apply("job-2", ("CREATE TABLE b (x)",), "--backup", "kept/here")
    assert len(list((shell.folder / "kept" / "here").iterdir())) == 1
    shell.apply("job-3", ("CREATE TABLE c (x)",), "--no-backup")
    assert shell.entry("job-3").backup is None
    both = shell.apply("job-4", ("CREATE TABLE d (x)",), "--no-backup", "--backup", "x")
    assert (both.code, both.object["signal"]) == (2, "usage")


def test_what_a_crash_left_is_told_beside_the_result(shell):
    with shell.start("apply", shell.plan("lost", (SLOW,)), "--to", HERE, "--yes") as process:
        shell.wait_until_applying("lost")
        process.kill()
        process.communicate()
    said = shell.apply("job-2")
    assert said.code == 0
    assert said.talk.startswith("Reconciled job lost: failed: it was interrupted")
    assert shell.entry("lost").state == "failed"
