"""What the tests of the ledger share: a plan to record, a book with an attempt in every state, the book as text."""

import hashlib
import itertools
import sqlite3
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from tests.support.ledgers import rows, without_rules

from endmark.core.refusal import CannotTry, Signal
from endmark.core.states import MOVES, State
from endmark.ledger.book import Ledger, New
from endmark.ledger.chain import ZERO, event_hash

NOW = datetime(2026, 11, 30, 12, 0, 0, 250, tzinfo=UTC)
AT = "2026-11-30T12:00:00.000250Z"
BODY = b'{"tool":"apply_schema"}'
DIGEST = hashlib.sha256(BODY).hexdigest()

_numbers = itertools.count(1)


def a_plan(**facts: Any) -> New:
    """A whole plan under a job id of its own."""
    plan: dict[str, Any] = {
        "job_id": f"job-{next(_numbers)}",
        "state": State.STAGED,
        "signal": Signal.COMPLETE,
        "received_bytes": len(BODY),
        "expected_bytes": len(BODY),
        "body_sha256": DIGEST,
        "sha256": DIGEST,
        "stmt_count": 3,
        "level": "sealed",
        "evidence": ("envelope-length", "envelope-sha256", "sentinel"),
        "submitter": "agent",
    }
    return New(**plan | facts)


def a_refusal(**facts):
    """A body that was cut."""
    cut = {"state": State.TRUNCATED, "signal": Signal.BODY_CUT, "sha256": None, "stmt_count": None, "level": None}
    return a_plan(**cut | {"job_id": None, "evidence": (), "detail": "the body ended early"} | facts)


def _roads():
    found: dict[State, list[State]] = {State.RECEIVED: []}
    ahead = [State.RECEIVED]
    for state in ahead:  # it grows while it is walked: breadth first
        for onward in MOVES[state]:
            if onward not in found:
                found[onward] = [*found[state], onward]
                ahead.append(onward)
    return found


ROADS = _roads()  # state -> a shortest list of moves that leads there from `received`


def book_with(ledger, state, **facts):
    """A fresh attempt that stands in `state`."""
    first, *rest = ROADS[state]
    make = a_plan if first is State.STAGED else a_refusal
    entry, created = ledger.record(make(state=first, **facts), NOW, body=BODY, durable=False)
    assert created
    for onward in rest:
        entry = ledger.move(entry.attempt_id, entry.state, onward, NOW, durable=False)
    return entry


def raw(path):
    """The file, opened the way a stranger would."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous=OFF")
    return connection


def dump(path):
    """The whole book."""
    if isinstance(path, str):
        return rows(path)
    with closing(raw(path)) as connection:
        return list(connection.iterdump())


FORBIDDING = (sqlite3.IntegrityError, psycopg.IntegrityError, psycopg.errors.GeneratedAlways)


def in_words_of(path, sql):
    """The same statement in the words of the engine."""
    if isinstance(path, Path):
        return sql
    return (
        sql.replace("zeroblob(32)", "decode(repeat('00', 32), 'hex')")
        .replace("x'00'", "'\\x00'::bytea")
        .replace(" OR REPLACE", "")
    )


@contextmanager
def tampering(path):
    """The book with its rules out of the way, for somebody who may do that."""
    if isinstance(path, str):
        with without_rules(path) as connection:
            yield connection
        return
    with closing(raw(path)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        yield connection


def write_event(connection, attempt_id, event, before, after, data="{}", at=AT):
    """Append a well-made event, as somebody who knows the layout would; returns what the row must then say."""
    n, seq, head = connection.execute(
        "SELECT n, events, head FROM attempts WHERE attempt_id = ?", (attempt_id,)
    ).fetchone()
    digest = event_hash(head if seq else ZERO, attempt_id, seq + 1, at, event, before, after, data.encode())
    connection.execute(
        "INSERT INTO events (attempt, seq, hash, at, event, from_state, to_state, data) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (n, seq + 1, digest, at, event, before, after, data),
    )
    return n, seq + 1, digest


def checkpoint_of(ledger):
    """(number, last event) of the newest checkpoint."""
    found = ledger.verify().checkpoint
    return found and found[:2]


def failure_of(act, *arguments):
    """What `act` raised because the world failed it, or None when it was done."""
    try:
        act(*arguments)
    except (CannotTry, KeyboardInterrupt, MemoryError) as failure:
        return failure
    return None


def open_book(path, **options):
    return Ledger.open(path, create=True, **options)
