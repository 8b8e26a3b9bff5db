"""A small world for the gate: one target, one ledger, and short ways to use them and to look at what became of them."""

import sqlite3
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from endmark.apply_gate import ApplyGate, Delivery, Options
from endmark.core import plan, strictjson
from endmark.effects.sqlite import SqliteTarget
from endmark.effects.target import Work
from endmark.ledger.book import Ledger
from endmark.reconcile import reconcile

MODES = ("rollback", "wal")
SEED = (
    "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)",
    "INSERT INTO users VALUES (1, 'ann'), (2, 'bob')",
)
OURS = ("schema_jobs", "endmark_receipts")
QUICK = Options(lock_timeout=0, statement_timeout=5)
PATIENT = Options(lock_timeout=60, statement_timeout=60)
FOREVER = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"


def clock():
    return datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def make_database(path, mode="rollback", statements=SEED):
    path.write_bytes(_database_bytes(mode, tuple(statements)))


@cache
def _database_bytes(mode, statements):
    with TemporaryDirectory() as folder:
        path = Path(folder, "made.db")
        with closing(sqlite3.connect(path, isolation_level=None)) as conn:
            conn.execute("PRAGMA synchronous = OFF")
            if mode == "wal":
                conn.execute("PRAGMA journal_mode = WAL")
            for statement in statements:
                conn.execute(statement)
        return path.read_bytes()


def query(path, sql, *values):
    with closing(sqlite3.connect(path)) as conn:
        return conn.execute(sql, values).fetchall()


def dump(path):
    """All that SQL can see of a database, line by line; nothing is changed. (`iterdump` gives up on a foreign
    key that cannot be checked, and says nothing of versions.)"""
    with closing(sqlite3.connect(path)) as conn:
        return dump_of(conn)


def dump_of(conn):
    """The same, on a connection."""
    conn.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")
    lines = [f"{name} {conn.execute(f'PRAGMA {name}').fetchone()}" for name in ("user_version", "application_id")]
    objects = conn.execute("SELECT type, name, tbl_name, sql, rootpage FROM sqlite_master ORDER BY 1, 2").fetchall()
    for kind, name, table, sql, page in objects:
        lines.append(f"{kind} {name} {table} {sql}")
        if kind == "table" and page:  # a virtual table has none: its rows stand in others
            quoted = name.replace('"', '""')
            lines += [f"{name} {row}" for row in conn.execute(f'SELECT * FROM "{quoted}"')]
    return lines


def plain(lines):
    """Of a dump what the plan's own statements left behind: all but our two tables."""
    return [line for line in lines if not any(name in line for name in OURS)]


def plain_dump(path):
    """The same, of a file."""
    return plain(dump(path))


def files(path):
    """Every byte of a database: the file and what SQLite keeps beside it."""
    return {beside.name: beside.read_bytes() for beside in sorted(path.parent.glob(f"{path.name}*"))}


def plan_bytes(job_id, statements, **more):
    """A bare plan, as anybody may write it."""
    if "down" in more:
        more["down_sha256"] = plan.digest(more["down"])
    return strictjson.dumps(
        {
            "tool": plan.TOOL,
            "job_id": job_id,
            "stmt_count": len(statements),
            "sha256": plan.digest(statements),
            "statements": list(statements),
            "trailer": plan.TRAILER,
            **more,
        }
    )


def witness_bytes(job_id, statements):
    return strictjson.dumps(
        {"job_id": job_id, "stmt_count": len(statements), "statements": list(statements), "trailer": plan.TRAILER}
    )


def work(statements, job_id="j1", **more):
    return Work(
        job_id=job_id,
        attempt_id="att_test",
        statements=list(statements),
        sha256=plan.digest(statements),
        at="2026-03-01T12:00:00.000000Z",
        **more,
    )


def run(path, statements, job_id="j1", *, timeout=5.0, progress=lambda done, total: None, stop=lambda: None, **more):
    """Run one job against a file through the session alone: what was changed, or Failed or CannotTry."""
    with SqliteTarget(path).open() as session:
        session.lock(0)
        ran = session.run(work(statements, job_id, **more), timeout, progress, stop)
        session.commit()
        return ran


@cache
def _ledger_bytes():
    with TemporaryDirectory() as folder:
        path = Path(folder, "ledger.db")
        Ledger.open(path, create=True).close()
        return path.read_bytes()


class World:
    """A target and a ledger in one folder."""

    def __init__(self, folder: Path, mode=None, statements=SEED):
        """With a `mode` they are made, else they are there."""
        self.folder = folder
        self.path = folder / "target.db"
        self.ledger = folder / "book" / "ledger.db"
        self.target: Any = SqliteTarget(self.path)
        if mode is not None:
            self.ledger.parent.mkdir(parents=True)
            make_database(self.path, mode, statements)
            self.ledger.write_bytes(_ledger_bytes())

    @contextmanager
    def book(self):
        with Ledger.open(self.ledger, create=False, timeout=60) as ledger:
            yield ledger

    @contextmanager
    def gate(self, **more):
        with self.book() as ledger:
            yield ApplyGate(ledger, clock, **more)

    def apply(self, job_id, statements, *, options=QUICK, more=None, **plan_keys):
        return self.deliver(plan_bytes(job_id, statements, **plan_keys), options=options, more=more)

    def deliver(self, raw, *, options=QUICK, target=None, job_id=None, seal=False, submitter=None, more=None):
        with self.gate(**(more or {})) as gate:
            delivery = Delivery(raw=raw, job_id=job_id, seal=seal, submitter=submitter)
            return gate.apply(delivery, target or self.target, options, "ann")

    def stage(self, job_id, statements, **plan_keys):
        with self.gate() as gate:
            raw = plan_bytes(job_id, statements, **plan_keys)
            return gate.submit(Delivery(raw=raw, submitter="bob"), self.target, QUICK)[0]

    def approve(self, outcome, *, target=None, options=QUICK, shown=None, approver="ann"):
        with self.gate() as gate:
            return gate.approve(outcome.attempt_id, target or self.target, options, approver, shown)

    def reconcile(self, lock_timeout=0.0):
        with self.book() as ledger:
            return reconcile(ledger, self.target_of, clock, lock_timeout)

    def target_of(self, identity):
        assert identity == self.target.identity
        return self.target

    def entry(self, job_id):
        with self.book() as ledger:
            return ledger.by_job(job_id)

    def entries(self, **where):
        with self.book() as ledger:
            return ledger.page(1_000, **where)

    def events(self, outcome):
        with self.book() as ledger:
            return ledger.events(outcome.attempt_id)

    def verified(self):
        with self.book() as ledger:
            return ledger.verify()

    def dump(self):
        return dump(self.path)

    def files(self):
        return files(self.path)

    def receipts(self):
        """What the target says: job -> (statements, digest, status)."""
        if not query(self.path, "SELECT 1 FROM sqlite_master WHERE name = 'schema_jobs'"):
            return {}
        rows = query(self.path, "SELECT job_id, stmt_count, sha256, status FROM schema_jobs")
        return {job_id: tuple(rest) for job_id, *rest in rows}

    def fingerprint(self):
        with self.target.open() as session:
            return session.fingerprint()

    def check_books_agree(self):
        """The ledger's applied jobs are exactly the target's receipts, nothing is half done, and the chain holds."""
        with self.book() as ledger:
            entries, report = ledger.page(10_000), ledger.verify()
        assert report.ok, report.problems
        assert [entry.job_id for entry in entries if entry.state == "applying"] == []
        applied = {entry.job_id: (entry.stmt_count, entry.sha256) for entry in entries if entry.state == "applied"}
        receipts = self.receipts()
        assert {job: row[:2] for job, row in receipts.items()} == applied
        assert {row[2] for row in receipts.values()} <= {"applied", "reverted"}
        counted = query(self.path, "SELECT job_id FROM endmark_receipts") if receipts else []
        assert {job for (job,) in counted} == set(receipts)
