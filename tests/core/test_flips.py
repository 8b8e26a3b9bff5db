"""Flip rates: what counts as a flip, and the interval against an independent computation."""

import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.core.flips import Pair, rates, wilson


def pair(first="pass", again="pass", *, merged=False, model="m", policy="p", prompt="q", decision="dec_1"):
    return Pair(
        decision_id=decision,
        reviewer="r",
        model=model,
        policy_version=policy,
        prompt_sha256=prompt,
        first=first,
        again=again,
        merged=merged,
    )


def test_what_a_flip_is():
    words = ("pass", "fail", "incomplete")
    flips = {(one, two) for one, two in itertools.product(words, words) if pair(one, two).flipped}
    assert flips == {("pass", "fail"), ("fail", "pass")}
    incidents = {(one, two) for one, two in itertools.product(words, words) if pair(one, two, merged=True).incident}
    assert incidents == flips
    assert not any(pair(one, two).incident for one, two in itertools.product(words, words))


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [  # published values, e.g. Newcombe 1998, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
        (0, 0, 0.0, 1.0),
    ],
)
def test_the_interval(hits, of, low, high):
    assert list(wilson(hits, of)) == pytest.approx([low, high], abs=5e-5)


@given(st.integers(0, 500).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_the_interval_solves_its_own_equation(case):
    """Each bound p is where the observed share stands z standard errors of p away."""
    hits, of = case
    low, high = wilson(hits, of)
    assert 0 <= low <= high <= 1
    if of:
        z = statistics.NormalDist().inv_cdf(0.975)
        assert low <= hits / of <= high
        for bound in (low, high):
            assert (hits / of - bound) ** 2 == pytest.approx(z * z * bound * (1 - bound) / of, abs=1e-9)


@pytest.mark.parametrize(("hits", "of"), [(-1, 3), (4, 3), (0, -1)])
def test_what_is_no_proportion(hits, of):
    with pytest.raises(ValueError, match="is no proportion"):
        wilson(hits, of)


def test_rates_are_by_model_policy_and_prompt():
    found = rates(
        [
            pair(),
            pair("fail", "pass"),
            pair("pass", "incomplete"),
            pair(model="n"),
            pair(policy="p2"),
            pair(prompt="q2", first="incomplete"),
        ]
    )
    assert [(r.model, r.policy_version, r.prompt_sha256, r.pairs, r.flips, r.incomplete, r.rate) for r in found] == [
        ("m", "p", "q", 2, 1, 1, 0.5),
        ("m", "p", "q2", 0, 0, 1, None),
        ("m", "p2", "q", 1, 0, 0, 0.0),
        ("n", "p", "q", 1, 0, 0, 0.0),
    ]
    assert (found[1].low, found[1].high) == (0.0, 1.0)
    assert rates([]) == []
