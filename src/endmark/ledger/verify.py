"""The audit of the whole book: every row must say what its chain says, and nothing may be missing."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from endmark.core import strictjson
from endmark.core.refusal import Refused
from endmark.core.states import MOVES, State
from endmark.ledger import verify_patches
from endmark.ledger.chain import ZERO, checkpoint_hash, event_hash
from endmark.ledger.counting import COUNTED, COUNTS
from endmark.ledger.entry import COLUMNS, Report, columns_of
from endmark.ledger.source import Source

LISTED = 100  # problems told in words; the rest are counted
_STEP = 5000  # rows between two calls of `progress`

_LEGAL = {(before.value, after.value) for before, onward in MOVES.items() for after in onward}
_FACTS = set(COLUMNS) - {"attempt_id", "state", "received_at", "changed_at"}
_ATTEMPTS = (
    f"SELECT n, events, head, b.attempt IS NOT NULL, b.body, {', '.join(COLUMNS)} "  # noqa: S608  # names of our own
    "FROM attempts LEFT JOIN bodies AS b ON b.attempt = n ORDER BY n"
)
_EVENTS = (
    "SELECT attempt, id, seq, at, event, from_state, to_state, data, hash FROM events WHERE {} ORDER BY attempt, seq"
)
_STRAYS = (
    (
        "SELECT id FROM events WHERE NOT ({attempt}) AND NOT ({decision})",
        "event {} belongs to no attempt and to no decision",
    ),
    (
        "SELECT attempt FROM bodies WHERE NOT EXISTS (SELECT 1 FROM attempts WHERE n = attempt)",
        "attempt row {} is missing, its kept bytes are still there",
    ),
)


def audit(source: Source, progress: Callable[[int, int], None] | None = None) -> Report:
    """Read the whole book in one snapshot and report every problem found, each naming its row.

    Memory does not grow with the book. `progress(done, total)` counts rows. Damage to the storage itself is a problem
    reported, not raised; raises one of `source.errors` only if the first row cannot be read.
    """
    return _Audit(source, progress).run()


class _Audit:
    def __init__(self, source: Source, progress: Callable[[int, int], None] | None) -> None:
        self._source = source
        self._progress = progress
        self._problems: list[str] = []
        self._count = 0
        self._done = 0
        self._counts = {table: self._rows(f"SELECT count(*) FROM {table}") for table in _TABLES}  # noqa: S608
        self._total = self._counts["attempts"] + self._counts["decisions"] + 2 * self._counts["events"]
        self._newest: tuple[int, int, str] | None = None

    def run(self) -> Report:
        for part in (
            self._file,
            self._rules,
            self._checkpoints,
            self._attempts,
            self._decisions,
            self._strays,
            self._numbers,
            self._counted,
        ):
            try:
                part()
            except self._source.errors as error:
                self._problem(f"the file cannot be read to its end: {error}")
        if self._progress:
            self._progress(self._total, self._total)
        return Report(
            attempts=self._counts["attempts"],
            events=self._counts["events"],
            checkpoints=self._counts["checkpoints"],
            decisions=self._counts["decisions"],
            reviews=self._counts["reviews"],
            problems=tuple(self._problems),
            problem_count=self._count,
            checkpoint=self._newest,
        )

    def _file(self) -> None:
        """The engine's own look at its pages."""
        for sentence in self._source.damage():
            self._problem(sentence)

    def _rules(self) -> None:
        for sentence in self._source.rules():
            self._problem(sentence)

    def _checkpoints(self) -> None:
        """Ids run without a gap, and each checkpoint is the hash of the one before and the events since."""
        previous, number, covered = ZERO, 0, 0
        for n, first, last, at, digest in self._source.rows(
            "SELECT n, first_event, last_event, at, hash FROM checkpoints ORDER BY n"
        ):
            where = f"checkpoint {n}"
            self._gap("checkpoint", number + 1, n - 1)
            number = n
            if first != covered + 1 or not isinstance(last, int) or last < covered:
                self._problem(f"{where} was changed: it covers events {first} to {last}, expected from {covered + 1}")
                previous = digest
                continue
            hashes, count = self._hashes(first, last), self._events_between(first, last)
            if digest != _or_none(checkpoint_hash, previous, n, first, last, at, hashes, count):
                self._problem(f"{where} does not match: it or one of the events {first} to {last} was changed")
            previous, covered = digest, last
            self._newest = (n, last, digest.hex() if isinstance(digest, bytes) else str(digest))
        for _ in self._hashes(covered + 1, None):
            pass

    def _events_between(self, first: int, last: int) -> int | None:
        """How many events a checkpoint covers; None where that is told by its ids."""
        if self._source.gapless:
            return None
        return self._rows(f"SELECT count(*) FROM events WHERE id BETWEEN {first:d} AND {last:d}")  # noqa: S608

    def _hashes(self, first: int, last: int | None) -> Iterator[bytes]:
        """The hashes of the events first..last (None: to the end); ids that are missing are reported on the way."""
        expected = first
        limit = "" if last is None else f"AND id <= {last:d}"
        for number, digest in self._source.rows(
            f"SELECT id, hash FROM events WHERE id >= ? {limit} ORDER BY id",  # noqa: S608  # a number
            first,
        ):
            self._gap("event", expected, number - 1)
            expected = number + 1
            self._tick()
            yield digest
        if last is not None:
            self._gap("event", expected, last)

    def _attempts(self) -> None:
        """Two cursors side by side: the attempts by number, and all events by attempt and place in its chain."""
        chains = groupby(self._source.rows(_EVENTS.format(self._source.is_number("attempt"))), key=itemgetter(0))
        chain = next(chains, None)
        expected = 1
        for n, count, head, kept, body, *values in self._source.rows(_ATTEMPTS):
            self._gap("attempt row", expected, n - 1)
            expected = n + 1
            while chain and chain[0] < n:
                self._orphans(*chain)
                chain = next(chains, None)
            row = dict(zip(COLUMNS, values, strict=True)) | {"events": count, "head": head}
            if chain and chain[0] == n:
                self._attempt(n, row, bool(kept), body, chain[1])
                chain = next(chains, None)
            else:
                self._problem(f"attempt {row['attempt_id']} (row {n}): all its events are missing")
            self._tick()
        while chain:
            self._orphans(*chain)
            chain = next(chains, None)

    def _attempt(self, n: int, row: dict[str, Any], kept: bool, body: Any, chain: Iterable[tuple[Any, ...]]) -> None:
        """Follow one chain, rebuild the row it leads to, and compare."""
        name = f"attempt {row['attempt_id']} (row {n})"
        before = self._count
        said: dict[str, Any] = dict.fromkeys(COLUMNS) | {"attempt_id": row["attempt_id"]}
        state, previous, place, last, keeps = None, ZERO, 0, 0, False
        for _, number, seq, at, event, old, new, data, digest in chain:
            self._tick()
            where = f"{name}, event {seq} (id {number})"
            if seq != place + 1:
                self._problem(f"{where}: event {place + 1} was expected, it is missing")
            elif digest != _or_none(event_hash, previous, row["attempt_id"], seq, at, event, old, new, _bytes(data)):
                self._problem(f"{where}: its hash does not match, it or its predecessor or the attempt_id was changed")
            if number < last:
                self._problem(f"{where}: it stands before event {place} in the book")
            previous, place, last = digest, seq if isinstance(seq, int) else place + 1, number
            try:
                says = strictjson.loads(_bytes(data)) if data != "{}" else {}
                facts = says.get("set", {})
                if not facts.keys() <= _FACTS:
                    raise ValueError("no such fact")
                said.update(columns_of(facts))
            except (Refused, ValueError, TypeError, AttributeError):
                self._problem(f"{where}: its data cannot be read")
                continue
            if place == 1:
                keeps = says.get("body_kept", False)
                said["received_at"] = at
            if (event, old, new) == ("received", None, "received") and place == 1:
                state, said["changed_at"] = new, at
            elif event == "moved" and old == state and (old, new) in _LEGAL:
                state, said["changed_at"] = new, at
            elif event in ("received", "moved") or old is not None or new is not None or place == 1 or facts:
                self._problem(f"{where}: {event} {old} > {new} is not legal after {state}")
        if self._count == before:
            said.update(state=state, events=place, head=previous)
            if said != row:
                for column, value in said.items():
                    if row[column] != value:
                        self._problem(f"{name}: {column} is {_show(row[column])}, its events say {_show(value)}")
            if state == State.RECEIVED:
                self._problem(f"{name}: its last event is missing, nothing stays received")
        self._body(name, row, keeps, kept, body)

    def _body(self, name: str, row: dict[str, Any], keeps: bool, kept: bool, body: Any) -> None:
        if not self._source.bodies:
            return
        if keeps and not kept:
            self._problem(f"{name}: its kept bytes are missing")
        elif kept and not keeps:
            self._problem(f"{name}: bytes are kept that its events know nothing of")
        elif kept:
            digest = hashlib.sha256(body).hexdigest() if isinstance(body, bytes) else None
            if digest != row["body_sha256"]:
                self._problem(f"{name}: its kept bytes were changed, their SHA-256 is not its body_sha256")

    def _orphans(self, n: int, chain: Iterable[tuple[Any, ...]]) -> None:
        count = 0
        for _ in chain:
            self._tick()
            count += 1
        self._problem(f"attempt row {n} is missing, {count} of its events are still there")

    def _decisions(self) -> None:
        verify_patches.audit(self._source, self._problem, self._tick)

    def _strays(self) -> None:
        numbers = {column: self._source.is_number(column) for column in ("attempt", "decision")}
        for sql, sentence in _STRAYS:
            for (number,) in self._source.rows(sql.format_map(numbers)):
                self._problem(sentence.format(number))

    def _numbers(self) -> None:
        """The tails: what was numbered once must still be there."""
        if not self._source.gapless:
            return
        given = self._source.given()
        for table, (column, what) in _TABLES.items():
            last = self._rows(f"SELECT coalesce(max({column}), 0) FROM {table}")  # noqa: S608  # names of our own
            highest = given.get(table, 0)
            if not isinstance(highest, int) or highest < last:
                self._problem(f"the numbering of {table} was changed: {_show(highest)} is the last, {last} is there")
            else:
                self._gap(what, last + 1, highest)

    def _counted(self) -> None:
        """The counts are no evidence, but what people see of a full book. A row that was changed upsets them too."""
        if self._count:
            return
        true = {(kind, about, state): int(number) for kind, about, state, number in self._source.rows(COUNTED)}
        kept = {(kind, about, state): int(number) for kind, about, state, number in self._source.rows(COUNTS) if number}
        for where in sorted(true.keys() | kept.keys()):
            if true.get(where, 0) != kept.get(where, 0):
                about = f" for {where[1]}" if where[1] else ""
                self._problem(
                    f"{true.get(where, 0):,} {where[0]}s{about} are {where[2]}, {kept.get(where, 0):,} are counted"
                )

    def _rows(self, sql: str) -> int:
        ((number,),) = self._source.rows(sql)
        return int(number)

    def _gap(self, what: str, first: int, last: int) -> None:
        if not self._source.gapless and what != "checkpoint":
            return
        if first == last:
            self._problem(f"{what} {first} is missing")
        elif first < last:
            self._problem(f"{what}s {first} to {last} are missing")

    def _problem(self, sentence: str) -> None:
        self._count += 1
        if len(self._problems) < LISTED:
            self._problems.append(sentence)

    def _tick(self) -> None:
        self._done += 1
        if self._progress and self._done % _STEP == 0:
            self._progress(min(self._done, self._total), self._total)


_TABLES = {
    "attempts": ("n", "attempt row"),
    "events": ("id", "event"),
    "checkpoints": ("n", "checkpoint"),
    "decisions": ("n", "decision row"),
    "reviews": ("n", "review row"),
}


def _or_none(hashing: Callable[..., bytes], *fields: Any) -> bytes | None:
    """The hash, or None where a field is not of the kind that can be hashed: somebody else wrote it."""
    try:
        return hashing(*fields)
    except (TypeError, AttributeError, ValueError, OverflowError):
        return None


def _bytes(data: Any) -> bytes:
    return data.encode() if isinstance(data, str) else b""


def _show(value: Any) -> str:
    text = value.hex() if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
