"""Patches over HTTP: from a verdict or a review to the merge, and what may not lead there."""

import threading

import pytest
from tests.gates.patches.world import command, policy
from tests.support.patch_service import REPOSITORY, change, deciding
from tests.support.service import TOML, answer_in, everything, served

from endmark.core import strictjson
from endmark.core.patch_outcome import PatchOutcome

OURS = ("endmark-patch", "endmark-review")


@pytest.fixture
def both(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "world" / "home"))
    with deciding(tmp_path / "world") as (world, site):
        world.says("pass")
        yield world, site


def stands(world):
    """What no refused call may change: the branch, and what was decided."""
    return world.tip(), world.merges(), world.states()


def test_a_verdict_then_the_merge(both):
    """H38 H40 H43 H45"""
    world, site = both
    raw = world.verdict()
    said = site.ask("POST", f"/v1/verdicts?{change()}", raw)
    assert (said.status, said.json["state"], said.json["exit_code"]) == (200, "pass", 0)
    assert list(said.json) == list(PatchOutcome.__struct_fields__)
    where = said.headers["location"]
    assert where == f"/v1/decisions/{said.json['decision_id']}"
    assert world.merges() == []
    again = site.ask("POST", f"/v1/verdicts?{change()}", raw)
    assert (again.status, again.json["decision_id"]) == (200, said.json["decision_id"])
    assert world.states() == ["pass"]
    shown = site.ask("GET", where).json
    assert shown["decision"] == said.json
    assert (shown["repository"], shown["record"]["submitter"]) == ("app", "local")
    assert [(one["purpose"], one["received_bytes"], one["findings"]) for one in shown["reviews"]] == [
        ("elsewhere", len(raw), [])
    ]
    assert [one["event"] for one in shown["events"]] == ["opened", "asked", "answered", "moved"]
    assert str(world.folder) not in str(shown)
    merged = site.ask("POST", f"{where}/merge", b"")
    assert (merged.status, merged.json["state"], merged.json["merged"]) == (200, "merged", world.tip())
    assert site.ask("POST", f"{where}/merge", b"").json["merged"] == world.tip()
    assert len(world.merges()) == 1


def test_reviewers_are_asked_while_nobody_waits(both):
    """H41 H42"""
    world, site = both
    world.says("fail it breaks")
    said = site.ask("POST", f"/v1/reviews?{change()}", b"")
    assert said.status in (200, 202)
    done = site.ask("GET", f"{said.headers['location']}?wait=20").json
    assert done["decision"]["state"] == "fail"
    assert [one["message"] for one in done["reviews"][0]["findings"]] == ["it breaks"]
    asked = world.asked()
    again = site.ask("POST", f"/v1/reviews?{change()}", b"")
    assert (again.status, again.json["state"], world.asked()) == (200, "fail", asked)
    refused = site.ask("POST", f"{said.headers['location']}/merge", b"")
    assert (refused.status, refused.json["state"], refused.json["exit_code"]) == (409, "fail", 1)
    assert world.merges() == []


def test_a_review_answers_at_once_and_is_asked_once(both):
    """H41"""
    world, site = both
    world.says("hang")
    first = site.ask("POST", f"/v1/reviews?{change()}", b"")
    assert (first.status, first.json["state"], first.json["next"]) == (202, "pending", "wait")
    site.until(lambda: world.asked() == 1)
    same = site.ask("POST", f"/v1/reviews?{change()}&wait=0", b"")
    assert (same.status, same.json["decision_id"]) == (202, first.json["decision_id"])
    assert world.asked() == 1
    site.service.desk._ended_by = "SIGTERM"  # as at the end of a drain: the reviewer is let go of
    site.until(lambda: not site.service.desk._reviews)
    shown = site.ask("GET", first.headers["location"]).json
    assert [(one["state"], one["signal"]) for one in shown["reviews"]] == [("incomplete", "reset")]


def test_more_reviews_than_there_is_room_for(tmp_path, monkeypatch):
    """H42 H33: when the service ends, reviewers are let go of, and their attempts are on record."""
    monkeypatch.setenv("HOME", str(tmp_path / "world" / "home"))
    with deciding(tmp_path / "world", max_reviews=1, drain_timeout=0.3) as (world, site):
        world.says("hang")
        assert site.ask("POST", f"/v1/reviews?{change()}", b"").status == 202
        site.until(lambda: world.asked() == 1)
        busy = site.ask("POST", f"/v1/reviews?{change(head='aside')}", b"")
        assert (busy.status, busy.json["signal"]) == (503, "busy")
        assert world.states() == ["pending"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(OURS)]


def test_a_person_approves_what_the_policy_leaves_to_one(both):
    """H16 H44"""
    world, site = both
    tokens = {name: site.make_token(name, "review", "approve") for name in ("bringer", "person")}
    raw = world.verdict(head="rules")
    said = site.ask("POST", f"/v1/verdicts?{change(head='rules')}", raw, token=tokens["bringer"])
    where = said.headers["location"]
    waits = site.ask("POST", f"{where}/merge", b"", token=tokens["person"])
    assert (waits.status, waits.json["next"], waits.json["exit_code"]) == (409, "ask-person", 16)
    own = site.ask("POST", f"{where}/approve", b"", token=tokens["bringer"])
    assert (own.status, own.json["signal"]) == (403, "forbidden")
    assert world.merges() == []
    looked = site.ask("POST", f"{where}/approve", b"", token=tokens["person"])
    assert (looked.status, looked.json["evidence"][-1]) == (200, "approved-by:person")
    merged = site.ask("POST", f"{where}/merge", b"", token=tokens["bringer"])
    assert (merged.status, merged.json["state"]) == (200, "merged")
    assert "approved-by:person" in merged.json["evidence"]
    assert [one for one in site.ask("GET", where, token=tokens["person"]).json["events"] if "approver" in one]
    over = site.ask("POST", f"{where}/approve", b"", token=tokens["person"])
    assert (over.status, over.json["signal"]) == (409, "conflict")


def test_what_needs_nobody_is_not_approved(both):
    world, site = both
    said = site.ask("POST", f"/v1/verdicts?{change()}", world.verdict())
    needless = site.ask("POST", f"{said.headers['location']}/approve", b"")
    assert (needless.status, needless.json["signal"], world.states()) == (409, "conflict", ["pass"])


def test_a_pass_that_was_overtaken_is_not_merged(both):
    """H45"""
    world, site = both
    said = site.ask("POST", f"/v1/verdicts?{change()}", world.verdict())
    world.move("main", "onward")
    late = site.ask("POST", f"{said.headers['location']}/merge", b"")
    assert (late.status, late.json["state"], late.json["exit_code"]) == (409, "stale", 14)
    assert world.tip() == world.tip("onward")


def test_a_fail_ends_a_pass_that_is_not_merged(both):
    world, site = both
    said = site.ask("POST", f"/v1/verdicts?{change()}", world.verdict())
    finding = {"severity": "blocking", "path": "app.py", "line": 1, "message": "no"}
    failed = site.ask("POST", f"/v1/verdicts?{change()}", world.verdict(verdict="fail", findings=[finding]))
    assert (failed.status, failed.json["state"], failed.json["exit_code"]) == (200, "fail", 1)
    assert site.ask("POST", f"{said.headers['location']}/merge", b"").status == 409
    assert world.merges() == []


def test_several_reviewers_are_waited_for(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "world" / "home"))
    rules = policy({"tests": command(), "security": command("security")})
    with deciding(tmp_path / "world", rules) as (world, site):
        nobody = site.ask("POST", f"/v1/verdicts?{change()}", world.verdict())
        assert (nobody.status, nobody.json["signal"], world.states()) == (400, "usage", [])
        one = site.ask("POST", f"/v1/verdicts?{change(reviewer='tests')}", world.verdict())
        assert (one.status, one.json["state"], one.json["exit_code"]) == (202, "pending", 16)
        two = site.ask("POST", f"/v1/verdicts?{change(reviewer='security')}", world.verdict())
        assert (two.status, two.json["state"]) == (200, "pass")
        assert two.json["decision_id"] == one.json["decision_id"]


NACKS = {
    "nothing": (lambda raw: b"", 422, "empty", 10),
    "half of it": (lambda raw: raw[: len(raw) // 2], 422, "body-cut", 10),
    "all but a byte": (lambda raw: raw[:-1], 422, "body-cut", 10),
    "a flipped bit": (lambda raw: raw.replace(b"pass", b"past"), 422, "envelope-digest", 11),
    "no envelope": (lambda raw: raw.partition(b"\n")[2], 422, "two-documents", 12),
}


@pytest.mark.parametrize("name", NACKS)
def test_a_verdict_that_is_not_whole_decides_nothing(both, name):
    """H40"""
    world, site = both
    change_it, status, signal, code = NACKS[name]
    raw = change_it(world.verdict())
    said = site.ask("POST", f"/v1/verdicts?{change()}", raw)
    assert said.headers["content-type"] == "application/problem+json"
    facts = (said.status, said.json["state"], said.json["signal"], said.json["exit_code"])
    assert facts == (status, "incomplete", signal, code)
    assert said.json["received_bytes"] == len(raw)
    assert (world.states(), world.merges()) == (["incomplete"], [])
    whole = site.ask("POST", f"/v1/verdicts?{change()}", world.verdict())
    assert (whole.status, whole.json["state"]) == (200, "pass")


def test_a_verdict_on_another_change_is_overtaken(both):
    world, site = both
    said = site.ask("POST", f"/v1/verdicts?{change(head='aside')}", world.verdict())
    assert (said.status, said.json["signal"], said.json["exit_code"]) == (409, "stale-diff", 14)
    other = site.ask("POST", f"/v1/verdicts?{change()}", world.verdict(policy_version="another"))
    assert (other.status, other.json["signal"]) == (409, "stale-policy")
    assert "pass" not in world.states()


def test_an_id_is_spent_by_what_was_cut(both):
    """H6"""
    world, site = both
    raw = world.verdict()
    first = site.ask("POST", f"/v1/verdicts?{change()}", raw[:-5], "Endmark-Job-Id: v-1")
    assert (first.status, first.json["attempt_id"]) == (422, "v-1")
    again = site.ask("POST", f"/v1/verdicts?{change()}", raw, "Endmark-Job-Id: v-1")
    assert (again.status, again.json["signal"], again.json["exit_code"]) == (409, "id-reused", 12)
    assert "pass" not in world.states()


CALLS = {
    "no repository": ("POST", "/v1/verdicts?base=main&head=topic", 400, "usage"),
    "no base": ("POST", "/v1/verdicts?repository=app&head=topic", 400, "usage"),
    "a path": ("POST", f"/v1/verdicts?{change(repository='/srv/git/app.git')}", 404, "not-found"),
    "a path within": ("POST", f"/v1/reviews?{change(repository='../app')}", 404, "not-found"),
    "an option for a head": ("POST", f"/v1/verdicts?{change(head='--upload-pack=x')}", 503, "could-not-try"),
    "no such branch": ("POST", f"/v1/verdicts?{change(base='nothing')}", 404, "not-found"),
    "a NUL": ("POST", f"/v1/verdicts?{change(head=chr(0))}", 400, "usage"),
    "a branch without rules": ("POST", f"/v1/verdicts?{change(base='start')}", 409, "conflict"),
    "a reviewer whom nobody asks": ("POST", f"/v1/verdicts?{change(reviewer='mallory')}", 400, "usage"),
    "a review with a body": ("POST", f"/v1/reviews?{change()}", 400, "usage"),
    "no such decision": ("GET", "/v1/decisions/dec_none", 404, "not-found"),
    "no such decision to merge": ("POST", "/v1/decisions/dec_none/merge", 404, "not-found"),
    "no such state": ("GET", "/v1/decisions?state=odd", 400, "usage"),
    "no such page": ("GET", "/v1/decisions?cursor=dec_none", 400, "usage"),
    "no such repository": ("GET", "/v1/decisions?repository=other", 404, "not-found"),
    "too long a wait": ("GET", "/v1/decisions/dec_none?wait=31", 400, "usage"),
}


def test_calls_that_make_no_sense_leave_no_record(both):
    """H10 H39"""
    world, site = both
    before = stands(world)
    for name, (method, path, status, signal) in CALLS.items():
        said = site.ask(method, path, b"x" if method == "POST" else None)
        assert (said.status, said.json["signal"], said.json["state"]) == (status, signal, "not-tried"), name
    assert stands(world) == before
    assert world.asked() == 0


def test_who_sends_a_body_for_nothing_gets_the_answer_all_the_same(both):
    """H47"""
    _, site = both
    for path in (f"/v1/verdicts?{change(repository='no')}", "/v1/jobs?target=nobody"):
        with site.connect() as wire:
            wire.sendall(site.head("POST", path, "Content-Length: 60000"))
            wire.settimeout(0.2)
            with pytest.raises(TimeoutError):
                wire.recv(1)  # the service waits for what was declared
            wire.settimeout(20)
            wire.sendall(b"x" * 60_000)
            assert answer_in(everything(wire)).status == 404
        with site.connect() as wire:  # and not for long
            wire.sendall(site.head("POST", path, "Content-Length: 60000"))
            assert answer_in(everything(wire)).status == 404


def test_pages_of_decisions_follow_one_another(both):
    """H46"""
    world, site = both
    for head in ("topic", "aside", "topic-next"):
        site.ask("POST", f"/v1/verdicts?{change(head=head)}", world.verdict(head=head))
    seen, cursor = [], ""
    while cursor is not None:
        path = "/v1/decisions?limit=2&state=pass&repository=app&ref=main" + (f"&cursor={cursor}" if cursor else "")
        page = site.ask("GET", path).json
        seen += [one["head"] for one in page["decisions"]]
        cursor = page["cursor"]
    assert seen == [world.tip("topic-next"), world.tip("aside"), world.tip("topic")]
    for nothing in ("ref=other", "state=fail"):
        assert site.ask("GET", f"/v1/decisions?{nothing}").json["decisions"] == []


def test_a_repository_with_a_guard_takes_no_unsigned_merge(both, tmp_path, monkeypatch):
    """H45"""
    world, site = both
    said = site.ask("POST", f"/v1/verdicts?{change()}", world.verdict())
    monkeypatch.setattr("endmark.effects.git.hooks.guards", lambda _repository: True)
    refused = site.ask("POST", f"{said.headers['location']}/merge", b"")
    assert (refused.status, refused.json["signal"], world.merges()) == (409, "conflict", [])


def test_a_repository_that_cannot_be_read_is_not_tried(tmp_path):
    with served(tmp_path, toml=TOML + REPOSITORY) as site:
        said = site.ask("POST", f"/v1/verdicts?{change()}", b"x")
        assert (said.status, said.json["exit_code"]) == (503, 20)
        assert site.ask("GET", "/v1/decisions").json["decisions"] == []


def test_who_waits_is_told_of_the_end(both):
    """H43"""
    world, site = both
    world.says("hang")
    where = site.ask("POST", f"/v1/reviews?{change()}", b"").headers["location"]
    site.until(lambda: world.asked() == 1)
    with site.connect() as wire:
        wire.sendall(site.head("GET", f"{where}?wait=30", "Connection: close"))
        site.until(lambda: site.service.limits.watchers == 1)
        raw = world.verdict(verdict="fail", findings=[{"severity": "blocking", "path": "a", "message": "no"}])
        assert site.ask("POST", f"/v1/verdicts?{change()}", raw).json["state"] == "fail"
        said = answer_in(everything(wire))
    assert strictjson.loads(said.body)["decision"]["state"] == "fail"
    site.service.desk._ended_by = "SIGTERM"
