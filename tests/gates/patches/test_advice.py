"""Advisors are asked and shown, and decide nothing; what a failed command said is kept."""

import pytest
from tests.effects.git.repos import git
from tests.gates.patches.world import command, policy, shown

from endmark.core import strictjson
from endmark.core.refusal import CannotTry
from endmark.core.states import Decision
from endmark.faces.patch_records import sarif_of
from endmark.ledger.patch_entry import ADVICE, Answer, NewDecision, NewReview
from endmark.steps.merging import statement
from endmark.steps.patch_case import read_case

LINT = {"tests": command(), "lint": command("lint", capacity="shared")}


def _advised(make_world, advice, word="pass", **more):
    one = make_world(policy(LINT, ["tests"], advisors=["lint"]), **more)
    one.says(word)
    one.says(advice, name="lint")
    return one


def _advice(world):
    rows = [one for entry in world.decisions() for one in world.book.reviews(entry.decision_id)]
    return [(one.reviewer, one.state.value) for one in rows if one.purpose == ADVICE]


@pytest.mark.parametrize(
    ("advice", "state"), [("pass", "pass"), ("fail", "fail"), ("cut 40", "incomplete"), ("exit 1", "incomplete")]
)
def test_advice_is_recorded_and_decides_nothing(make_world, advice, state):
    world = _advised(make_world, advice)
    done = world.review()
    assert shown(done) == ("pass", "complete", 0)
    assert set(_advice(world)) == {("lint", state)}
    assert done.evidence == ["pass:tests"]
    assert world.merge().state == "merged"
    assert len(world.merges()) == 1
    assert world.ledger.verify().ok


def test_an_advisors_pass_is_no_pass(make_world):
    for word in ("fail", "cut 40"):
        world = _advised(make_world, "pass", word)
        assert world.review().state != "pass"
        assert set(_advice(world)) == {("lint", "pass")}
        before = world.tip()
        assert world.merge().state != "merged"
        assert world.tip() == before


def test_the_book_itself_takes_no_advice_for_a_pass(make_world):
    """Whoever writes the rows: a required reviewer's pass that is advice opens nothing."""
    world = _advised(make_world, "pass")
    passed = world.book.get(world.review().decision_id)
    fields = {name: getattr(passed, name) for name in NewDecision.__struct_fields__}
    one = world.book.open(NewDecision(**fields), world.clock())
    (real,) = [each for each in world.book.reviews(passed.decision_id) if each.reviewer == "tests"]
    answer = Answer(**{name: getattr(real, name) for name in Answer.__struct_fields__})
    body = world.book.answer(real.review_id)
    how = NewReview(reviewer="tests", purpose=ADVICE)
    world.book.brought(one.decision_id, how, answer, world.clock(), body=body)
    with pytest.raises(CannotTry, match="every required reviewer"):
        world.book.move(one.decision_id, Decision.PENDING, Decision.PASS, world.clock())
    world.book.brought(one.decision_id, NewReview(reviewer="tests"), answer, world.clock(), body=body)
    assert world.book.move(one.decision_id, Decision.PENDING, Decision.PASS, world.clock()).state is Decision.PASS


def test_advice_comes_once_and_within_its_budget(make_world):
    world = _advised(make_world, "fail", "cut 40")
    world.review()
    assert world.asked("lint") == 1
    world.review()
    assert world.asked("lint") == 1  # what was said whole is not asked again
    other = _advised(make_world, "cut 40", "cut 40")
    other.review()
    other.review()
    assert other.asked("lint") == other.asked("tests") == 3


def test_no_record_of_a_merge_names_it(make_world):
    world = _advised(make_world, "fail")
    decision = world.review().decision_id
    gate, place = world.at()
    with gate:
        case = read_case(gate, place)
        made = statement(world.book, case, world.book.get(decision), world.clock())
    assert [(one.reviewer, one.verdict) for one in made.reviews] == [("tests", "pass")]


def test_sarif_says_that_it_is_advice(make_world):
    world = _advised(make_world, "fail")
    decision = world.review().decision_id
    log = strictjson.loads(sarif_of(world.book, world.book.reviews(decision)))
    said = [(run["properties"], len(run["results"])) for run in log["runs"]]
    assert sorted(said, key=str) == [({"verdict": "fail", "advice": True}, 1), ({"verdict": "pass"}, 0)]


def test_an_advisor_that_cannot_be_asked_is_in_nobodys_way(make_world):
    reviewers = {"tests": command(), "lint": command("lint", capacity="shared", key="env:NOT_SET_ANYWHERE")}
    world = make_world(policy(reviewers, ["tests"], advisors=["lint"]))
    world.says("pass")
    assert shown(world.review()) == ("pass", "complete", 0)
    assert set(_advice(world)) == {("lint", "incomplete")}
    reviewers = {"tests": command(), "lint": command("lint", capacity="shared", prompt="no/such.md")}
    world = make_world(policy(reviewers, ["tests"], advisors=["lint"]))
    world.says("pass")
    assert shown(world.review()) == ("pass", "complete", 0)
    assert set(_advice(world)) == {("lint", "incomplete")}


def test_what_a_failed_command_said_is_kept(world):
    told = "first\n" + "x" * 9000 + "\nlast words \x1b[31m"
    world.says(f"complain {told!r}")
    decision = world.review().decision_id
    said = [each.data["stderr"] for each in world.book.events(decision) if each.data.get("stderr")]
    assert len(said) == 3  # one for each attempt
    assert all(one.endswith("last words \\x1b[31m") and "first" not in one and len(one) <= 4_200 for one in said)
    assert world.ledger.verify().ok
    assert git(world.repo, "rev-parse", "main") == git(world.repo, "rev-parse", "start")
