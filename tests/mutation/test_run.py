"""A run over a small project: what its tests notice, what they do not, what hangs, what the next run builds on."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutation.report import equivalent

from endmark.core import strictjson

ROOT = Path(__file__).resolve().parents[2]

CODE = '''\
"""A small gate."""

from functools import cache
from time import sleep


class Gate:
    def take(self, body, cap=3):
        if not body:
            raise ValueError("empty")
        if len(body) > cap:
            raise ValueError("long")
        return body


def never(body):
    if body:
        raise ValueError("nobody calls this")


@cache
def rounds(left):
    while True:
        if left == 0:
            return "done"
        left -= 1
        sleep(left < 0)
'''
TESTS = """\
import pytest
from planted import Gate, rounds

taken = Gate.take  # as modules refer to each other's functions

def test_empty():
    with pytest.raises(ValueError, match="empty"):
        taken(Gate(), "")

def test_long():
    with pytest.raises(ValueError, match="long"):
        taken(Gate(), "abcdef")

def test_rounds():
    assert rounds(2) == "done"

def test_that_fails_anyhow():
    assert taken(Gate(), "ab") == "no"
"""
BOUND = "\n\ndef test_bound():\n    assert taken(Gate(), 'abc') == 'abc'\n"


@pytest.fixture
def project(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "src/planted.py").write_text(CODE)
    (tmp_path / "tests/test_planted.py").write_text(TESTS)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\npythonpath = ['src']\n")
    return tmp_path


def run(project, *options):
    report = project / "report.json"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.mutation", "--root", str(project), "--json", str(report), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert report.exists(), done.stderr
    return done.returncode, strictjson.loads(report.read_bytes()), done.stderr


def changes(report):
    return {(found["line"], found["change"]): (found["tests"], found["reaching"]) for found in report["survived"]}


@pytest.mark.soak
def test_what_is_noticed_and_what_survives(project):
    status, report, said = run(project)
    assert status == 1
    assert changes(report) == {
        (11, "`len(body) > cap` becomes `len(body) >= cap`"): (1, 1),
        (17, "`if body` never holds"): (0, 0),
    }
    assert (report["checks"], report["noticed"], report["seed"]) == (5, 3, 0)
    assert report["hung"] == ["src/planted.py:24: rounds: `if left == 0` never holds"]
    assert report["left_out"] == ["tests/test_planted.py::test_that_fails_anyhow"]
    assert "src/planted.py:17: never: `if body` never holds  (no test runs over it)" in said

    # A test more: what survived is tried again, and only that; the code is what it was.
    test = project / "tests/test_planted.py"
    test.write_text(TESTS + BOUND)
    status, report, said = run(project)
    assert status == 1
    assert set(changes(report)) == {(17, "`if body` never holds")}
    assert (project / "src/planted.py").read_text() == CODE

    allowed = project / "tests/mutation/equivalent.toml"
    allowed.parent.mkdir()
    entry = ["file = 'src/planted.py'", "function = 'never'", "change = '`if body` never holds'", "reason = 'dead'"]
    allowed.write_text("\n".join(["[[equivalent]]", *entry]))
    status, report, said = run(project)
    assert (status, report["checks"], report["noticed"]) == (0, 4, 4)
    assert [found["reason"] for found in report["equivalent"]] == ["dead"]


def test_an_excuse_without_a_reason_is_none(tmp_path):
    allowed = tmp_path / "equivalent.toml"
    allowed.write_text("[[equivalent]]\nfile = 'a'\nfunction = 'b'\nchange = 'c'\nreason = ' '\n")
    with pytest.raises(ValueError, match="reason"):
        equivalent(allowed)
