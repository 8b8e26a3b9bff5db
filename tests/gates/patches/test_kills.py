"""kill -9 at every step of review, decide and merge: never a merge without its pass, never a record lost or double."""

import os
import random
import subprocess
import sys
from datetime import timedelta

import pytest
from tests.effects.git.repos import PLAIN
from tests.gates.patches.world import World, command, policy

from endmark.core.refusal import CannotTry
from endmark.effects.git import Gate, open_repository
from endmark.reconcile_patches import reconcile_patches
from endmark.steps.reviewing import Reviewing

VERBS = ["review", "decide", "merge"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed") / "world"
    World(folder).close()
    return folder


def run(source, verb, numbers):
    """(number, exit code, what it printed) of each."""
    # Who is killed removes nothing: its folders go where pytest removes them.
    environ = PLAIN | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(source.parent)}
    command = [sys.executable, "-m", "tests.gates.patches.killed", str(source), verb, *map(str, numbers)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [line.split(" ", 2) for line in done.stdout.splitlines()]
    return [(int(number), int(code), words) for number, code, words in found]


def look(folder, verb):
    """What a kill left is lawful, and whoever comes next brings it to its end. Returns whether main had moved."""
    world = World(folder)
    try:
        moved = world.tip() != world.tip("start")
        assert (verb == "merge") or not moved
        world.is_sound()
        if moved:
            assert world.states()[0] in ("pass", "merged"), "the branch has the last word"
            known = world.states() == ["merged"]
        if verb == "review":
            assert world.review().state == "pass"
        elif verb == "decide":
            assert world.decide((folder / "verdict.mc1").read_bytes()).state == "pass"
        merged = world.merge()
        assert (merged.state, merged.merged) == ("merged", world.tip())
        assert world.merges() == [world.tip()]
        assert world.states().count("merged") == 1
        assert not {"fail", "stale"} & set(world.states())
        assert ("merge-found" in merged.evidence) == (moved and not known)
        world.is_sound()
        return moved
    finally:
        world.close()


def killed_at(source, verb, numbers):
    moved = set()
    for number, code, _ in run(source, verb, numbers):
        assert code == -9, (verb, number)
        moved.add(look(source.with_name(f"{verb}-{number}"), verb))
    return moved


def steps_of(source, verb):
    ((_, code, words),) = run(source, verb, [0])
    state, steps = words.split()
    assert (code, state) == (0, "merged" if verb == "merge" else "pass")
    return int(steps)


@pytest.mark.parametrize("verb", VERBS)
def test_killed_at_some_steps(source, verb):
    """The last steps of a merge are the ones around the branch's move."""
    steps = steps_of(source, verb)
    last = range(steps - 7, steps + 1) if verb == "merge" else [steps]
    moved = killed_at(source, verb, sorted({*range(3, steps, max(1, steps // 4)), *last}))
    assert moved == ({True, False} if verb == "merge" else {False})


@pytest.mark.soak
@pytest.mark.parametrize("verb", VERBS)
def test_killed_at_every_step(source, verb):
    steps = steps_of(source, verb)
    chance = random.Random(4)
    killed_at(source, verb, sorted(chance.sample(range(1, steps + 1), min(200, steps))))


# ---- what a crash left is settled


def reconciled(world, later=timedelta(0)):
    world.time += later
    with Gate(open_repository(world.git_program, world.repo)) as gate:
        return reconcile_patches(world.book, gate, os.path.realpath(world.repo), world.clock)


def crash(monkeypatch, where):
    """The process ends there, as far as the ledger can tell."""

    def end(*_args, **_more):
        raise KeyboardInterrupt

    monkeypatch.setattr(where, end)


def test_a_merge_that_was_not_written_down(world, monkeypatch):
    world.review()
    with monkeypatch.context() as patch:
        crash(patch, "endmark.ledger.patch_book.PatchBook._move")
        with pytest.raises(KeyboardInterrupt):
            world.merge()
    assert (world.states(), len(world.merges())) == (["pass"], 1)
    done = reconciled(world)
    assert [one.merged for one in done.merged] == world.merges()
    assert world.states() == ["merged"]
    assert reconciled(world) == type(done)(merged=[], ended=[], alarms=[])


@pytest.mark.parametrize("next_doing", [World.review, World.merge])
def test_the_next_doing_settles_it(world, monkeypatch, next_doing):
    world.review()
    with monkeypatch.context() as patch:
        crash(patch, "endmark.ledger.patch_book.PatchBook._move")
        with pytest.raises(KeyboardInterrupt):
            world.merge()
    next_doing(world)
    assert world.states()[0] == "merged"
    assert len(world.merges()) == 1


def test_the_ledger_cannot_write_the_merge_down(world, monkeypatch):
    """Its disk is full at that very moment: what is said must not be that nothing happened."""
    world.review()

    def full(*_args, **_more):
        raise CannotTry("its disk is full; nothing was changed")

    with monkeypatch.context() as patch:
        patch.setattr("endmark.ledger.patch_book.PatchBook._move", full)
        with pytest.raises(CannotTry, match=r"stands at the merge .* could not be written down.*reconcile"):
            world.merge()
    assert len(world.merges()) == 1
    assert world.merge().state == "merged"


def test_a_fail_that_came_while_a_merge_was_unrecorded_is_an_alarm(world, monkeypatch):
    """Two processes: one dies after it moved the branch, the other was reviewing and had looked before."""
    world.review()
    raw = world.verdict(verdict="fail")
    with monkeypatch.context() as patch:
        crash(patch, "endmark.ledger.patch_book.PatchBook._move")
        with pytest.raises(KeyboardInterrupt):
            world.merge()
    with monkeypatch.context() as patch:
        patch.setattr("endmark.patch_gate.settle_merges", lambda *_: [])
        assert world.decide(raw, base="start", ref="main").state == "fail"
    done = reconciled(world)
    assert [one.state for one in done.alarms] == ["fail"]
    assert world.tip() in done.alarms[0].detail
    assert reconciled(world).alarms == [], "it is told once"


def test_reviews_that_nobody_will_answer(world, monkeypatch):
    with monkeypatch.context() as patch:
        crash(patch, "endmark.steps.reviewing.Reviewing.answer")
        with pytest.raises(KeyboardInterrupt):
            world.review()
    ((one,),) = [world.book.reviews(entry.decision_id) for entry in world.decisions()]
    assert one.state == "asked"
    assert reconciled(world, timedelta(seconds=80)).ended == [], "it may take 30 s, and some grace"
    assert reconciled(world, timedelta(seconds=20)).ended == [one.review_id]
    assert world.book.review(one.review_id).signal == "no-terminal"
    assert world.states() == ["incomplete"]
    assert reconciled(world).ended == []
    assert world.review().state == "pass"
    assert world.asked() == 1, "of three attempts that the policy allows, one was spent"


def test_nobody_is_asked_about_what_was_failed_by_whom_a_crash_took(make_world, monkeypatch):
    """A fail is on record, and whoever brought it was killed before a decision was made by it."""
    world = make_world(policy({"tests": command(), "security": command("security")}))
    with monkeypatch.context() as patch:
        crash(patch, "endmark.patch_gate.PatchGate._conclude")
        with pytest.raises(KeyboardInterrupt):
            world.decide(world.verdict(verdict="fail"), reviewer="tests")
    assert world.states() == ["pending"]
    assert world.merge().exit_code == 16
    assert (world.review().state, world.asked(), world.asked("security")) == ("fail", 0, 0)


def test_a_fail_that_comes_too_late_counts(world, monkeypatch):
    """Reconciling took a slow process for dead: its fail is not lost."""
    world.says("fail")
    real = Reviewing.answer

    def slow(self, *arguments):
        assert len(reconciled(world, timedelta(days=2)).ended) == 1
        return real(self, *arguments)

    monkeypatch.setattr(Reviewing, "answer", slow)
    assert world.review().state == "fail"
    assert world.review().state == "fail"
    assert (world.asked(), world.states()) == (1, ["incomplete", "fail"])
    assert world.merge().state == "fail"
