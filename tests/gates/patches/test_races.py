"""Many at once: reviews, verdicts and merges of one change, in threads and in processes."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.effects.git.repos import PLAIN
from tests.gates.patches.world import World, policy
from tests.support.faults import locked
from tests.support.ledgers import ENGINES, emptied

from endmark.core.refusal import CannotTry
from endmark.ledger.book import Ledger
from endmark.ledger.patch_book import PatchBook

ROUNDS = 2


def twin(world):
    """The same world with a connection of its own to the ledger, as another process has one."""
    other = World.__new__(World)
    other.__dict__.update(world.__dict__)
    other.ledger = Ledger.open(world.path, create=False, timeout=10.0)
    other.book = PatchBook(other.ledger)
    return other


@pytest.fixture(params=ENGINES)
def race(request, make_world):
    """race(rules): a world with a ledger of either engine, in which the reviewers pass everything."""
    url = request.getfixturevalue("postgres_book") if request.param == "postgres" else None

    def make(rules=None):
        one = make_world(rules, ledger=url and emptied(url))
        one.says("pass")
        return one

    return make


def together(world, *doings):
    """Each of `doings` with a twin of the world, all at the same moment. Returns what they returned or raised."""
    barrier = threading.Barrier(len(doings))

    def one(doing):
        mine = twin(world)
        try:
            barrier.wait(10)
            return doing(mine)
        except Exception as fault:  # noqa: BLE001  # looked at by the test
            return fault
        finally:
            mine.close()

    with ThreadPoolExecutor(len(doings)) as pool:
        return list(pool.map(one, doings))


def test_reviews_at_once(race):
    """Each makes or joins a decision; nobody asks more often than the policy allows, nobody fails for the other."""
    world = race()
    said = together(world, *[World.review] * 3)
    assert {one.state for one in said if not isinstance(one, Exception)} == {"pass"}, said
    assert not [one for one in said if isinstance(one, Exception)]
    assert world.asked() <= 3


def test_a_fail_of_one_of_them_is_the_fail_of_all(race):
    """One process gets `fail`, the others get `pass` a moment before or after: nothing may be merged."""
    for number in range(ROUNDS):
        world = race(policy(retries=9))
        raw = world.verdict(verdict="fail", findings=[{"severity": "blocking", "path": "x", "message": f"{number}"}])
        said = together(world, World.review, World.review, lambda mine, raw=raw: mine.decide(raw))
        assert not [one for one in said if isinstance(one, Exception)], said
        assert world.merge().state == "fail"
        assert world.merges() == []
        assert "pass" not in world.states()
        world.end()


def test_one_verdict_brought_by_many(race):
    world = race()
    raw = world.verdict()
    said = together(world, *[lambda mine: mine.decide(raw)] * 4)
    assert [getattr(one, "state", one) for one in said] == ["pass"] * 4
    assert len({one.decision_id for one in said}) <= 4
    assert len(world.book.reviews_of_diff(said[0].diff_sha, world.decisions()[0].policy_sha256)) <= 4


def test_merges_at_once(race):
    world = race()
    world.review()
    said = together(world, *[World.merge] * 4)
    assert [getattr(one, "state", one) for one in said] == ["merged"] * 4, said
    assert len({one.merged for one in said}) == 1
    assert len(world.merges()) == 1
    assert world.states() == ["merged"]


def test_two_heads_race_for_one_base(race):
    world = race()
    world.review()
    world.review(head="aside")
    said = together(world, World.merge, lambda mine: mine.merge(head="aside"))
    assert sorted(one.state for one in said) == ["merged", "stale"], said
    assert len(world.merges()) == 1
    assert sorted(world.states()) == ["merged", "stale"]


def test_a_merge_and_a_fail_at_once(race):
    """Whichever the ledger writes first: a fail before the merge leaves the branch, one after it is on record."""
    for _ in range(ROUNDS):
        world = race()
        world.review()
        raw = world.verdict(verdict="fail")
        merged, failed = together(world, World.merge, lambda mine, raw=raw: mine.decide(raw))
        # Or the base had moved already, and the verdict is of another diff than this one.
        assert failed.state == "fail" or failed.signal == "stale-diff", failed
        assert (merged.state == "merged") == (len(world.merges()) == 1), merged
        assert merged.state in ("merged", "fail")
        world.end()


def test_merges_of_processes(world):
    """Real processes, as CI starts them."""
    world.review()
    command = [sys.executable, "-m", "endmark", "merge", "--base", "main", "--head", "topic", "--json"]
    command += ["--repo", str(world.repo), "--ledger", str(world.path)]
    running = [subprocess.Popen(command, env=PLAIN, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    said = [(*process.communicate(timeout=60), process.returncode) for process in running]
    assert [code for *_, code in said] == [0, 0, 0], said
    assert (len(world.merges()), world.states()) == (1, ["merged"])


def test_the_ledger_is_locked(world):
    world.review()
    world.close()
    world.ledger = Ledger.open(world.path, create=False, timeout=0.05)
    world.book = PatchBook(world.ledger)
    raw = world.verdict(head="aside")
    doings = World.merge, lambda mine: mine.review(head="aside"), lambda mine: mine.decide(raw, head="aside")
    with locked(world.path):
        for doing in doings:
            with pytest.raises(CannotTry, match="stayed locked"):
                doing(world)
    assert world.merges() == []
    assert world.states() == ["pass"]
    assert world.merge().state == "merged"
