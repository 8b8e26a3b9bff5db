"""A plan runs on a scratch copy of what it can reach first: every statement, then every `down` back to where it began.

What it foresees is the fingerprint after each statement, by which a crash is settled later. Statements about rows are
only explained there: the copy has no rows to change.
"""

import difflib
import re
from collections.abc import Sequence

import msgspec
import pymysql

from endmark.core.refusal import Signal
from endmark.effects.mariadb import fingerprint as schema
from endmark.effects.mariadb.address import Address
from endmark.effects.mariadb.clone import PREFIX, reach, scratch
from endmark.effects.mariadb.connection import Conn, is_lost, rows, signal_of, words
from endmark.effects.mariadb.guard import ENGINES, Does, Judged
from endmark.effects.target import Failed

_ENGINES = "SELECT DISTINCT LOWER(engine) FROM information_schema.tables WHERE table_schema = DATABASE()"


class Rehearsed(msgspec.Struct, frozen=True):
    """`fingerprints`: the schema before the first statement and after each one. `diff`: lines of what would change."""

    fingerprints: tuple[str, ...]
    diff: tuple[str, ...]


def rehearse(
    conn: Conn,
    address: Address,
    database: str,
    statements: Sequence[tuple[str, Judged]],
    downs: Sequence[tuple[str, Judged]] | None,
    timeout: float,
) -> Rehearsed:
    """Run everything on a clone, under the target's lock. `timeout`: seconds a statement.

    Raises Failed for what does not go through there, or does not come back; CannotTry where there can be no clone.
    """
    named = frozenset().union(*(judged.names for _text, judged in (*statements, *(downs or ()))))
    part = reach(conn, named)
    before = schema.describe(conn)
    rest = [row for row in before if not part.copies(row)]

    def look() -> list[schema.Row]:
        """The whole schema, as it would be with what the scratch database holds now."""
        return sorted([*rest, *(row for row in schema.describe(inside, []) if row[0] != "database")])

    with scratch(conn, address, database, part, timeout) as inside:
        engines = {row[0] for row in rows(inside, _ENGINES)} | ENGINES
        prints = [schema.digest(look())]
        if prints[0] != schema.digest(before):
            raise Failed(Signal.CHECK_FAILED, "the schema cannot be copied faithfully, so nothing can be rehearsed")
        for n, (text, judged) in enumerate(statements, 1):
            _step(inside, f"statement {n}", n, text, judged)
            prints.append(schema.digest(look()))
        after = look()
        if foreign := {row[0] for row in rows(inside, _ENGINES)} - engines - {None}:
            raise Failed(Signal.FORBIDDEN_STATEMENT, f"the plan makes a table kept by {min(foreign)}")
        for n, (text, judged) in reversed(list(enumerate(downs or (), 1))):
            _step(inside, f"the down of statement {n}", n, text, judged)
            if schema.digest(look()) != prints[n - 1]:
                raise Failed(
                    Signal.CHECK_FAILED,
                    f"in the rehearsal the down of statement {n} did not bring back the schema from before it",
                    n,
                )
    return Rehearsed(tuple(prints), tuple(_diff(before, after)))


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


def _diff(before: Sequence[schema.Row], after: Sequence[schema.Row]) -> list[str]:
    old, new = ([line for row in found for line in " ".join(row).split("\n")] for found in (before, after))
    return list(difflib.unified_diff(old, new, n=0, lineterm=""))[2:]
