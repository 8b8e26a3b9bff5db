"""The patch gate at a shell: what is said, written and posted, and what may reach a terminal."""

import json
import re
import signal
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from tests.effects.git.repos import git
from tests.faces.shell import wait_for
from tests.gates.patches.models import KEY, kind
from tests.gates.patches.world import World, command, policy
from tests.support import forge as forges
from tests.support.server import STALL, Script, serving

import endmark
from endmark.core import intoto, merge_message, strictjson
from endmark.sources import keys

TWO = {"tests": command(), "security": command("security")}
ESCAPES = "\x1b]0;title\x07\x1b[2J\u202eevil\x9b31m"
HARMLESS = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]")


@pytest.fixture
def world(tmp_path, shell, monkeypatch):
    made = World(tmp_path / "world")
    made.says("pass")
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("ENDMARK_LEDGER", str(made.path))
    yield made
    made.is_sound()
    made.close()


@pytest.fixture
def run(world, shell):
    """run(verb, ...): one command line about the change from main to topic."""

    def run(verb, *arguments, base="main", head="topic"):
        return shell.run(*verb.split(), "--base", base, "--head", head, "--repo", world.repo, *arguments)

    return run


def key_pair(tmp_path):
    private, public, _ = keys.new(tmp_path / "gate.key")
    return private, public


def test_from_review_to_merge(world, run, shell):
    said = run("review", "--json")
    assert (said.code, said.object["state"], said.object["next"]) == (0, "pass", "none")
    merged = run("merge")
    assert merged.code == 0
    assert merged.text.startswith(f"merged: main stands at {world.tip()[:12]}")
    listed = shell.run("patches", "--json").object
    assert [one["state"] for one in listed["decisions"]] == ["merged"]
    shown = shell.run("show", said.object["decision_id"])
    assert "tests (review) pass" in shown.text
    assert shell.run("show", "no-such-id").code == 20


def test_pages_of_decisions(world, run, shell):
    for head in ("topic", "aside", "onward"):
        run("review", head=head)
    first = shell.run("patches", "--limit", "2", "--json").object
    assert [one["head"] for one in first["decisions"]] == [world.tip("onward"), world.tip("aside")]
    rest = shell.run("patches", "--before", first["before"], "--json").object
    assert ([one["head"] for one in rest["decisions"]], rest["before"]) == ([world.tip("topic")], None)
    assert shell.run("patches", "--before", "dec_none").code == 2
    assert shell.run("patches", "--state", "fail").text.strip() == "No decision is on record."


def test_nothing_that_a_reviewer_says_drives_a_terminal(world, run, shell, tmp_path):
    finding = {"severity": "blocking", "path": f"a{ESCAPES}.py", "line": 3, "message": f"it\n{ESCAPES}\nbreaks"}
    world.says("set " + repr({"verdict": "fail", "findings": [finding]}))
    said = run("review")
    assert said.code == 1
    decision = shell.run("patches", "--json").object["decisions"][0]
    outputs = [said.out, shell.run("show", decision["decision_id"]).out, shell.run("patches").out]
    outputs += [shell.run("show", decision["reviews"][0]["review_id"]).out]
    outputs += [shell.run("show", decision["decision_id"], "--json").out]
    file = tmp_path / "x.sarif"
    shell.run("show", decision["decision_id"], "--sarif", file)
    outputs.append(file.read_bytes())
    for out in outputs:
        assert HARMLESS.search(out) is None, out
        assert "\u202e" not in out.decode()
        assert "\x9b" not in out.decode()
    assert b"breaks" in outputs[1]
    assert re.search(rb"^    \| breaks$", outputs[1], re.MULTILINE), "each line of a finding in its gutter"


def test_show_of_a_decision_has_it_all(world, run, shell):
    world.says("cut 9", "fail it breaks")
    run("review")
    entry = world.decisions()[0]
    shown = shell.run("show", entry.decision_id, "--json").object
    assert shown["decision"]["state"] == "fail"
    assert [one["state"] for one in shown["reviews"]] == ["incomplete", "fail"]
    assert [one["findings"] for one in shown["reviews"]] == [
        None,
        [{"severity": "blocking", "path": "app.py", "message": "it breaks", "line": 1}],
    ]
    assert [event["event"] for event in shown["events"]] == [
        "opened",
        "asked",
        "answered",
        "asked",
        "answered",
        "moved",
    ]
    assert shown["record"]["policy_sha256"] == entry.policy_sha256
    text = shell.run("show", entry.decision_id).text
    for words in ("blocking  app.py:1", "    | it breaks", "asked > fail", entry.diff_sha, "received 9"):
        assert words in text, words
    one = shown["reviews"][0]["review_id"]
    alone = shell.run("show", one, "--json").object
    assert [review["review_id"] for review in alone["reviews"]] == [one]
    assert [event["event"] for event in alone["events"]] == ["asked", "answered"]


def test_sarif_of_a_run_that_was_not_whole(world, run, tmp_path):
    world.says("cut 9", "fail it breaks")
    file = tmp_path / "findings.sarif"
    assert run("review", "--sarif", file).code == 1
    cut, failed = strictjson.loads(file.read_bytes())["runs"]
    assert (cut["invocations"][0]["executionSuccessful"], cut["results"]) == (False, None)
    assert cut["invocations"][0]["toolExecutionNotifications"][0]["descriptor"]["id"] == "header-cut"
    assert failed["invocations"][0]["executionSuccessful"] is True
    assert [result["level"] for result in failed["results"]] == ["error"]


@pytest.mark.parametrize("answer", ["pass", "fail it breaks"])
def test_the_signed_record(world, run, tmp_path, answer):
    private, public = key_pair(tmp_path)
    world.says(answer)
    file = tmp_path / "record.json"
    run("review", "--record", file, "--key", private)
    record = intoto.read(file.read_bytes(), keys.verifier(public))
    assert record.decision.decision == answer.split()[0]
    assert record.decision.change.diff_sha == world.change().diff_sha
    assert [one.reviewer for one in record.decision.reviews] == ["tests"]


def test_no_record_of_what_is_incomplete(world, run, tmp_path):
    private, _ = key_pair(tmp_path)
    file = tmp_path / "record.json"
    file.write_bytes(b"a former one")
    world.says("cut 9")
    assert run("review", "--record", file, "--key", private).code == 10
    assert not file.exists(), "the record of a former run must not stand for this one"


def test_the_merge_carries_the_signed_record(world, run, tmp_path):
    private, public = key_pair(tmp_path)
    run("review")
    said = run("merge", "--key", private, "--json").object
    assert "record:signed" in said["evidence"]
    raw = git(world.repo, "cat-file", "commit", "main").encode() + b"\n"
    record = intoto.read(merge_message.record_of(raw.partition(b"\n\n")[2]), keys.verifier(public))
    assert (record.decision.decision, record.decision.change.head) == ("pass", world.tip("topic"))


def test_a_verdict_by_hand(world, run, shell, tmp_path):
    raw = world.verdict()
    file = tmp_path / "verdict.mc1"
    file.write_bytes(raw[:-1])
    said = run(f"decide {file}", "--json")
    assert (said.code, said.object["signal"], said.object["reviews"][0]["received_bytes"]) == (
        10,
        "body-cut",
        len(raw) - 1,
    )
    file.write_bytes(raw)
    assert run(f"decide {file}").code == 0
    assert run(f"decide {file}", "--reviewer", "mallory").code == 2
    assert run(f"decide {file}", "--job", "no spaces").code == 2


def test_a_person_is_needed(world, run, monkeypatch):
    run("review", head="rules")
    waits = run("merge", head="rules")
    assert (waits.code, "endmark.toml" in waits.text) == (16, True)
    monkeypatch.setenv("CLAUDECODE", "1")
    assert run("merge", "--approve", head="rules").code == 2
    assert world.merges() == []
    monkeypatch.delenv("CLAUDECODE")
    assert run("merge", "--approve", head="rules").code == 0


def test_what_cannot_be_tried(world, run, shell):
    assert run("review", base="no-such-branch").code == 20
    assert run("review", "--record", "x").code == 2
    assert run("review", "--repository", "x/y").code == 2
    assert shell.run("review", "--base", "main", "--head", "topic", "--repo", "/nowhere").code == 20
    said = run("review", base="start")
    assert (said.code, "no rules for the branch" in said.talk) == (2, True)
    assert world.decisions() == []


def test_reconcile_tells_of_patches(world, run, shell, monkeypatch):
    run("review")
    with monkeypatch.context() as patch:

        def end(*_args, **_more):
            raise KeyboardInterrupt

        patch.setattr("endmark.ledger.patch_book.PatchBook._move", end)
        assert run("merge").code == 130
    assert (world.states(), len(world.merges())) == (["pass"], 1)
    said = shell.run("reconcile", "--repo", world.repo, "--json")
    assert (said.code, [one["state"] for one in said.object["merged"]]) == (0, ["merged"])
    assert shell.run("reconcile", "--repo", world.repo).text.strip() == "Nothing to settle."
    assert shell.run("reconcile").code == 0, "nothing is a repository here"


def test_the_audit_counts_them(world, run, shell):
    run("review")
    said = shell.run("ledger", "verify")
    assert "1 decision, 1 review" in said.text
    found = shell.run("ledger", "verify", "--json").object
    assert (found["decisions"], found["reviews"], found["ok"]) == (1, 1, True)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_review_that_is_interrupted(world, shell, number, code):
    """The reviewer hangs: it is killed at once, its attempt is on record as incomplete, and it is not asked again."""
    world.says("hang")
    with shell.start("review", "--base", "main", "--head", "topic", "--repo", world.repo) as process:
        wait_for(lambda: world.asked() == 1)
        process.send_signal(number)
        process.communicate(timeout=20)
    assert process.returncode == code
    ((one,),) = [world.book.reviews(entry.decision_id) for entry in world.decisions()]
    assert (one.state, one.signal) == ("incomplete", "reset")
    assert world.asked() == 1
    world.says("pass")
    assert world.review().state == "pass"


def test_a_model_that_is_asked_is_let_go_of(tmp_path, shell, monkeypatch):
    with serving(Script(b"data: {}\n\n", ending=STALL)) as server:
        made = World(tmp_path / "world", policy({"deep": kind("openai", server.url)}, idle_seconds=30))
        monkeypatch.setenv("ENDMARK_LEDGER", str(made.path))
        monkeypatch.setenv("REVIEW_KEY", KEY)
        with shell.start("review", "--base", "main", "--head", "topic", "--repo", made.repo) as process:
            wait_for(lambda: server.requests)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
    assert process.returncode == 143
    assert [one.signal for one in made.book.reviews(made.decisions()[0].decision_id)] == ["reset"]
    made.end()


# ---- forges


def test_posted_to_github(world, run, monkeypatch):
    world.says("fail it breaks")
    with forges.forge() as forge:
        monkeypatch.setenv("GITHUB_TOKEN", forges.TOKEN)
        monkeypatch.setenv("GITHUB_API_URL", forge.url)
        monkeypatch.setenv("GITHUB_REPOSITORY", "owner/name")
        assert run("review", "--post", "github").code == 1
        ((method, path, body),) = forge.asked
        assert (method, path) == ("POST", "/repos/owner/name/check-runs")
        assert (body["head_sha"], body["conclusion"]) == (world.tip("topic"), "failure")
        assert [note["path"] for note in body["output"]["annotations"]] == ["app.py"]


@pytest.mark.parametrize(("answer", "state"), [("pass", "success"), ("fail", "failed"), ("cut 9", "failed")])
def test_posted_to_gitlab(world, run, monkeypatch, answer, state):
    world.says(answer)
    with forges.forge() as forge:
        monkeypatch.setenv("CI_JOB_TOKEN", forges.TOKEN)
        monkeypatch.setenv("CI_API_V4_URL", forge.url)
        monkeypatch.setenv("CI_PIPELINE_ID", "12")
        run("review", "--post", "gitlab", "--repository", "7")
        ((_, path, body),) = forge.asked
        assert path == f"/projects/7/statuses/{world.tip('topic')}"
        assert (body["state"], body["pipeline_id"]) == (state, 12)
        assert body["description"].startswith("incomplete: ") == (answer == "cut 9")


def test_a_forge_that_does_not_take_it(world, run, monkeypatch):
    """A pass that its forge was not told of is no success; the decision stands all the same."""
    with forges.forge() as forge:
        forge.faults = [500]
        monkeypatch.setenv("GITHUB_TOKEN", forges.TOKEN)
        monkeypatch.setenv("GITHUB_API_URL", forge.url)
        said = run("review", "--post", "github", "--repository", "owner/name", "--json")
    assert (said.code, said.object["state"], "--post" in said.talk) == (20, "pass", True)
    assert forges.TOKEN not in said.text + said.talk
    assert world.states() == ["pass"]


def test_nobody_is_asked_where_it_could_not_be_posted(world, run):
    assert run("review", "--post", "github").code == 2
    assert run("review", "--post", "gitlab", "--repository", "7").code == 2
    assert (world.asked(), world.decisions()) == (0, [])


# ---- replay


class Hook(BaseHTTPRequestHandler):
    def do_POST(self):  # the name that http.server looks for
        assert isinstance(self.server, Listening)
        self.server.posted.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_):
        pass


class Listening(HTTPServer):
    posted: list[bytes]
    status = 204


@pytest.fixture
def listening():
    server = Listening(("127.0.0.1", 0), Hook)
    server.posted = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_replay_alarms(world, run, shell, listening, tmp_path):
    world.says("pass", "fail", "pass")
    run("review")
    run("merge")
    url, told = f"http://127.0.0.1:{listening.server_port}/hook", tmp_path / "told.json"
    alert = ("--alert-url", url, "--alert-command", f"sh -c 'cat > {told}'")
    said = shell.run("replay", "--repo", world.repo, "-k", "2", *alert, "--json")
    assert (said.code, len(said.object["incidents"]), len(said.object["pairs"])) == (1, 1, 2)
    assert [json_of(raw)["exit_code"] for raw in (*listening.posted, told.read_bytes())] == [1, 1]
    listening.posted.clear()
    quiet = shell.run("replay", "--repo", world.repo, *alert)
    assert (quiet.code, listening.posted) == (0, [])
    assert "1 repetition, 0 flips, 0 incidents" in quiet.text


def test_the_configuration_says_who_is_told(world, run, shell, listening, tmp_path):
    """A flag goes before it; `env:NAME` keeps a webhook's path out of the file."""
    world.says("pass", "fail", "fail")
    run("review")
    run("merge")
    told = tmp_path / "told.json"
    shell.write("endmark.toml", f'[alerts]\nurl = "env:HOOK"\ncommand = "tee {told}"\n')
    shell.setenv(HOOK=f"http://127.0.0.1:{listening.server_port}/secret")
    assert shell.run("replay", "--repo", world.repo).code == 1
    assert [json_of(raw)["exit_code"] for raw in (*listening.posted, told.read_bytes())] == [1, 1]
    listening.status = 500
    said = shell.run("replay", "--repo", world.repo, "--alert-command", "false")
    assert said.talk.count("the alert") == 2
    assert "/secret" not in said.talk
    shell.write("endmark.toml", "[alerts]\nmail = 1\n")
    assert shell.run("jobs").code == 2


def json_of(raw):
    return strictjson.loads(raw)


def test_an_alert_that_does_not_get_through_is_said(world, run, shell, listening):
    world.says("pass", "fail")
    run("review")
    run("merge")
    listening.status = 500
    url = f"http://127.0.0.1:{listening.server_port}/hook"
    said = shell.run("replay", "--repo", world.repo, "--alert-url", url, "--alert-command", "/no/such/program")
    assert (said.code, said.talk.count("the alert")) == (1, 2)


@pytest.mark.parametrize("since", ["yesterday", "2026-11-30T12:00:00", "0x1h", ""])
def test_a_time_that_is_none(world, run, shell, since):
    run("review")
    assert shell.run("replay", "--repo", world.repo, "--since", since).code == 2


# ---- from Python


def test_the_python_face(world):
    with endmark.Patches(world.path, world.repo) as patches:
        passed = patches.review("main", "topic")
        name: Any = passed.decision_id
        assert isinstance(passed, endmark.PatchOutcome)
        assert (passed.state, patches.get(name)) == ("pass", passed)
        assert patches.findings(name) == []
        assert json.dumps(strictjson.loads(patches.sarif(name)))
        assert patches.merge("main", "topic").merged == world.tip()
        assert patches.reconcile().merged == []
        with pytest.raises(endmark.CannotTry, match="there is no decision dec_x"):
            patches.get("dec_x")
        with pytest.raises(ValueError, match="does not ask mallory"):
            patches.decide(b"", "main", "aside", reviewer="mallory")
        assert patches.decide(b"", "main", "aside").state == "incomplete"


def test_a_policy_of_several_at_the_shell(tmp_path, shell, monkeypatch):
    world = World(tmp_path / "two", policy(TWO))
    monkeypatch.setenv("ENDMARK_LEDGER", str(world.path))
    file = tmp_path / "verdict.mc1"
    file.write_bytes(world.verdict())
    change = ("--base", "main", "--head", "topic", "--repo", world.repo)
    said = shell.run("decide", file, *change)
    assert (said.code, "whose verdict is it" in said.talk) == (2, True)
    assert shell.run("decide", file, *change, "--reviewer", "tests").code == 16
    assert shell.run("merge", *change).code == 16
    assert shell.run("decide", file, *change, "--reviewer", "security").code == 0
    world.is_sound()
    world.close()
