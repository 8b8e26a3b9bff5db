"""The command line at a MariaDB target."""

import pytest
from tests.effects.mariadb.plans import DOWNS, ELEVEN
from tests.faces.shell import Shell
from tests.support.mariadb import dump, needed, query, url_of
from tests.support.world import plan_bytes

from endmark.core.states import State
from endmark.faces.api import Gate, now
from endmark.faces.review import MARKERS, MAY_APPROVE
from endmark.ledger.book import Ledger

ROW = "INSERT INTO users VALUES (3, 'cid')"


@pytest.fixture
def shell(tmp_path, monkeypatch, capfdbinary, name):
    needed()
    for variable in (*MARKERS, MAY_APPROVE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENDMARK_LEDGER", "ledger.db")
    monkeypatch.setenv("SHOP_URL", url_of(name))
    (tmp_path / "endmark.toml").write_text('[targets.shop]\nurl = "env:SHOP_URL"\n')
    return Shell(tmp_path, monkeypatch, capfdbinary)


def apply(shell, job_id, statements, *flags, **more):
    shell.write("plan.json", plan_bytes(job_id, statements, **more))
    return shell.run("apply", "plan.json", "--to", "shop", "--json", *flags)


def test_apply_show_and_revert(shell, name):
    before = dump(name)
    said = apply(shell, "j1", ELEVEN[:3], "--backup", "backups", down=list(DOWNS[:3]))
    assert (said.code, said.object["state"]) == (0, "applied")
    assert said.object["target"] == f"mariadb://127.0.0.1:3306/{name}" or "unix_socket" in said.object["target"]
    backup = shell.folder / "backups" / f"j1-{said.object['attempt_id']}.db"
    assert b"-- Dump completed" in backup.read_bytes()
    assert "journal" in shell.run("show", "j1").text
    assert shell.run("revert", "j1", "--yes").code == 0
    assert dump(name) == before


def test_a_cut_plan(shell, name):
    shell.write("cut.json", plan_bytes("j1", ELEVEN)[:500])
    before = dump(name, ours=True)
    said = shell.run("apply", "cut.json", "--to", "shop", "--json")
    assert (said.code, said.object["received_bytes"]) == (10, 500)
    assert dump(name, ours=True) == before


def test_partial_and_settle(shell, name):
    shell.write("plan.json", plan_bytes("j1", ELEVEN[:3], down=list(DOWNS[:3])))
    meddle = lambda done, _total: query(name, "ALTER TABLE users ADD x INT") if done == 1 else None  # noqa: E731
    with Gate("ledger.db", progress=meddle) as gate:
        outcome = gate.apply((shell.folder / "plan.json").read_bytes(), url_of(name))
    assert (outcome.state, outcome.exit_code) == ("partial", 15)
    blocked = apply(shell, "j2", [ROW], "--no-backup")
    assert (blocked.code, blocked.object["state"]) == (20, "not-tried")
    assert "endmark settle" in blocked.object["detail"]
    said = shell.run("settle", "j1", "--reason", "looked at it", "--yes", "--json")
    assert (said.code, said.object["state"]) == (1, "settled")
    assert "looked at it" in shell.run("show", "j1").text
    assert apply(shell, "j2", ["INSERT INTO users (id) VALUES (9)"], "--no-backup").code == 0


def test_what_a_crash_left_is_settled_once_the_target_is_named(shell, name):
    """The record names the place alone; who may enter it is known from the configuration, or from the URL typed."""
    assert apply(shell, "j1", [ROW], "--no-backup").code == 0
    shell.write("plan.json", plan_bytes("j2", ["INSERT INTO users VALUES (4, 'dan')"]))
    with Gate("ledger.db") as gate:
        job = gate.submit((shell.folder / "plan.json").read_bytes(), target=url_of(name))
    with Ledger.open(shell.folder / "ledger.db", create=False) as ledger:
        ledger.move(job.outcome.attempt_id or "", State.STAGED, (State.APPROVED, State.APPLYING), now(), approver="ann")
    said = apply(shell, "j3", ["SELECT 1"], "--no-backup")
    assert said.code == 0
    assert "econciled job j2" in said.talk
    assert "failed" in shell.run("jobs", "--state", "failed").text


def test_a_url_with_a_password_shows_nowhere(shell, name):
    shell.write("plan.json", plan_bytes("j1", [ROW]))
    url = url_of(name).replace("root:", "root:hidden-word")
    for said in (
        shell.run("apply", "plan.json", "--to", url, "--yes", "--no-backup"),
        shell.run("apply", "plan.json", "--to", url + "?nonsense=1", "--yes", "--json"),
        shell.run("show", "j1"),
        shell.run("fingerprint", url),
    ):
        assert b"hidden-word" not in said.out + said.err


ADDS = ["ALTER TABLE users ADD a INT", "ALTER TABLE users ADD KEY by_a (a)"]
DROPS = ["ALTER TABLE users DROP a", "ALTER TABLE users DROP KEY by_a"]
ONE = "ALTER TABLE users ADD a INT, ADD KEY by_a (a)"


def test_alters_of_one_table_are_offered_as_one_and_merged_only_when_asked(shell, name):
    (shell.folder / "endmark.toml").write_text('[targets.shop]\nurl = "env:SHOP_URL"\nrehearse = "always"\n')
    raw = plan_bytes("j1", ADDS, down=DROPS)
    shell.write("plan.json", raw)
    before = dump(name, ours=True)
    said = shell.run("rehearse", "plan.json", "--to", "shop").text
    assert "statements 1 and 2 alter one table; as one statement they would be atomic:" in said
    assert ONE in said
    merged = shell.run("merge-alters", "plan.json", "--to", "shop", "--job", "j2")
    assert merged.code == 0
    assert ONE in merged.talk
    assert dump(name, ours=True) == before
    assert (shell.folder / "plan.json").read_bytes() == raw
    shell.write("merged.mc1", merged.out)
    assert shell.run("apply", "merged.mc1", "--to", "shop", "--no-backup", "--yes").code == 0
    assert shell.run("revert", "j2", "--no-backup", "--yes").code == 0
    assert apply(shell, "j3", ADDS, "--no-backup", down=DROPS).object["statements_run"] == 2
    assert "as one statement they would be atomic" in shell.run("show", "j3").text


def test_nothing_is_written_out_where_nothing_can_be_merged(shell):
    shell.write("plan.json", plan_bytes("j1", [ADDS[0], f"{ADDS[1]} -- why"]))
    said = shell.run("merge-alters", "plan.json", "--to", "shop", "--job", "j2")
    assert (said.code, said.out) == (1, b"")
    assert "statement 2 holds a comment" in said.talk
    cut = shell.write("cut.json", plan_bytes("j1", ADDS)[:-3])
    assert shell.run("merge-alters", cut, "--to", "shop", "--job", "j2").code == 10
    assert shell.run("merge-alters", "plan.json", "--to", "shop", "--job", "j1").code == 12
    assert shell.run("merge-alters", "plan.json", "--to", "sqlite:///none.db", "--job", "j2").code == 20
