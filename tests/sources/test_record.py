"""Decision records: their vectors, every damage to one, and that only a pass for this very change lets it through."""

from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from tests.vectors import build_record
from tests.vectors.build_signature import OURS

from endmark.core import intoto
from endmark.core.refusal import Refused
from endmark.sources import keys

FOLDER = Path(build_record.FOLDER)
VECTORS = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())}


def split(content):
    head, _, raw = content.partition(b"\n\n")
    header = dict(line.split(": ", 1) for line in head.decode().split("\n"))
    assert int(header["received"]) == len(raw)
    return header, raw


@pytest.fixture(scope="module")
def verify(tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "trusted.pem"
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    file.write_bytes(OURS.public_key().public_bytes(encoding, form))
    return keys.verifier(file)


def test_the_vectors_are_as_their_builder_writes_them():
    assert build_record.build() == VECTORS


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_gives_its_answer(name, verify):
    """R1 R2 R3 R4 R5 R6 R7"""
    header, raw = split(VECTORS[name])
    if header["expect"] in ("pass", "fail"):
        record = intoto.read(raw, verify)
        assert record.decision.decision == header["expect"]
        assert intoto.dumps(record.decision) == record.payload
        return
    with pytest.raises(Refused) as refused:
        intoto.read(raw, verify)
    assert refused.value.signal == header["expect"]
    assert refused.value.received_bytes == len(raw)
    assert refused.value.detail.isprintable()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("another_statement", "by its _type and predicateType"),
        ("another_predicate", "by its _type and predicateType"),
        ("another_subject", "its subjects are not those"),
        ("spaced", "not in its one spelling"),
    ],
)
def test_a_statement_of_something_else_is_told_from_one_that_is_spelled_otherwise(name, why, verify):
    with pytest.raises(Refused, match=why):
        intoto.read(split(VECTORS[name])[1], verify)


def accepted(raw, verify):
    try:
        intoto.read(raw, verify)
    except Refused:
        return False
    return True


def test_every_cut_every_flip_and_anything_after_is_refused(verify):
    _, raw = split(VECTORS["pass"])
    assert accepted(raw, verify)
    assert not any(accepted(raw[:at], verify) for at in range(len(raw)))
    assert not any(accepted(raw + more, verify) for more in (b"x", b"}", raw, b"\0"))
    flipped = bytearray(raw)
    for at in range(len(raw)):
        for bit in range(8):
            flipped[at] ^= 1 << bit
            assert not accepted(bytes(flipped), verify), (at, bit)
            flipped[at] ^= 1 << bit


def test_nothing_else_comes_out(verify):
    for raw in (b"", b"{}", b"[]", b"\xff", b"MC1 ", b'{"payloadType":1}', b"[" * 100_000):
        with pytest.raises(Refused):
            intoto.read(raw, verify)
    for size, signal in ((0, "empty"), (intoto.MOST_BYTES, "not-json"), (intoto.MOST_BYTES + 1, "over-cap")):
        with pytest.raises(Refused) as refused:
            intoto.read(b" " * size, verify)
        assert refused.value.signal == signal


@pytest.fixture(scope="module")
def record(verify):
    return intoto.read(split(VECTORS["pass"])[1], verify)


def test_a_record_lets_its_own_change_through_and_no_other(record, verify):
    """R8"""
    change, policy = record.decision.change, record.decision.policy_version
    intoto.bind(record, change, policy)
    for field, value in (
        ("diff_sha", "e" * 64),
        ("target", "refs/heads/release"),
        ("base", "9" * 40),
        ("head", "9" * 40),
        ("merge_tree", "9" * 40),
    ):
        with pytest.raises(Refused) as refused:
            intoto.bind(record, msgspec.structs.replace(change, **{field: value}), policy)
        assert refused.value.signal == "stale-diff"
    with pytest.raises(Refused) as refused:
        intoto.bind(record, change, "gate-2")
    assert refused.value.signal == "stale-policy"
    failed = intoto.read(split(VECTORS["fail"])[1], verify)
    with pytest.raises(Refused) as refused:
        intoto.bind(failed, change, policy)
    assert refused.value.signal == "contradiction"


def test_a_writer_refuses_what_a_reader_would(record):
    """R9"""
    decision = record.decision
    (review,) = decision.reviews
    for wrong in (
        msgspec.structs.replace(decision, reviews=()),
        msgspec.structs.replace(decision, decision="fail"),
        msgspec.structs.replace(decision, reviews=(msgspec.structs.replace(review, verdict="fail"),)),
        msgspec.structs.replace(decision, reviews=(review, review)),
        msgspec.structs.replace(decision, at="yesterday"),
        msgspec.structs.replace(decision, change=msgspec.structs.replace(decision.change, base="main")),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            intoto.dumps(wrong)


def test_a_record_is_signed_and_read_with_keys_of_ones_own(record, tmp_path):
    private, public, keyid = keys.new(tmp_path / "gate.key")
    raw = keys.sign(intoto.dumps(record.decision), private, intoto.PAYLOAD_TYPE)
    assert raw == keys.sign(intoto.dumps(record.decision), private, intoto.PAYLOAD_TYPE)
    read = intoto.read(raw, keys.verifier(public))
    assert (read.decision, read.keyid) == (record.decision, keyid)
    with pytest.raises(Refused) as refused:  # an envelope's signature is none for a record
        intoto.read(keys.sign(intoto.dumps(record.decision), private), keys.verifier(public))
    assert refused.value.signal == "wrong-value"
