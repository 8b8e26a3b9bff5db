"""What only one check stands against: ids that come again, others that were faster, rules that are not there."""

import msgspec
import pytest
from tests.effects.git.repos import git
from tests.gates.patches.world import command, policy, shown

from endmark.core import policy as policies
from endmark.core.policy import PolicyRefused
from endmark.core.refusal import CannotTry
from endmark.core.states import Decision
from endmark.effects.git import Gate, open_repository
from endmark.effects.git.merge import OutcomeUnknown
from endmark.ledger.patch_book import PatchBook
from endmark.reconcile_patches import GRACE, reconcile_patches
from endmark.steps import merging, patch_approval
from endmark.steps.patch_case import policy_of, read_again
from endmark.steps.reviewing import Reviewing

TWO = {"tests": command(), "security": command("security")}


# --- verdicts that come again


def test_a_verdict_about_what_conflicts_is_no_decision(world):
    raw = world.verdict()
    world.move("main", "clash")
    assert shown(world.decide(raw)) == ("incomplete", "merge-conflict", 13)


def test_an_id_belongs_to_one_change_and_one_policy(world, tmp_path):
    raw, other = world.verdict(), tmp_path / "other.toml"
    other.write_bytes(b"# another\n" + policy())
    first = world.decide(raw, name="n1")
    assert first.state == "pass"
    for more in ({"head": "topic-next"}, {"policy_file": other}):
        assert shown(world.decide(raw, name="n1", **more))[:2] == ("incomplete", "id-reused")
    assert world.decide(raw, name="n1").decision_id == first.decision_id


def test_a_verdict_that_was_not_whole_comes_again(world):
    raw = world.verdict()[:-1]
    first, second = (world.decide(raw, name="n1") for _ in range(2))
    assert (first.state, second.state, second.decision_id) == ("incomplete", "incomplete", first.decision_id)
    assert "decided nothing" not in second.detail


def test_a_pass_of_what_stands_merged_decides_nothing_anew(world):
    raw = world.verdict()
    world.review()
    merged = world.merge()
    again = world.decide(raw, base="start", ref="main")
    assert (again.state, again.decision_id, world.states()) == ("merged", merged.decision_id, ["merged"])


def test_a_pass_is_carried_once_and_as_its_reviewers(make_world):
    world = make_world(policy(TWO, retries=0))
    world.says("cut 50")
    world.says("pass", name="security")
    assert world.review().state == "incomplete"
    again = world.review()
    assert sorted((one.reviewer, one.purpose) for one in again.reviews if one.state == "pass") == [
        ("security", "carried")
    ]
    assert again.state == "incomplete"


# --- what stops it


def test_nobody_is_asked_once_it_is_told_to_stop(world):
    gate, place = world.at()
    with gate, pytest.raises(CannotTry, match="SIGTERM came before tests was asked"):
        world.patches(gate, stop=lambda: "SIGTERM").review(gate, place, "tester")
    assert world.asked() == 0


def test_a_reviewer_that_cannot_be_shown_the_change_stops_the_review(world, monkeypatch):
    def gone(*_):
        raise CannotTry("its prompt is gone")

    monkeypatch.setattr(Reviewing, "show", gone)
    with pytest.raises(CannotTry, match="prompt is gone"):
        world.review()
    assert (world.asked(), world.states()) == (0, ["pending"])


def others_first(monkeypatch, *ends):
    """Before this process ends a decision, another one does, as `ends` says."""
    real, left = PatchBook.move, list(ends)

    def move(book, name, was, to, now, **more):
        if left:
            end = left.pop()
            if isinstance(end, Exception):
                raise end
            real(book, name, was, end, now, signal=more["signal"], detail="by another")
        return real(book, name, was, to, now, **more)

    monkeypatch.setattr(PatchBook, "move", move)


@pytest.mark.parametrize(
    ("ours", "other", "states"),
    [
        ("pass", Decision.INCOMPLETE, ["incomplete", "pass"]),  # whole verdicts count in one of their own
        ("pass", Decision.PASS, ["pass"]),
        ("cut 50", Decision.INCOMPLETE, ["incomplete"]),
    ],
)
def test_another_process_ends_the_decision_first(make_world, monkeypatch, ours, other, states):
    world = make_world(policy(retries=0))
    world.says(ours)
    others_first(monkeypatch, other)
    assert (world.review().state, world.states()) == (states[-1], states)


def test_a_ledger_that_takes_no_pass_is_told_no_fail(world, monkeypatch):
    others_first(monkeypatch, CannotTry("the ledger is locked"))
    with pytest.raises(CannotTry, match="locked"):
        world.review()
    assert world.states() == ["pending"]


# --- merging


def by_hand(world, merged):
    world.move("main", "topic")


def made_anew(world, merged):
    """The gate's own merge once more, with everything but its time."""
    parents = [
        word for parent in git(world.repo, "rev-parse", f"{merged}^1", f"{merged}^2").split() for word in ("-p", parent)
    ]
    message = git(world.repo, "show", "-s", "--format=%B", merged).encode()
    world.move("main", git(world.repo, "commit-tree", *parents, "-F", "-", f"{merged}^{{tree}}", stdin=message))


@pytest.mark.parametrize("otherwise", [by_hand, made_anew])
def test_what_is_merged_otherwise_now_is_not_called_the_gates_merge(world, otherwise):
    world.review()
    merged = world.merge().merged
    otherwise(world, merged)
    assert world.tip() != merged
    assert world.merge().state != "merged"


def test_a_merge_whose_answer_is_lost_is_for_reconciling(world, monkeypatch):
    def lost(*_, **__):
        raise OutcomeUnknown("refs/heads/main", "0" * 40, "nobody can read where main stands")

    world.review()
    monkeypatch.setattr(merging, "merge", lost)
    with pytest.raises(CannotTry, match=r"where main stands\. 'endmark reconcile' settles it"):
        world.merge()
    assert world.states() == ["pass"]


def test_a_pass_by_a_policy_on_the_server_that_changed_is_stale(world, tmp_path):
    files = [tmp_path / name for name in ("one.toml", "other.toml")]
    for file in files:
        file.write_bytes(f"# {file.name}\n".encode() + policy())
    assert world.review(policy_file=files[0]).state == "pass"
    assert shown(world.merge(policy_file=files[1]))[:2] == ("stale", "stale-policy")
    assert world.states() == ["stale"]


# --- the case


def test_nobody_approves_what_needs_no_person(world):
    gate, place = world.at()
    with gate:
        entry = world.book.get(world.patches(gate).review(gate, place, "tester").decision_id)
        case = read_again(gate, entry)
        with pytest.raises(patch_approval.Conflict, match="changes nothing that needs a person"):
            patch_approval.approve(world.book, case, entry, "Ada", world.clock)
        with pytest.raises(CannotTry, match="not what was judged then"):
            read_again(gate, msgspec.structs.replace(entry, diff_sha="0" * 64))
    assert patch_approval.approver_of(world.book, entry.decision_id) is None


def test_a_base_that_names_no_branch_or_has_no_policy(make_world):
    world = make_world()
    with pytest.raises(CannotTry, match="--ref must name the branch"):
        world.at(base=world.tip())
    bare = git(world.repo, "commit-tree", "-m", "no policy", f"{world.tip('orphan')}^{{tree}}")
    with pytest.raises(PolicyRefused, match=r"there is no endmark\.toml"):
        world.at(base=bare, ref="main")


def test_a_policy_that_is_too_long_is_refused_as_a_policy(make_world):
    world = make_world(policy() + b"#" * policies.MOST_BYTES)
    with Gate(open_repository(world.git_program, world.repo)) as gate, pytest.raises(PolicyRefused):
        policy_of(gate, world.tip())


def test_a_review_is_ended_the_moment_its_time_is_up(world, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Reviewing, "answer", killed)
    with pytest.raises(KeyboardInterrupt):
        world.review()
    (one,) = world.book.reviews(world.decisions()[0].decision_id)
    up = world.time.fromisoformat(one.asked_at) + GRACE * 1.5  # the policy lets it take 30 s
    gate, place = world.at()
    with gate:
        assert reconcile_patches(world.book, gate, place.repository, lambda: up).ended == [one.review_id]
