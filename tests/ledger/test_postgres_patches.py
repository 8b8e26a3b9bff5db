"""A pass and a fail of the same diff at the same moment, from two gates: one of them always sees the other."""

import threading
from functools import partial
from typing import Any

import psycopg
import pytest
from tests.ledger.plans import AT, NOW, failure_of
from tests.ledger.test_patches import DIFF, ENVELOPE, FAIL, NEW, PASS, POLICY, passed, review
from tests.support import ledgers

from endmark.core.states import Decision
from endmark.ledger.book import Ledger
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import DecisionMoved, NewReview


@pytest.fixture
def two(url):
    """Two gates, a decision with all its passes in the first, and another about the same diff that waits for one."""
    with Ledger.open(url, create=False) as one, Ledger.open(url, create=False) as other:
        first, second = PatchBook(one), PatchBook(other)
        ready, waits = first.open(NEW, NOW), second.open(NEW, NOW)
        for reviewer in NEW.required:
            review(first, ready, reviewer, PASS)
        second.ask(waits.decision_id, NewReview(review_id="r", reviewer="sec"), NOW)
        yield (one, first), (other, second), ready
        assert first.failed(DIFF, POLICY) is not None
        assert one.verify().problems == ()


def in_the_background(url, act, *arguments):
    """The act, begun in a thread of its own and now waiting for somebody's lock."""
    ended: list[Any] = []
    thread = threading.Thread(target=lambda: ended.append(failure_of(act, *arguments)))
    thread.start()
    while ledgers.waiting(url) == 0 and thread.is_alive():
        pass
    assert ended == []
    return thread, ended


def test_a_pass_waits_for_a_fail_that_is_on_its_way(url, two):
    (_, first), (other, second), ready = two
    with other.store.transaction(True):
        second._answer(other.store, "r", FAIL, AT, ENVELOPE)
        other.store.ask("SELECT 1")
        thread, ended = in_the_background(url, first.move, ready.decision_id, Decision.PENDING, Decision.PASS, NOW)
    thread.join()
    assert "no complete review of the same diff may have failed it" in ended[0].detail
    assert first.get(ready.decision_id).state is Decision.PENDING


def test_a_fail_waits_for_a_pass_that_is_on_its_way(url, two):
    (one, first), (_, second), ready = two
    with one.store.transaction(True):
        first._move(one.store, ready.decision_id, Decision.PENDING, Decision.PASS, AT, {}, (), {})
        one.store.ask("SELECT 1")
        thread, ended = in_the_background(url, partial(second.answered, body=ENVELOPE), "r", FAIL, NOW)
    thread.join()
    assert ended == [None]
    assert first.get(ready.decision_id).state is Decision.FAIL


def test_a_fail_written_past_the_code_is_waited_for_too(url, two):
    (_, first), (_, second), ready = two
    with ledgers.stranger(url) as connection:
        connection.execute("BEGIN")
        connection.execute(
            "UPDATE reviews SET state = 'fail', signal = 'complete', received_bytes = 1, body_sha256 = %s, "
            "answered_at = 'x' WHERE review_id = 'r'",
            (POLICY,),
        )
        thread, ended = in_the_background(url, first.move, ready.decision_id, Decision.PENDING, Decision.PASS, NOW)
        connection.execute("ROLLBACK")
        thread.join()
    assert ended == [None]
    second.answered("r", FAIL, NOW, body=ENVELOPE)


def test_a_merge_and_a_fail_do_not_lock_each_other_out(url, two):
    """Both take the lock of the diff before the row of the decision."""
    (_, first), (other, second), ready = two
    first.move(ready.decision_id, Decision.PENDING, Decision.PASS, NOW)

    def merging():
        with pytest.raises(DecisionMoved):
            first.move(ready.decision_id, Decision.PASS, Decision.MERGED, NOW, merged="5" * 40)

    with other.store.transaction(True):
        second._alone_with(other.store, ready.decision_id)
        other.store.ask("SELECT 1")
        thread, ended = in_the_background(url, merging)
        second._answer(other.store, "r", FAIL, AT, ENVELOPE)
    thread.join()
    assert ended == [None]
    assert first.get(ready.decision_id).state is Decision.FAIL


def test_the_rules_themselves_make_a_pass_wait(url, two):
    """The same, for somebody who writes past the code."""
    _, (other, second), ready = two
    with other.store.transaction(True):
        second._answer(other.store, "r", FAIL, AT, ENVELOPE)
        other.store.ask("SELECT 1")
        with ledgers.stranger(url) as connection:
            sql = "UPDATE decisions SET state = 'pass', events = events + 1 WHERE decision_id = %s"
            ended = []

            def passing():
                with pytest.raises(psycopg.IntegrityError) as caught:
                    connection.execute(sql, (ready.decision_id,))
                ended.append(str(caught.value))

            thread = threading.Thread(target=passing)
            thread.start()
            while ledgers.waiting(url) == 0 and thread.is_alive():
                pass
            other.store.run("SELECT 1")
            assert ended == []
            other.store.connection.execute("COMMIT")
            other.store.connection.execute("BEGIN")
            other.store.ask("SELECT 1")
            thread.join()
    assert "no complete review of the same diff may have failed it" in ended[0]


def test_a_pass_under_another_isolation_is_refused(url):
    """A snapshot taken earlier would not see a fail that is being committed."""
    with Ledger.open(url, create=False) as ledger, ledgers.stranger(url) as connection:
        book = PatchBook(ledger)
        passed(book)
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        with pytest.raises(psycopg.IntegrityError, match="READ COMMITTED only"):
            connection.execute(
                "UPDATE decisions SET state = 'merged', merged = 'x', events = events + 1 WHERE state = 'pass'"
            )
        connection.execute("ROLLBACK")
