"""The one result on standard output, the talk on standard error, and never a byte that drives a terminal."""

import io
import os
import re
import sys
import unicodedata

import pytest
from tests.faces.shell import HERE, PROGRAM, STATEMENTS
from tests.support.world import plan_bytes

from endmark.core import mc1
from endmark.core.outcome import Outcome
from endmark.faces.output import write
from endmark.faces.terminal import Progress, safe
from endmark.faces.words import facts, sentence

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\x08\x7f\u202edrop\u2066\u200b\ufeff\u2028"
JOB_OBJECT = list(Outcome.__struct_fields__)


def is_tame(text, *, painted=False):
    """Whether nothing in it could drive a terminal or reorder what it shows; `painted`: but for our own colours."""
    if painted:
        text = re.sub(r"\x1b\[(0|3[123])m", "", text)
    bad = {mark for mark in text if unicodedata.category(mark) in ("Cc", "Cf", "Cs", "Zl", "Zp") and mark != "\n"}
    assert bad == set()
    return True


# --- hostile bytes


def test_safe():
    assert safe("Žluť ∎ 東京") == "Žluť ∎ 東京"
    assert safe("a\x1b[31m\nb\u202e\ud800") == "a\\x1b[31m\\nb\\u202e\\ud800"
    assert is_tame(safe("".join(map(chr, range(0x11000))) + HOSTILE))


def test_hostile_statements_are_escaped_wherever_they_show(shell):
    statements = (f"CREATE TABLE a (x) -- {HOSTILE}", f'DROP TABLE IF EXISTS "{HOSTILE}"', "SELECT 1\n     ! harmless")
    shell.stage("job-1", statements)
    for said in (shell.run("show", "job-1"), shell.run("jobs"), shell.run("approve", "job-1")):
        assert is_tame(said.text)
        assert is_tame(said.talk)
    text = shell.run("show", "job-1").text
    assert "\\x1b[2J" in text
    assert "     |      ! harmless\n" in text  # a line of a statement cannot be taken for one of ours
    for line in (("show", "job-1"), ("jobs",), ("approve", "job-1", "--yes")):
        assert is_tame(shell.run(*line, "--json").text)


def test_hostile_statements_are_escaped_at_the_question(shell):
    name = shell.plan("job-1", (f"CREATE TABLE a (x) -- {HOSTILE}", f'DROP TABLE "{HOSTILE}"'))
    said = shell.terminal("apply", name, "--to", HERE, answers=[(b"[y/n]", b"n\n")])
    assert is_tame(said.text.replace("\r\n", "\n"), painted=True)


def test_hostile_details_and_names_are_escaped(shell):
    raw = plan_bytes("job-1", (f'INSERT INTO "{HOSTILE}" VALUES (1)',))
    failed = shell.run("apply", "-", "--to", HERE, "--yes", stdin=raw)
    assert failed.code == 1
    assert is_tame(failed.text)
    key = plan_bytes("job-2", STATEMENTS).replace(b'"tool"', f'"{HOSTILE[20:]}"'.encode(), 1)
    for verb in (("check", "-"), ("apply", "-", "--to", HERE, "--yes")):
        assert is_tame(shell.run(*verb, stdin=key).text)
    hostile: list[tuple[str, ...]] = [
        ("check", HOSTILE),
        ("show", HOSTILE),
        (HOSTILE,),
        ("apply", "x", "--to", HOSTILE),
        ("apply", "x", "--to", HERE, "--job", HOSTILE),
        ("jobs", f"--{HOSTILE}"),
        ("jobs", "--config", HOSTILE),
        ("jobs", "--ledger", HOSTILE),
        ("decline", "job-1", "--reason", HOSTILE),
    ]
    for line in hostile:
        said = shell.run(*line)
        assert is_tame(said.text)
        assert is_tame(said.talk)
    assert is_tame(shell.run("show", "job-1").text)


def test_a_hostile_folder_is_escaped(shell):
    folder = shell.folder / "a\x1b[31m\u202eb"
    folder.mkdir()
    (folder / "app.db").write_bytes(shell.app.read_bytes())
    said = shell.run("apply", shell.plan(), "--to", f"sqlite:///{folder}/app.db", "--yes")
    assert said.code == 0
    assert is_tame(said.text)
    assert is_tame(shell.run("jobs").text)


# --- the sentence


def outcome(state, detail):
    return Outcome(state=state, signal="x", detail=detail, exit_code=0, at="")


@pytest.mark.parametrize(
    ("state", "detail", "says"),
    [
        (
            "truncated",
            "Received 1 of 2 bytes. Nothing was written.",
            "truncated: received 1 of 2 bytes. Nothing was written.",
        ),
        ("applied", "Applied: 1 statement.", "applied: 1 statement."),
        (
            "applied",
            "Delivered before, nothing was done now. Applied.",
            "applied: delivered before, nothing was done now. Applied.",
        ),
        ("staged", "Whole and staged: 1 statement waiting.", "whole and staged: 1 statement waiting."),
        ("failed", "SIGTERM during statement 3.", "failed: SIGTERM during statement 3."),
        ("failed", "ALARM: ask who wrote it.", "failed: ALARM: ask who wrote it."),
        ("declined", "", "declined."),
    ],
)
def test_the_sentence_begins_with_the_state(state, detail, says):
    assert sentence(outcome(state, detail)) == says


def test_facts():
    assert facts(outcome("whole", "")) == ""


# --- where it goes


def test_json_is_one_object_for_every_kind_of_end(shell):
    shell.apply("done")
    shell.stage("waits", ("CREATE TABLE w (x)",))
    ends = {
        0: ("apply", "done.json", "--to", HERE, "--yes"),
        1: ("decline", "waits"),
        2: ("apply", "missing", "--to", HERE),
        10: ("check", shell.write("cut", b"MC1 1")),
        11: ("check", shell.write("swap", mc1.seal(b"{} ").replace(b"{} ", b" {}"))),
        12: ("check", shell.write("list", b"[]")),
        20: ("show", "nobody"),
    }
    for code, line in ends.items():
        said = shell.run(*line, "--json")
        assert said.code == code, line
        assert list(said.object) == JOB_OBJECT, line
        assert said.object["exit_code"] == code, line


def test_what_click_refuses_is_told_on_standard_error(shell):
    for line in ((), ("check",), ("check", "--nothing", "x"), ("jobs", "--limit", "x"), ("ledger",), ("conjure",)):
        said = shell.run(*line)
        assert (said.code, said.out) == (2, b"")
        assert "Usage: endmark" in said.talk
    assert "Did you mean 'decisions'?" in shell.run("decision").talk


@pytest.mark.parametrize("line", [("decisions",), ("decisions", "--json"), ("rules",), ("--help",), ("check", "whole")])
def test_a_full_disk_under_standard_output(shell, line):
    shell.write("whole", mc1.seal(b"{}"))
    with open("/dev/full", "wb") as full:
        said = shell.program(*line, stdout=full)
    assert said.code == 70
    assert said.talk.startswith("endmark: the result could not be written: No space left on device.")
    assert said.talk.count("\n") == 1


def test_a_stream_that_takes_a_part_at_a_time(monkeypatch):
    class Reluctant(io.BytesIO):
        def write(self, data):
            return super().write(bytes(data)[:3])

    stream = Reluctant()
    monkeypatch.setattr(sys, "stdout", type("Text", (), {"buffer": stream, "flush": lambda self: None})())
    write(b"all of it, or an exit code")
    assert stream.getvalue() == b"all of it, or an exit code"


def test_a_result_that_is_lost_is_told_beside_it(shell):
    with open("/dev/full", "wb") as full:
        said = shell.program("apply", shell.plan(), "--to", HERE, "--yes", stdout=full)
    assert said.code == 70
    assert "It was: applied: 2 statements" in said.talk
    assert shell.entry("job-1").state == "applied"


def test_a_refusal_that_is_lost_keeps_its_code(shell):
    with open("/dev/full", "wb") as full:
        said = shell.program("check", shell.write("cut", b"MC1 1"), stdout=full)
    assert said.code == 10
    assert "It was: truncated" in said.talk


def test_an_envelope_that_is_lost_is_no_success(shell):
    name = shell.write("body", b'{"a":"' + b"x" * 200_000 + b'"}')
    with open("/dev/full", "wb") as full:
        assert shell.program("seal", name, stdout=full).code == 70
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as gone:
        said = shell.program("seal", name, stdout=gone)
    assert (said.code, said.err) == (70, b"")


@pytest.mark.parametrize(("line", "code"), [("decisions", 0), ("--help", 1)])  # help is click's
def test_a_reader_that_has_seen_enough(shell, line, code):
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as gone:
        said = shell.program(line, stdout=gone)
    assert (said.code, said.err) == (code, b"")


@pytest.mark.parametrize("closed", [1, 2])
def test_closed_streams(shell, closed):
    said = shell.script(f'exec "$@" {closed}>&-', "check", "-", stdin=b"{")
    assert said.code == 10
    if closed == 2:
        assert said.text.startswith("truncated: ")


def test_a_full_disk_under_standard_error_changes_nothing(shell):
    with open("/dev/full", "wb") as full:
        assert shell.program("apply", shell.plan(), "--to", HERE, stderr=full).code == 16
        assert shell.program("show", "nobody", stderr=full).code == 20


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_encoding_of_standard_output(shell, encoding):
    shell.stage()
    shell.setenv(PYTHONIOENCODING=encoding)
    said = shell.program("show", "job-1")
    assert said.code == 0
    said.out.decode(encoding)


# --- colour and progress


@pytest.mark.parametrize(
    ("env", "painted"), [({}, True), ({"NO_COLOR": "1"}, False), ({"CI": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colour_only_on_a_terminal_that_wants_it(shell, env, painted):
    shell.write("whole", mc1.seal(b"{}"))
    said = shell.terminal("check", "whole", env={"TERM": "xterm", **env})
    assert ("\x1b[" in said.text) is painted
    assert "\x1b" not in shell.program("check", "whole").text


def watch(monkeypatch, seconds):
    """A Progress on a terminal whose clock moves by `seconds` at every look, and what it wrote."""
    import endmark.faces.terminal as terminal

    ticks = iter(range(10**6))
    wrote: list[str] = []
    monkeypatch.setattr(terminal, "is_terminal", lambda stream: True)
    monkeypatch.setattr(terminal, "_write", wrote.append)
    monkeypatch.setattr("endmark.faces.terminal.time.monotonic", lambda: next(ticks) * seconds)
    return Progress(), wrote


def test_progress_of_long_work(monkeypatch):
    progress, wrote = watch(monkeypatch, 0.3)
    progress.stages = ["backing up", "applying"]
    for stage in (2_000, 4):
        for done in range(1, 5):
            progress(done * stage // 4, stage)
    assert any("backing up  1,500 of 2,000" in line for line in wrote)
    assert any("applying  3 of 4" in line for line in wrote)
    progress.clear()
    assert wrote[-1].strip("\r ") == ""


def test_no_progress_of_short_work(monkeypatch):
    progress, wrote = watch(monkeypatch, 0.001)
    for done in range(100):
        progress(done, 100)
    progress.clear()
    assert wrote == []


def test_progress_shows_on_a_terminal_and_nowhere_else(shell):
    slow = "CREATE TABLE s AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"
    line = ("--to", HERE, "--yes", "--statement-timeout", "1.2")
    said = shell.terminal("apply", shell.plan("job-1", ("CREATE TABLE a (x)", slow)), *line)
    assert said.code == 1
    assert "applying  1 of 2  1 s" in said.text
    assert shell.program("apply", shell.plan("job-2", ("CREATE TABLE a (x)", slow)), *line).err == b""


# --- our own fault


def test_our_own_fault_is_one_sentence(shell, monkeypatch):
    def broken(raw, cap):
        raise RuntimeError("a\x1b[31mb")

    monkeypatch.setattr("endmark.core.proof.prove", broken)
    said = shell.run("check", shell.plan())
    assert (said.code, said.out) == (70, b"")
    assert said.talk.startswith("endmark: RuntimeError: a\\x1b[31mb. This is a mistake in endmark.")
    assert said.talk.count("\n") == 1
    found = shell.run("check", "job-1.json", "--json")
    assert found.code == 70
    assert [found.object[key] for key in ("state", "signal", "next")] == ["unknown", "our-fault", "ask-person"]
    shell.setenv(ENDMARK_DEBUG="1")
    assert "Traceback" in shell.run("check", "job-1.json").talk


def test_the_program_is_what_it_says(shell):
    assert PROGRAM[0] == sys.executable
    assert shell.program("--version").text == "endmark 0.1.0\n"
