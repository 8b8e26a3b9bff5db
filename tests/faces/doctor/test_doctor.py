"""Each fault is found, said with what to do, and left as it is."""

import os
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from endmark.faces.doctor import books
from endmark.ledger.schema import MIGRATIONS
from endmark.sources import keys

CONFIG = """
[ledger]
url = "sqlite:///ledger.db"
[targets.prod]
url = "sqlite:///app.db"
review = "required"
"""


@pytest.fixture
def doctor(shell, tmp_path):
    """doctor(): the findings that are not well, by family and what; the files stay as they are."""
    shell.write("endmark.toml", CONFIG)
    shell.stage("first")
    assert shell.run("approve", "first", "--yes").code == 0

    def doctor(code, *flags):
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        said = shell.run("doctor", "--json", *flags)
        after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert after == before
        assert said.code == said.object["exit_code"] == code, said
        found = [one for one in said.object["findings"] if one["level"] != "well"]
        assert all(one["do"] for one in found)
        return {(one["family"], one["what"]): f"{one['says']}. {one['do']}" for one in found}

    look: Any = doctor
    look.shell = shell
    return look


def test_all_is_well(doctor):
    assert doctor(0) == {}
    said = doctor.shell.run("doctor")
    assert said.text.rstrip().rpartition("\n")[2].startswith("All is well: ")


def test_a_fresh_installation_is_well(shell, monkeypatch):
    monkeypatch.delenv("ENDMARK_LEDGER")
    assert shell.run("doctor").code == 0
    assert not (shell.folder / "ledger.db").exists()


def test_the_ledger(doctor, monkeypatch):
    ledger = doctor.shell.folder / "ledger.db"
    ledger.chmod(0o644)
    assert doctor(1)["ledger", "permissions"].endswith(f"chmod 600 {ledger.name}")
    ledger.chmod(0o600)
    with monkeypatch.context() as patch:
        patch.setattr(books, "LOW_BYTES", 1 << 62)
        assert ("ledger", "free disk") in doctor(1)
    doctor.shell.setenv(ENDMARK_LEDGER="none.db")
    assert "endmark ledger init" in doctor(1)["ledger", "file"]
    doctor.shell.write("none.db", b"no ledger, but long enough to be looked at" * 100)
    (doctor.shell.folder / "none.db").chmod(0o600)
    assert ("ledger", "opens") in doctor(20)


def test_an_older_ledger_is_told_and_not_opened(doctor):
    path = doctor.shell.folder / "ledger.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version={MIGRATIONS[-1][0] - 1:d}")
    assert "copy the file" in doctor(1)["ledger", "version"]


def test_a_checkpoint_that_does_not_fit(doctor):
    path = doctor.shell.folder / "ledger.db"
    with doctor.shell.book() as book:
        from endmark.faces.api import now

        book.checkpoint(now())
    assert doctor(0) == {}
    with closing(sqlite3.connect(path)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE events SET hash = zeroblob(32) WHERE id = 1")
        connection.commit()
    assert "does not fit the events" in doctor(1)["ledger", "newest checkpoint"]


def test_jobs_that_nothing_moves(doctor, monkeypatch):
    from endmark.core.states import State
    from endmark.faces.api import now

    doctor.shell.stage("stuck")
    with doctor.shell.book() as book:
        entry = book.find("stuck")
        book.move(entry.attempt_id, State.STAGED, State.APPROVED, now(), approver="ann", approved_fingerprint="0" * 64)
    assert doctor(0) == {}
    doctor.shell.write("endmark.toml", CONFIG + 'approval_expires = "1s"\n')
    monkeypatch.setattr("endmark.faces.doctor.jobs.now", lambda: now().replace(year=now().year + 1))
    assert "expired" in doctor(1)["jobs", "stuck"]
    with doctor.shell.book() as book:
        book.move(entry.attempt_id, State.APPROVED, State.APPLYING, now())
    assert "endmark reconcile" in doctor(1)["jobs", "stuck"]


def test_targets(doctor):
    with closing(sqlite3.connect(doctor.shell.app, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert ("targets", "prod: lock") in doctor(1)
    doctor.shell.write(
        "endmark.toml", CONFIG + '[targets.gone]\nurl = "env:NO_SUCH_URL"\n[targets.none]\nurl = "sqlite:///none.db"\n'
    )
    found = doctor(20)
    assert "NO_SUCH_URL is not set" in found["targets", "gone"]
    assert ("targets", "none") in found
    assert not (doctor.shell.folder / "none.db").exists()
    with closing(sqlite3.connect(doctor.shell.app)) as other:
        other.execute("DROP TABLE schema_jobs")
        other.execute("CREATE TABLE schema_jobs (job_id TEXT, stmt_count INTEGER, sha256 TEXT, status TEXT)")
    doctor.shell.write("endmark.toml", CONFIG)
    assert ("targets", "prod: receipts") in doctor(1)


def test_the_configuration(doctor):
    weak = '[targets.open]\nurl = "sqlite:///app.db"\n[mcp]\ntarget = "open"\nimmediate = ["open"]\n'
    doctor.shell.write("endmark.toml", CONFIG + weak + '[branches.main]\npolicy = "v1"\nreviewers = []\n')
    found = doctor(1)
    assert {("configuration", "targets.open"), ("configuration", "mcp.immediate open")} <= set(found)
    assert any("endmark policy check" in said for said in found.values())


PASSWORDS = {
    "before the host": "postgresql://app:hunter2@127.0.0.1:1/app",
    "as ?password=": "postgresql://app@127.0.0.1:1/app?password=hunter2",
    "as ?sslpassword=": "postgresql://app@127.0.0.1:1/app?sslpassword=hunter2",
    "as ?pass%77ord=": "postgresql://app@127.0.0.1:1/app?pass%77ord=hunter2",
    "for a server of MariaDB": "mariadb://app:hunter2@127.0.0.1:1/app",
}


@pytest.mark.parametrize("name", PASSWORDS)
@pytest.mark.parametrize("key", ["targets.far.url", "ledger.url"])
def test_a_password_in_the_file_is_told_and_never_repeated(shell, monkeypatch, name, key):
    url = PASSWORDS[name]
    if key == "ledger.url":
        if url.startswith("mariadb:"):
            return
        monkeypatch.delenv("ENDMARK_LEDGER")
    shell.write("endmark.toml", f'[{key.removesuffix(".url")}]\nurl = "{url}"\n')
    said = shell.run("doctor", "--json")
    assert b"hunter2" not in said.out + said.err
    held = [one for one in said.object["findings"] if one["what"] == key]
    assert [(one["family"], one["level"]) for one in held] == [("configuration", "todo")]
    assert held[0]["says"].startswith("a password stands in the file, ")
    assert 'url = "env:NAME"' in held[0]["do"]
    assert b"hunter2" not in b"".join(shell.run("doctor")[1:])
    shell.setenv(FAR=url, ENDMARK_LEDGER="ledger.db")
    shell.write("endmark.toml", '[targets.far]\nurl = "env:FAR"\n')
    again = shell.run("doctor", "--json")
    assert b"hunter2" not in again.out + again.err
    assert [one for one in again.object["findings"] if "password" in one["says"]] == []


def test_keys(doctor):
    folder = doctor.shell.folder
    private, public, _ = keys.new(folder / "gate.key")
    doctor.shell.write("endmark.toml", 'trusted_keys = ["gate.key.pub"]\n' + CONFIG + '[merge]\nkey = "gate.key"\n')
    assert doctor(0) == {}
    os.chmod(private, 0o644)
    os.chmod(public, 0o666)
    assert set(doctor(1)) == {("keys", str(public)), ("keys", "merge key")}


def test_hooks(doctor):
    from tests.gates.patches.world import build

    build(doctor.shell.folder / "repo.git")
    found = doctor(1, "--repo", "repo.git")
    assert "endmark hook git install" in next(iter(found.values()))
    assert ("hooks", "nowhere") in doctor(20, "--repo", "nowhere")


def test_extras_that_are_needed(doctor, monkeypatch):
    from endmark.faces.doctor import versions

    monkeypatch.setattr(versions, "_version", lambda package: None if package == "psycopg" else "1")
    doctor.shell.write("endmark.toml", CONFIG + '[targets.big]\nurl = "postgresql://a@127.0.0.1:1/b"\n')
    assert "pip install 'endmark[postgres]'" in doctor(20)["versions", "postgres"]
    monkeypatch.setattr(versions, "_SQLITE", (99, 0))
    assert ("versions", "SQLite") in doctor(20)
