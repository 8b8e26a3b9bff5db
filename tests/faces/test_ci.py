"""Both runners, simulated: a shallow checkout of a real repository, the event, and a server for the forge's API."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from tests.effects.git.repos import PLAIN, Import, git, make
from tests.gates.pushes.world import endmark, said
from tests.support.forge import TOKEN, forge

from endmark.core import strictjson

REVIEWER = r"""
import hashlib, json, re, sys
shown = sys.stdin.read()
bad = "eval(" in shown
body = json.dumps({
    "verdict": "fail" if bad else "pass",
    "diff_sha": re.search(r'"diff_sha": "([0-9a-f]{64})"', shown)[1],
    "policy_version": "gate-2026-07",
    "findings": [{"severity": "blocking", "path": "a.py", "line": 1, "message": "runs <what> it is sent @all"}] * bad,
    "marks": re.findall(r"^\[mark ([0-9]+-[0-9a-f]{32})\]$", shown, re.M),
})
text = (body + "\nEND\n").encode()
whole = b"MC1 %d %s\n%s" % (len(text), hashlib.sha256(text).hexdigest().encode(), text)
sys.stdout.buffer.write(whole[: len(whole) - 9 * ("cut me" in shown)])
"""
POLICY = f"""\
[branches.main]
policy = "gate-2026-07"
reviewers = ["tests"]
retries = 0

[reviewers.tests]
kind = "command"
command = [{json.dumps(sys.executable)}, "review.py"]
files = ["review.py"]
capacity = "dedicated"
"""
HEADS = {"good": b"print(1)\n", "bad": b"eval(input())\n", "cut": b"# cut me\n"}
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """main is 120 commits past where the heads parted from it, so that a checkout of depth 1 knows nothing of that."""
    folder = make(tmp_path_factory.mktemp("upstream") / "app.git", bare=True)
    new = Import()
    first = new.commit("main", {"endmark.toml": POLICY.encode(), "review.py": REVIEWER.encode(), "a.py": b"pass\n"})
    for at in range(120):
        new.commit("main", {"log.txt": b"%d\n" % at}, new.mark)
    for name, text in HEADS.items():
        new.commit(name, {"a.py": text}, first)
    new.into(folder)
    return folder


@pytest.fixture
def runner(upstream, tmp_path, monkeypatch):
    """What actions/checkout leaves: one commit, detached, and the two files that steps write to."""
    home = tmp_path / "work"
    git(tmp_path, "init", "-q", home)
    git(home, "remote", "add", "origin", f"file://{upstream}")
    for name in ("output", "summary"):
        monkeypatch.setenv({"output": "GITHUB_OUTPUT", "summary": "GITHUB_STEP_SUMMARY"}[name], str(tmp_path / name))
    monkeypatch.setenv("GITHUB_REPOSITORY", "octo/app")
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _checkout(runner, upstream, head):
    oid = git(upstream, "rev-parse", head)
    git(runner / "work", "fetch", "-q", "--depth=1", "origin", oid)
    git(runner / "work", "checkout", "-q", "--detach", oid)
    return oid


def _event(runner, monkeypatch, name, event):
    (runner / "event.json").write_text(json.dumps(event))
    monkeypatch.setenv("GITHUB_EVENT_NAME", name)
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(runner / "event.json"))


def _outputs(runner):
    return dict(line.split("=", 1) for line in (runner / "output").read_text().splitlines())


CASES = {"good": ("pass", 0, "success"), "bad": ("fail", 1, "failure"), "cut": ("incomplete", 10, "action_required")}


@pytest.mark.parametrize("head", CASES)
def test_a_pull_request(runner, upstream, monkeypatch, head):
    state, code, conclusion = CASES[head]
    oid = _checkout(runner, upstream, head)
    stale = git(upstream, "rev-parse", "main~5")  # what the event says of the base is where that was when it was sent
    _event(
        runner,
        monkeypatch,
        "pull_request",
        {"pull_request": {"base": {"ref": "main", "sha": stale}, "head": {"sha": oid}}},
    )
    with forge() as server:
        monkeypatch.setenv("GITHUB_API_URL", server.url)
        done = endmark("ci", "github", "--repo", "work", "--json")
    assert done.returncode == code, said(done)
    outcome = strictjson.loads(done.stdout)
    assert outcome["base"] == git(upstream, "rev-parse", "main")
    assert _outputs(runner) == {
        "state": state,
        "decision_id": outcome["decision_id"],
        "diff_sha": outcome["diff_sha"],
        "exit_code": str(code),
    }
    (asked,) = server.asked
    assert asked[:2] == ("POST", "/repos/octo/app/check-runs")
    assert (asked[2]["conclusion"], asked[2]["head_sha"]) == (conclusion, oid)
    summary = (runner / "summary").read_text()
    assert summary.startswith(f"## endmark: {state}\n")
    assert outcome["diff_sha"] in summary
    assert TOKEN not in said(done) + summary + (runner / "output").read_text()
    if head == "bad":
        assert "&#60;what&#62;" in summary
        assert "@all" not in summary


def test_a_merge_group(runner, upstream, monkeypatch):
    """The queue's own base and head are what is judged, whatever main is by now."""
    base = git(upstream, "rev-parse", "main~3")
    oid = _checkout(runner, upstream, "good")
    group = {
        "base_sha": base,
        "base_ref": "refs/heads/main",
        "head_sha": oid,
        "head_ref": "refs/heads/gh-readonly-queue/x",
    }
    _event(runner, monkeypatch, "merge_group", {"merge_group": group})
    with forge() as server:
        monkeypatch.setenv("GITHUB_API_URL", server.url)
        done = endmark("ci", "github", "--repo", "work", "--json")
    assert done.returncode == 0, said(done)
    outcome = strictjson.loads(done.stdout)
    assert (outcome["base"], outcome["head"], outcome["ref"]) == (base, oid, "refs/heads/main")
    assert server.asked[0][2]["conclusion"] == "success"


def test_no_more_history_than_is_needed(runner, upstream, monkeypatch):
    oid = _checkout(runner, upstream, "good")
    _event(runner, monkeypatch, "pull_request", {"pull_request": {"base": {"ref": "main"}, "head": {"sha": oid}}})
    assert git(runner / "work", "rev-list", "--count", "HEAD") == "1"
    assert endmark("ci", "github", "--repo", "work", "--no-post").returncode == 0
    assert git(runner / "work", "rev-list", "--count", "refs/remotes/origin/main") == "121"


@pytest.mark.parametrize("fault", [403, 422, "drop"])
def test_a_pass_that_the_forge_does_not_hear_of_is_no_success(runner, upstream, monkeypatch, fault):
    oid = _checkout(runner, upstream, "good")
    _event(runner, monkeypatch, "pull_request", {"pull_request": {"base": {"ref": "main"}, "head": {"sha": oid}}})
    with forge() as server:
        server.faults = [fault] * 3
        monkeypatch.setenv("GITHUB_API_URL", server.url)
        done = endmark("ci", "github", "--repo", "work")
    assert done.returncode == 20
    assert _outputs(runner)["state"] == "incomplete"
    assert _outputs(runner)["exit_code"] == "20"
    assert "was not told" in (runner / "summary").read_text()


WRONG = {
    "pull_request_target": ({}, "hands secrets to whoever opens a pull request"),
    "push": ({}, "runs on pull_request and merge_group"),
    "pull_request": ({"pull_request": {"base": {"ref": "main"}, "head": {"sha": "abc"}}}, "no object id in full"),
    "merge_group": ({"pull_request": {}}, "the event has no merge_group"),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_events(runner, monkeypatch, name):
    event, reason = WRONG[name]
    _event(runner, monkeypatch, name, event)
    done = endmark("ci", "github", "--repo", "work")
    assert done.returncode == 2
    assert reason in said(done)
    assert _outputs(runner) == {"state": "not-tried", "decision_id": "", "diff_sha": "", "exit_code": "20"}


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"a":1,"a":2}', b"\xff"])
def test_an_event_that_is_none(runner, monkeypatch, raw):
    _event(runner, monkeypatch, "pull_request", {})
    (runner / "event.json").write_bytes(raw)
    assert endmark("ci", "github", "--repo", "work").returncode == 2
    assert _outputs(runner)["state"] == "not-tried"


def test_a_head_that_is_not_there(runner, upstream, monkeypatch):
    _checkout(runner, upstream, "good")
    _event(
        runner,
        monkeypatch,
        "pull_request",
        {"pull_request": {"base": {"ref": "main"}, "head": {"sha": "0" * 39 + "1"}}},
    )
    done = endmark("ci", "github", "--repo", "work")
    assert done.returncode == 20
    assert "could not be fetched from 'origin'" in said(done)
    assert _outputs(runner)["state"] == "not-tried"


@pytest.mark.parametrize("kind", ["detached", "merged_result"])
@pytest.mark.parametrize("head", CASES)
def test_gitlab(runner, upstream, monkeypatch, head, kind):
    state, code, _ = CASES[head]
    oid = _checkout(runner, upstream, head)
    monkeypatch.delenv("GITHUB_OUTPUT")
    monkeypatch.setenv("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main")
    monkeypatch.setenv("CI_COMMIT_SHA", oid if kind == "detached" else "1" * 40)
    monkeypatch.setenv("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "" if kind == "detached" else oid)
    monkeypatch.setenv("CI_PROJECT_ID", "42")
    monkeypatch.setenv("CI_JOB_TOKEN", TOKEN)
    with forge() as server:
        monkeypatch.setenv("CI_API_V4_URL", server.url)
        done = endmark("ci", "gitlab", "--repo", "work", "--json")
    assert done.returncode == code, said(done)
    (asked,) = server.asked
    assert asked[1] == f"/projects/42/statuses/{oid}"
    assert asked[2]["state"] == ("success" if state == "pass" else "failed")
    found = dict(line.split("=", 1) for line in (runner / "endmark.env").read_text().splitlines())
    assert found["ENDMARK_STATE"] == state
    assert found["ENDMARK_EXIT_CODE"] == str(code)
    assert (runner / "endmark.md").read_text().startswith(f"## endmark: {state}\n")


def test_gitlab_outside_a_merge_request(runner, monkeypatch):
    monkeypatch.setenv("CI_COMMIT_SHA", "1" * 40)
    done = endmark("ci", "gitlab", "--repo", "work")
    assert done.returncode == 2
    assert "no pipeline of a merge request" in said(done)
    assert "ENDMARK_STATE=not-tried" in (runner / "endmark.env").read_text()


def test_the_actions_last_step(runner, upstream, monkeypatch):
    """The line of shell in action.yml, with this environment in the place of the one that the step before makes."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][-1]
    oid = _checkout(runner, upstream, "good")
    _event(runner, monkeypatch, "pull_request", {"pull_request": {"base": {"ref": "main"}, "head": {"sha": oid}}})
    (runner / "endmark/bin").mkdir(parents=True)
    (runner / "endmark/bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (runner / "endmark/bin/python").chmod(0o755)
    with forge() as server:
        env = PLAIN | {name: value for name, value in os.environ.items() if name.startswith(("GITHUB_", "XDG_"))}
        env |= {"GITHUB_API_URL": server.url, "RUNNER_TEMP": str(runner), "GITHUB_WORKSPACE": str(runner / "work")}
        env |= dict.fromkeys(step["env"], "") | {"GITHUB_TOKEN": TOKEN, "HOME": str(runner)}
        done = subprocess.run(["bash", "-e", "-c", step["run"]], cwd=runner, env=env, capture_output=True)
    assert done.returncode == 0, said(done)
    assert _outputs(runner)["state"] == "pass"
    assert set(_outputs(runner)) == set(action["outputs"])
    assert server.asked[0][2]["conclusion"] == "success"


def _rows(page, header):
    """The rows of the table with this header, as lists of cells."""
    lines = page[page.index(f"| {header} |") :].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in itertools.takewhile(len, lines)]


def test_the_page_names_every_input_and_output():
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    page = (ROOT / "docs/ci.md").read_text()
    inputs = {row[0]: row[1] for row in _rows(page, "input | default | means")}
    wanted = {
        f"`{name}`": f"`{one['default']}`" if one["default"] else "none" for name, one in action["inputs"].items()
    }
    assert inputs == wanted
    assert [row[0] for row in _rows(page, "output | value")] == [f"`{name}`" for name in action["outputs"]]


@pytest.mark.parametrize(
    ("ledger", "installed"),
    [
        ("", "capture,sign"),
        ("book.db", "capture,sign"),
        ("postgresql://u:p@h/d", "capture,sign,postgres"),
        ("postgres://h/d", "capture,sign,postgres"),
    ],
)
def test_what_the_action_installs(tmp_path, ledger, installed):
    """The step's own shell, with a program in the place of Python that notes how it is called."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = next(one for one in action["runs"]["steps"] if one.get("name", "").startswith("Install"))
    python = tmp_path / "endmark/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "RUNNER_TEMP": str(tmp_path), "PYTHON": str(python), "SOURCE": "/the action"}
    env |= {"EXTRAS": action["inputs"]["extras"]["default"], "ENDMARK_LEDGER": ledger}
    done = subprocess.run(["bash", "-e", "-c", step["run"]], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"/the action[{installed}]"
    assert set(step["env"]) == {"PYTHON", "SOURCE", "EXTRAS", "ENDMARK_LEDGER"}


@pytest.mark.parametrize("name", ["action.yml", "integrations/gitlab/endmark.yml"])
def test_what_the_templates_hold(name):
    """No download addresses, no secrets in a command line, no way for a failure to be overlooked."""
    text = (ROOT / name).read_text()
    yaml.safe_load(text)
    commands = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    assert "http" not in commands
    assert "continue-on-error" not in commands
    assert "|| true" not in commands
    assert not re.search(r"run:.*\$\{\{", commands)  # what a pull request names never becomes shell
