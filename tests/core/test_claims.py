"""What a sealer claims beside an envelope is read strictly, and nothing of it is believed (CA11)."""

import json

import pytest

from endmark.core import claims
from endmark.core.claims import Claims
from endmark.core.refusal import Refused

SHA256 = "0123456789abcdef" * 4


def spelled(**changes):
    document = {"version": 1, "envelope_sha256": SHA256, "evidence": ["sealed"]} | changes
    return json.dumps(document).encode()


def test_what_is_written_is_read():
    made = Claims(SHA256, ("sealed", "x" * 200, *("w" for _ in range(62))))
    assert claims.read(claims.write(made)) == made
    assert claims.read(spelled()).words == ("claimed:sealed",)


@pytest.mark.parametrize(
    ("raw", "signal"),
    [
        (b"{", "not-json"),
        (b"{}", "unknown-key"),
        (spelled(more=1), "unknown-key"),
        (spelled(version=2), "wrong-value"),
        (spelled(version=True), "wrong-value"),
        (spelled(version=1.0), "wrong-value"),
        (spelled(envelope_sha256=SHA256[:-1]), "wrong-value"),
        (spelled(envelope_sha256=SHA256 + "0"), "wrong-value"),
        (spelled(envelope_sha256=SHA256 + "\n"), "wrong-value"),
        (spelled(envelope_sha256=SHA256.upper()), "wrong-value"),
        (spelled(envelope_sha256=7), "wrong-value"),
        (spelled(evidence=[]), "wrong-value"),
        (spelled(evidence=["w"] * 65), "wrong-value"),
        (spelled(evidence="sealed"), "wrong-value"),
        (spelled(evidence={"sealed": 1}), "wrong-value"),
        (spelled(evidence=["sealed", ""]), "wrong-value"),
        (spelled(evidence=["x" * 201]), "wrong-value"),
        (spelled(evidence=["a\nb"]), "wrong-value"),
        (spelled(evidence=["sealed", 7]), "wrong-value"),
        (spelled(evidence=["sealed", ["x"]]), "wrong-value"),
    ],
)
def test_anything_else_is_refused(raw, signal):
    with pytest.raises(Refused) as refused:
        claims.read(raw)
    assert refused.value.signal == signal
    assert refused.value.received_bytes == len(raw)
