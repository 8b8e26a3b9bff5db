"""A plan that only changes rows: one transaction, its receipt in it."""

from collections.abc import Sequence

import pymysql

from endmark.core.refusal import Signal
from endmark.effects.mariadb import receipts
from endmark.effects.mariadb.connection import Conn, rows
from endmark.effects.mariadb.guard import Does, Judged
from endmark.effects.mariadb.runner import Runner
from endmark.effects.target import Failed, Progress, Receipt, Stop, Work

_WITHOUT = (
    "SELECT LOWER(table_name), engine FROM information_schema.tables WHERE table_schema = DATABASE() "
    "AND table_type <> 'VIEW' AND LOWER(engine) <> 'innodb'"
)


class Escaped(Exception):
    """Something of the transaction cannot be rolled back any more. `str()` says what; `statement` is to blame."""

    def __init__(self, detail: str, statement: int) -> None:
        super().__init__(detail)
        self.statement = statement


def check_tables(conn: Conn, statements: Sequence[tuple[str, Judged]]) -> None:
    """No statement about rows may name a table that cannot roll back. Raises Failed."""
    without = dict(rows(conn, _WITHOUT))
    for n, (_text, judged) in enumerate(statements, 1):
        named = without.keys() & judged.names if judged.does in (Does.ROWS, Does.READS) else set()
        if judged.does is Does.ROWS and named:
            table = min(named)
            raise Failed(
                Signal.FORBIDDEN_STATEMENT,
                f"statement {n} names {table}, whose engine {without[table]} has no transactions",
                n,
            )


def run(
    gate: Conn,
    runner: Runner,
    work: Work,
    statements: Sequence[tuple[str, Judged]],
    changed: list[int],
    fingerprint: str,
    progress: Progress,
    stop: Stop,
) -> None:
    """Everything up to the commit; `changed` grows by the rows that each statement changed.

    Raises Failed (roll back), Escaped, Lost and pymysql's errors.
    """
    runner.conn.begin()
    others = receipts.others(runner.conn, work.job_id)
    receipts.begin(runner.conn, work)
    count = len(statements)
    for n, (text, judged) in enumerate(statements, 1):
        if judged.does is Does.NOTHING:
            changed.append(0)
            continue
        changed.append(runner.run(f"statement {n}", n, text, judged))
        if not runner.in_transaction:
            raise Escaped(f"statement {n} ended the transaction", n)
        if (by := stop()) is not None:
            raise Failed(Signal.INTERRUPTED, f"{by} after statement {n}", n)
        if count < 1_000 or not n % 64 or n == count:
            progress(n, count)
    if runner.changed_for_good():
        raise Escaped("a table without transactions was changed", count)
    if runner.settings_moved(gate):
        raise Failed(Signal.FORBIDDEN_STATEMENT, "a statement changed a setting of the session or let its lock go")
    if receipts.others(runner.conn, work.job_id) != others:
        raise Failed(Signal.FORBIDDEN_STATEMENT, "a statement wrote to the receipts of other jobs")
    done = Receipt(work.job_id, count, work.sha256, receipts.APPLIED, count, " ".join(map(str, changed)), fingerprint)
    if not receipts.finish(runner.conn, done, work.attempt_id, fingerprint, work.at, work.reverts):
        raise Failed(Signal.CHECK_FAILED, "the receipt does not read back as it was written")
    # Our transaction is the first one still exactly when nobody else can see the receipt it began with.
    if receipts.read(gate, work.job_id) is not None:
        raise Escaped("a statement ended the transaction", count)


def rolled_back(gate: Conn, runner: Runner, job_id: str) -> bool:
    """Roll back; whether nobody can see the receipt. Raises pymysql's errors."""
    try:
        runner.conn.rollback()
    except (pymysql.err.MySQLError, OSError):
        if not runner.gone(gate):
            raise
    return receipts.read(gate, job_id) is None
