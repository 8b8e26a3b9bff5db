"""The face: what `endmark.capture` and `endmark.seal` are, and what they refuse to begin with."""

import subprocess
import sys

import pytest
from tests.support import answers

import endmark
from endmark.core.ending import Ending
from endmark.seal import seal
from endmark.sources.capture import Capture


def test_the_function_keeps_its_name_when_the_module_of_that_name_is_imported():
    script = (
        "import endmark\nassert callable(endmark.seal)\nimport endmark.seal\nfrom endmark.seal import Sealed\n"
        "assert endmark.Sealed is Sealed\nprint(endmark.seal(b'{\"a\":1}')[:3].decode())"
    )
    found = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True)
    assert found.stdout == "MC1\n", found.stderr


def test_everything_on_offer_is_there():
    for name in endmark.__all__:
        assert getattr(endmark, name).__name__ == name
    with pytest.raises(AttributeError, match="telegraph"):
        endmark.telegraph  # noqa: B018


@pytest.mark.parametrize("wrong", [{"wire": "telegraph"}, {"limit": 0}, {"idle": 0}, {"idle": -1.0}])
def test_a_capture_that_makes_no_sense_is_refused_at_once(wrong):
    with pytest.raises(ValueError, match=r"\w"):
        endmark.capture(**wrong)


def test_what_was_sealed_is_asked_for_by_its_kind():
    plan = seal(Capture(raw=answers.chat_call(), ending=Ending.LAST_CHUNK, wire="openai-chat"), tool="apply_schema")
    verdict = seal(Capture(raw=answers.chat_text(), ending=Ending.LAST_CHUNK, wire="openai-chat"))
    assert plan.plan.stmt_count == 11
    assert verdict.verdict.verdict == "pass"
    with pytest.raises(TypeError, match="no verdict"):
        _ = plan.verdict
    with pytest.raises(TypeError, match="no plan"):
        _ = verdict.plan


def test_a_verdict_is_no_plan_for_the_gate(tmp_path):
    sealed = seal(Capture(raw=answers.chat_text(), ending=Ending.LAST_CHUNK, wire="openai-chat"))
    with endmark.Gate(tmp_path / "ledger.db") as gate, pytest.raises(endmark.Refused) as refused:
        gate.submit(sealed)
    assert refused.value.signal == "wrong-value"
