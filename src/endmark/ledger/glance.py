"""A quick look at the newest end of the book; `verify` reads all of it."""

from endmark.core.refusal import CannotTry
from endmark.ledger.chain import ZERO, checkpoint_hash
from endmark.ledger.queries import Queries

_LAST_TWO = "SELECT n, first_event, last_event, at, hash FROM checkpoints ORDER BY n DESC LIMIT 2"
_HASHES = "SELECT hash FROM events WHERE id >= ? AND id <= ? ORDER BY id"


def glance(ledger: Queries) -> str | None:
    """What is wrong with the newest checkpoint and the events it covers (L3); None for nothing, or for no checkpoint.

    Raises CannotTry where the book cannot be read.
    """
    rows = ledger.ask(tuple, _LAST_TWO)
    if not rows:
        return None
    n, first, last, at, said = rows[0]
    previous = bytes(rows[1][4]) if len(rows) > 1 else ZERO
    hashes = ledger.ask(lambda row: bytes(row[0]), _HASHES, first, last)
    try:
        found = checkpoint_hash(previous, n, first, last, at, hashes, len(hashes))
    except (TypeError, AttributeError) as error:
        raise CannotTry(f"checkpoint {n} of the ledger cannot be read: {error}") from None
    return None if found == bytes(said) else f"checkpoint {n:,} does not fit the events {first:,} to {last:,}"
