"""What was asked for again, beside what was said first."""

from datetime import timedelta

import pytest
from tests.ledger.plans import NOW, open_book
from tests.ledger.test_patches import CUT, ENVELOPE, FAIL, NEW, PASS, merged, review

from endmark.core.flips import Pair, Word
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import NewReview
from endmark.ledger.replays import replays

WORDS: dict[int, Word] = {id(PASS): "pass", id(FAIL): "fail", id(CUT): "incomplete"}


@pytest.fixture
def ledger(path):
    with open_book(path) as ledger:
        yield ledger


def again(book, decision, answer, number, **how):
    facts = {"purpose": "replay", "model": "m", "prompt_sha256": "7" * 64} | how
    review(book, decision, "sec", answer, f"again-{number}", **facts)


def test_each_is_beside_the_first_whole_verdict_of_its_reviewer(ledger):
    book = PatchBook(ledger)
    decision = merged(book)
    review(book, decision, "sec", FAIL, "advice-1", purpose="advice")
    for number, answer in enumerate((PASS, FAIL, CUT)):
        again(book, decision, answer, number)
    book.ask(decision.decision_id, NewReview(review_id="open", reviewer="sec", purpose="replay"), NOW)
    found = replays(ledger)
    assert [(one.ref, one.pair) for one in found] == [
        (
            NEW.ref,
            Pair(
                decision_id=decision.decision_id,
                reviewer="sec",
                model="m",
                policy_version=NEW.policy_version,
                prompt_sha256="7" * 64,
                first="pass",
                again=WORDS[id(answer)],
                merged=True,
            ),
        )
        for answer in (PASS, FAIL, CUT)
    ]
    assert [one.pair.incident for one in found] == [False, True, False]


def test_what_repeats_nothing_whole_is_left_out(ledger):
    book = PatchBook(ledger)
    decision = book.open(NEW, NOW)
    review(book, decision, "sec", CUT)
    again(book, decision, PASS, 1)
    assert replays(ledger) == []


def test_a_model_that_nobody_named_is_known_by_its_reviewer(ledger):
    book = PatchBook(ledger)
    again(book, merged(book), PASS, 1, model=None, prompt_sha256=None)
    assert [(one.pair.model, one.pair.prompt_sha256) for one in replays(ledger)] == [("sec", "")]


def test_only_the_newest_end_of_the_book_is_read(ledger):
    book = PatchBook(ledger)
    decision = merged(book)
    for number in range(4):
        name = f"again-{number}"
        book.ask(decision.decision_id, NewReview(review_id=name, reviewer="sec", purpose="replay"), NOW)
        book.answered(name, PASS, NOW + timedelta(days=number), body=ENVELOPE)
    days = [one.at[:10] for one in replays(ledger, window=3)]
    assert days == [(NOW + timedelta(days=number)).date().isoformat() for number in (1, 2, 3)]
