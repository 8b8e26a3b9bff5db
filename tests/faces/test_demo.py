"""The README's first command keeps its word."""

import os
import re
import subprocess
import sys

import pytest

from endmark.core import proof
from endmark.core.plan import Plan
from endmark.faces import demo


def test_the_envelope_is_the_one_that_is_spoken_of():
    raw = demo._envelope("billing-1")
    assert len(raw) == demo.WHOLE == 3_410
    found = proof.prove(raw).value
    assert isinstance(found, Plan)
    assert found.stmt_count == 11
    assert not found.statements[0].isascii() or any(not text.isascii() for text in found.statements)


@pytest.mark.parametrize(
    "marker",
    [
        pytest.param({}, id="a person"),
        pytest.param({"CLAUDECODE": "1", "CI": "1"}, id="an agent", marks=pytest.mark.soak),
    ],
)
def test_it_runs_and_leaves_nothing(tmp_path, marker):
    places = {name: str(tmp_path / name) for name in ("HOME", "TMPDIR", "XDG_STATE_HOME")}
    (tmp_path / "TMPDIR").mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "endmark.faces.demo"],
        cwd=tmp_path,
        env={**os.environ, **places, "ENDMARK_LEDGER": "/nowhere/ledger.db", **marker},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for part in (
        "truncated: received 1,882 of 3,410 bytes. Nothing was written.",
        "[exit code 10]",
        "6 of 11 statements stand complete in the cut text.",
        "applied: 11 statements, with the receipt in the same transaction.",
        "billing-2 | 11 | ",
        "delivered before, nothing was done now",
        "Tried: a branch that nobody may make was refused.",
        "cuts of a verdict of 220 bytes that says pass: all incomplete.",
        "tests (review) fail, 2 blocking, 0 advisory",
        "endmark: refs/heads/main stays where it is: main is a guarded branch",
        "pass by tests (command), policy gate-2026-07",
        "Where to go next",
    ):
        assert part in done.stdout
    tips = re.findall(r"^main (?:before |after  ) ([0-9a-f]{40})$", done.stdout, re.MULTILINE)
    assert len(tips) == 6
    assert tips[0] == tips[1] == tips[2] == tips[3] == tips[4] != tips[5]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["TMPDIR"]
    assert list((tmp_path / "TMPDIR").iterdir()) == []


def test_a_step_that_is_not_as_promised_fails_it(monkeypatch, capsys):
    monkeypatch.setattr(demo, "CUT", demo.WHOLE)
    assert demo.main() == 1
    assert "NOT AS PROMISED: endmark apply exits with 10" in capsys.readouterr().out
