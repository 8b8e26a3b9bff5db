"""S6: first match wins, every signal has one row; and what no change to the table may ever make true."""

import random

import pytest

from endmark.core import strictjson
from endmark.core.decision import TABLE, Next, first, row_of
from endmark.core.refusal import Refused, Signal
from endmark.core.states import State


def test_every_signal_stands_in_exactly_one_row():
    listed = [signal for row in TABLE for signal in row.signals]
    assert sorted(listed) == sorted(Signal)
    assert [row.number for row in TABLE] == list(range(1, 13))
    for row in TABLE:
        assert row.signals
        assert all(row_of(signal) is row for signal in row.signals)


def test_the_table_in_words():
    """State and exit code of each row, spelled by hand."""
    assert [(row.number, row.state, row.exit_code) for row in TABLE] == [
        (1, "truncated", 10),
        (2, "rejected", 12),
        (3, "quarantined", 11),
        (4, "truncated", 10),
        (5, "rejected", 12),
        (6, "truncated", 10),
        (7, "rejected", 12),
        (8, "quarantined", 11),
        (9, "incomplete", 13),
        (10, "stale", 14),
        (11, "failed", 1),
        (12, "staged", 16),
    ]


def test_only_complete_evidence_leads_on():
    assert [signal for signal in Signal if row_of(signal).state is State.STAGED] == [Signal.COMPLETE]
    assert [signal for signal in Signal if row_of(signal).exit_code == 0] == []


def test_bytes_are_kept_exactly_where_they_are_quarantined():
    """S7."""
    assert {row.number for row in TABLE if row.keeps_bytes} == {3, 8}


def test_next_is_never_to_go_on_with_what_arrived():
    """X4."""
    assert {word.value for word in Next} == {"resend-new-job-id", "wait", "ask-person", "none"}
    for row in TABLE[:-1]:
        assert row.next is Next.RESEND


@pytest.mark.parametrize("seed", range(20))
def test_first_decides_by_the_table_and_not_by_the_order_of_finding(seed):
    order = [signal for row in TABLE for signal in row.signals]
    chance = random.Random(seed)
    found = chance.sample(order, k=chance.randrange(1, 8))
    assert first(found) is min(found, key=order.index)
    assert first(found * 2) is first(iter(reversed(found)))


def test_nothing_found_is_nothing_proven():
    with pytest.raises(ValueError, match="no signal"):
        first([])


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ('{"a":1,"a":2', "not-json"),
        ('{"a":NaN,"a":2,', "not-json"),
        ('{"a":1,"a":2} {', "two-documents"),
        ('[{"a":1,"a":2}]', "not-an-object"),
        ('{"b":[1e999],"a":1,"a":2}', "duplicate-key"),
        ('{"a":9223372036854775808,"b":NaN}', "not-finite"),
        ('{"a":"\\ud800","b":9223372036854775808}', "integer-size"),
        ('{"a":"\\ud800","a":' + "[" * 64, "too-deep"),
    ],
)
def test_of_several_faults_in_one_text_the_first_row_decides(text, signal):
    with pytest.raises(Refused) as refused:
        strictjson.loads(text.encode())
    assert refused.value.signal == signal
