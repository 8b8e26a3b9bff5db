"""The ids of what the book holds: `att_...` for attempts, `dec_...` for decisions, `rev_...` for reviews."""

import os
from datetime import datetime

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = tuple(high + low for high in _CROCKFORD for low in _CROCKFORD)


def new_id(kind: str, now: datetime) -> str:
    """`kind`, an underscore and 26 Crockford base32 digits: 48 bits of milliseconds, then 80 random bits.

    Ids of one clock sort by time, so that their index grows at its right edge.
    """
    number = int(now.timestamp() * 1000) << 80 | int.from_bytes(os.urandom(10), "big")
    return f"{kind}_" + "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])
