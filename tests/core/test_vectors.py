"""Every vector gives its one answer: as it stands, with a byte after it, cut anywhere, with any bit flipped."""

import hashlib
import sqlite3

import pytest
from tests.core import payloads, vectors
from tests.core.vectors import Vector
from tests.vectors import build

from endmark.core import binding, mc1, plan, proof, strictjson, verdict
from endmark.core.refusal import Refused
from endmark.effects.sqlite.fingerprint import fingerprint

VECTORS = vectors.load()
ACCEPTED = [vector for vector in VECTORS if vector.accepted and vector.read_as == "bytes"]


def named(chosen):
    return pytest.mark.parametrize("vector", chosen, ids=lambda vector: vector.name)


def answer(vector: Vector, raw: bytes) -> tuple[str, object, tuple[str, ...]]:
    """What bytes are when they are read as the vector says: the form, the value and the evidence. Raises Refused."""
    if vector.read_as == "json":
        return "object", strictjson.loads(raw), ()
    if vector.read_as == "witness":
        return "witness", plan.read_witness(strictjson.loads(raw), len(raw)), ()
    if vector.read_as == "seal":
        return "sealed", hashlib.sha256(proof.seal(raw, vector.cap)).hexdigest(), ()
    if vector.marks is not None:
        found = mc1.read(raw)
        document = strictjson.loads(raw, found.start, found.end, found.expected_bytes)
        return "verdict", verdict.read(document, len(raw), found.expected_bytes, vector.marks), ()
    if vector.wanted is not None:
        bound = binding.read(raw, vector.wanted)
        return "verdict", bound.verdict, bound.evidence
    proven = proof.prove(raw, vector.cap)
    assert proven.received_bytes == len(raw)
    return proven.form, proven.value, proven.evidence


@named([vector for vector in VECTORS if vector.expect != "digest"])
def test_a_vector_gives_its_answer(vector):
    if not vector.accepted:
        with pytest.raises(Refused) as refused:
            answer(vector, vector.raw)
        assert refused.value.signal == vector.expect
        assert refused.value.received_bytes == len(vector.raw)
        assert refused.value.expected_bytes == vector.expected
        assert refused.value.detail.isprintable()
        assert len(refused.value.detail) < 250
        return
    form, value, evidence = answer(vector, vector.raw)
    assert form == vector.expect
    assert vector.header.get("sealed") in (None, value)
    assert "evidence" not in vector.header or vector.header["evidence"] in evidence
    if isinstance(value, plan.Plan):
        assert value.sha256 == vector.header.get("sha256", value.sha256)


@named(ACCEPTED)
def test_with_anything_after_it_is_refused(vector):
    mc1_form = vector.raw.startswith(b"M")
    for more in (b"x", b"}", b"]", b"{}", b"\0", b"\xff", b"\xef\xbb\xbf", b"\nEND\n", vector.raw):
        with pytest.raises(Refused) as refused:
            proof.prove(vector.raw + more)
        assert refused.value.signal == ("bytes-after-end" if mc1_form else "two-documents")
        assert refused.value.received_bytes == len(vector.raw) + len(more)
    if mc1_form:
        with pytest.raises(Refused, match="1 bytes follow"):
            proof.prove(vector.raw + b"\n")


@named([vector for vector in VECTORS if vector.accepted and vector.expect != "digest"])
def test_every_cut_is_refused(vector):
    """A bare text may lose the white space at its end, an envelope nothing."""
    whole = vector.raw if vector.raw.startswith(b"M") else vector.raw.rstrip(b" \t\r\n")
    for at in range(len(whole)):
        with pytest.raises(Refused) as refused:
            answer(vector, whole[:at])
        assert refused.value.received_bytes == at


@named([vector for vector in ACCEPTED if vector.raw.startswith(b"M")])
def test_every_flip_in_an_envelope_is_refused(vector):
    for at in range(len(vector.raw)):
        for bit in range(8):
            flipped = bytearray(vector.raw)
            flipped[at] ^= 1 << bit
            with pytest.raises(Refused):
                proof.prove(bytes(flipped))


@named([vector for vector in ACCEPTED if vector.expect == "plan" and not vector.raw.startswith(b"M")])
def test_every_flip_in_a_bare_plan_is_refused_where_its_digest_covers(vector):
    """P20: outside the values of four keys, a flip is refused, or it spells the same object and so changed nothing."""
    uncovered = {at for span in payloads.spans(vector.raw) for at in span}
    whole = strictjson.loads(vector.raw)
    for at in set(range(len(vector.raw))) - uncovered:
        for bit in range(8):
            flipped = bytearray(vector.raw)
            flipped[at] ^= 1 << bit
            try:
                proof.prove(bytes(flipped))
            except Refused:
                continue
            assert strictjson.loads(bytes(flipped)) == whole, (at, bit)


def value_of(vector: Vector):
    """The JSON value of a vector that is no object."""
    return strictjson.loads(b'{"value":' + vector.raw + b"}")["value"]


@named([vector for vector in VECTORS if vector.read_as == "statements"])
def test_a_digest(vector):
    assert plan.digest(value_of(vector)) == vector.header["sha256"]


@named([vector for vector in VECTORS if vector.read_as.startswith("schema-")])
def test_a_fingerprint(vector):
    conn = sqlite3.connect(":memory:")
    try:
        if vector.read_as == "schema-sql":
            for statement in value_of(vector):
                conn.execute(statement)
        else:  # rows may be such as no statement makes
            conn.execute("PRAGMA writable_schema = ON")
            for row in value_of(vector):
                conn.execute("INSERT INTO main.sqlite_master VALUES (?, ?, ?, 0, ?)", row)
        assert fingerprint(conn) == vector.header["sha256"]
    finally:
        conn.close()


@pytest.mark.parametrize(
    "content",
    [
        b"expect: plan\ncomment: x\nrule: P1\nreceived: 0\n",
        b"expect: plan\ncomment: x\nrule: P1\nreceived: 1\n\n",
        b"expect: fine\ncomment: x\nrule: P1\nreceived: 0\n\n",
        b"expect: plan\ncomment: x\nrule: P1\nreceived: 0\ncolour: red\n\n",
        b"expect: plan\nexpect: plan\ncomment: x\nrule: P1\nreceived: 0\n\n",
        b"expect: plan\ncomment: x\nrule: P1\nreceived: 0\nas: guess\n\n",
        b"expect: plan\ncomment: x\nreceived: 0\n\n",
        b"expect: plan\nrule: P1\nreceived: 0\n\n",
        b"expect: plan\ncomment:\nrule: P1\nreceived: 0\n\n",
    ],
)
def test_a_vector_that_is_not_understood_is_refused(content):
    with pytest.raises(ValueError, match="name"):
        vectors.parse("name", content)


def test_there_are_many_and_each_is_small():
    assert len(VECTORS) > 450
    assert max(len(vector.raw) for vector in VECTORS) < 5_000


def test_the_builder_writes_the_files_that_are_there():
    """Byte for byte, none more and none less."""
    written = build.build()
    there = [path for folder in vectors.FOLDERS for path in (vectors.FOLDER / folder).iterdir()]
    assert written == {f"{path.parent.name}/{path.name}": path.read_bytes() for path in there}
