"""Finding, listing and paging; the spelling of times and ids."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.ledger.plans import NOW, ROADS, a_plan, book_with, open_book

from endmark.core.states import State
from endmark.ledger.entry import stamp
from endmark.ledger.ids import new_id

MANY = (*(f"t{number}" for number in range(40)), "b")


@pytest.fixture
def ledger(path):
    with open_book(path) as ledger:
        yield ledger


def test_no_job_hides_an_attempt(ledger):
    first, _ = ledger.record(a_plan(), NOW, body=None)
    second, _ = ledger.record(a_plan(job_id=first.attempt_id), NOW, body=None)
    assert ledger.find(first.attempt_id) == first
    assert ledger.find(second.attempt_id) == second


def test_in_state(ledger):
    entries = [book_with(ledger, state, target=target) for state in set(ROADS) - {State.RECEIVED} for target in "ab"]
    for state in State:
        assert ledger.in_state(state) == [entry for entry in entries if entry.state is state]
        assert ledger.in_state(state, "b") == [e for e in entries if e.state is state and e.target == "b"]
    assert ledger.in_state(State.STAGED, "c") == []


@pytest.mark.parametrize("state", [None, State.STAGED])
@pytest.mark.parametrize("wanted", [(), ("a",), ("a", "c"), ("b", "nobody"), tuple("abc"), MANY])
def test_pages_of_several_targets(ledger, state, wanted):
    for number in range(12):
        ledger.record(a_plan(job_id=f"job-{number}", target="abcd"[number % 4]), NOW, body=None)
    expected = [f"job-{number}" for number in range(11, -1, -1) if "abcd"[number % 4] in wanted]
    seen, before = [], None
    while found := ledger.page(2, before, state, wanted):
        seen += [entry.job_id for entry in found]
        before = found[-1].attempt_id
    assert seen == expected


def test_pages(ledger):
    entries = [book_with(ledger, state, target=t) for t in "abc" for state in (State.STAGED, State.FAILED)]
    newest = entries[::-1]
    for wanted in ({}, {"state": State.STAGED}, {"target": "b"}, {"state": State.FAILED, "target": "c"}):
        expected = [e for e in newest if all(getattr(e, name) == value for name, value in wanted.items())]
        for size in (1, 2, 10):
            found, last = [], None
            while page := ledger.page(size, before=last, **wanted):
                found += page
                last = page[-1].attempt_id
            assert found == expected
    for targets in (("b",), ("a", "c"), ("a", "b", "c"), ("z", "a"), ()):
        for state in (None, State.FAILED):
            expected = [e for e in newest if e.target in targets and state in (None, e.state)]
            found, last = [], None
            while page := ledger.page(2, before=last, state=state, target=targets):
                found += page
                last = page[-1].attempt_id
            assert found == expected
    assert ledger.page(10, before="att_none") == []
    assert ledger.page(0) == []


# --- times and ids


def test_times(ledger):
    assert stamp(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00.000000Z"
    assert stamp(datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2)))) == "2026-01-01T22:00:00.000000Z"
    with pytest.raises(ValueError, match="zone"):
        ledger.record(a_plan(), datetime(2026, 1, 2), body=None)  # noqa: DTZ001


def test_ids_sort_by_time():
    ids = [new_id("att", NOW + timedelta(milliseconds=step)) for step in range(200)]
    assert ids == sorted(ids)
    assert len({new_id("att", NOW) for _ in range(1000)}) == 1000
    assert all(re.fullmatch(r"att_[0-9a-hjkmnp-tv-z]{26}", name) for name in ids)


def test_an_id_holds_its_millisecond():
    digits = "0123456789abcdefghjkmnpqrstvwxyz"
    number = 0
    for digit in new_id("att", NOW)[4:]:
        number = number * 32 + digits.index(digit)
    assert number >> 80 == int(NOW.timestamp() * 1000)
