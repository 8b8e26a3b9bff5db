"""The two example gates: a drill finds every accepting offset that counting by hand finds, no more and no fewer."""

import shutil

import pytest
from tests.drills.sweeping import HOLES, PYTHON, VERDICT, command, counts, drill, holes

from endmark.drills import faults, minimise
from endmark.drills.faults import Broken, Cut
from endmark.drills.sweep.batch import Bench
from endmark.drills.sweep.world import Commands
from endmark.drills.targets.answer import Answer

PLAN = b'{"job_id":"j","statements":["CREATE TABLE a(x)","CREATE TABLE b(x)"]}'
BRACE = command(*PYTHON, HOLES / "appends_brace.py")
# By hand: the braces, commas and quotes of VERDICT, counted.
BY_HAND = [f"cut:{at}" for at in (18, 19, 20, 38, 39, 40, 72)]


@pytest.fixture
def worker(tmp_path):
    """The worker that applies a prefix, with or without its table of jobs, and its world."""

    def make(*flags, refused_if=("stdout:ended early",), reset=True):
        database = tmp_path / "app{worker}.db"
        world = Commands(
            effect=f"cksum {database}",
            reset=f"rm -f {database}" if reset else None,
        )
        return command(*PYTHON, HOLES / "applies_prefix.py", database, *flags, refused_if=refused_if), world

    return make


def test_the_parser_that_appends_a_brace():
    swept = drill(BRACE, VERDICT, workers=2, batch=20)
    assert holes(swept) == BY_HAND
    assert counts(swept) == {"ACCEPTED": 7, "REFUSED": 66}
    assert (swept.control, swept.tried, swept.exit_code) == ("accepted", 73, 1)


def test_its_holes_are_seen_again_from_their_text_and_so_is_the_smallest_input():
    for text in BY_HAND[:2]:
        swept = drill(BRACE, VERDICT, only=text)
        assert (holes(swept), swept.tried) == ([text], 1)
    assert holes(drill(BRACE, VERDICT, only="cut:17")) == []
    from endmark.drills.body import Body

    bench = Bench(BRACE.open(0), None, Body(VERDICT), 5.0)
    small = minimise.minimise(bench, Broken(Cut(40)), Answer.ACCEPTED)
    assert small == faults.parse(str(small))
    assert small.data == b'{"verdict":"pass"'
    assert holes(drill(BRACE, VERDICT, only=str(small))) == [str(small)]


def by_hand(plan):
    """From the offset on at which the first statement has been closed, something is applied of every cut."""
    first = plan.index(b'(x)"') + len(b'(x)"')
    return [f"cut:{at}" for at in range(first, len(plan))]


@pytest.mark.parametrize("flags", [(), ("--jobs",)], ids=["no job table", "a job table"])
def test_the_worker_that_applies_a_prefix(worker, flags):
    target, world = worker(*flags)
    swept = drill(target, PLAN, world=world, workers=2)
    assert holes(swept) == by_hand(PLAN)
    assert counts(swept) == {"EFFECT": len(by_hand(PLAN)), "REFUSED": PLAN.index(b'(x)"') + 4}
    assert swept.control == "accepted"


def test_its_exit_code_alone_is_a_hole_at_every_byte(worker):
    target, _ = worker(refused_if=())
    database = Commands(reset="true")
    swept = drill(target, b'{"statements":[]}', world=database)
    assert holes(swept) == [f"cut:{at}" for at in range(17)]


def test_kept_state_hides_the_holes_and_the_control_says_so(worker):
    target, world = worker("--jobs", reset=False)
    swept = drill(target, PLAN, "tokens", world=world)
    assert swept.exit_code == 1
    assert swept.count(Answer.INCONCLUSIVE) > 0 or swept.control != "accepted"
    assert len(holes(swept)) < len(by_hand(PLAN))


def test_python_is_what_the_examples_are_run_with():
    assert shutil.which(PYTHON[0])
