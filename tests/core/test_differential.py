"""Two readers of the same rules must agree on every input: endmark's, and the slow plain one beside this file."""

import random

import pytest
from tests.core import payloads, reader, vectors

from endmark.core import decision, plan, proof, strictjson
from endmark.core.refusal import Refused, Signal

SEEDS = [vector.raw for vector in vectors.load("json", "mc1", "plan", "witness", "verdict") if len(vector.raw) < 1500]
# What one fault turns into another, or a refusal into an acceptance, if a reader is careless.
TOKENS = [
    *(bytes([byte]) for byte in b'{}[]",:\\ \n\t0129.eE+-/MNtfn\x00\x1f\x7f\x80\xff\xc3\xed'),
    *(word.encode() for word in ("true", "null", "NaN", "Infinity", "1e999", "2.0", "9223372036854775808", "\ufeff")),
    *(word.encode() for word in ("\\ud800", "\\udc00", "\\u0000", "\\u0061", '"a":1,', '"a":', "END_APPLY", "\nEND\n")),
    *(f'"{key}":'.encode() for key in (*plan.REQUIRED, *plan.OPTIONAL, "verdict", "marks", "findings", "diff_sha")),
    *(word.encode() for word in ('""', "[]", "{}", "[[", "]]", '"],"', '","', '" "', '"--x"', '"/*"', '"job_1"')),
    b"[" * 64,
    b'{"a":' * 33,
]


def core(raw: bytes) -> tuple[str, object]:
    try:
        proven = proof.prove(raw)
    except Refused as refused:
        return refused.signal.value, None
    return proven.form.value, proven.value


def plain(raw: bytes) -> tuple[str, object]:
    try:
        return reader.read(raw)
    except reader.No as no:
        return str(no), None


def agree(raw: bytes) -> None:
    """Both say the same of `raw`. Of several faults of row 7 each may name its own."""
    one, value = core(raw)
    other, found = plain(raw)
    if one != other:
        rows = {decision.row_of(Signal(word)).number for word in (one, other) if word in set(Signal)}
        assert rows == {7}, (raw, one, other)
    if isinstance(value, plan.Plan):
        assert isinstance(found, dict)
        for key in ("job_id", "statements", "down", "retry_of", "base"):
            assert getattr(value, key) == found.get(key), raw
        assert value.after == found.get("after", [])


def strict(read, fault, raw: bytes) -> object:
    try:
        return read(raw)
    except fault as no:
        return str(no.signal if isinstance(no, Refused) else no)


DOCUMENTS = strictjson.Documents()  # one for all, as a stream has it: nothing may stay behind in it


def agree_on_json(raw: bytes) -> None:
    one, other = strict(strictjson.loads, Refused, raw), strict(reader.strict, reader.No, raw)
    assert repr(strict(DOCUMENTS.loads, Refused, raw)) == repr(one), raw
    assert one == other, raw
    assert repr(one) == repr(other), raw  # 1, 1.0 and True are equal and are not the same


def damaged(chance: random.Random) -> bytes:
    """A payload with one to three faults of any kind."""
    raw = bytearray(chance.choice(SEEDS))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(len(raw) + 1)
        to = min(len(raw), at + chance.choice((1, 1, 2, 5, 30)))
        kind = chance.randrange(7)
        if kind == 0:
            raw[at:at] = chance.choice(TOKENS)
        elif kind == 1:
            raw[at:to] = chance.choice(TOKENS)
        elif kind == 2:
            del raw[at:to]
        elif kind == 3 and at < len(raw):
            raw[at] ^= 1 << chance.randrange(8)
        elif kind == 4:
            raw[at:at] = raw[at:to]
        elif kind == 5:
            other = chance.choice(SEEDS)
            raw[at:] = other[chance.randrange(len(other) + 1) :]
        else:
            raw[at:] = chance.choice((b"", b'"}', b'"]}', b"}", b"]}", b'"],"trailer":"END_APPLY"}'))
    return bytes(raw)


def sealed_again(raw: bytes) -> bytes:
    """The damaged text of an envelope in a right envelope, so that what lies behind the digest is reached too."""
    text = raw.partition(b"\n")[2] if raw.startswith(b"M") else raw
    return payloads.envelope(text.removesuffix(b"\nEND\n"))


def sweep(seed: int, times: int) -> None:
    chance = random.Random(seed)
    for _ in range(times):
        raw = damaged(chance)
        agree(raw)
        agree(sealed_again(raw))
        agree_on_json(raw)


def test_they_agree_on_every_vector():
    for vector in vectors.load("json", "mc1", "plan", "witness", "verdict"):
        agree(vector.raw)
        agree_on_json(vector.raw)


def test_they_agree_on_every_cut_of_every_vector():
    for raw in SEEDS:
        for at in range(0, len(raw), 3):
            agree_on_json(raw[:at])


@pytest.mark.parametrize("seed", range(4))
def test_they_agree_on_damaged_payloads(seed):
    sweep(seed, 3_000)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_they_agree_on_many_more(seed):
    sweep(seed, 30_000)
