"""The whole way with a real repository and a real command: reviewed or decided, then merged; what else may happen."""

import msgspec
import pytest
from tests.core.payloads import dump, envelope
from tests.effects.git.repos import git
from tests.gates.patches.world import VERSION, command, policy, shown

from endmark.core import merge_message
from endmark.core.decision import Next
from endmark.core.policy import PolicyRefused
from endmark.core.refusal import CannotTry
from endmark.patch_gate import NoSuchReviewer

TWO = {"tests": command(), "security": command("security")}


@pytest.mark.parametrize(
    ("head", "object_format"),
    [("topic", "sha1"), ("aside", "sha256"), ("octopus", "sha1"), ("orphan-child", "sha256")],
)
def test_reviewed_and_merged(make_world, object_format, head):
    world = make_world(object_format=object_format)
    world.says("pass")
    if head == "orphan-child":  # of a root commit of its own: a merge of two histories
        head = git(world.repo, "commit-tree", "-p", "topic", "-p", "aside", "-m", "x", "topic^{tree}")
        world.move("orphan-child", head)
        head = "orphan-child"
    world.move("main", "onward")
    base = world.tip()
    change = world.change(head=head)
    passed = world.review(head=head)
    assert (shown(passed), world.tip()) == (("pass", "complete", 0), base)
    (review,) = passed.reviews
    assert (review.reviewer, review.purpose, review.state, review.blocking) == ("tests", "review", "pass", 0)
    done = world.merge(head=head)
    assert (shown(done), done.merged) == (("merged", "complete", 0), world.tip())
    assert git(world.repo, "show", "-s", "--format=%P", "main").split() == [base, world.tip(head)]
    assert git(world.repo, "rev-parse", "main^{tree}") == change.merge_tree
    message = git(world.repo, "show", "-s", "--format=%B", "main").encode()
    assert merge_message.decision_of(message) == passed.decision_id
    assert world.book.get(passed.decision_id).merged == done.merged


def test_decided_and_merged(world):
    raw = world.verdict()
    passed = world.decide(raw)
    assert shown(passed) == ("pass", "complete", 0)
    assert world.book.answer(passed.reviews[0].review_id) == raw
    assert shown(world.merge()) == ("merged", "complete", 0)
    assert len(world.merges()) == 1
    assert world.asked() == 0


def test_everything_may_be_said_twice(world):
    passed = world.review()
    assert world.review() == passed
    raw = world.verdict(head="aside")
    decided = world.decide(raw, head="aside")
    again = world.decide(raw, head="aside")
    assert again.detail.startswith("Brought before, nothing was done now. ")
    assert msgspec.structs.replace(again, detail=decided.detail) == decided
    merged = world.merge()
    assert world.merge() == merged
    assert world.review(base=world.tip("start"), ref="main").merged == merged.merged
    assert (len(world.merges()), world.asked()) == (1, 1)


def test_a_fail_is_never_asked_into_a_pass(world):
    world.says("fail", "pass")
    failed = world.review()
    assert (shown(failed), failed.reviews[0].blocking) == (("fail", "complete", 1), 1)
    for _ in range(2):
        assert world.review().decision_id == failed.decision_id
    assert world.asked() == 1
    brought = world.decide(world.verdict())
    assert shown(brought) == ("fail", "complete", 1)
    assert [one.state for one in brought.reviews] == ["fail", "pass"], "what was brought is on record all the same"
    assert shown(world.merge()) == ("fail", "complete", 1)
    assert world.merges() == []


def test_a_fail_ends_a_pass_that_is_not_merged(world):
    passed = world.review()
    failed = world.decide(world.verdict(verdict="fail"))
    assert (failed.decision_id, shown(failed)) == (passed.decision_id, ("fail", "complete", 1))
    assert shown(world.merge()) == ("fail", "complete", 1)
    assert world.merges() == []


def test_a_fail_after_the_merge_is_said(world):
    world.review()
    world.merge()
    diff_sha = world.decisions()[-1].diff_sha
    body = {"verdict": "fail", "diff_sha": diff_sha, "policy_version": VERSION}
    said = world.decide(envelope(dump(body)), base=world.tip("start"), ref="main")
    assert shown(said) == ("fail", "complete", 1)
    assert world.states()[0] == "merged"
    assert world.states()[-1] == "fail"


def test_only_incomplete_is_asked_again_each_under_an_id_of_its_own(world):
    world.says("cut 100", "exit 3", "pass")
    passed = world.review()
    assert shown(passed) == ("pass", "complete", 0)
    assert [(one.state, one.signal) for one in passed.reviews] == [
        ("incomplete", "body-cut"),
        ("incomplete", "bad-stop"),
        ("pass", "complete"),
    ]
    assert len({one.review_id for one in passed.reviews}) == 3
    assert passed.reviews[0].received_bytes == 100
    assert passed.reviews[0].expected_bytes > 100


def test_the_budget_is_of_the_change_and_then_a_person_is_needed(world):
    world.says("cut 100")
    ended = world.review()
    assert (shown(ended), ended.next) == (("incomplete", "body-cut", 10), Next.ASK)
    assert world.asked() == 3
    again = world.review()
    assert (shown(again), again.next, world.asked()) == (("incomplete", "body-cut", 10), Next.ASK, 3)
    assert "Every attempt that the policy allows was made" in again.detail
    assert world.merge().exit_code == 10
    assert shown(world.decide(world.verdict())) == ("pass", "complete", 0)
    assert shown(world.review(head="topic-next"))[0] == "incomplete"
    assert world.asked() == 6


def test_several_reviewers_must_all_pass(make_world):
    world = make_world(policy(TWO, retries=0))
    world.says("pass")
    world.says("cut 5", name="security")
    ended = world.review()
    assert (shown(ended), sorted(one.state for one in ended.reviews)) == (
        ("incomplete", "header-cut", 10),
        ["incomplete", "pass"],
    )
    assert world.merge().exit_code == ended.exit_code
    passed = world.decide(world.verdict(), reviewer="security")
    assert shown(passed) == ("pass", "complete", 0)
    purposes = {one.reviewer: one.purpose for one in passed.reviews}
    assert purposes == {"tests": "carried", "security": "elsewhere"}
    assert (world.asked(), world.asked("security")) == (1, 1)
    assert shown(world.merge())[0] == "merged"


def test_one_fails_the_other_passes(make_world):
    world = make_world(policy(TWO))
    world.says("pass")
    world.says("fail", "pass", name="security")
    assert shown(world.review()) == ("fail", "complete", 1)
    assert shown(world.decide(world.verdict(), reviewer="security"))[0] == "fail"
    assert world.merge().exit_code == 1


def test_verdicts_of_several_come_one_by_one(make_world):
    world = make_world(policy(TWO))
    first = world.decide(world.verdict(), reviewer="tests")
    assert shown(first) == ("pending", "complete", 16)
    assert world.merge().exit_code == 16
    cut = world.decide(world.verdict()[:-1], reviewer="security")
    assert shown(cut) == ("incomplete", "body-cut", 10)
    last = world.decide(world.verdict(), reviewer="security")
    assert shown(last) == ("pass", "complete", 0)


def test_whose_verdict_it_is_must_be_known(make_world):
    world = make_world(policy(TWO))
    with pytest.raises(NoSuchReviewer, match="whose verdict"):
        world.decide(world.verdict())
    with pytest.raises(NoSuchReviewer, match="does not ask mallory"):
        world.decide(world.verdict(), reviewer="mallory")
    assert world.decisions() == []


def test_a_verdict_that_is_not_whole_is_said_so_though_a_pass_stands(world):
    passed = world.review()
    raw = world.verdict()
    said = world.decide(raw[:-1])
    assert (shown(said), said.decision_id) == (("incomplete", "body-cut", 10), passed.decision_id)
    assert "stays pass" in said.detail
    assert [one.received_bytes for one in said.reviews][1:] == [len(raw) - 1], "the nack is stored with its byte count"
    assert shown(world.decide(raw[:-1])) == ("incomplete", "body-cut", 10), "the same when it is said twice"
    assert shown(world.merge())[0] == "merged"


def test_each_nack_has_its_own_signal(world):
    raw = world.verdict()
    assert shown(world.decide(raw[:50])) == ("incomplete", "header-cut", 10)
    flipped = bytearray(raw)
    flipped[-20] ^= 1
    assert shown(world.decide(bytes(flipped))) == ("incomplete", "envelope-digest", 11)
    assert shown(world.decide(raw + b"x")) == ("incomplete", "bytes-after-end", 12)
    assert shown(world.decide(b"")) == ("incomplete", "empty", 10)
    kept = [world.book.answer(entry.reviews[0].review_id) for entry in map(world.outcome, world.decisions()[::-1])]
    assert kept == [None, bytes(flipped), None, None], "what may be a mix-up is kept for people"


def test_an_id_belongs_to_one_verdict(world):
    first = world.decide(world.verdict(), name="ci-1")
    assert world.decide(world.verdict(), name="ci-1").decision_id == first.decision_id
    other = world.decide(world.verdict(verdict="fail"), name="ci-1")
    assert (shown(other), other.next) == (("incomplete", "id-reused", 12), Next.NONE)
    assert shown(world.decide(world.verdict(head="aside"), head="aside", name="ci-1")) == (
        "incomplete",
        "id-reused",
        12,
    )
    assert world.book.get(first.decision_id).state == "pass"


def test_an_id_belongs_to_one_reviewer(make_world):
    """Two reviewers may say the same in the same bytes; one attempt is still not both of theirs."""
    world = make_world(policy(TWO))
    world.decide(world.verdict(), reviewer="tests", name="ci-1")
    said = world.decide(world.verdict(), reviewer="security", name="ci-1")
    assert shown(said) == ("incomplete", "id-reused", 12)
    assert world.merge().exit_code == 16


# ---- what may not be merged, or only by a person


@pytest.mark.parametrize(
    ("head", "path"), [("rules", "endmark.toml"), ("other-reviewer", "tools/review.py"), ("gitattributes", None)]
)
def test_what_a_person_must_look_at(world, head, path):
    if path is None:
        path, head = ".gitattributes", "attributes"
        blob = git(world.repo, "hash-object", "-w", "--stdin", stdin=b"* -diff\n")
        tree = git(world.repo, "ls-tree", "main") + f"\n100644 blob {blob}\t.gitattributes\n"
        tree = git(world.repo, "mktree", stdin=tree.encode())
        world.move(head, git(world.repo, "commit-tree", "-p", "main", "-m", "x", tree))
    assert shown(world.review(head=head)) == ("pass", "complete", 0), "judged by the base's own rules"
    waits = world.merge(head=head)
    assert (waits.exit_code, waits.state, waits.next) == (16, "pass", Next.ASK)
    assert path in waits.detail
    assert world.merges() == []
    merged = world.merge(head=head, approver="ann")
    assert shown(merged)[0] == "merged"
    assert world.book.get(merged.decision_id).approver == "ann"
    assert "approved-by:ann" in merged.evidence


def test_a_head_that_edits_the_reviewer_is_judged_by_that_of_the_base(world):
    """The head's reviewer would say `pass` to anything."""
    world.says("fail")
    blob = git(world.repo, "hash-object", "-w", "--stdin", stdin=b"print('pass')\n")
    env = {"GIT_INDEX_FILE": str(world.folder / "index")}
    git(world.repo, "read-tree", "topic", env=env)
    git(world.repo, "update-index", "--cacheinfo", f"100644,{blob},tools/review.py", env=env)
    tree = git(world.repo, "write-tree", env=env)
    world.move("evil", git(world.repo, "commit-tree", "-p", "main", "-m", "x", tree))
    assert shown(world.review(head="evil")) == ("fail", "complete", 1)
    assert world.asked() == 1
    assert world.merges() == []


def test_a_conflict_is_no_decision(world):
    world.move("main", "clash")
    said = world.review()
    assert shown(said) == ("incomplete", "merge-conflict", 13)
    assert (said.diff_sha, world.asked()) == (None, 0)
    assert world.merge().exit_code == 13
    assert world.tip() == world.tip("clash")


def test_a_diff_over_the_cap_is_shown_to_nobody(make_world):
    world = make_world(policy(max_diff_bytes=100))
    world.says("pass")
    assert shown(world.review()) == ("incomplete", "diff-over-cap", 13)
    assert world.asked() == 0
    assert world.merge().exit_code == 13


def test_an_empty_diff_is_reviewed_by_nobody(world):
    said = world.review(head="empty-commit")
    assert (said.state, said.signal, world.asked()) == ("incomplete", "empty", 0)
    assert world.merge(head="empty-commit").state == "incomplete"
    assert world.review(head="start").state == "incomplete"
    assert world.merges() == []


def test_a_branch_that_is_checked_out_is_not_moved(world):
    world.review()
    git(world.repo, "worktree", "add", str(world.folder / "tree"), "main")
    with pytest.raises(CannotTry, match="checked out"):
        world.merge()
    assert world.merges() == []
    assert world.states() == ["pass"]


def test_another_name_of_the_branch_is_the_branch(world):
    git(world.repo, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    passed = world.review(base="alias")
    assert passed.ref == "refs/heads/main"
    assert world.merge(base="main").decision_id == passed.decision_id
    assert len(world.merges()) == 1


def test_shared_capacity_never_decides_alone(make_world):
    world = make_world(policy({"tests": command(capacity="shared")}))
    with pytest.raises(PolicyRefused, match="shared capacity alone"):
        world.review()
    with pytest.raises(PolicyRefused, match="shared capacity alone"):
        world.merge()
    assert world.decisions() == []


def test_a_policy_on_the_server(make_world):
    world = make_world(b"# the repository says nothing of this\n")
    with pytest.raises(PolicyRefused, match="names no branch"):
        world.review()
    file = world.folder / "policy.toml"
    file.write_bytes(policy())
    world.says("pass")
    passed = world.review(policy_file=file)
    assert shown(passed)[0] == "pass"
    file.write_bytes(policy(retries=1))
    said = world.merge(policy_file=file)
    assert (shown(said), world.merges()) == (("stale", "stale-policy", 14), [])
    assert shown(world.review(policy_file=file))[0] == "pass"
    assert shown(world.merge(policy_file=file))[0] == "merged"


def test_a_prompt_on_the_server_is_not_cut(make_world):
    prompt = "/".join((str(make_world().folder), "prompt.txt"))
    world = make_world(policy({"tests": command(prompt=prompt)}))
    with open(prompt, "wb") as file:
        file.write(b"x" * ((1 << 20) + 1))
    with pytest.raises(CannotTry, match="over the cap"):
        world.review()
    assert world.decisions() == []
