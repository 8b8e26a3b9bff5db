"""`[queue]` of endmark.toml, and how a job gets onto the queue: in the transaction that makes it due.

Nothing here needs Procrastinate: whoever approves on a laptop writes the row by an SQL function of the ledger's own
database. The row holds the attempt's id and nothing else.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from endmark.core.evidence import REVIEW_NONE
from endmark.core.states import State
from endmark.faces.misuse import Misuse
from endmark.ledger.outbox import Call

if TYPE_CHECKING:
    from endmark.ledger.entry import Entry
    from endmark.ledger.postgres.place import Place

SCHEMA = "endmark_queue"
RUN, SHOW = "endmark.run", "endmark.show"


class QueueTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[queue]` of endmark.toml. Times in seconds.

    `tries`: of one job whose target cannot be reached, or whose workers die. `heartbeat`: how often a worker says it
    lives; after `stalled_after` without, its jobs go to others. `sweep_every`: what is due and has no row gets one.
    `reconcile_every`: what a crash left is settled. `drain_timeout`: for what runs when a worker is told to end.
    `replay`: repositories whose verdicts are asked for again, at `replay_at`, a crontab line in UTC.
    """

    url: str
    tries: int = 12
    heartbeat: float = 10.0
    stalled_after: float = 30.0
    sweep_every: float = 30.0
    reconcile_every: float = 60.0
    drain_timeout: float = 30.0
    replay: tuple[str, ...] = ()
    replay_at: str = "0 3 * * *"

    def __post_init__(self) -> None:
        for name in ("heartbeat", "stalled_after", "sweep_every", "reconcile_every", "drain_timeout"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}: {getattr(self, name)} is not a number above zero")
        if self.tries < 1:
            raise ValueError(f"tries: {self.tries} is not a number above zero")
        if self.stalled_after < 2 * self.heartbeat:
            raise ValueError("stalled_after: at least twice the heartbeat was expected")


class Queue(msgspec.Struct, frozen=True):
    """Where the queue is, and how it is treated."""

    place: Place
    table: QueueTable

    @property
    def schema(self) -> str:
        return self.place.schema


class Deferring:
    """The outbox of a ledger whose jobs are applied by workers.

    What a worker may apply goes out to be run; what was staged for one of the targets `shows` (identities) goes out to
    be rehearsed for whoever is to approve it.
    """

    def __init__(self, schema: str, shows: frozenset[str] = frozenset()) -> None:
        self.schemas = (schema,)
        self._shows = shows
        self._sql = (
            f"{schema}.procrastinate_defer_jobs_v1(ARRAY[ROW(?::varchar, ?::varchar, 0, ?::text, NULL, "
            f"jsonb_build_object('attempt', ?::text), NULL)]::{schema}.procrastinate_job_to_defer_v1[])"
        )

    def call_for(self, entry: Entry) -> Call | None:
        if entry.target is None:
            return None
        line = line_of(entry.target)
        if entry.state is State.APPROVED or REVIEW_NONE in entry.evidence:
            return Call(self._sql, (line, RUN, entry.target, entry.attempt_id))
        if entry.target in self._shows:
            return Call(self._sql, (line, SHOW, None, entry.attempt_id))
        return None


def line_of(identity: str) -> str:
    """The queue's name for a target: each has its own, so that a worker takes only what it can reach.

    Short, as PostgreSQL cuts the name of a channel after 63 bytes.
    """
    return f"t_{hashlib.sha256(identity.encode()).hexdigest()[:32]}"


def queue_at(table: QueueTable, url: str, ledger: Path | str, where: str) -> Queue:
    """What `[queue]` says, beside this ledger. `url` is its url, read from the environment where it says so.

    Raises Misuse where the queue is not in the ledger's own database: then no transaction could hold both.
    """
    if isinstance(ledger, Path):
        raise Misuse(
            f"{where}: a queue needs a ledger in PostgreSQL, and this one is the file {ledger}. Remove [queue], and "
            "'endmark serve' applies what is approved by itself; or name a ledger postgresql://... Nothing was done."
        )
    try:
        from endmark.ledger.postgres.place import place_of
    except ImportError:
        raise Misuse(f"{where}: a queue needs psycopg and libpq: pip install 'endmark[queue]'.") from None
    from endmark.core.refusal import CannotTry

    if not url.startswith(("postgresql://", "postgres://")):
        raise Misuse(f"{where}.url: postgresql://USER@HOST/DATABASE, as the ledger's, was expected.")
    try:
        place, book = place_of(url, SCHEMA), place_of(ledger)
    except CannotTry as fault:
        raise Misuse(f"{where}.url: {fault.detail.replace('the ledger', 'the queue')}") from None
    if place.database != book.database:
        raise Misuse(
            f"{where}.url: the queue is in {place.database} and the ledger in {book.database}; the same database, "
            "written the same way, was expected: one transaction holds both. Nothing was done."
        )
    if place.schema == book.schema:
        raise Misuse(f"{where}.url: the schema {place.schema} is the ledger's; name another with ?schema=NAME.")
    return Queue(place, table)
