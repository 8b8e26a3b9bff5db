"""Applying plans: the gate with its ledger and receipt, against a bare transaction of the same durability."""

import contextlib
import itertools
import sqlite3
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.measure import Row, prepared
from bench.payloads import ELEVEN, inserts, plan, tables
from endmark.apply_gate import ApplyGate, Delivery, Options
from endmark.effects.sqlite import SqliteTarget
from endmark.ledger.book import Ledger

_READINGS = "CREATE TABLE readings (id INTEGER PRIMARY KEY, note TEXT, kind INTEGER)"
_JOBS = "CREATE TABLE schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status TEXT)"


class _Bench:
    def __init__(self, folder: Path, journal: str, setup: list[str]) -> None:
        self.folder, self.journal, self.setup = folder, journal, setup
        self.numbers = itertools.count()
        self.ledger = Ledger.open(folder / f"ledger-{journal}-{len(setup)}.db", create=True)
        self.gate = ApplyGate(self.ledger, lambda: datetime.now(UTC))

    def database(self) -> Path:
        """A fresh database in its journal mode, with the table of jobs that any but the first job finds."""
        path = self.folder / f"app-{next(self.numbers)}.db"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as conn:
            conn.execute(f"PRAGMA journal_mode = {self.journal}")
            for statement in (*self.setup, _JOBS):
                conn.execute(statement)
        return path

    def through_the_gate(self, ready: tuple[Path, bytes, list[str]]) -> None:
        path, raw, _ = ready
        outcome = self.gate.apply(Delivery(raw=raw, submitter="bench"), SqliteTarget(path), Options(), "bench")
        if outcome.state != "applied":
            raise SystemExit(f"the gate said {outcome.state}: {outcome.detail}")

    def bare(self, ready: tuple[Path, bytes, list[str]]) -> None:
        path, _, statements = ready
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as conn:
            conn.execute("PRAGMA synchronous = EXTRA")
            conn.execute("BEGIN IMMEDIATE")
            for statement in statements:
                conn.execute(statement)
            conn.execute("INSERT INTO schema_jobs VALUES (?, ?, ?, 'applied')", (path.name, len(statements), "0" * 64))
            conn.execute("COMMIT")

    def ready(self, statements: list[str]) -> tuple[Path, bytes, list[str]]:
        path = self.database()
        return path, plan(path.name, statements), statements


def measure(quick: bool) -> list[Row]:
    few, many = (15, 3) if quick else (101, 9)
    large = 1_000 if quick else 10_000
    cases: list[tuple[str, list[str], list[str], float, int]] = [
        ("11 statements", ELEVEN, [], 3.0, few),
        (f"{large:,} INSERTs", inserts(large), [_READINGS], 1.4, many),
        (f"{large:,} CREATE TABLEs", tables(large), [], 1.2, many),
    ]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as name:
        folder = Path(name)
        for what, statements, setup, limit, count in cases:
            for journal in ("delete", "wal"):
                rows.append(_case(folder, journal, what, statements, setup, limit, count))
    return rows


def _case(
    folder: Path, journal: str, what: str, statements: list[str], setup: list[str], limit: float, count: int
) -> Row:
    place = folder / f"{journal}-{abs(hash(what))}"
    place.mkdir()
    bench = _Bench(place, journal, setup)

    def action(doing: Any) -> Any:
        return doing

    try:
        return prepared(
            f"apply {what}, journal_mode={journal} : bare transaction",
            bench.through_the_gate,
            bench.bare,
            lambda: bench.ready(statements),
            limit,
            count,
        )
    finally:
        bench.ledger.close()
