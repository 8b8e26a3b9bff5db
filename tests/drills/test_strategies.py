"""The strategies for Hypothesis give whole payloads, and faults that do damage."""

import pytest
from hypothesis import given, settings

from endmark.core import mc1, proof
from endmark.core.proof import Form
from endmark.core.refusal import Refused
from endmark.drills import faults, strategies
from endmark.drills.body import Body

ENVELOPE = mc1.seal(b'{"verdict": "pass", "diff_sha": "d", "policy_version": "1"}')
few = settings(max_examples=50)


@few
@given(strategies.plan_envelopes())
def test_plans_are_whole(raw):
    assert proof.prove(raw).form is Form.PLAN


@few
@given(strategies.verdict_envelopes())
def test_verdicts_are_whole(raw):
    assert proof.prove(raw).form is Form.VERDICT


@given(strategies.damaged(Body(ENVELOPE)))
def test_damaged_envelopes_are_refused(raw):
    assert raw != ENVELOPE
    with pytest.raises(Refused):
        proof.prove(raw)


@few
@given(strategies.faults(Body(ENVELOPE), "keys", "sentinel"))
def test_faults_have_their_text(broken):
    assert faults.parse_broken(str(broken)) == broken
    assert "key:" in str(broken) or "sentinel" in str(broken)


def test_what_is_no_family_is_told():
    with pytest.raises(ValueError, match="'cut' is no family"):
        strategies.faults(Body(ENVELOPE), "cut")
