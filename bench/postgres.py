"""Applying plans on PostgreSQL: the gate with its ledger and receipt, against psycopg with the same durability.

On the server that the tests use, over 127.0.0.1. Both connect anew for each plan, as a job of its own does, and both
flush the target's commit. The gate alone flushes a ledger besides (in a SQLite file, once), takes the schema's
fingerprint before and after, and reads the receipt on a second connection: that is what the ratio is the price of.
The schema is empty before.
"""

import itertools
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from tests.effects.postgres.world import Cluster, Database
from tests.support.servers import NoServer, find_postgres

from bench.measure import Row, prepared
from bench.payloads import inserts, plan
from endmark.apply_gate import ApplyGate, Delivery, Options
from endmark.effects.postgres import PostgresTarget
from endmark.ledger.book import Ledger

_READINGS = "CREATE TABLE app.readings (id integer PRIMARY KEY, note text, kind integer)"
_MADE = "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = to_regnamespace('app') AND relkind = 'r'"
_JOB = "INSERT INTO public.bare_jobs VALUES (%s, %s, %s, 'applied')"
ELEVEN = [
    "CREATE TABLE customers (id serial PRIMARY KEY, name text NOT NULL, email text UNIQUE, created_at timestamptz)",
    "CREATE TABLE products (id serial PRIMARY KEY, sku text NOT NULL UNIQUE, title text NOT NULL, cents integer)",
    "CREATE TABLE orders (id serial PRIMARY KEY, customer_id integer REFERENCES customers (id), placed_at timestamptz)",
    "CREATE TABLE order_lines (order_id integer REFERENCES orders (id), product_id integer, quantity integer)",
    "CREATE INDEX orders_by_customer ON orders (customer_id)",
    "CREATE INDEX lines_by_order ON order_lines (order_id)",
    "CREATE VIEW open_orders AS SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id",
    "ALTER TABLE orders ADD COLUMN shipped_at timestamptz",
    "INSERT INTO products (sku, title, cents) VALUES ('A-1', 'Lamp', 1900), ('A-2', 'Desk', 24900)",
    "INSERT INTO customers (name, email) VALUES ('Ada', 'ada@example.org'), ('Linus', 'linus@example.org')",
    "UPDATE products SET cents = cents - 100 WHERE sku = 'A-1'",
]


def _tables(count: int) -> list[str]:
    return [f"CREATE TABLE made_{at} (id integer PRIMARY KEY, name text NOT NULL, at text)" for at in range(count)]


class _Bench:
    def __init__(self, folder: Path, database: Database, setup: list[str]) -> None:
        self.database, self.setup = database, setup
        self.numbers = itertools.count()
        self.ledger = Ledger.open(folder / f"ledger-{len(setup)}-{os.urandom(4).hex()}.db", create=True)
        self.gate = ApplyGate(self.ledger, lambda: datetime.now(UTC))
        self.url = f"{database.url}?options=-csearch_path%3Dapp,public"

    def ready(self, statements: list[str]) -> tuple[str, bytes, list[str]]:
        """The statements with an id of their own, before an empty schema."""
        # In parts: a schema of a thousand tables needs more locks than one transaction has.
        tables = [name for (name,) in self.database.query(_MADE)]
        for low in range(0, len(tables), 200):
            self.database.query(f"DROP TABLE {', '.join(tables[low : low + 200])} CASCADE")
        self.database.query("DROP SCHEMA IF EXISTS app CASCADE")
        self.database.query(f"CREATE SCHEMA app AUTHORIZATION {self.database.cluster.gate}")
        for statement in self.setup:
            self.database.query(f"SET ROLE {self.database.cluster.gate}")
            self.database.query(statement)
            self.database.query("RESET ROLE")
        job_id = f"job-{os.getpid()}-{next(self.numbers)}-{len(statements)}"
        return job_id, plan(job_id, statements), statements

    def through_the_gate(self, ready: tuple[str, bytes, list[str]]) -> None:
        _, raw, _ = ready
        outcome = self.gate.apply(Delivery(raw=raw, submitter="bench"), PostgresTarget(self.url), Options(), "bench")
        if outcome.state != "applied":
            raise SystemExit(f"the gate said {outcome.state}: {outcome.detail}")

    def bare(self, ready: tuple[str, bytes, list[str]]) -> None:
        job_id, _, statements = ready
        with psycopg.connect(self.url) as conn:
            for statement in statements:
                conn.execute(statement)
            conn.execute(_JOB, (job_id, len(statements), "0" * 64))


def measure(quick: bool) -> list[Row]:
    few, many = (15, 3) if quick else (51, 5)
    large, ddl = (1_000, 200) if quick else (5_000, 1_000)
    cases: list[tuple[str, list[str], list[str], float, int]] = [
        ("11 statements", ELEVEN, [], 1.5, few),
        (f"{large:,} INSERTs", inserts(large), [_READINGS], 1.1, many),
        (f"{ddl:,} CREATE TABLEs", _tables(ddl), [], 1.6, many),
    ]
    try:
        server = find_postgres(os.environ.get("ENDMARK_TEST_POSTGRES"))
    except (NoServer, OSError) as why:
        print(f"PostgreSQL is not measured: {why}", file=sys.stderr)
        return []
    cluster = Cluster(server.url, f"endmark_bench_{os.getpid()}")
    cluster.make()
    try:
        with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as name, cluster.database(0) as database:
            database.query("CREATE TABLE bare_jobs (job_id text PRIMARY KEY, n integer, sha256 text, status text)")
            database.query(f"GRANT ALL ON bare_jobs TO {cluster.gate}")
            return [_case(Path(name), database, *case) for case in cases]
    finally:
        cluster.remove()
        if server.stop:
            import subprocess

            subprocess.run(server.stop, check=False, capture_output=True)


def _case(
    folder: Path, database: Database, what: str, statements: list[str], setup: list[str], limit: float, count: int
) -> Row:
    bench = _Bench(folder, database, setup)
    try:
        return prepared(
            f"PostgreSQL: apply {what} : psycopg, same statements and one row",
            bench.through_the_gate,
            bench.bare,
            lambda: bench.ready(statements),
            limit,
            count,
        )
    finally:
        bench.ledger.close()
