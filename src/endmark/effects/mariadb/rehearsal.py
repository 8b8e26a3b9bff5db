"""A plan runs on a scratch copy of what it can reach first: every statement, then every `down` back to where it began.

What it foresees is the fingerprint after each statement, by which a crash is settled later. Statements about rows are
only explained there: the copy has no rows to change.
"""

import re
from collections.abc import Sequence

import msgspec
import pymysql

from endmark.core.refusal import Signal
from endmark.core.schemadiff import Change, diff
from endmark.effects.mariadb import fingerprint as schema
from endmark.effects.mariadb.address import Address
from endmark.effects.mariadb.clone import PREFIX, reach, scratch
from endmark.effects.mariadb.connection import Conn, is_lost, rows, signal_of, words
from endmark.effects.mariadb.guard import ENGINES, OURS, Does, Judged
from endmark.effects.mariadb.listing import items
from endmark.effects.target import Failed, Lock, Stop

_ENGINES = "SELECT DISTINCT LOWER(engine) FROM information_schema.tables WHERE table_schema = DATABASE()"


class Rehearsed(msgspec.Struct, frozen=True):
    """`fingerprints`: the schema before the first statement and after each one."""

    fingerprints: tuple[str, ...]
    changes: tuple[Change, ...]


def rehearse(
    conn: Conn,
    address: Address,
    database: str,
    statements: Sequence[tuple[str, Judged]],
    downs: Sequence[tuple[str, Judged]] | None,
    timeout: float,
    stop: Stop,
) -> Rehearsed:
    """Run everything on a clone, under the target's lock. `timeout`: seconds a statement; `stop` is asked after each.

    Raises Failed for what does not go through there, or does not come back; CannotTry where there can be no clone.
    """
    named = frozenset().union(*(judged.names for _text, judged in (*statements, *(downs or ()))))
    part = reach(conn, database, named)
    before = schema.describe(conn)
    rest = [row for row in before if not part.copies(row)]

    def look() -> list[schema.Row]:
        """The whole schema, as it would be with what the scratch database holds now."""
        return sorted([*rest, *(row for row in schema.describe(inside, []) if row[0] != "database")])

    with scratch(conn, address, database, part, timeout) as inside:
        engines = {row[0] for row in rows(inside, _ENGINES)} | ENGINES
        now = look()
        prints = [schema.digest(now)]
        if prints[0] != schema.digest(before):
            raise Failed(Signal.CHECK_FAILED, "the schema cannot be copied faithfully, so nothing can be rehearsed")
        for n, (text, judged) in enumerate(statements, 1):
            _step(inside, f"statement {n}", n, text, judged)
            _check_stop(stop, f"statement {n}", n)
            if judged.does is Does.SCHEMA:  # the others are explained, and change nothing
                now = look()
            prints.append(schema.digest(now))
        after = now
        if foreign := {row[0] for row in rows(inside, _ENGINES)} - engines - {None}:
            raise Failed(Signal.FORBIDDEN_STATEMENT, f"the plan makes a table kept by {min(foreign)}")
        for n, (text, judged) in reversed(list(enumerate(downs or (), 1))):
            _step(inside, f"the down of statement {n}", n, text, judged)
            _check_stop(stop, f"the down of statement {n}", n)
            if judged.does is Does.SCHEMA:
                now = look()
            if schema.digest(now) != prints[n - 1]:
                raise Failed(
                    Signal.CHECK_FAILED,
                    f"in the rehearsal the down of statement {n} did not bring back the schema from before it",
                    n,
                )
    return Rehearsed(tuple(prints), diff(items(before), items(after)))


def _step(inside: Conn, who: str, n: int, text: str, judged: Judged) -> None:
    if judged.does is Does.NOTHING:
        return
    try:
        # A query of the plan is explained, a change of the schema is made.
        rows(inside, text if judged.does is Does.SCHEMA else f"EXPLAIN {text}")
    except pymysql.err.MySQLError as fault:
        signal = Signal.TARGET_FAULT if is_lost(fault) else signal_of(fault)
        raise Failed(signal, f"in the rehearsal {who}: {_without_scratch(words(fault))}", n) from None


def _without_scratch(said: str) -> str:
    return re.sub(rf"`?{PREFIX}[0-9a-f]+`?\.", "", said)


def _check_stop(stop: Stop, who: str, n: int) -> None:
    if (by := stop()) is not None:
        raise Failed(Signal.INTERRUPTED, f"{by} in the rehearsal after {who}", n)


def locks(conn: Conn, statements: Sequence[tuple[str, Judged]]) -> tuple[tuple[Lock, ...], dict[str, int | None]]:
    """The locks that a plan's words ask for on tables that are there, and the server's estimate of their rows.

    Raises pymysql's errors.
    """
    there = {name.lower(): (name, count) for name, count in rows(conn, _ESTIMATES) if name.lower() not in OURS}
    found: dict[str, tuple[int, bool]] = {}
    for n, (_text, judged) in enumerate(statements, 1):
        if judged.does in (Does.SCHEMA, Does.ROWS):
            for word in sorted(judged.names & there.keys()):
                exclusive = judged.does is Does.SCHEMA
                if word not in found or (exclusive and not found[word][1]):
                    found[word] = n, exclusive
    taken = sorted((n, there[word][0], exclusive) for word, (n, exclusive) in found.items())
    mode = {True: "exclusive metadata lock", False: "shared metadata lock, locks on rows"}
    return tuple(Lock(n, name, mode[exclusive]) for n, name, exclusive in taken), {
        there[word][0]: None if there[word][1] is None else int(there[word][1]) for word in sorted(found)
    }


_ESTIMATES = "SELECT table_name, table_rows FROM information_schema.tables WHERE table_schema = DATABASE()"
