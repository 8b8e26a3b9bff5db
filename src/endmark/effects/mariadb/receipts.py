"""The receipts in the target: `schema_jobs`, which other tools may read too, and `endmark_receipts` beside it.

Job ids are case-sensitive and may be compared by a server that is not, and that takes 'j' and 'j ' for equal: every
look-up compares bytes. All three tables are InnoDB; what is written together is committed together.
"""

from collections.abc import Sequence

from endmark.core.refusal import CannotTry
from endmark.effects.mariadb.connection import Conn, rows
from endmark.effects.mariadb.guard import OURS
from endmark.effects.target import Receipt, Work

APPLYING, APPLIED, PARTIAL, SETTLED, REVERTED = "applying", "applied", "partial", "settled", "reverted"

_TABLE = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
MAKE = (
    f"""CREATE TABLE IF NOT EXISTS schema_jobs (
    job_id VARCHAR(128) NOT NULL PRIMARY KEY, stmt_count INT NOT NULL, sha256 CHAR(64) NOT NULL,
    status VARCHAR(16) NOT NULL) {_TABLE}""",
    f"""CREATE TABLE IF NOT EXISTS endmark_receipts (
    job_id VARCHAR(128) NOT NULL PRIMARY KEY, attempt_id VARCHAR(64) NOT NULL, statements_run INT NOT NULL,
    rows_changed LONGTEXT NOT NULL, fingerprint_before CHAR(64) NOT NULL, fingerprint_after CHAR(64) NOT NULL,
    applied_at VARCHAR(32) NOT NULL) {_TABLE}""",
    f"""CREATE TABLE IF NOT EXISTS endmark_journal (
    job_id VARCHAR(128) NOT NULL, n INT NOT NULL, state VARCHAR(16) NOT NULL, kind VARCHAR(16) NOT NULL,
    down LONGTEXT, fingerprint_before CHAR(64), fingerprint_after CHAR(64), rows_changed BIGINT NOT NULL,
    attempt_id VARCHAR(64) NOT NULL, at VARCHAR(32) NOT NULL, reverts VARCHAR(128),
    PRIMARY KEY (job_id, n)) {_TABLE}""",
)
_COLUMNS = {
    "schema_jobs": ["job_id", "stmt_count", "sha256", "status"],
    "endmark_receipts": [
        *("job_id", "attempt_id", "statements_run", "rows_changed"),
        *("fingerprint_before", "fingerprint_after", "applied_at"),
    ],
    "endmark_journal": [
        *("job_id", "n", "state", "kind", "down", "fingerprint_before", "fingerprint_after", "rows_changed"),
        *("attempt_id", "at", "reverts"),
    ],
}
_NAMES = ", ".join(f"'{name}'" for name in sorted(OURS))
# `=` finds the row by its index, whatever the collation; BINARY decides, and knows no padding.
IS_JOB = "job_id = %s AND CAST(job_id AS BINARY) = CAST(%s AS BINARY)"
_TABLES = (
    "SELECT LOWER(table_name), table_type, engine FROM information_schema.tables "
    f"WHERE table_schema = DATABASE() AND LOWER(table_name) IN ({_NAMES})"  # names of our own
)
_COLUMNS_OF = (
    "SELECT LOWER(column_name) FROM information_schema.columns WHERE table_schema = DATABASE() "
    "AND LOWER(table_name) = %s ORDER BY ordinal_position"
)
_UNIQUE = (
    "SELECT 1 FROM information_schema.statistics WHERE table_schema = DATABASE() AND LOWER(table_name) = 'schema_jobs' "
    "GROUP BY index_name HAVING MIN(non_unique) = 0 AND COUNT(*) = 1 AND MIN(LOWER(column_name)) = 'job_id' "
    "AND MAX(sub_part) IS NULL"
)
_TRIGGERS = (
    "SELECT trigger_name FROM information_schema.triggers WHERE event_object_schema = DATABASE() "
    f"AND LOWER(event_object_table) IN ({_NAMES})"  # as above
)
_ADVICE = "Nothing was written; rename it or mend it by hand."


def check(conn: Conn) -> bool:
    """Whether receipts can be read here: False where there are none yet.

    Raises CannotTry for tables that are not InnoDB tables with our first columns, for a `schema_jobs` without a unique
    job_id and for a trigger on any of them: no receipt could be trusted. Raises pymysql's errors.
    """
    found = {name: (kind, engine) for name, kind, engine in rows(conn, _TABLES)}
    for name, (kind, engine) in found.items():
        if kind != "BASE TABLE":
            raise CannotTry(f"{name} in the target is not a table. {_ADVICE}")
        if (engine or "").lower() != "innodb":
            raise CannotTry(f"{name} in the target is kept by {engine}, which has no transactions. {_ADVICE}")
        columns = [row[0] for row in rows(conn, _COLUMNS_OF, name)]
        expected = _COLUMNS[name]
        if columns[: len(expected)] != expected or (name != "schema_jobs" and len(columns) > len(expected)):
            raise CannotTry(
                f"{name} in the target begins with the columns {', '.join(columns[: len(expected)])}; "
                f"{', '.join(expected)} were expected. {_ADVICE}"
            )
    if not found:
        return False
    if triggers := rows(conn, _TRIGGERS):
        raise CannotTry(f"the trigger {triggers[0][0]} stands on the receipts' table. {_ADVICE}")
    if "schema_jobs" not in found:
        return False
    if not rows(conn, _UNIQUE):
        raise CannotTry(f"schema_jobs in the target has no unique job_id, so a job could be recorded twice. {_ADVICE}")
    return True


def make(conn: Conn) -> None:
    """Make the tables where they are missing. Each commits by itself, before any job begins. Raises as `check`."""
    check(conn)
    have = {row[0] for row in rows(conn, _TABLES)}
    for name, statement in zip(_COLUMNS, MAKE, strict=True):
        if name not in have:
            rows(conn, statement)


def read(conn: Conn, job_id: str) -> Receipt | None:
    """The receipt of `job_id`, or None. Raises as `check`."""
    return _read(conn, job_id) if check(conn) else None


def _read(conn: Conn, job_id: str) -> Receipt | None:
    found = rows(conn, f"SELECT job_id, stmt_count, sha256, status FROM schema_jobs WHERE {IS_JOB}", job_id, job_id)
    if not found:
        return None
    more: Sequence[tuple[object, ...]] = ()
    if "endmark_receipts" in {row[0] for row in rows(conn, _TABLES)}:
        more = rows(
            conn,
            f"SELECT statements_run, rows_changed, fingerprint_after FROM endmark_receipts WHERE {IS_JOB}",
            job_id,
            job_id,
        )
    return Receipt(*found[0], *(more[0] if more else ()))


def unsettled(conn: Conn) -> tuple[str, str] | None:
    """A job that stands half done here, and what it is: nothing else may run. Raises as `check`."""
    if not check(conn):
        return None
    found = rows(
        conn, f"SELECT job_id, status FROM schema_jobs WHERE status IN ('{APPLYING}', '{PARTIAL}') ORDER BY job_id"
    )
    return (str(found[0][0]), str(found[0][1])) if found else None


def others(conn: Conn, job_id: str) -> tuple[object, ...]:
    """What the receipts of all other jobs amount to: equal while nobody touches them. Raises pymysql's errors."""
    return rows(
        conn,
        "SELECT COUNT(*), SUM(CRC32(CONCAT_WS('|', job_id, stmt_count, sha256, status))), "
        f"(SELECT COUNT(*) FROM endmark_receipts) FROM schema_jobs WHERE NOT ({IS_JOB})",
        job_id,
        job_id,
    )[0]


def begin(conn: Conn, work: Work) -> None:
    """Write the receipt as `applying`; no receipt is ever replaced. Raises pymysql's errors."""
    rows(
        conn,
        f"INSERT INTO schema_jobs (job_id, stmt_count, sha256, status) VALUES (%s, %s, %s, '{APPLYING}')",
        work.job_id,
        len(work.statements),
        work.sha256,
    )


def finish(conn: Conn, done: Receipt, attempt_id: str, before: str, at: str, reverts: str | None) -> bool:
    """Write `applied` with the counts, and read it all back: whether it reads exactly as written."""
    mark(conn, done.job_id, APPLIED)
    rows(
        conn,
        "INSERT INTO endmark_receipts VALUES (%s, %s, %s, %s, %s, %s, %s)",
        done.job_id,
        attempt_id,
        done.statements_run,
        done.rows_changed,
        before,
        done.fingerprint_after,
        at,
    )
    if reverts is not None:
        mark(conn, reverts, REVERTED)
    return _read(conn, done.job_id) == done


def mark(conn: Conn, job_id: str, status: str) -> None:
    rows(conn, f"UPDATE schema_jobs SET status = %s WHERE {IS_JOB}", status, job_id, job_id)


def forget(conn: Conn, job_id: str) -> None:
    """Remove the receipt of a job whose every effect was undone. Raises pymysql's errors."""
    rows(conn, f"DELETE FROM schema_jobs WHERE {IS_JOB}", job_id, job_id)
