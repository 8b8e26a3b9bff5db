"""Event hashes and checkpoints: how a change to the book is noticed (spec/states.md, rules L1-L4).

L1  A hash is the SHA-256 of its fields in the order given here: first the length in bytes of each field, as 8 bytes
    big-endian, then the bytes of each field.
L2  The hash of an event is taken over nine fields:
      1 the ASCII text `endmark-event-v1`
      2 the 32-byte hash of the event before it in the same chain; 32 zero bytes for the first
      3 attempt_id or decision_id   4 seq, in decimal: 1, 2, 3, ... within the chain   5 at   6 event, its name
      7 from_state and 8 to_state, both empty where the event moves nothing; the first event has no from_state
      9 data, the bytes of the stored JSON as they are
    Text is UTF-8; `at` is RFC 3339 in UTC with six decimals and a `Z`.
L3  The hash of a checkpoint is taken over seven fields:
      1 the ASCII text `endmark-checkpoint-v1`
      2 the 32-byte hash of the checkpoint before it; 32 zero bytes for the first
      3 n, in decimal: 1, 2, 3, ...   4 first_event and 5 last_event, ids in decimal   6 at
      7 the hashes of the events first_event..last_event in the order of their ids, 32 bytes each (an id in between
        that belongs to no event, as after a rollback on PostgreSQL, has none)
L4  first_event is the last_event of the checkpoint before, plus one; the first checkpoint begins at event 1.

There is one chain an attempt and one a decision (with its reviews), so writers never wait for a common one. A
checkpoint fixes all events before it in their order; a copy of its hash kept elsewhere proves the whole book up to it.
No key is used: whoever can write the file and knows these rules can write another book, and only such a copy shows it.
"""

import hashlib
import struct
from collections.abc import Iterable

ZERO = bytes(32)
EVERY = 1024  # events between two checkpoints


def event_hash(
    previous: bytes,
    attempt_id: str,
    seq: int,
    at: str,
    event: str,
    from_state: str | None,
    to_state: str | None,
    data: bytes,
) -> bytes:
    """The 32-byte hash of one event (L2)."""
    fields = (
        b"endmark-event-v1",
        previous,
        attempt_id.encode(),
        b"%d" % seq,
        at.encode(),
        event.encode(),
        from_state.encode() if from_state else b"",
        to_state.encode() if to_state else b"",
        data,
    )
    return hashlib.sha256(_NINE_LENGTHS(*map(len, fields)) + b"".join(fields)).digest()


def checkpoint_hash(
    previous: bytes, n: int, first: int, last: int, at: str, hashes: Iterable[bytes], count: int | None = None
) -> bytes:
    """The 32-byte hash of checkpoint `n` over the events `first`..`last`, whose hashes come in id order (L3).

    `count` is their number, where some of these ids belong to no event.
    """
    size = 32 * (last - first + 1 if count is None else count)
    fields = (b"endmark-checkpoint-v1", previous, b"%d" % n, b"%d" % first, b"%d" % last, at.encode())
    digest = hashlib.sha256(_SEVEN_LENGTHS(*map(len, fields), size) + b"".join(fields))
    for event in hashes:
        digest.update(event)
    return digest.digest()


_NINE_LENGTHS = struct.Struct(">9Q").pack
_SEVEN_LENGTHS = struct.Struct(">7Q").pack
