"""How far a plan has come, and the statements as they are sent."""

import time
from collections.abc import Iterator, Sequence

from endmark.effects.postgres.channel import Step


class Running:
    """How far a plan has come. `at`: the statement at work, from 1; 0 before the first, one more after the last."""

    def __init__(self, statements: Sequence[str], timeout: float) -> None:
        self.statements = statements
        self.timeout = timeout
        self.at = 0
        self.in_guard = True  # one stands before the first statement, too: it sets the timeouts
        self.since = time.monotonic()
        self.changed = 0  # rows that the statement at work changed
        self.rows: list[int] = []  # the same of each one that the guard let pass

    @property
    def statement(self) -> int | None:
        """The statement at work, or None."""
        return self.at if 0 < self.at <= len(self.statements) else None

    def next(self) -> None:
        self.in_guard = False
        self.since = time.monotonic()
        self.at += 1


def guarded(statements: Sequence[str], still: Step) -> Iterator[Step]:
    yield still
    for statement in statements:
        yield Step(statement.encode())
        yield still
