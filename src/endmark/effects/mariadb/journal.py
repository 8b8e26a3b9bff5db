"""The journal of a job that runs statement by statement: where it stands, so that whoever comes next knows.

Every row is written before the first statement. A row of the schema goes waiting, intent, done, undoing, undone; the
intent is committed before its statement begins and `done` after it ended. A row of rows goes from intent to done in the
transaction of its statement. One UPDATE writes `done` and the next `intent`.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from endmark.effects.mariadb.connection import Conn, rows
from endmark.effects.mariadb.receipts import IS_JOB


class Step(StrEnum):
    WAITING = "waiting"
    INTENT = "intent"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"


class Kind(StrEnum):
    """What tells whether a statement ran: its `done` committed with it, the schema's fingerprint, or nothing at all."""

    ROWS = "rows"
    SCHEMA = "schema"
    OPAQUE = "opaque"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Statement `n`, from 1. `before` and `after` are the schemas that the rehearsal foresaw; None where it did not."""

    n: int
    state: Step
    kind: Kind
    down: str | None
    before: str | None
    after: str | None
    rows_changed: int = 0
    attempt_id: str
    at: str
    reverts: str | None


_COLUMNS = "n, state, kind, down, fingerprint_before, fingerprint_after, rows_changed, attempt_id, at, reverts"


def write(conn: Conn, job_id: str, lines: Sequence[Line]) -> None:
    """Write every row of a job, in the caller's transaction. Raises pymysql's errors."""
    with conn.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO endmark_journal (job_id, {_COLUMNS}) VALUES (%s, {', '.join(['%s'] * 10)})",
            [
                (
                    job_id,
                    line.n,
                    line.state.value,
                    line.kind.value,
                    line.down,
                    line.before,
                    line.after,
                    line.rows_changed,
                    line.attempt_id,
                    line.at,
                    line.reverts,
                )
                for line in lines
            ],
        )


def read(conn: Conn, job_id: str) -> list[Line]:
    """The rows of a job, in order. Raises pymysql's errors."""
    found = rows(conn, f"SELECT {_COLUMNS} FROM endmark_journal WHERE {IS_JOB} ORDER BY n", job_id, job_id)
    return [
        Line(
            n=n,
            state=Step(state),
            kind=Kind(kind),
            down=down,
            before=before,
            after=after,
            rows_changed=changed,
            attempt_id=attempt_id,
            at=at,
            reverts=reverts,
        )
        for n, state, kind, down, before, after, changed, attempt_id, at, reverts in found
    ]


def step(conn: Conn, job_id: str, n: int, state: Step, rows_changed: int = 0, then: int | None = None) -> None:
    """Statement `n` is in `state` now; with `then`, that one is intended. Raises pymysql's errors."""
    rows(
        conn,
        "UPDATE endmark_journal SET rows_changed = IF(n = %s, %s, rows_changed), state = IF(n = %s, %s, %s) "
        f"WHERE {IS_JOB} AND n IN (%s, %s)",
        n,
        rows_changed,
        n,
        state.value,
        Step.INTENT.value,
        job_id,
        job_id,
        n,
        n if then is None else then,
    )


def forget(conn: Conn, job_id: str) -> None:
    rows(conn, f"DELETE FROM endmark_journal WHERE {IS_JOB}", job_id, job_id)
