"""Replay: verdicts are asked for again, compared, and what changed its mind is told."""

import threading
from datetime import timedelta

import pytest
from tests.effects.git.repos import git
from tests.gates.patches.models import KEY, answer, kind
from tests.gates.patches.world import START, command, policy, shown
from tests.support.server import Script, serving

from endmark.core.refusal import CannotTry
from endmark.replay import Replay
from endmark.steps.patch_case import policy_in

TWO = {"tests": command(), "security": command("security")}


def replay(world, times=1, workers=1, since=START, progress=lambda *_: None, repository=None, **more):
    gate, place = world.at(base="start", ref="main")
    with gate:
        doing = Replay(world.book, gate, world.patches(gate)._reviewing, world.clock, workers=workers, **more)
        return doing.run(repository or place.repository, since, times, progress)


def test_a_verdict_that_is_repeated(world):
    world.review()
    world.merge()
    seen = []
    done = replay(world, times=3, progress=lambda *how_far: seen.append(how_far))
    assert [(pair.first, pair.again, pair.merged) for pair in done.pairs] == [("pass", "pass", True)] * 3
    assert (done.incidents, done.skipped, world.asked()) == ([], [], 4)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    (rate,) = done.rates
    assert (rate.pairs, rate.flips, rate.low) == (3, 0, 0.0)
    assert rate.high > 0.5, "three that agree prove little"
    reviews = world.book.reviews(world.decisions()[0].decision_id)
    assert [one.purpose for one in reviews] == ["review", "replay", "replay", "replay"]
    assert len({one.shown_sha256 for one in reviews}) == 4, "fresh marks each time"


def test_inc_108_inc_109_a_verdict_that_changes_its_mind_about_what_stands_merged(world):
    world.says("pass", "pass", "fail", "pass")
    world.review()
    world.merge()
    done = replay(world, times=3)
    assert [pair.again for pair in done.pairs] == ["pass", "fail", "pass"]
    assert len(done.incidents) == 1
    assert world.states() == ["merged"], "what was done is on record as it was done"
    assert (done.rates[0].flips, done.rates[0].pairs) == (1, 3)
    world.move("main", "start")
    asked = world.asked()
    assert world.review().state == "fail", "taken back, it does not come in again: any fail wins"
    assert world.asked() == asked, "and nobody is asked again"
    assert world.merge().state == "fail"


def test_inc_108_a_fail_ends_a_pass_that_is_not_merged(world):
    world.says("pass", "fail")
    passed = world.review()
    done = replay(world)
    assert (len(done.incidents), done.pairs[0].flipped) == (0, True)
    assert shown(world.merge()) == ("fail", "complete", 1)
    assert world.book.get(passed.decision_id).state == "fail"
    assert world.merges() == []


def test_inc_109_a_fail_that_passes_now_stays_a_fail(world):
    world.says("fail", "pass")
    world.review()
    done = replay(world, times=2)
    assert [pair.again for pair in done.pairs] == ["pass", "pass"]
    assert world.review().state == "fail"
    assert world.merge().exit_code == 1
    assert world.states() == ["fail"]


def test_an_answer_that_is_not_whole_is_no_change_of_mind(world):
    world.says("pass", "cut 50")
    world.review()
    world.merge()
    done = replay(world)
    assert (done.pairs[0].again, done.pairs[0].flipped, done.incidents) == ("incomplete", False, [])
    assert (done.rates[0].pairs, done.rates[0].incomplete) == (0, 1)


def test_only_what_is_of_this_repository_and_young_enough(world):
    world.review()
    assert replay(world, since=world.time + timedelta(seconds=1)).pairs == []
    assert replay(world, repository="/another/repo.git").pairs == []
    assert len(replay(world).pairs) == 1


def test_what_cannot_be_read_any_more_is_skipped_and_said(world):
    """The head is gone: a branch that was deleted, and then collected."""
    world.review(head="topic-next")
    world.review(head="aside")
    head = world.tip("topic-next")
    git(world.repo, "update-ref", "-d", "refs/heads/topic-next")
    git(world.repo, "prune", "--expire=now")
    git(world.repo, "repack", "-adq")
    git(world.repo, "prune", "--expire=now")
    assert git(world.repo, "cat-file", "-t", head, check=False) == ""
    done = replay(world)
    assert [pair.decision_id for pair in done.pairs] == [world.decisions()[0].decision_id]
    ((skipped),) = done.skipped
    assert (skipped.reviewer, bool(skipped.why)) == ("tests", True)


def test_each_reviewer_is_asked_about_its_own(make_world):
    world = make_world(policy(TWO))
    world.says("pass")
    world.says("pass", name="security")
    world.review()
    done = replay(world, times=2)
    assert sorted(pair.reviewer for pair in done.pairs) == ["security", "security", "tests", "tests"]


def test_a_policy_that_changed_is_not_compared(world, tmp_path):
    world.review()
    file = tmp_path / "policy.toml"
    file.write_bytes(policy(retries=7))
    done = replay(world, policy=policy_in(file))
    assert (done.pairs, [one.reviewer for one in done.skipped]) == ([], ["tests"])
    assert "not what was judged then" in done.skipped[0].why


def test_it_stops_when_it_is_told_to(world):
    world.review()
    with pytest.raises(CannotTry, match="SIGTERM"):
        replay(world, stop=lambda: "SIGTERM")
    assert world.asked() == 1


@pytest.mark.parametrize("workers", [1, 4])
def test_so_many_are_asked_at_once_and_no_more(make_world, workers):
    """The server answers only once as many have asked as may; were it fewer, it would wait in vain."""
    lock, at_once, most = threading.Lock(), 0, 0
    barrier = threading.Barrier(workers)

    def wait(head, body):
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        barrier.wait(20)
        with lock:
            at_once -= 1
        return answer()(head, body)

    with serving(Script()) as server:
        rules = policy({"deep": kind("openai", server.url)}, retries=0)
        world = make_world(rules, environ={"REVIEW_KEY": KEY})
        server.play(answer())
        world.review()
        server.play(wait)
        done = replay(world, times=8, workers=workers)
    assert [pair.again for pair in done.pairs] == ["pass"] * 8
    assert most == workers
