"""`trusted_keys` of endmark.toml: whose signatures `check` and `apply` believe, and what a signed target takes."""

import pytest
from tests.faces.shell import HERE, STATEMENTS
from tests.support.world import dump, plan_bytes

import endmark
from endmark.faces.config import load, trusted_keys
from endmark.sources import keys


@pytest.fixture
def made(shell):
    """Two keys in a folder beside the database; the first signed plan `job_1`, the second `job_2`, nobody `job_0`."""
    (shell.folder / "keys").mkdir()
    for number in (1, 2):
        private, _, _ = keys.new(shell.folder / "keys" / f"{number}.key")
        plan = endmark.seal(plan_bytes(f"job_{number}", list(STATEMENTS)))
        (shell.folder / f"{number}.signed").write_bytes(endmark.sign(plan, private))
    (shell.folder / "0.mc1").write_bytes(endmark.seal(plan_bytes("job_0", list(STATEMENTS))))
    return shell


def configured(shell, *names, more=""):
    shell.write("endmark.toml", f"trusted_keys = {list(names)!r}\n{more}")


def test_the_paths_are_seen_from_the_folder_of_the_file(tmp_path):
    (tmp_path / "endmark.toml").write_text('trusted_keys = ["keys/a.pub", "/etc/b.pub"]\n')
    file = str(tmp_path / "endmark.toml")
    found = tuple(map(str, trusted_keys(file, {}) or ()))
    assert found == (str(tmp_path / "keys/a.pub"), "/etc/b.pub")
    assert load(None, file, {}).trusted_keys == trusted_keys(None, {"ENDMARK_CONFIG": file})
    (tmp_path / "endmark.toml").write_text("")
    assert trusted_keys(file, {}) is None


def test_check_believes_whom_the_configuration_trusts(made):
    assert made.run("check", "1.signed").code == 13  # nobody is trusted
    assert made.run("check", "0.mc1").code == 0
    configured(made, "keys/1.key.pub")
    assert made.run("check", "1.signed").code == 0
    assert made.run("check", "2.signed").code == 13
    assert made.run("check", "0.mc1").code == 13  # as with the flag: what nobody signed is not enough
    configured(made, "keys/1.key.pub", "keys/2.key.pub")
    assert made.run("check", "1.signed").code == made.run("check", "2.signed").code == 0


def test_the_flag_counts_more_than_the_file_and_another_file_may_be_named(made):
    configured(made, "keys/1.key.pub")
    assert made.run("check", "2.signed", "--trusted-keys", "keys/2.key.pub").code == 0
    assert made.run("check", "1.signed", "--trusted-keys", "keys/2.key.pub").code == 13
    made.write("other.toml", "trusted_keys = ['keys/2.key.pub']")
    assert made.run("check", "2.signed", "--config", "other.toml").code == 0
    made.setenv(ENDMARK_CONFIG="other.toml")
    assert made.run("check", "1.signed").code == 13


def test_a_signed_target_takes_signed_plans_only(made):
    before = dump(made.folder / "app.db")
    more = f"[targets.prod]\nurl = {HERE!r}\nmin_evidence = 'signed'\n"
    configured(made, "keys/1.key.pub", more=more)
    for file in ("0.mc1", "2.signed"):
        assert made.run("apply", file, "--to", "prod").code == 13
        assert dump(made.folder / "app.db") == before
    said = made.run("apply", "1.signed", "--to", "prod", "--json")
    assert (said.code, said.object["state"]) == (0, "applied")
    assert said.object["evidence"][0] == "signed"


def test_beside_it_another_target_goes_on_taking_what_nobody_signed(made):
    configured(made, "keys/1.key.pub")
    assert made.run("apply", "0.mc1", "--to", HERE, "--yes").code == 0


@pytest.mark.parametrize("command", [("check", "1.signed"), ("apply", "1.signed", "--to", HERE, "--yes")])
def test_a_file_of_keys_that_cannot_be_used_is_said_and_nothing_done(made, command):
    before = dump(made.folder / "app.db")
    configured(made, "keys/1.key.pub", "keys/none.pub")
    said = made.run(*command)
    assert (said.code, said.out) == (20, b"")
    assert "none.pub could not be read" in said.talk
    assert dump(made.folder / "app.db") == before
    made.write("keys/none.pub", "no key")
    assert made.run(*command).code == 20
    configured(made, "keys/1.key.pub")
    (made.folder / "keys" / "1.key.pub").chmod(0o666)
    assert made.run(*command).code == 20


def test_what_delivers_nothing_needs_no_keys(made):
    configured(made, "keys/1.key.pub")
    assert made.run("apply", "1.signed", "--to", HERE).code == 16
    configured(made, "keys/none.pub")
    assert made.run("jobs").code == 0
    assert made.run("decline", "job_1").code == 1
