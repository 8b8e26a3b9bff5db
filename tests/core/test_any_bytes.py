"""Any bytes are proven or refused, and nothing else comes out."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core import payloads, vectors

from endmark.core import decision, mc1, proof, strictjson
from endmark.core.proof import Form, Proven
from endmark.core.refusal import Refused

SEEDS = [vector.raw for vector in vectors.load()]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True)
    | st.text(max_size=20)
    | st.sampled_from(["END_APPLY", "apply_schema", "pass", "job_1", "SELECT 1"])
)
KEYS = st.text(max_size=5) | st.sampled_from(
    ["tool", "job_id", "stmt_count", "sha256", "statements", "trailer", "after", "retry_of", "base", "down", "verdict"]
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=8), max_leaves=20
)


def proven_or_refused(raw: bytes) -> Proven | Refused:
    answer: Proven | Refused
    try:
        answer = proof.prove(raw)
    except Refused as refused:
        answer = refused
    assert answer.received_bytes == len(raw)
    if isinstance(answer, Refused):
        assert decision.row_of(answer.signal).number < 9
        assert answer.detail
        assert str(pickle.loads(pickle.dumps(answer))) == str(answer) == f"{answer.signal}: {answer.detail}"
    return answer


@given(st.binary(max_size=4096))
def test_any_bytes(raw):
    proven_or_refused(raw)


@given(st.text(max_size=300))
def test_any_text(text):
    proven_or_refused(text.encode("utf-8", "surrogatepass"))
    proven_or_refused(b"M" + text.encode("utf-8", "surrogatepass"))


@given(VALUES)
def test_any_json(value):
    raw = payloads.dump(value)
    for form in (raw, payloads.envelope(raw)):
        proven_or_refused(form)


@given(st.sampled_from(SEEDS), st.data())
def test_anything_that_became_of_a_payload(seed, data):
    raw = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        to = data.draw(st.integers(at, len(raw)))
        raw[at:to] = data.draw(st.binary(max_size=8))
    proven_or_refused(bytes(raw))


@given(st.binary(max_size=64), st.integers(0, 40), st.integers(0, 40))
def test_any_part_of_bytes(raw, start, length):
    """The strict reader may be pointed at any part; what it reports counts in the whole."""
    end = min(len(raw), start + length)
    part = raw[min(start, end) : end]
    try:
        alone: object = strictjson.loads(part)
    except Refused as refused:
        alone = refused.signal
    try:
        within: object = strictjson.loads(raw, min(start, end), end, 7)
    except Refused as refused:
        within = refused.signal
        counts = (refused.received_bytes, refused.expected_bytes)
    else:
        counts = (len(raw), 7)
    assert (within, counts) == (alone, (len(raw), 7))


@given(VALUES.filter(lambda value: isinstance(value, dict)))
def test_strict_json_reads_what_it_writes(value):
    """J10: two spellings of one value are the same bytes, and give the value back."""
    try:
        raw = strictjson.dumps(value)
        again = strictjson.loads(raw)
    except (ValueError, Refused):
        return  # NaN, half a pair, an integer too large: the other tests have those
    assert again == value
    assert strictjson.dumps(again) == raw


@given(st.binary(max_size=200))
def test_any_sealed_bytes_arrive_as_they_were(text):
    raw = mc1.seal(text)
    found = mc1.read(raw)
    assert raw[found.start : found.end] == text
    assert found.expected_bytes == len(raw)
    assert raw == mc1.seal(text)


@pytest.mark.parametrize("wrong", ["", "MC1 ", '{"a": 1}', bytearray(b"{}"), memoryview(b"{}"), None, 3, [b"{}"]])
def test_only_bytes_are_read(wrong):
    """A str has been decoded by somebody else, and a bytearray may change between two looks."""
    for read in (proof.prove, proof.seal, mc1.read, strictjson.loads):
        with pytest.raises(TypeError):
            read(wrong)


def test_forms_and_evidence():
    plan, witness = payloads.dump(payloads.document()), payloads.dump(payloads.witness())
    sealed, verdict = payloads.envelope(plan), payloads.envelope(payloads.dump(payloads.verdict()))
    of_a_plan = "stmt-count trailer statements-sha256"
    of_an_envelope = "envelope-length envelope-sha256 sentinel"
    proofs = {
        plan: (Form.PLAN, f"bare {of_a_plan} digest-does-not-cover:job_id,after,retry_of,base"),
        witness: (Form.WITNESS, "witness count-before-statements trailer-last"),
        sealed: (Form.PLAN, f"sealed {of_an_envelope} {of_a_plan}"),
        verdict: (Form.VERDICT, f"sealed {of_an_envelope} no-marks"),
        payloads.envelope(b"{}"): (Form.BODY, f"sealed {of_an_envelope}"),
    }
    for raw, (form, words) in proofs.items():
        proven = proof.prove(raw)
        evidence = words.split()
        assert (proven.form, list(proven.evidence)) == (form, evidence)
        assert proven.level.word == evidence[0]
        assert (proven.value is None) == (form is Form.BODY)
