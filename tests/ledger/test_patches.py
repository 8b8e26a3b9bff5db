"""Decisions and reviews: what is written, what the SQL forbids, what an audit finds."""

import hashlib
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from tests.ledger.plans import FORBIDDING, NOW, dump, in_words_of, open_book, raw, tampering
from tests.support import ledgers

from endmark.core.refusal import CannotTry, Signal
from endmark.core.states import DECISION_MOVES, REVIEW_MOVES, Decision, Review
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import Answer, DecisionMoved, NewDecision, NewReview

DIFF, OTHER, POLICY = "d" * 64, "e" * 64, "9" * 64
ENVELOPE = b"MC1 ..."
NEW = NewDecision(
    repository="file:///srv/app.git",
    ref="refs/heads/main",
    base="1" * 40,
    head="2" * 40,
    merge_tree="3" * 40,
    records_sha="4" * 64,
    diff_sha=DIFF,
    policy_version="gate-2026-07",
    policy_sha256=POLICY,
    required=("sec", "style"),
    submitter="ci",
)
PASS = Answer(
    state=Review.PASS,
    signal=Signal.COMPLETE,
    received_bytes=len(ENVELOPE),
    expected_bytes=3,
    body_sha256=hashlib.sha256(ENVELOPE).hexdigest(),
    level="sealed",
    evidence=("sealed", "sentinel"),
    blocking=0,
    advisory=2,
)
FAIL = msgspec.structs.replace(PASS, state=Review.FAIL, blocking=2)
CUT = Answer(state=Review.INCOMPLETE, signal=Signal.NO_TERMINAL, received_bytes=7, detail="it stopped")


@pytest.fixture
def ledger(path):
    with open_book(path) as ledger:
        yield ledger


@pytest.fixture
def book(ledger):
    return PatchBook(ledger)


@pytest.fixture
def stranger(ledger, path):
    with closing(raw(path)) if isinstance(path, Path) else ledgers.stranger(path) as connection:
        yield connection


def review(book, decision, reviewer, answer, name=None, **how):
    name = name or f"{decision.decision_id}-{reviewer}"
    book.ask(decision.decision_id, NewReview(review_id=name, reviewer=reviewer, **how), NOW)
    return book.answered(name, answer, NOW, body=ENVELOPE if answer.body_sha256 else None)


def passed(book, new=NEW):
    decision = book.open(new, NOW)
    for reviewer in new.required:
        review(book, decision, reviewer, PASS)
    return book.move(decision.decision_id, Decision.PENDING, Decision.PASS, NOW, evidence=("sealed",))


def merged(book, new=NEW):
    return book.move(
        passed(book, new).decision_id, Decision.PASS, Decision.MERGED, NOW, merged="5" * 40, approver="ann"
    )


def sound(ledger):
    report = ledger.verify()
    return report.ok, report.problems


def test_the_way_to_a_merge(ledger, book):
    done = merged(book)
    assert (done.state, done.merged, done.approver, done.evidence) == ("merged", "5" * 40, "ann", ("sealed",))
    assert book.get(done.decision_id) == done
    assert book.merged_by("5" * 40) == done
    assert [(r.reviewer, r.state, r.blocking, r.advisory) for r in book.reviews(done.decision_id)] == [
        ("sec", "pass", 0, 2),
        ("style", "pass", 0, 2),
    ]
    assert [(e.event, e.from_state, e.to_state) for e in book.events(done.decision_id)] == [
        ("opened", None, "pending"),
        ("asked", None, "asked"),
        ("answered", "asked", "pass"),
        ("asked", None, "asked"),
        ("answered", "asked", "pass"),
        ("moved", "pending", "pass"),
        ("moved", "pass", "merged"),
    ]
    assert book.answer(f"{done.decision_id}-sec") == ENVELOPE
    assert sound(ledger) == (True, ())


def test_what_is_asked_of_the_book(book):
    one, two = passed(book), book.open(msgspec.structs.replace(NEW, head="7" * 40, diff_sha=OTHER), NOW)
    assert book.of_diff(DIFF, POLICY) == [one]
    assert book.of_diff(DIFF, "8" * 64) == []
    assert book.on_head(NEW.repository, NEW.ref, "7" * 40) == [two]
    assert book.page(10) == [two, one]
    assert book.page(1) == [two]
    assert book.page(10, before=two.decision_id) == [one]
    assert book.page(10, state=Decision.PASS) == [one]
    assert book.since(NOW) == [one, two]
    assert book.since(NOW + timedelta(seconds=1)) == []
    assert book.failed(DIFF, POLICY) is None
    assert (book.get("dec_x"), book.review("x"), book.answer("x"), book.events("dec_x")) == (None, None, None, [])


@pytest.mark.parametrize("missing", ["none", "one", "other-reviewer", "incomplete", "asked"])
def test_a_pass_needs_every_reviewer(ledger, book, missing):
    decision = book.open(NEW, NOW)
    if missing != "none":
        review(book, decision, "sec", PASS)
    if missing == "other-reviewer":
        review(book, decision, "stylist", PASS)
    if missing == "incomplete":
        review(book, decision, "style", CUT)
    if missing == "asked":
        book.ask(decision.decision_id, NewReview(review_id="r", reviewer="style"), NOW)
    with pytest.raises(CannotTry, match="every required reviewer must have passed"):
        book.move(decision.decision_id, Decision.PENDING, Decision.PASS, NOW)
    assert book.get(decision.decision_id).state is Decision.PENDING
    assert sound(ledger) == (True, ())


def test_a_fail_outweighs_every_pass_of_the_same_diff(ledger, book):
    first, second, done = passed(book), passed(book), merged(book)
    other = passed(book, msgspec.structs.replace(NEW, diff_sha=OTHER))
    again = book.open(NEW, NOW)
    review(book, again, "sec", FAIL)
    assert [book.get(d.decision_id).state for d in (first, second, done, other, again)] == [
        "fail",
        "fail",
        "merged",  # a finished state never moves
        "pass",
        "pending",
    ]
    assert book.failed(DIFF, POLICY).decision_id == again.decision_id
    for reviewer in NEW.required:
        review(book, again, reviewer, PASS, name=f"again-{reviewer}")
    with pytest.raises(CannotTry, match="no complete review of the same diff may have failed"):
        book.move(again.decision_id, Decision.PENDING, Decision.PASS, NOW)
    assert sound(ledger) == (True, ())


def test_a_verdict_from_elsewhere_is_one_act(ledger, book):
    decision = book.open(NEW, NOW)
    how = NewReview(review_id="v1", reviewer="sec", purpose="elsewhere")
    brought = book.brought(decision.decision_id, how, CUT, NOW, body=None)
    assert (brought.state, brought.signal, brought.received_bytes) == ("incomplete", "no-terminal", 7)
    with pytest.raises(ValueError, match="was used before"):
        book.brought(decision.decision_id, how, PASS, NOW, body=ENVELOPE)
    assert book.reviews(decision.decision_id) == [brought]
    assert sound(ledger) == (True, ())


def test_a_decision_without_a_merge_result_can_only_end_incomplete(book):
    new = msgspec.structs.replace(NEW, diff_sha=None, merge_tree=None, records_sha=None)
    decision = book.open(new, NOW)
    for reviewer in NEW.required:
        review(book, decision, reviewer, PASS)
    for state in (Decision.PASS, Decision.FAIL):
        with pytest.raises(CannotTry):
            book.move(decision.decision_id, Decision.PENDING, state, NOW)
    ended = book.move(decision.decision_id, Decision.PENDING, Decision.INCOMPLETE, NOW, signal=Signal.MERGE_CONFLICT)
    assert (ended.state, ended.signal) == ("incomplete", "merge-conflict")


def test_other_bytes_than_were_judged_are_not_kept(book):
    decision = book.open(NEW, NOW)
    book.ask(decision.decision_id, NewReview(review_id="r", reviewer="sec"), NOW)
    for body in (b"", b"MC1 ..,", ENVELOPE + b" "):
        with pytest.raises(ValueError, match="not those that were judged"):
            book.answered("r", PASS, NOW, body=body)
    assert book.review("r").state is Review.ASKED


def test_only_legal_moves(book):
    for before in Decision:
        for after in Decision:
            if after not in DECISION_MOVES[before]:
                with pytest.raises(ValueError, match="not a legal move"):
                    book.move("dec_x", before, after, NOW)
    decision = passed(book)
    with pytest.raises(DecisionMoved) as moved:
        book.move(decision.decision_id, Decision.PENDING, Decision.FAIL, NOW)
    assert moved.value.entry == decision
    with pytest.raises(KeyError):
        book.move("dec_x", Decision.PENDING, Decision.FAIL, NOW)
    finished = book.reviews(decision.decision_id)[0]
    with pytest.raises(ValueError, match="not a legal move"):
        book.answered(finished.review_id, FAIL, NOW, body=None)
    with pytest.raises(ValueError, match="name of an act"):
        book.note(decision.decision_id, "moved", NOW, {})
    assert REVIEW_MOVES[Review.PASS] == ()


FORBIDDEN = {
    "decision deleted": "DELETE FROM decisions",
    "decision replaced": "INSERT OR REPLACE INTO decisions SELECT * FROM decisions",
    "decision rebound": f"UPDATE decisions SET diff_sha = '{OTHER}'",
    "reviewers dropped": "UPDATE decisions SET required = '[\"sec\"]'",
    "decision moved without event": "UPDATE decisions SET state = 'stale'",
    "pass by hand": "UPDATE decisions SET state = 'pass', events = events + 1 WHERE state = 'pending'",
    "merged without commit": "UPDATE decisions SET state = 'merged'",
    "detail changed": "UPDATE decisions SET detail = 'fine'",
    "review deleted": "DELETE FROM reviews",
    "review replaced": "INSERT OR REPLACE INTO reviews SELECT * FROM reviews",
    "review changed": "UPDATE reviews SET state = 'pass'",
    "review reassigned": "UPDATE reviews SET reviewer = 'style'",
    "incomplete into pass": "UPDATE reviews SET state = 'pass', signal = 'complete' WHERE state = 'incomplete'",
    "answer deleted": "DELETE FROM answers",
    "answer changed": "UPDATE answers SET body = x'00'",
    "answer added": "INSERT INTO answers (review, body) VALUES (3, x'00')",
    "event deleted": "DELETE FROM events",
    "event of both": "INSERT INTO events (attempt, decision, seq, hash, at, event, data) "
    "VALUES (1, 1, 9, zeroblob(32), '', 'x', '{}')",
    "event of none": "INSERT INTO events (seq, hash, at, event, data) VALUES (1, zeroblob(32), '', 'x', '{}')",
    "event out of turn": "INSERT INTO events (decision, seq, hash, at, event, data) "
    "VALUES (1, 99, zeroblob(32), '', 'x', '{}')",
}


@pytest.mark.parametrize("sql", FORBIDDEN.values(), ids=FORBIDDEN)
def test_the_sql_forbids(ledger, book, path, stranger, sql):
    passed(book)
    pending = book.open(NEW, NOW)
    review(book, pending, "sec", CUT)
    before = dump(path)
    with pytest.raises(FORBIDDING):
        stranger.execute(in_words_of(path, sql))
    assert dump(path) == before
    assert sound(ledger) == (True, ())


def test_a_pass_made_by_hand_with_its_event_is_forbidden_too(book, path, stranger):
    decision = book.open(NEW, NOW)
    event = (
        "INSERT INTO events (decision, seq, hash, at, event, from_state, to_state, data) "
        "VALUES (1, 2, zeroblob(32), 'x', 'moved', 'pending', 'pass', '{}')"
    )
    stranger.execute(in_words_of(path, event))
    with pytest.raises(FORBIDDING, match="every required reviewer must have passed"):
        stranger.execute(in_words_of(path, "UPDATE decisions SET state = 'pass', events = 2, chain = zeroblob(32)"))
    assert book.get(decision.decision_id).state is Decision.PENDING


TAMPERED = {
    "a diff": (f"UPDATE decisions SET diff_sha = '{OTHER}'", f"diff_sha is '{OTHER}', its events say '{DIFF}'"),
    "a state": ("UPDATE decisions SET state = 'stale'", "state is 'stale', its events say 'pass'"),
    "a reviewer": ("UPDATE decisions SET required = '[\"sec\"]'", "required is"),
    "a review": ("UPDATE reviews SET blocking = 0, state = 'fail' WHERE n = 1", "state is 'fail'"),
    "a review's owner": ("UPDATE reviews SET reviewer = 'x' WHERE n = 1", "reviewer is 'x'"),
    "a missing review": ("DELETE FROM reviews WHERE n = 1", "sec is missing, its events are still there"),
    "an answer": ("UPDATE answers SET body = x'00' WHERE review = 1", "kept answer was changed"),
    "a missing answer": ("DELETE FROM answers WHERE review = 1", "kept answer is missing"),
    "a missing decision": ("DELETE FROM decisions WHERE n = 1", "of its events are still there"),
    "an event": ("UPDATE events SET data = '{}' WHERE seq = 3", "its hash does not match"),
    "a missing event": ("DELETE FROM events WHERE seq = 3", "event 3 was expected, it is missing"),
    "a moved event": ("UPDATE events SET seq = 99 WHERE seq = 6", "event 6 was expected"),
    "the last event": ("DELETE FROM events WHERE seq = 6", "events is 6, its events say 5"),
    "a strange answer": ("INSERT INTO answers (review, body) VALUES (77, x'00')", "its answer is still there"),
}


@pytest.mark.parametrize(("sql", "part"), TAMPERED.values(), ids=TAMPERED)
def test_what_was_changed_is_found(path, sql, part):
    with open_book(path) as ledger:
        passed(PatchBook(ledger))
    with tampering(path) as connection:
        connection.execute(in_words_of(path, sql))
    with open_book(path) as ledger:
        problems = [line for line in ledger.verify().problems if "trigger" not in line]
    assert any(part in line for line in problems), problems


def test_plans_and_patches_share_the_checkpoints(ledger, book):
    merged(book)
    ledger.checkpoint(NOW)
    report = ledger.verify()
    assert (report.ok, report.events, report.checkpoint[1]) == (True, 7, 7)
