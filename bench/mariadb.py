"""Applying plans to MariaDB, beside a bare PyMySQL loop of the same statements. Needs a server that it may use:
`ENDMARK_BENCH_MARIADB`, else root without a password at 127.0.0.1:3306.
"""

import contextlib
import itertools
import os
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.measure import Row, prepared
from bench.payloads import plan
from endmark.apply_gate import ApplyGate, Delivery, Options
from endmark.core import plan as plans
from endmark.core import strictjson
from endmark.ledger.book import Ledger

_URL = "mariadb://root@127.0.0.1:3306/mysql"
_NAME = "endmark_bench"
_READINGS = "CREATE TABLE readings (id INT PRIMARY KEY, note VARCHAR(40), kind INT)"
_TABLES = [f"CREATE TABLE t{n} (id INT PRIMARY KEY, name VARCHAR(40))" for n in range(5)]
_ELEVEN = [*_TABLES, *(f"ALTER TABLE t{n} ADD COLUMN x INT" for n in range(5)), "CREATE INDEX by_x ON t0 (x)"]
_DOWNS = [f"DROP TABLE t{n}" for n in range(5)]
_DOWNS += [*(f"ALTER TABLE t{n} DROP COLUMN x" for n in range(5)), "DROP INDEX by_x ON t0"]


class _Bench:
    def __init__(self, folder: Path, address: Any, setup: list[str]) -> None:
        self.address, self.setup = address, setup
        self.numbers = itertools.count()
        self.ledger = Ledger.open(folder / "ledger.db", create=True)
        self.gate = ApplyGate(self.ledger, lambda: datetime.now(UTC))

    def connect(self, database: str | None) -> Any:
        import pymysql

        where = {"host": self.address.host, "port": self.address.port, "unix_socket": self.address.unix_socket}
        return pymysql.connect(
            **where,
            user=self.address.user,
            password=self.address.password,
            database=database,
            autocommit=True,
            ssl_disabled=True,
        )

    def ready(self, statements: list[str], down: list[str] | None) -> tuple[bytes, list[str]]:
        """A fresh database, and the plan under a new id."""
        with contextlib.closing(self.connect(None)) as conn, conn.cursor() as cursor:
            for statement in (
                f"DROP DATABASE IF EXISTS {_NAME}",
                f"CREATE DATABASE {_NAME}",
                f"USE {_NAME}",
                *self.setup,
            ):
                cursor.execute(statement)
        job = f"job-{next(self.numbers)}"
        return (plan(job, statements) if down is None else _with_downs(job, statements, down)), statements

    def through_the_gate(self, ready: tuple[bytes, list[str]]) -> None:
        from endmark.effects.mariadb import MariadbTarget

        entry = f"{self.address.user}:{self.address.password}@{self.address.host}:{self.address.port}"
        target = MariadbTarget(f"mariadb://{entry}/{_NAME}")
        outcome = self.gate.apply(Delivery(raw=ready[0], submitter="bench"), target, Options(), "bench")
        if outcome.state != "applied":
            raise SystemExit(f"the gate said {outcome.state}: {outcome.detail}")

    def bare(self, ready: tuple[bytes, list[str]]) -> None:
        with contextlib.closing(self.connect(_NAME)) as conn, conn.cursor() as cursor:
            conn.begin()
            for statement in ready[1]:
                cursor.execute(statement)
            conn.commit()


def measure(quick: bool) -> list[Row]:
    with _server() as address, tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as name:
        if address is None:
            return []
        few, many, rows = (3, 2, 500) if quick else (21, 7, 5_000)
        inserts = [f"INSERT INTO readings VALUES ({n}, 'a note of some length', {n % 7})" for n in range(rows)]
        return [
            _case(Path(name, "a"), address, "11 statements of the schema, with downs", _ELEVEN, _DOWNS, [], few),
            _case(Path(name, "b"), address, f"{rows:,} INSERTs", inserts, None, [_READINGS], many),
        ]


@contextlib.contextmanager
def _server() -> Iterator[Any]:
    try:
        import pymysql

        from endmark.effects.mariadb.address import parse

        address = parse(os.environ.get("ENDMARK_BENCH_MARIADB", _URL))
        pymysql.connect(
            host=address.host, port=address.port, user=address.user, password=address.password, connect_timeout=3
        ).close()
    except Exception as fault:  # noqa: BLE001  # whatever keeps us from it
        print(f"NOT MEASURED, no MariaDB: {fault}", file=sys.stderr)
        yield None
    else:
        yield address


def _case(
    place: Path, address: Any, what: str, statements: list[str], down: list[str] | None, setup: list[str], count: int
) -> Row:
    place.mkdir()
    bench = _Bench(place, address, setup)
    try:
        return prepared(
            f"apply {what}, MariaDB : bare PyMySQL",
            bench.through_the_gate,
            bench.bare,
            lambda: bench.ready(statements, down),
            None,
            count,
        )
    finally:
        with contextlib.closing(bench.connect(None)) as conn, conn.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {_NAME}")
        bench.ledger.close()


def _with_downs(job_id: str, statements: list[str], down: list[str]) -> bytes:
    return strictjson.dumps(
        {
            "tool": plans.TOOL,
            "job_id": job_id,
            "stmt_count": len(statements),
            "sha256": plans.digest(statements),
            "statements": statements,
            "down": down,
            "down_sha256": plans.digest(down),
            "trailer": plans.TRAILER,
        }
    )
