"""`endmark rehearse` and `endmark restore`, and what endmark.toml says about both."""

import pytest
from tests.faces.shell import HERE, STATEMENTS
from tests.support.world import dump, files, plan_bytes, witness_bytes

from endmark.core.states import State

DOWN = ("DROP TABLE invoices", "SELECT 1")
ALWAYS = '[targets.app]\nurl = "sqlite:///app.db"\nrehearse = "always"\n'
REVIEWED = ALWAYS + 'review = "required"\n'
ASKED = b"[y/n]"
EVIL = 'CREATE TABLE "x\x1b[2J\u202e" (a)'


def rehearse(shell, file, *flags, to=HERE):
    return shell.run("rehearse", file, "--to", to, *flags)


def test_it_shows_what_a_plan_does_and_spends_nothing(shell):
    before = files(shell.app)
    plan = shell.plan(statements=("CREATE TABLE invoices (id INTEGER)", "DELETE FROM users"), down=DOWN)
    said = rehearse(shell, plan)
    assert said.code == 0
    for part in ("+ table invoices", "users: about 2 rows", "2 rows", "before", "undone", "nothing was written"):
        assert part in said.text
    assert files(shell.app) == before
    assert not (shell.folder / "ledger.db").exists()
    found = rehearse(shell, plan, "--json").object
    assert (found["state"], found["exit_code"], found["job_id"]) == ("rehearsed", 0, "job-1")
    assert found["rehearsal"]["after_downs"] == found["rehearsal"]["before"]
    assert shell.run("apply", plan, "--to", HERE, "--yes").code == 0
    held = rehearse(shell, plan, "--json")
    assert (held.code, held.object["signal"]) == (12, "id-reused")


def test_it_takes_what_check_takes_and_refuses_what_check_refuses(shell):
    assert rehearse(shell, shell.write("w.json", witness_bytes("w1", STATEMENTS))).code == 0
    raw = plan_bytes("j1", STATEMENTS)
    for body, code in ((raw[:-30], 10), (raw.replace(b"invoices", b"invoicez"), 11), (raw + b"{}", 12), (b"", 10)):
        said = rehearse(shell, shell.write("bad.json", body), "--json")
        assert (said.code, said.object["exit_code"]) == (code, code)
    assert rehearse(shell, shell.plan("j2", base="0" * 64)).code == 14
    assert rehearse(shell, shell.plan("j3"), to="sqlite:///missing.db").code == 20
    assert rehearse(shell, shell.plan("j3"), to="nobody").code == 2
    assert rehearse(shell, "missing.json").code == 2


def test_an_error_is_named_with_its_number(shell):
    before = dump(shell.app)
    statements = [*("SELECT 1",) * 6, "INSERT INTO nowhere VALUES (1)"]
    said = rehearse(shell, shell.plan(statements=statements), "--json")
    assert (said.code, said.object["signal"], said.object["statement"]) == (1, "sql-error", 7)
    assert said.object["state"] == "failed"
    text = rehearse(shell, shell.plan(statements=statements)).text
    assert "Found in rehearsal: statement 7" in text
    assert dump(shell.app) == before


def test_no_name_in_a_schema_drives_the_terminal(shell):
    said = rehearse(shell, shell.plan(statements=(EVIL,)))
    assert said.code == 0
    assert b"\x1b" not in said.out
    assert "\u202e" not in said.text
    assert "\\x1b[2J" in said.text
    shell.write("endmark.toml", REVIEWED)
    assert shell.run("apply", shell.plan("j2", statements=(EVIL,)), "--to", "app").code == 16
    shown = shell.run("show", "j2")
    assert b"\x1b" not in shown.out
    assert "\\x1b[2J" in shown.text


def test_a_target_is_rehearsed_before_every_apply(shell):
    shell.write("endmark.toml", ALWAYS)
    before = dump(shell.app)
    bad = shell.run("apply", shell.plan("j1", ("SELECT 1", "SELECT nothing")), "--to", "app", "--json")
    assert (bad.code, bad.object["state"], bad.object["signal"]) == (1, "declined", "sql-error")
    assert bad.object["next"] == "resend-new-job-id"
    assert dump(shell.app) == before
    good = shell.run("apply", shell.plan("j2"), "--to", "app", "--json")
    assert (good.code, "rehearsed" in good.object["evidence"]) == (0, True)
    assert shell.run("ledger", "verify").code == 0


def test_a_reviewer_sees_what_the_rehearsal_found(shell):
    shell.write("endmark.toml", REVIEWED)
    plan = shell.plan("j1", down=DOWN)
    assert shell.run("apply", plan, "--to", "app").code == 16
    shown = shell.run("show", "j1")
    assert "+ table invoices" in shown.text
    assert shell.run("show", "j1", "--json").object["rehearsal"]["how"] == "a copy"
    asked = shell.terminal("approve", "j1", answers=[(ASKED, b"yes\n")])
    assert asked.code == 0
    assert "+ table invoices" in asked.text
    bad = shell.run("apply", shell.plan("j2", ("SELECT nothing",)), "--to", "app", "--json")
    assert (bad.code, bad.object["state"]) == (1, "declined")  # no person is asked about it


def test_another_approver(shell):
    shell.write("endmark.toml", REVIEWED + 'approver = "other"\n')
    assert shell.run("apply", shell.plan("j1"), "--to", "app").code == 16
    before = dump(shell.app)
    said = shell.run("approve", "j1", "--yes")
    assert said.code == 16
    assert "another approver" in said.talk
    assert dump(shell.app) == before
    assert shell.entry("j1").state is State.STAGED


def test_a_target_that_wants_downs(shell):
    shell.write("endmark.toml", ALWAYS + 'down = "required"\n')
    assert shell.run("apply", shell.plan("j1"), "--to", "app").code == 12
    assert rehearse(shell, shell.plan("j2"), to="app").code == 12
    assert shell.run("apply", shell.plan("j3", down=DOWN), "--to", "app").code == 0


WRONG = {
    'rehearse = "sometimes"': "rehearse",
    'approver = "other"': "needs a review",
    'down = "always"': "down",
    'approval_expires = "soon"': "30m, 24h or 7d",
    'approval_expires = "0h"': "30m, 24h or 7d",
    'backup = ["pg_dump"]': "endmark copies a SQLite file itself",
    "backup = []": "program first",
    "backup_timeout = 0": "backup_timeout",
    'rehearse_in = "postgresql://h/d"': "only PostgreSQL",
}


@pytest.mark.parametrize(("line", "part"), WRONG.items())
def test_what_endmark_toml_may_not_say(shell, line, part):
    shell.write("endmark.toml", f'[targets.app]\nurl = "sqlite:///app.db"\n{line}\n')
    said = shell.run("rehearse", shell.plan(), "--to", "app")
    assert said.code == 2
    assert part in said.talk


def test_a_word_of_a_command_cannot_be_a_job(shell):
    for word in ("{job}", "{attempt}.sql"):
        shell.write("endmark.toml", f'[targets.pg]\nurl = "postgresql://h/d"\nbackup = ["pg_dump", "{word}"]\n')
        said = shell.run("rehearse", shell.plan(), "--to", "pg")
        assert (said.code, "cannot begin with" in said.talk) == (2, True)


# --- restore


def test_restore_puts_the_backup_back(shell):
    before = dump(shell.app)
    assert shell.apply("j1", ("DELETE FROM users",)).code == 0
    assert shell.apply("j2", ("CREATE TABLE b (x)",)).code == 0
    late = shell.run("restore", "j1", "--yes", "--json")
    assert (late.code, "j2" in late.object["detail"]) == (20, True)
    assert dump(shell.app) != before
    said = shell.run("restore", "j1", "--later-jobs-too", "j2", "--yes", "--json")
    assert (said.code, said.object["exit_code"]) == (0, 0)
    assert "reverted-by:restore" in said.object["evidence"]
    assert dump(shell.app) == before
    for job in ("j1", "j2"):
        shown = shell.run("show", job)
        assert "restored" in shown.text
        assert "its effect does not stand" in shown.text
    assert shell.run("ledger", "verify").code == 0


def test_restore_asks_like_approve(shell):
    assert shell.apply("j1", ("DELETE FROM users",)).code == 0
    after = dump(shell.app)
    assert shell.run("restore", "j1").code == 20  # nobody to ask
    shell.setenv(CLAUDECODE="1")
    assert shell.run("restore", "j1", "--yes").code == 20
    shell.setenv(CLAUDECODE="")
    asked = shell.terminal("restore", "j1", answers=[(ASKED, b"no\n")])
    assert (asked.code, "sha256" in asked.text) == (1, True)
    assert dump(shell.app) == after
    assert shell.terminal("restore", "j1", answers=[(ASKED, b"yes\n")]).code == 0
    assert dump(shell.app) != after


def test_restore_of_nothing(shell):
    shell.stage("j0")
    assert shell.run("restore", "j0", "--yes").code == 20
    assert shell.run("restore", "nobody", "--yes").code == 20
    assert shell.apply("j1", STATEMENTS, "--no-backup").code == 0
    said = shell.run("restore", "j1", "--yes")
    assert (said.code, "no backup of job j1" in said.talk) == (20, True)
