"""The program as a host runs it: exit code 0 or 2, nothing on standard output, whatever goes wrong."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faces.hooks.test_judge import CONFIG, ENVIRON, request

from endmark.core import strictjson

ROOT = Path(__file__).resolve().parents[3]
HOOK = (sys.executable, "-m", "endmark", "hook")


def run(*words, stdin=b"", program=HOOK, **more):
    done = subprocess.run([*program, *words], input=stdin, capture_output=True, timeout=60, **more)
    assert done.stdout == b""
    return done.returncode, done.stderr.decode()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "endmark.toml").write_text(CONFIG)
    return tmp_path


@pytest.mark.parametrize("host", ["claude", "codex"])
def test_0_or_2(folder, host):
    environ = {**os.environ, **ENVIRON}
    good, bad = (request("Bash", {"command": command}, folder) for command in ("ls", "sqlite3 app.db"))
    assert run(host, stdin=good, env=environ, cwd=folder) == (0, "")
    code, said = run(host, stdin=bad, env=environ, cwd=folder)
    assert code == 2
    assert "apply_schema_file" in said


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["claude"], b""),
        (["codex"], b'{"hook_event_name"'),
        (["claude", "--config", "nowhere.toml"], b"{}"),
        (["claude", "--unknown"], b"{}"),
        (["claude"], b"x" * ((64 << 20) + 1)),  # and all of it is read
    ],
    ids=["empty", "cut", "no-config", "unknown-flag", "huge"],
)
def test_every_error_is_a_2_with_words(folder, words, stdin):
    code, said = run(*words, stdin=stdin, cwd=folder)
    assert code == 2
    assert said.startswith("endmark: ")


SPOILED = {
    "closed-stdin": "exec <&-; exec {hook}",
    "closed-stdout": "exec >&-; exec {hook}",
    "closed-stderr": "exec 2>&-; exec {hook}",
    "all-closed": "exec <&- >&- 2>&-; exec {hook}",
    "full-stderr": "exec 2>/dev/full; exec {hook}",
    "no-reader": "{hook} 2>&1 >/dev/null | true; exit 2",
    "no-folder": "mkdir gone; cd gone; rmdir ../gone; exec {hook}",
    "no-home": "unset HOME; exec {hook}",
    "descriptors": "ulimit -n 6; exec {hook}",
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_spoiled_world_is_a_2(folder, how):
    line = SPOILED[how].format(hook='"$@"')
    done = subprocess.run(["/bin/sh", "-c", line, "sh", *HOOK, "claude"], input=b"{}", capture_output=True, cwd=folder)
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize("broken", ["endmark/core/strictjson.py", "endmark/faces/hooks/door.py", "msgspec/__init__.py"])
def test_a_broken_import_is_a_2(folder, broken):
    """As after half an upgrade: a module that is found first, and cannot be imported."""
    name = broken.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    start = (
        f"import sys; sys.modules[{name!r}] = None; sys.argv = ['endmark', 'hook', 'claude']; "
        "from endmark.faces.start import main; main()"
    )
    code, said = run(
        program=[sys.executable, "-c", start], stdin=request("Bash", {"command": "ls"}, folder), cwd=folder
    )
    assert code == 2
    assert "nothing is let through" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM])
def test_a_signal_is_a_2(folder, number):
    """While it waits for the host's bytes. The alarm is its own, for a host that never ends them."""
    start = (
        "import os, sys; sys.argv = ['endmark', 'hook', 'codex']; import endmark.faces.start as s; real = s._watch\n"
        "def watch():\n    real(); import endmark.faces.hooks.door; os.write(2, b'ready\\n')\n"
        "s._watch = watch; s.main()"
    )
    with subprocess.Popen([sys.executable, "-c", start], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stderr is not None
        assert program.stderr.readline() == b"ready\n"
        program.send_signal(number)
        assert program.wait(60) == 2
        assert b"nothing is let through" in program.stderr.read()


@pytest.mark.parametrize("name", ["claude/settings.json", "codex/hooks.json"])
@pytest.mark.parametrize("ends", [0, 1, 2, 70, 127, "killed"])
def test_the_ready_settings_turn_every_end_into_0_or_2(tmp_path, name, ends):
    """Their command lines, run by a shell with a program `endmark` that ends in every way."""
    document = strictjson.loads((ROOT / "integrations" / name).read_bytes())
    (entry,) = document["hooks"]["PreToolUse"]
    (hook,) = entry["hooks"]
    assert hook["type"] == "command"
    assert hook["timeout"] > 20
    assert entry["matcher"] == "*"
    if ends != 127:
        stub = tmp_path / "endmark"
        stub.write_text("#!/bin/sh\n" + ("kill -9 $$\n" if ends == "killed" else f"exit {ends}\n"))
        stub.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", hook["command"]],
        env={"PATH": str(tmp_path)},
        input=json.dumps({}).encode(),
        capture_output=True,
    )
    assert done.returncode == (0 if ends == 0 else 2)
    assert bool(done.stderr) == (ends not in (0, 2))
