"""The hashes: their bytes are a promise (spec/states.md), so they are rebuilt here by hand."""

import hashlib
from typing import Any

from endmark.ledger.chain import ZERO, checkpoint_hash, event_hash


def by_hand(*fields):
    lengths = b"".join(len(field).to_bytes(8, "big") for field in fields)
    return hashlib.sha256(lengths + b"".join(fields))


def test_an_event_by_hand():  # L1 L2
    fields = (b"endmark-event-v1", ZERO, b"att_1", b"1", b"2026-11-30T12:00:00.000000Z", b"received", b"", b"received")
    expected = by_hand(*fields, b'{"a":1}')
    found = event_hash(ZERO, "att_1", 1, "2026-11-30T12:00:00.000000Z", "received", None, "received", b'{"a":1}')
    assert found == expected.digest()


def test_the_vector_of_an_event():
    found = event_hash(bytes(range(32)), "att_é", 12, "2026-11-30T12:00:00.000001Z", "moved", "staged", "stale", b"{}")
    assert found.hex() == "ba10520837836af6dce4ce114aa761a83f084f53cb6cbd27a6e93fb2ad769c5d"


def test_a_checkpoint_by_hand():  # L1 L3 L4
    hashes = [bytes([n]) * 32 for n in (1, 2, 3)]
    expected = by_hand(
        b"endmark-checkpoint-v1", ZERO, b"1", b"1", b"3", b"2026-11-30T12:00:00.000000Z", b"".join(hashes)
    )
    assert checkpoint_hash(ZERO, 1, 1, 3, "2026-11-30T12:00:00.000000Z", iter(hashes)) == expected.digest()


def test_the_vector_of_a_checkpoint():
    found = checkpoint_hash(bytes(range(32)), 2, 4, 5, "2026-11-30T12:00:00.000001Z", [b"\1" * 32, b"\2" * 32])
    assert found.hex() == "fbdf0622acbc82ea4860425e5dcdbbebc78bbd7a2e0a1a297527665154bcc0f4"


def test_every_field_counts():
    fields: list[Any] = [ZERO, "att_1", 1, "at", "moved", "staged", "stale", b"{}"]
    others = [b"\1" * 32, "att_2", 2, "ta", "noted", "approved", "declined", b"{ }"]
    whole = event_hash(*fields)
    for place, other in enumerate(others):
        changed = [*fields[:place], other, *fields[place + 1 :]]
        assert event_hash(*changed) != whole


def test_a_border_between_two_fields_counts():
    assert event_hash(ZERO, "ab", 1, "c", "e", None, None, b"") != event_hash(ZERO, "a", 1, "bc", "e", None, None, b"")
