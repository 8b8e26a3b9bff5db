"""Files, targets and ledgers that are not what they should be: the right exit code, one sentence, nothing written."""

import os
import sqlite3
import threading
from contextlib import closing

import pytest
from tests.faces.shell import HERE, STATEMENTS
from tests.support.faults import as_user, locked, open_folder
from tests.support.world import make_database, plan_bytes

from endmark.core import mc1

CAP = mc1.DEFAULT_CAP
VERBS = [("check",), ("seal",), ("apply", "--to", HERE, "--yes")]
IDS = [verb[0] for verb in VERBS]


def one_sentence(text):
    """Only one line, which says what is wrong, and no traceback."""
    assert text.count("\n") == 1
    assert text.endswith(".\n")
    assert "Traceback" not in text
    return text


# --- the input


@pytest.mark.parametrize("verb", VERBS, ids=IDS)
@pytest.mark.parametrize(
    ("file", "why"), [(".", "it is a folder"), ("missing", "No such file"), ("a\0b", "null"), ("dir/x", "No such")]
)
def test_a_file_that_cannot_be_read(shell, verb, file, why):
    before = shell.dump()
    said = shell.run(*verb, file)
    assert said.code == 2
    assert why in one_sentence(said.talk)
    assert said.out == b""
    assert shell.dump() == before
    assert not (shell.folder / "ledger.db").exists()


@pytest.mark.parametrize("verb", [VERBS[0], VERBS[2]], ids=["check", "apply"])
def test_that_too_is_one_object(shell, verb):
    said = shell.run(*verb, "missing", "--json")
    assert (said.code, said.object["state"], said.object["signal"], said.object["exit_code"]) == (
        2,
        "not-tried",
        "usage",
        2,
    )
    assert said.err == b""


@pytest.fixture
def outside(shell):
    """The same in a folder that every user may reach, to see what an ordinary user may not do there."""
    with open_folder() as folder:
        make_database(folder / "app.db")
        shell.run("ledger", "init", "--ledger", folder / "ledger.db")
        shell.setenv(ENDMARK_LEDGER=str(folder / "ledger.db"))
        shell.monkeypatch.chdir(folder)
        for path in folder.iterdir():
            path.chmod(0o666)
        yield folder


def test_a_file_without_permission(shell, outside):
    (outside / "plan.json").touch(0)
    with as_user():
        said = shell.run("check", outside / "plan.json")
    assert said.code == 2
    assert "Permission denied" in one_sentence(said.talk)


@pytest.mark.parametrize("verb", VERBS, ids=IDS)
def test_ten_gigabytes_are_refused_without_reading_them(shell, verb):
    with (shell.folder / "huge").open("wb") as huge:
        huge.truncate(10 * 1024**3)
    said = shell.run(*verb, "huge", *(() if verb[0] == "seal" else ("--json",)))
    assert said.code == 12
    if verb[0] != "seal":
        assert said.object["signal"] == "over-cap"
        assert CAP < said.object["received_bytes"] < CAP + 200


def test_a_header_that_declares_too_much(shell):
    said = shell.run("check", "-", "--json", stdin=b"MC1 9999999999 " + b"0" * 64 + b"\n{}")
    assert (said.code, said.object["signal"]) == (12, "over-cap")


def test_nothing(shell):
    said = shell.run("apply", shell.write("empty", b""), "--to", HERE, "--yes", "--json")
    assert (said.code, said.object["signal"], said.object["received_bytes"]) == (10, "empty", 0)


def test_standard_input_that_is_closed(shell):
    said = shell.script('exec "$@" <&-', "check", "-")
    assert said.code == 2
    assert "standard input" in one_sentence(said.talk)


@pytest.mark.parametrize("name", ["fifo", "/dev/stdin"])
def test_what_can_only_be_read_once(shell, name):
    raw = plan_bytes("job-1", STATEMENTS)
    if name == "fifo":
        os.mkfifo(shell.folder / name)
        threading.Thread(target=(shell.folder / name).write_bytes, args=(raw,)).start()
        raw = b""
    assert shell.program("apply", name, "--to", HERE, "--yes", stdin=raw).code == 0


def test_a_name_that_is_no_text(shell):
    said = shell.run("check", os.fsdecode(b"\xff\x1b[31m"))
    assert said.code == 2
    assert "\\x1b[31m" in one_sentence(said.talk)


@pytest.mark.parametrize(
    "line", [("show", "\udcff"), ("decline", "x", "--reason", "\udcff"), ("jobs", "--ledger", "\udcff")]
)
def test_an_argument_that_is_no_text(shell, line):
    said = shell.run(*line)
    assert said.code == 2
    assert "\\udcff is not UTF-8." in one_sentence(said.talk)


# --- the target


def not_tried(shell, *arguments):
    said = shell.run("apply", shell.plan(), *arguments, "--yes", "--json", "--lock-timeout", "0")
    assert (said.code, said.object["state"], said.object["next"]) == (20, "not-tried", "wait")
    assert said.object["detail"].endswith(".")
    if (shell.folder / "ledger.db").exists():
        assert shell.entries() == []  # nothing is recorded: the same call may be made again
    return said.object["detail"]


def targets(shell):
    (shell.folder / "folder.db").mkdir()
    shell.write("notes.db", b"these are no pages of a database\n" * 40)
    shell.write("short.db", b"x")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("missing.db", "does not exist"),
        ("folder.db", "is not a file"),
        ("notes.db", "is not a SQLite database"),
        ("no/folder.db", "does not exist"),
    ],
)
def test_a_target_that_is_none(shell, target, why):
    targets(shell)
    before = sorted(shell.folder.iterdir())
    assert why in not_tried(shell, "--to", f"sqlite:///{target}")
    left = {path.name for path in shell.folder.iterdir()} - {path.name for path in before}
    assert {name for name in left if not name.startswith("ledger.db")} == {"job-1.json"}


def test_a_target_that_is_locked(shell):
    before = shell.dump()
    with locked(shell.app):
        assert "is locked by another process" in not_tried(shell, "--to", HERE)
    assert shell.dump() == before
    assert shell.apply().code == 0


def test_a_target_that_is_read_only(shell, outside):
    (outside / "app.db").chmod(0o444)
    before = (outside / "app.db").read_bytes()
    with as_user():
        said = shell.run(
            "apply", "-", "--to", f"sqlite:///{outside}/app.db", "--yes", "--json", stdin=plan_bytes("j", STATEMENTS)
        )
    assert said.code == 20
    assert "cannot be written" in said.object["detail"]
    assert (outside / "app.db").read_bytes() == before


@pytest.mark.parametrize("target", ["missing.db", "folder.db", "notes.db"])
def test_bytes_that_are_refused_are_refused_whatever_the_target_is(shell, target):
    targets(shell)
    cut = plan_bytes("job-1", STATEMENTS)[:100]
    for flags in ((), ("--yes",)):
        said = shell.run("apply", "-", "--to", f"sqlite:///{target}", *flags, "--json", stdin=cut)
        assert (said.code, said.object["state"]) == (10, "truncated")


@pytest.mark.parametrize(
    "url",
    ["app.db", "oracle://u:secret@h/d", "sqlite://app.db", "sqlite:///", "sqlite:///a?mode=ro", "", "\udcff://"],
)
def test_a_target_that_has_no_meaning(shell, url):
    said = shell.run("apply", shell.plan(), "--to", url, "--yes")
    assert said.code == 2
    assert "secret" not in one_sentence(said.talk)


# --- the ledger


def refuse_ledger(shell, why, *arguments):
    for line in (("jobs",), ("show", "x"), ("ledger", "verify"), ("reconcile",)):
        said = shell.run(*line, *arguments, "--json")
        assert said.code == 20, line
        assert why in said.object["detail"], line
        assert "thing was" in said.object["detail"], line  # nothing was done, nothing was changed


def test_a_ledger_that_is_missing(shell):
    refuse_ledger(shell, "there is no ledger at ledger.db")
    refuse_ledger(shell, "there is no ledger at", "--ledger", "other.db")
    assert not (shell.folder / "ledger.db").exists()


def test_a_ledger_without_its_folder(shell):
    before = shell.dump()
    said = shell.apply("job-1", STATEMENTS, "--ledger", "gone/ledger.db")
    assert said.code == 20
    assert "folder" in said.object["detail"]
    assert shell.dump() == before


def test_a_ledger_that_is_locked(shell):
    shell.run("ledger", "init")
    before = shell.dump()
    with locked(shell.folder / "ledger.db"):
        shell.monkeypatch.setattr("endmark.ledger.book.Ledger.open", _impatient())
        said = shell.apply()
    assert said.code == 20
    assert "locked by another process" in said.object["detail"]
    assert shell.dump() == before


def _impatient():
    from endmark.ledger.book import Ledger

    open_ledger = Ledger.open
    return lambda path, *, create, **more: open_ledger(path, create=create, timeout=0.1, **more)


def test_a_ledger_that_is_corrupt(shell):
    shell.write("ledger.db", b"these are no pages of a database\n" * 400)
    refuse_ledger(shell, "it is not a SQLite database")
    assert shell.apply().code == 20


def test_a_ledger_of_a_newer_version(shell):
    shell.run("ledger", "init")
    with closing(sqlite3.connect(shell.folder / "ledger.db")) as book:
        book.execute("PRAGMA user_version = 99")
    refuse_ledger(shell, "it has version 99")
    assert shell.apply().code == 20


@pytest.mark.parametrize("exists", [True, False])
def test_a_ledger_that_is_the_targets_own_file(shell, exists):
    if not exists:
        shell.app.unlink()
    before = shell.dump() if exists else None
    for flags in (("--yes",), ()):
        said = shell.run("apply", shell.plan(), "--to", HERE, *flags, "--ledger", "./app.db", "--json")
        assert said.code == 20
        assert "the target's own file" in said.object["detail"]
    assert shell.app.exists() is exists
    assert before is None or shell.dump() == before


def test_a_ledger_under_another_name_of_the_target(shell):
    os.link(shell.app, shell.folder / "alias.db")
    said = shell.apply("job-1", STATEMENTS, "--ledger", "alias.db")
    assert said.code == 20
    assert "the target's own file" in said.object["detail"]


def test_a_ledger_as_a_target_of_its_own(shell):
    """Its own rules refuse a plan that touches it, and nobody takes it for a target by mistake."""
    shell.run("ledger", "init", "--ledger", "other.db")
    make_database(shell.folder / "x.db")
    said = shell.run("apply", shell.plan(), "--to", "sqlite:///other.db", "--ledger", "other.db", "--yes", "--json")
    assert said.code == 20


@pytest.mark.parametrize("url", ["postgres://u:secret@h/d?schema=No", "mysql://u:secret@h/d", "sqlite:///"])
def test_a_ledger_that_has_no_meaning(shell, url):
    said = shell.run("jobs", "--ledger", url)
    assert said.code == 2
    assert "secret" not in one_sentence(said.talk)
