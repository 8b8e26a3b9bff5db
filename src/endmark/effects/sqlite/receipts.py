"""The receipts in the target: `schema_jobs`, which other tools may read too, and `endmark_receipts` beside it.

`schema_jobs` keeps the four columns it is known by, so that a tool that writes whole rows to it goes on working; the
counts that make a receipt a record stand in a table of ours.
"""

import sqlite3

from endmark.core.refusal import CannotTry
from endmark.effects.target import Receipt, Work

_JOBS = """CREATE TABLE IF NOT EXISTS main.schema_jobs (
    job_id TEXT NOT NULL PRIMARY KEY, stmt_count INTEGER NOT NULL, sha256 TEXT NOT NULL, status TEXT NOT NULL)"""
_RECEIPTS = """CREATE TABLE IF NOT EXISTS main.endmark_receipts (
    job_id TEXT NOT NULL PRIMARY KEY, attempt_id TEXT NOT NULL, statements_run INTEGER NOT NULL,
    rows_changed TEXT NOT NULL, fingerprint_before TEXT NOT NULL, fingerprint_after TEXT NOT NULL,
    applied_at TEXT NOT NULL)"""
_COLUMNS = ["job_id", "stmt_count", "sha256", "status"]
_RECEIPT_COLUMNS = [
    "job_id",
    "attempt_id",
    "statements_run",
    "rows_changed",
    "fingerprint_before",
    "fingerprint_after",
    "applied_at",
]


def check(conn: sqlite3.Connection) -> bool:
    """Whether receipts can be read here: False where there are none yet.

    Raises CannotTry for a `schema_jobs` that is not a table with our first columns and a unique job_id, for an
    `endmark_receipts` that is not ours, or for a trigger on either: no receipt could be trusted. Raises sqlite3.Error.
    """
    kinds = dict(
        conn.execute(
            "SELECT lower(name), type FROM main.sqlite_master "
            "WHERE type IN ('table', 'view') AND lower(name) IN ('schema_jobs', 'endmark_receipts')"
        ).fetchall()
    )
    advice = "Nothing was written; rename it or mend it by hand."
    if "view" in kinds.values():
        raise CannotTry(f"schema_jobs or endmark_receipts in the target is not a table. {advice}")
    if "endmark_receipts" in kinds:
        columns = [row[1] for row in conn.execute("PRAGMA main.table_info(endmark_receipts)")]
        if columns != _RECEIPT_COLUMNS:
            raise CannotTry(f"endmark_receipts in the target is not the table endmark makes. {advice}")
    triggers = conn.execute(
        "SELECT name FROM main.sqlite_master WHERE type = 'trigger' AND lower(tbl_name) IN "
        "('schema_jobs', 'endmark_receipts')"
    ).fetchone()
    if triggers:
        raise CannotTry(f"the trigger {triggers[0]} stands on the receipts' table. {advice}")
    if "schema_jobs" not in kinds:
        return False
    columns = [row[1].lower() for row in conn.execute("PRAGMA main.table_info(schema_jobs)")]
    if columns[:4] != _COLUMNS:
        raise CannotTry(
            f"schema_jobs in the target begins with the columns {', '.join(columns[:4])}; "
            f"{', '.join(_COLUMNS)} were expected. {advice}"
        )
    if not _unique(conn):
        raise CannotTry(f"schema_jobs in the target has no unique job_id, so a job could be recorded twice. {advice}")
    return True


def _unique(conn: sqlite3.Connection) -> bool:
    keys = [row[1].lower() for row in conn.execute("PRAGMA main.table_info(schema_jobs)") if row[5]]
    if keys == ["job_id"]:
        return True
    for _seq, name, unique, _origin, partial in conn.execute("PRAGMA main.index_list(schema_jobs)").fetchall():
        if unique and not partial:
            quoted = name.replace('"', '""')
            indexed = [row[2] for row in conn.execute(f'PRAGMA main.index_info("{quoted}")')]
            if [(column or "").lower() for column in indexed] == ["job_id"]:
                return True
    return False


def read(conn: sqlite3.Connection, job_id: str) -> Receipt | None:
    """The receipt of `job_id`, or None. Raises CannotTry as `check` does, and sqlite3.Error."""
    if not check(conn):
        return None
    row = conn.execute(
        # BINARY: where the table folds case, another job's receipt would be found.
        "SELECT job_id, stmt_count, sha256, status FROM main.schema_jobs WHERE job_id = ? COLLATE BINARY",
        (job_id,),
    ).fetchone()
    if row is None:
        return None
    more = None
    if conn.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'endmark_receipts'").fetchone():
        more = conn.execute(
            "SELECT statements_run, rows_changed, fingerprint_after FROM main.endmark_receipts WHERE job_id = ?",
            (job_id,),
        ).fetchone()
    return Receipt(*row, *(more or ()))


def begin(conn: sqlite3.Connection, work: Work) -> None:
    """Make the tables if need be and write the receipt as `applying`. Raises CannotTry and sqlite3.Error."""
    check(conn)
    conn.execute(_JOBS)
    conn.execute(_RECEIPTS)
    conn.execute(
        # ABORT, also where the table says ON CONFLICT REPLACE: no receipt is ever replaced.
        "INSERT OR ABORT INTO main.schema_jobs (job_id, stmt_count, sha256, status) VALUES (?, ?, ?, 'applying')",
        (work.job_id, len(work.statements), work.sha256),
    )


def finish(conn: sqlite3.Connection, work: Work, rows: list[int], before: str, after: str) -> bool:
    """Write `applied` with the counts, and read it all back: whether it reads exactly as written."""
    changed = " ".join(map(str, rows))
    conn.execute("UPDATE main.schema_jobs SET status = 'applied' WHERE job_id = ?", (work.job_id,))
    conn.execute(
        "INSERT INTO main.endmark_receipts VALUES (?, ?, ?, ?, ?, ?, ?)",
        (work.job_id, work.attempt_id, len(rows), changed, before, after, work.at),
    )
    if work.reverts is not None:
        conn.execute("UPDATE main.schema_jobs SET status = 'reverted' WHERE job_id = ?", (work.reverts,))
    expected = Receipt(work.job_id, len(work.statements), work.sha256, "applied", len(rows), changed, after)
    return read(conn, work.job_id) == expected
