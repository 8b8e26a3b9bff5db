"""Rehearsing a plan before a PostgreSQL schema of a thousand tables, against `pg_dump -s | psql` into a scratch one.

The floor copies in one transaction, which is the fastest way that psql has. Where endmark makes the scratch database
and drops it, so does the floor; where it rehearses in the target, the floor finds its database made.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from tests.effects.postgres.world import Cluster, Database
from tests.support.servers import NoServer, find_postgres

from bench.measure import Row, prepared
from bench.payloads import plan
from bench.postgres import ELEVEN
from endmark.effects.postgres import PostgresTarget, Scratch
from endmark.faces.api import rehearse

_PIPE = 'pg_dump --schema-only --no-owner --no-privileges "$1" | psql -X -q -1 -v ON_ERROR_STOP=1 -d "$2"'


def measure(quick: bool) -> list[Row]:
    tables, few = (200, 3) if quick else (1_000, 5)
    try:
        server = find_postgres(os.environ.get("ENDMARK_TEST_POSTGRES"))
    except (NoServer, OSError) as why:
        print(f"PostgreSQL is not measured: {why}", file=sys.stderr)
        return []
    cluster = Cluster(server.url, f"endmark_bench_r_{os.getpid()}")
    cluster.make()
    try:
        with cluster.database(0) as database:
            _fill(database, tables)
            return list(_rows(cluster, database, tables, few))
    finally:
        cluster.remove()
        if server.stop:
            subprocess.run(server.stop, check=False, capture_output=True)


def _fill(database: Database, tables: int) -> None:
    database.query(f"SET ROLE {database.cluster.gate}")
    database.query(
        f"""DO $$ BEGIN FOR at IN 1..{tables} LOOP
            EXECUTE format('CREATE TABLE table_%s (id integer PRIMARY KEY, name text NOT NULL, at timestamptz)', at);
            EXECUTE format('CREATE INDEX table_%s_name ON table_%s (name)', at, at);
        END LOOP; END $$"""
    )
    database.query("RESET ROLE")


def _rows(cluster: Cluster, database: Database, tables: int, count: int) -> Iterator[Row]:
    raw = plan("rehearsed", ELEVEN)
    what = f"PostgreSQL: rehearse 11 statements before {tables:,} tables"
    scratch = Scratch(cluster.url, {"PATH": os.environ["PATH"]})
    in_target, on_clone = PostgresTarget(database.url), PostgresTarget(database.url, scratch=scratch)

    @contextmanager
    def empty() -> Iterator[str]:
        name = f"{cluster.prefix}_scratch"
        with cluster.admin() as conn:
            conn.execute(f"CREATE DATABASE {name} TEMPLATE template0")
            try:
                yield name
            finally:
                conn.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def copy(name: str) -> None:
        words = ["sh", "-c", _PIPE, "sh", _url(cluster, database.name), _url(cluster, name)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    def made_and_dropped(_nothing: None) -> None:
        with empty() as name:
            copy(name)

    yield prepared(
        f"{what}, on a clone : CREATE DATABASE, pg_dump -s | psql, DROP",
        lambda _nothing: rehearse(raw, on_clone),
        made_and_dropped,
        lambda: None,
        2.0,
        count,
    )
    with empty() as name:
        clear = partial(_clear, cluster, name)
        yield prepared(
            f"{what}, rolled back : pg_dump -s | psql",
            lambda _nothing: rehearse(raw, in_target),
            lambda _nothing: copy(name),
            clear,
            2.0,
            count,
        )


def _clear(cluster: Cluster, name: str) -> None:
    with cluster.admin(name) as conn:
        found = conn.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        )
        tables = [row[0] for row in found.fetchall()]
        for low in range(0, len(tables), 200):  # a transaction has not locks enough for all of them
            conn.execute(f"DROP TABLE {', '.join(tables[low : low + 200])} CASCADE")
        conn.execute("DROP SCHEMA IF EXISTS endmark CASCADE")


def _url(cluster: Cluster, database: str) -> str:
    from psycopg.conninfo import make_conninfo

    return make_conninfo(cluster.url, dbname=database)
