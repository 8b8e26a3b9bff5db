"""What became of a statement that ran outside of a transaction, by what stands in the catalogs afterwards."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from endmark.effects.postgres import fingerprint
from endmark.effects.postgres.channel import Reply, Step

# What such a statement leaves when it is broken off: (what it is, its number, how to be rid of it). An index of a
# partitioned table is not valid before each partition has its own, which is nobody's fault. Asked with search_path =
# pg_catalog, as all of these are.
_BROKEN = """
SELECT 'the index ' || indexrelid::regclass::text || ' is not valid', 'index ' || indexrelid::text,
    'DROP INDEX CONCURRENTLY ' || indexrelid::regclass::text
FROM pg_index AS i JOIN pg_class AS c ON c.oid = indexrelid
WHERE c.relkind = 'i' AND NOT (indisvalid AND indisready AND indislive) AND c.relpersistence <> 't'
UNION ALL
SELECT 'the partition ' || inhrelid::regclass::text || ' is half detached', 'partition ' || inhrelid::text,
    'ALTER TABLE ' || inhparent::regclass::text || ' DETACH PARTITION ' || inhrelid::regclass::text || ' FINALIZE'
FROM pg_inherits WHERE inhdetachpending
ORDER BY 1
"""
# Every index that is whole, by its number and a digest of its definition.
_INDEXES = """
SELECT indexrelid::text, left(md5(pg_get_indexdef(indexrelid)), 12) FROM pg_index AS i JOIN pg_class AS c
    ON c.oid = indexrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'i' AND indisvalid AND indisready AND indislive AND n.nspname !~ '^pg_'
ORDER BY indexrelid
"""
ASK = (fingerprint.ASK, fingerprint.REST, Step(_BROKEN.encode()), Step(_INDEXES.encode()))


class Broken(NamedTuple):
    """What a broken-off statement left, in words; a name that never changes; and the statement that removes it."""

    what: str
    key: str
    remedy: str


class Seen(NamedTuple):
    """The schema as it stands: its fingerprint, the same without indexes, what is broken, and every whole index."""

    fingerprint: str
    rest: str
    broken: tuple[Broken, ...]
    indexes: frozenset[tuple[str, str]]


class Became(Enum):
    """What can be proven of it."""

    NOTHING = "nothing"
    WHOLE = "applied"
    PARTLY = "partial"


class Before(NamedTuple):
    """What has to be remembered of the schema before it, in case that nobody here lives to see the end."""

    fingerprint: str
    rest: str
    broken: frozenset[str]
    indexes: frozenset[tuple[str, str]]


def seen(replies: Sequence[Reply]) -> Seen:
    """What the replies to `ASK` say."""
    now, rest, broken, indexes = (reply.rows for reply in replies)
    return Seen(
        now[0][0] or "",
        rest[0][0] or "",
        tuple(Broken(*(part or "" for part in row)) for row in broken),
        frozenset((oid or "", digest or "") for oid, digest in indexes),
    )


def write(now: Seen) -> str:
    """The same as one text for the target to keep: three lines."""
    broken = ",".join(sorted(one.key for one in now.broken))
    indexes = " ".join(sorted(":".join(pair) for pair in now.indexes))
    return f"{now.rest}\n{broken}\n{indexes}"


def read(text: str, before: str) -> Before:
    """What `write` wrote, and the fingerprint that stands beside it. Raises ValueError for any other text."""
    rest, broken, indexes = text.split("\n")
    pairs = frozenset((oid, digest) for oid, _, digest in (pair.partition(":") for pair in indexes.split()))
    return Before(before, rest, frozenset(filter(None, broken.split(","))), pairs)


def new_in(before: Before, now: Seen) -> list[Broken]:
    """What is broken now and was not before."""
    return [one for one in now.broken if one.key not in before.broken]


def after_success(kind: str, before: Before, now: Seen) -> Became:
    """The server said that it is done. `IF NOT EXISTS` says so, too, before an index that is there and not valid."""
    if kind == "CREATE INDEX CONCURRENTLY":
        if {oid for oid, _ in now.indexes} - {oid for oid, _ in before.indexes}:
            return Became.WHOLE  # others may be at work on others
        if now.fingerprint == before.fingerprint and any(one.key.startswith("index") for one in now.broken):
            return Became.NOTHING
    return Became.PARTLY if new_in(before, now) else Became.WHOLE


def after_failure(before: Before, now: Seen) -> Became:
    """The server said that it failed."""
    if new_in(before, now) or now.fingerprint != before.fingerprint:
        return Became.PARTLY
    return Became.NOTHING


def after_silence(kind: str, before: Before, now: Seen) -> Became:
    """Nobody heard what the server said. Only what can be nothing else is called whole."""
    if new_in(before, now):
        return Became.PARTLY
    if now.fingerprint == before.fingerprint:
        return Became.NOTHING
    more, less = now.indexes - before.indexes, before.indexes - now.indexes
    mended = len(before.broken) - len(now.broken)
    if now.rest == before.rest:
        if kind == "CREATE INDEX CONCURRENTLY" and (len(more), len(less), mended) == (1, 0, 0):
            return Became.WHOLE
        if kind == "DROP INDEX CONCURRENTLY" and not more and len(less) + mended == 1:
            return Became.WHOLE
    return Became.PARTLY


def words(before: Before, now: Seen) -> str:
    """What stands there, and what removes it."""
    if left := new_in(before, now):
        what = ", ".join(one.what for one in left)
        return f"{what}: remove that with {'; '.join(one.remedy for one in left)}"
    return "the schema is not the one from before, and what changed it cannot be told"
