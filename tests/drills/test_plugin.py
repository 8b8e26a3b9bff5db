"""The pytest fixture: three lines for a user, and a failure that shows the map."""

import os
import subprocess
import sys

import pytest

from endmark.core import strictjson
from endmark.core.refusal import Refused
from endmark.faces.pytest_plugin import drill

PAYLOAD = b'{"verdict": "pass", "n": 1}'


def lenient(data):
    try:
        return strictjson.loads(data)
    except Refused:
        return strictjson.loads(data.rstrip(b", ") + b"}")


def broken(data):
    raise KeyError


def crashing(data):
    if len(data) == 3:
        raise KeyError
    return strictjson.loads(data)


def test_three_lines(endmark_drill):
    endmark_drill(strictjson.loads, PAYLOAD).check()
    assert endmark_drill(lenient, PAYLOAD).holes == ["cut:1", "cut:18", "cut:19", "cut:20", "cut:26"]


def test_strings_for_a_parser_of_strings():
    found = drill(lambda text: strictjson.loads(text.encode()), PAYLOAD.decode(), "cuts,sentinel")
    assert (found.holes, found.tried, found.control) == ([], len(PAYLOAD), "accepted")


@pytest.mark.parametrize(
    ("parser", "why"),
    [
        (lenient, "5 holes in lenient"),
        (broken, "No drill: the whole payload was not accepted: crashed"),
        (crashing, "crashed: cut:3"),
    ],
)
def test_what_fails_a_check(parser, why):
    with pytest.raises(pytest.fail.Exception, match=why):
        drill(parser, PAYLOAD).check()


def test_a_crash_may_be_allowed():
    drill(crashing, PAYLOAD).check(crashes=False)


def test_an_effect_is_looked_at():
    rows: list[bytes] = []

    def gate(data):
        if len(data) > 20:
            rows.append(data)
        return strictjson.loads(data)

    found = drill(gate, PAYLOAD, effect=lambda: len(rows), reset=rows.clear)
    assert found.holes == [f"cut:{at}" for at in range(21, len(PAYLOAD))]


USER = """
import json

def test_my_gate(endmark_drill):
    endmark_drill({parser}, b'{"verdict": "pass", "n": 1}').check()
"""


@pytest.mark.parametrize(("parser", "code"), [("json.loads", 0), ("lambda data: data", 1)])
def test_it_comes_with_the_package(tmp_path, parser, code):
    """pytest in another process, and nothing but the installed entry point."""
    (tmp_path / "test_user.py").write_text(USER.replace("{parser}", parser))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    env = {**os.environ, "PYTEST_ADDOPTS": ""}
    done = subprocess.run([*command, "test_user.py"], cwd=tmp_path, capture_output=True, text=True, env=env)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("27 holes in" in done.stdout) == (code == 1)
