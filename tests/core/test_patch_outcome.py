"""The exit code of a decision, in words of its own (X6)."""

import pytest

from endmark.core.patch_outcome import of_refusal, standing
from endmark.core.refusal import Refused, Signal
from endmark.core.states import Decision


@pytest.mark.parametrize(
    ("state", "signal", "code"),
    [
        ("pending", "complete", 16),
        ("pass", "complete", 0),
        ("merged", "complete", 0),
        ("fail", "complete", 1),
        ("stale", "stale-base", 14),
        ("stale", "stale-policy", 14),
        ("incomplete", "empty", 10),
        ("incomplete", "no-sentinel", 10),
        ("incomplete", "envelope-digest", 11),
        ("incomplete", "contradiction", 12),
        ("incomplete", "marks", 10),
        ("incomplete", "unreachable", 13),
        ("incomplete", "merge-conflict", 13),
        ("incomplete", "stale-diff", 14),
    ],
)
def test_the_exit_code(state, signal, code):
    assert standing(Decision(state), Signal(signal))[0] == code


def test_only_a_pass_and_a_merge_are_a_success():
    """X6: no signal makes another state one."""
    successes = {state for state in Decision for signal in Signal if standing(state, signal)[0] == 0}
    assert successes == {Decision.PASS, Decision.MERGED}


def test_what_could_not_be_read_is_no_success():
    for signal in Signal:
        if signal is not Signal.COMPLETE:
            outcome = of_refusal(Refused(signal, 0, None, "x"), "now")
            assert outcome.exit_code not in (0, 16)
            assert outcome.state in ("incomplete", "stale")
            assert outcome.detail == "X. Nothing was merged."
