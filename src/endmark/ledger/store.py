"""What a book is kept in: the few things that differ between one engine and another."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from endmark.core.refusal import CannotTry
from endmark.ledger.outbox import Call
from endmark.ledger.source import Source

Row = tuple[Any, ...]


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt as the tables take it: its row in `received` with one event, then its move to `state` with another.

    `columns` are the row's, in the order of RECEIVED_COLUMNS; `heads` are the hashes of the two events. `call` is made
    in the same transaction where a row was written.
    """

    columns: tuple[Any, ...]
    at: str
    data: str
    state: str
    heads: tuple[bytes, bytes]
    body: bytes | None
    call: Call | None = None

    @property
    def attempt_id(self) -> str:
        return str(self.columns[0])


class Busy(CannotTry):
    """Another process writes, and was not to be waited for. Nothing was done."""


class Store(Protocol):
    """One open book in one engine. SQL comes with `?` where a value stands. Every method raises CannotTry, and nothing
    else, for what the world did; one object may serve many threads."""

    connection: Any
    """The driver's own connection."""
    place: Path | str
    quick: bool
    """Whether a small act takes no longer than its flush to this machine's disk."""
    row_lock: str
    """Ends a SELECT so that its row stays as it is until the transaction ends, where readers do not do so anyway."""
    last_event: int
    """The id of the last event that the last transaction wrote; 0 where it wrote none."""
    written: int
    """How many events it wrote."""

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of a question, within a transaction or outside."""

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        """A change, within a transaction. What is wrong with it may be said only later, at the latest by the commit."""

    def insert(self, table: str, columns: Sequence[str], values: Sequence[Any]) -> int:
        """A new row, within a transaction. Returns the number `n` it was given."""

    def add_event(self, values: Sequence[Any]) -> None:
        """A new event, within a transaction: its values in the order of EVENT_COLUMNS."""

    def transaction(self, durable: bool) -> AbstractContextManager[None]:
        """What happens inside is committed whole, or rolled back whole and the reason raised."""

    def batch(self, durable: bool, *, wait: bool = True) -> AbstractContextManager[None]:
        """What happens inside is committed together, or nothing of it.

        Without `wait`, raises Busy before anything is done where another process would have to be waited for.

        A `transaction` or a `record` in there is whole or rolled back by itself, and the others go on.
        """

    def alone(self, about: str) -> None:
        """Within a transaction: whoever else says the same word waits until this transaction has ended."""

    def record(self, new: Received, job_id: str | None, durable: bool) -> str | None:
        """Write a new attempt in a transaction of its own. `job_id` is the one it would own.

        Where that has an owner nothing is written, and the owner's attempt_id is returned, else None.
        """

    def settled_event(self, *, wait: bool) -> int:
        """Within a transaction that makes a checkpoint: an id up to which no event can still appear; 0 for not now.

        Nobody else makes a checkpoint until the transaction has ended. With `wait`, writers in the midst of an act are
        waited for.
        """

    def stands(self) -> bool:
        """Whether what was opened still stands at its place: not removed, not replaced."""

    def which(self) -> tuple[str, ...]:
        """What tells the database that this is kept in from every other one; empty words where nobody may say."""

    def unreadable(self, error: Exception) -> CannotTry:
        """What to raise for a row that holds what was never written by us."""

    def audited(self) -> AbstractContextManager[Source]:
        """The book as it stands at this moment, over a connection of its own."""

    def close(self) -> None:
        """Let go of everything. Closing twice is fine."""


EVENT_COLUMNS = ("attempt", "decision", "seq", "hash", "at", "event", "from_state", "to_state", "data")
