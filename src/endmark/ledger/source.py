"""What an audit reads: a book in one snapshot, whatever its engine."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol


class Source(Protocol):
    """A book as it stood at one moment. Reading raises one of `errors`, and nothing else, when it cannot go on."""

    errors: tuple[type[Exception], ...]
    gapless: bool
    """Whether numbers are given without a gap, so that one that is missing was taken away."""

    bodies: bool
    """Whether kept bytes are there to be looked at."""

    def rows(self, sql: str, *values: Any) -> Iterable[tuple[Any, ...]]:
        """The rows of a question, a few at a time; several may be read side by side."""

    def is_number(self, column: str) -> str:
        """The condition that a column holds a number, in SQL."""

    def damage(self) -> Iterator[str]:
        """What the engine itself finds wrong with its storage, a sentence each."""

    def rules(self) -> Iterator[str]:
        """Every table, index and rule that is not the one this version makes, a sentence each."""

    def given(self) -> dict[str, Any]:
        """The last number given out for each table, where `gapless`."""
