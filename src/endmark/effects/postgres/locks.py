"""Which locks a plan takes on what stood before it, seen from beside while it runs."""

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Self

from endmark.effects.postgres.channel import Channel, Fault, Late, Lost, Step
from endmark.effects.postgres.functions import JOBS, SCHEMA
from endmark.effects.target import Lock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SILENCE = 10.0  # seconds until what is asked from beside is given up
# Weakest first (https://www.postgresql.org/docs/current/explicit-locking.html). The first one every reader takes.
MODES = (
    "AccessShareLock",
    "RowShareLock",
    "RowExclusiveLock",
    "ShareUpdateExclusiveLock",
    "ShareLock",
    "ShareRowExclusiveLock",
    "ExclusiveLock",
    "AccessExclusiveLock",
)
# What the plan made is not committed, so it is not seen here.
_ASK = f"""SELECT c.oid::regclass::text, c.relkind::text, l.mode FROM pg_locks AS l
JOIN pg_class AS c ON c.oid = l.relation JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE l.pid = $1::int AND l.locktype = 'relation' AND l.granted AND l.mode <> 'AccessShareLock'
AND c.relkind NOT IN ('i', 'I')
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', '{SCHEMA}') AND c.relname <> '{JOBS}'
ORDER BY c.oid""".encode()
_ROWS = b"""SELECT c.oid::regclass::text, c.reltuples::bigint::text FROM pg_class AS c
WHERE c.relkind IN ('r', 'm', 'p') AND c.oid::regclass::text = ANY (string_to_array($1, chr(10))) ORDER BY 1"""


class Seen:
    """Looks at the locks of one server process on a connection of its own, which it closes."""

    def __init__(self, beside: Channel, pid: int, frame: "tuple[Sequence[Step], Sequence[Step]]") -> None:
        """`frame`: what is said before and after each question."""
        self._beside = beside
        self._pid = pid
        self._frame = frame
        self._strongest: dict[str, int] = {}
        self.locks: list[Lock] = []
        self.sequences: set[str] = set()
        self.failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._beside.close()

    def look(self, statement: int) -> None:
        """What `statement` took that none before it had."""
        strongest: dict[str, int] = {}
        for on, kind, mode in self._ask(Step(_ASK, (str(self._pid),))):
            rank = MODES.index(mode) if mode in MODES else len(MODES) - 1
            strongest[on or ""] = max(rank, strongest.get(on or "", 0))
            if kind == "S":
                self.sequences.add(on or "")
        for on, rank in strongest.items():
            if rank > self._strongest.get(on, 0):
                self._strongest[on] = rank
                self.locks.append(Lock(statement, on, MODES[rank]))

    def rows(self, names: "Iterable[str]") -> tuple[tuple[str, int | None], ...]:
        """The server's estimate for each of these that is a table; None where it has none yet."""
        found = self._ask(Step(_ROWS, ("\n".join(names),)))
        return tuple((name or "", None if int(count or -1) < 0 else int(count or 0)) for name, count in found)

    def _ask(self, question: Step) -> "list[tuple[str | None, ...]]":
        before, after = self._frame
        with contextlib.suppress(Fault, Lost, Late):
            replies = self._beside.ask(*before, question, *after, silence=_SILENCE)
            return replies[len(before)].rows
        self.failed = True
        return []
