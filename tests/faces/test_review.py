"""Who may let a plan through: what is configured, a person at a terminal, an agent's host."""

import os
import signal
from datetime import UTC, datetime, timedelta

import pytest
from tests.faces.shell import HERE, PROGRAM, STATEMENTS
from tests.support.world import query

from endmark.faces.review import MARKERS, MAY_APPROVE, agent_marker

ASKED = b"[y/n]"


def configure(shell, review):
    shell.write("endmark.toml", f'[targets.prod]\nurl = "sqlite:///app.db"\n{review}\n')


def is_applied(shell):
    return bool(query(shell.app, "SELECT 1 FROM sqlite_schema WHERE name = 'invoices'"))


@pytest.mark.parametrize("review", ["", 'review = "none"'])
@pytest.mark.parametrize("marker", [False, True])
def test_a_named_target_without_review_is_applied_at_once(shell, review, marker):
    configure(shell, review)
    if marker:
        shell.setenv(CLAUDECODE="1")
    assert shell.run("apply", shell.plan(), "--to", "prod").code == 0
    assert is_applied(shell)


def test_a_named_target_with_review_waits_whatever_is_said(shell):
    configure(shell, 'review = "required"')
    said = shell.run("apply", shell.plan(), "--to", "prod", "--yes", "--json")
    assert (said.code, said.object["state"]) == (16, "staged")
    assert "--yes is not honoured" in said.talk
    assert not is_applied(shell)
    assert shell.run("approve", "job-1", "--yes").code == 0
    assert is_applied(shell)


@pytest.mark.parametrize("url", ["sqlite:///app.db", "sqlite:///./app.db", "sqlite:///link.db"])
def test_its_review_is_not_walked_around_by_a_url(shell, url):
    configure(shell, 'review = "required"')
    (shell.folder / "link.db").symlink_to("app.db")
    assert shell.run("apply", shell.plan(), "--to", url, "--yes").code == 16
    assert not is_applied(shell)


def test_of_two_names_the_stricter_one_counts_for_a_url(shell):
    loose = '[targets.a]\nurl = "sqlite:///app.db"\n'
    strict = '[targets.b]\nurl = "sqlite:///app.db"\nreview = "required"\n'
    for job_id, text in (("job-1", loose + strict), ("job-2", strict + loose)):
        shell.write("endmark.toml", text)
        assert shell.run("apply", shell.plan(job_id), "--to", HERE, "--yes").code == 16
    assert not is_applied(shell)


def test_revert_follows_the_same_review(shell):
    configure(shell, 'review = "required"')
    shell.stage(down=["DROP TABLE invoices", "DELETE FROM invoices"])
    shell.run("approve", "job-1", "--yes")
    assert shell.run("revert", "job-1", "--yes").code == 16
    assert is_applied(shell)
    assert shell.run("approve", "job-1.revert", "--yes").code == 0
    assert not is_applied(shell)


@pytest.mark.parametrize("marker", MARKERS)
def test_an_agents_yes_approves_nothing(shell, marker):
    shell.setenv(**{marker: "1"})
    said = shell.apply()
    assert (said.code, said.object["state"]) == (16, "staged")
    assert marker in said.talk
    assert MAY_APPROVE in said.talk
    assert shell.run("approve", "job-1", "--yes").code == 16
    assert shell.run("approve", "job-1").code == 16
    assert not is_applied(shell)
    assert f"({marker})" in shell.entry("job-1").submitter
    shell.monkeypatch.delenv(marker)
    assert shell.run("approve", "job-1", "--yes").code == 0
    assert "self-approved" not in shell.entry("job-1").evidence  # a person approved what an agent submitted


def test_an_agent_may_not_revert_but_may_decline(shell):
    shell.apply(down=["DROP TABLE invoices", "DELETE FROM invoices"])
    shell.setenv(AI_AGENT="x")
    assert shell.run("revert", "job-1", "--yes").code == 16
    assert shell.run("decline", "job-1.revert").code == 1
    assert is_applied(shell)


def test_the_courtesy_can_be_switched_off(shell):
    shell.setenv(CLAUDECODE="1", **{MAY_APPROVE: "1"})
    assert shell.apply().code == 0


def test_markers():
    assert agent_marker({}) is None
    assert agent_marker({"CLAUDECODE": ""}) is None
    assert agent_marker({"CODEX_THREAD_ID": "t"}) == "CODEX_THREAD_ID"
    assert agent_marker({"CODEX_THREAD_ID": "t", MAY_APPROVE: "yes"}) == "CODEX_THREAD_ID"
    assert agent_marker({"CODEX_THREAD_ID": "t", MAY_APPROVE: "1"}) is None


# --- a person at a terminal


def test_a_person_says_yes(shell):
    statements = (*STATEMENTS, "DROP TABLE users")
    said = shell.terminal("apply", shell.plan("job-1", statements), "--to", HERE, answers=[(ASKED, b"y\n")])
    assert said.code == 0, said.text
    entry = shell.entry("job-1")
    for shown in (
        entry.sha256,
        entry.approved_fingerprint,
        "bare, stmt-count",
        "   1 | CREATE TABLE invoices",
        "     ! drops the table users and every row in it",
        "Apply job job-1 to sqlite:///",
        "applied: 3 statements",
    ):
        assert shown in said.text
    assert is_applied(shell)


def test_a_person_says_no(shell):
    said = shell.terminal("apply", shell.plan(), "--to", HERE, "--json", answers=[(ASKED, b"maybe\nn\n")])
    assert said.code == 1
    assert said.text.count("[y/n]") == 2
    assert '"state": "declined"' in said.text
    assert not is_applied(shell)


@pytest.mark.parametrize(("typed", "code"), [(b"\x03", 130), (b"\x04", 16)], ids=["Ctrl-C", "Ctrl-D"])
def test_a_person_goes_away(shell, typed, code):
    said = shell.terminal("apply", shell.plan(), "--to", HERE, answers=[(ASKED, typed)])
    assert said.code == code, said.text
    assert shell.entry("job-1").state == "staged"
    assert not is_applied(shell)
    assert shell.terminal("approve", "job-1", answers=[(ASKED, b"yes\n")]).code == 0
    assert is_applied(shell)


def test_what_was_typed_ahead_is_no_answer(shell):
    """The `y` comes while the plan is still on its way; only an answer to the question counts."""
    os.mkfifo(shell.folder / "plan")
    raw = (shell.folder / shell.plan()).read_bytes()
    script = f"echo ready; cat plan | {' '.join(PROGRAM)} apply - --to {HERE}"
    answers = [(b"ready", b"y\n", lambda: (shell.folder / "plan").write_bytes(raw)), (ASKED, b"n\n")]
    said = shell.on_terminal(["/bin/sh", "-c", script], answers)
    assert said.code == 1, said.text
    assert not is_applied(shell)


def test_the_question_comes_on_the_terminal_when_the_plan_is_piped(shell):
    shell.plan()
    script = f"cat job-1.json | {' '.join(PROGRAM)} apply - --to {HERE}"
    said = shell.on_terminal(["/bin/sh", "-c", script], [(ASKED, b"y\n")])
    assert said.code == 0, said.text
    assert is_applied(shell)


def test_a_delivery_that_is_known_is_not_asked_about(shell):
    shell.stage()
    said = shell.terminal("apply", "job-1.json", "--to", HERE)
    assert said.code == 16
    assert "[y/n]" not in said.text


def test_a_plan_typed_at_the_terminal(shell):
    raw = (shell.folder / shell.plan()).read_bytes()
    answers = [(b"until its end (Ctrl-D)", raw + b"\n\x04"), (ASKED, b"y\n")]
    assert shell.terminal("apply", "-", "--to", HERE, answers=answers).code == 0
    assert is_applied(shell)


def test_nobody_is_asked_who_closed_standard_input(shell):
    script = f"{' '.join(PROGRAM)} apply {shell.plan()} --to {HERE} < /dev/null"
    assert shell.on_terminal(["/bin/sh", "-c", script]).code == 16


def test_an_approval_is_void_once_the_schema_moved(shell):
    def move():
        query(shell.app, "CREATE TABLE moved (x)")

    said = shell.terminal("apply", shell.plan(), "--to", HERE, answers=[(ASKED, move, b"y\n")])
    assert said.code == 20
    assert "The approval is void" in said.text
    assert shell.entry("job-1").state == "staged"
    assert not is_applied(shell)


def test_ci_is_never_asked(shell):
    said = shell.terminal("apply", shell.plan(), "--to", HERE, env={"CI": "true"})
    assert said.code == 16
    assert "[y/n]" not in said.text


def test_a_large_plan_is_shown_in_part_and_says_so(shell):
    statements = [f"CREATE TABLE t{n} (x)" for n in range(500)] + ["DROP TABLE users"]
    said = shell.terminal("apply", shell.plan("job-1", statements), "--to", HERE, answers=[(ASKED, b"n\n")])
    assert "statements more, not shown here: 'endmark show job-1' shows them." in said.text
    assert "! drops the table users and every row in it" in said.text


def test_signals_still_raise_at_the_question(shell):
    with_child = shell.terminal("apply", shell.plan(), "--to", HERE, answers=[(ASKED, signal.SIGTERM)])
    assert with_child.code == 143
    assert shell.entry("job-1").state == "staged"


# --- approved now, applied later


def test_an_approval_waits_and_is_used_by_the_next_approve(shell):
    shell.stage()
    said = shell.run("approve", "job-1", "--later", "--yes", "--json")
    assert (said.code, said.object["state"]) == (16, "approved")
    assert not is_applied(shell)
    again = shell.run("approve", "job-1", "--later", "--yes", "--json")
    assert (again.code, again.object["state"]) == (16, "approved")
    assert "approved already" in again.talk
    assert not is_applied(shell)
    shell.setenv(CLAUDECODE="1")  # a person has approved it: whoever comes now may be a worker
    assert shell.run("approve", "job-1").code == 0
    assert is_applied(shell)
    assert "CLAUDECODE" not in shell.entry("job-1").approver


def test_an_agent_cannot_approve_for_later_either(shell):
    shell.stage()
    shell.setenv(CLAUDECODE="1")
    assert shell.run("approve", "job-1", "--later", "--yes").code == 16
    assert shell.entry("job-1").state == "staged"


@pytest.mark.parametrize("answer", [b"y\n", b"n\n"])
def test_a_person_is_asked_whether_to_approve(shell, answer):
    shell.stage()
    said = shell.terminal("approve", "job-1", "--later", answers=[(ASKED, answer)])
    assert "Approve job job-1 for " in said.text
    assert "CREATE TABLE invoices" in said.text
    yes = answer == b"y\n"
    assert (said.code, shell.entry("job-1").state) == ((16, "approved") if yes else (1, "declined"))
    assert not is_applied(shell)


def _move(shell):
    query(shell.app, "CREATE TABLE moved (x)")


def _let_time_pass(shell):
    shell.monkeypatch.setattr("endmark.faces.api.now", lambda: datetime.now(UTC) + timedelta(seconds=61))


@pytest.mark.parametrize(("happens", "why"), [(_move, "schema changed"), (_let_time_pass, "expired")])
def test_an_approval_that_does_not_hold_any_more_applies_nothing(shell, happens, why):
    configure(shell, 'review = "required"\napproval_expires = "1m"')
    shell.run("apply", shell.plan(), "--to", "prod")
    shell.run("approve", "job-1", "--later", "--yes")
    happens(shell)
    said = shell.run("approve", "job-1", "--yes", "--json")
    assert (said.code, said.object["state"]) == (16, "staged")
    assert said.object["detail"].startswith("The approval is void: ")
    assert why in said.object["detail"]
    assert not is_applied(shell)
    assert shell.run("approve", "job-1", "--yes").code == 0
    assert is_applied(shell)


def test_an_approval_is_taken_back(shell):
    shell.stage()
    shell.run("approve", "job-1", "--later", "--yes")
    assert shell.run("decline", "job-1", "--reason", "thought again").code == 1
    assert shell.entry("job-1").state == "declined"
    assert shell.run("approve", "job-1", "--yes").code == 1
    assert not is_applied(shell)
    assert shell.run("ledger", "verify").code == 0


# --- the same statements in two places


def _two_places(shell):
    (shell.folder / "prod.db").write_bytes(shell.app.read_bytes())
    shell.write("endmark.toml", f'[targets.staging]\nurl = "{HERE}"\n[targets.prod]\nurl = "sqlite:///prod.db"\n')

    def applied():
        looks = "SELECT count(*) FROM sqlite_schema WHERE name = 'invoices'"
        return [query(path, looks) for path in (shell.app, shell.folder / "prod.db")] == [[(1,)], [(1,)]]

    return applied


def test_from_staging_to_production_with_a_ledger_each(shell):
    applied = _two_places(shell)
    plan = shell.plan("billing-7")
    for target in ("staging", "prod"):
        assert shell.run("apply", plan, "--to", target, "--ledger", f"{target}.book").code == 0
    assert applied()


def test_from_staging_to_production_in_one_ledger(shell):
    applied = _two_places(shell)
    assert shell.run("apply", shell.plan("billing-7.staging"), "--to", "staging").code == 0
    second = shell.run("apply", shell.plan("billing-7.staging"), "--to", "prod", "--json")
    assert (second.code, second.object["signal"]) == (12, "id-reused")
    assert "another target" in second.object["detail"]
    assert not applied()
    assert shell.run("apply", shell.plan("billing-7"), "--to", "prod").code == 0
    assert applied()
    assert shell.entry("billing-7").sha256 == shell.entry("billing-7.staging").sha256
