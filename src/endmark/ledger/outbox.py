"""What goes out with an act: a call within the ledger's own database, made in the same transaction or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from endmark.ledger.entry import Entry


class Call(msgspec.Struct, frozen=True):
    """An expression that calls a function of that database, with `?` where one of `values` stands."""

    sql: str
    values: tuple[Any, ...]


class Outbox(Protocol):
    """Told of each attempt that an act leaves `staged` or `approved`, before the act is committed."""

    @property
    def schemas(self) -> tuple[str, ...]:
        """Where the functions find their tables: looked into after the book's own schema."""

    def call_for(self, entry: Entry) -> Call | None:
        """What is to be called for it, or None. Looks at nothing but `entry`."""
