"""`python -m bench --only cut-files`: what each tool leaves behind after a file of eleven statements that was cut.

Each tool runs as a program, or as endmark's gate, before an empty database, once for every cut; then the database is
looked at. Alembic's migration reads the file and runs it statement by statement. Needs the servers that the tests use;
docs/peers.md says what is counted.
"""

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from tests.effects.postgres.world import Cluster
from tests.support.mariadb import query, server, url_of
from tests.support.servers import find_postgres

from bench.peers import spread
from endmark.apply_gate import ApplyGate, Delivery, Options
from endmark.core import plan as plans
from endmark.core.plan import Plan
from endmark.effects.mariadb import MariadbTarget
from endmark.effects.postgres import PostgresTarget
from endmark.effects.target import Target
from endmark.ledger.book import Ledger

ELEVEN = [
    "CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, email VARCHAR(80))",
    "CREATE TABLE products (id INT PRIMARY KEY, sku VARCHAR(20) NOT NULL, cents INT)",
    "CREATE TABLE orders (id INT PRIMARY KEY, customer INT, placed DATE)",
    "INSERT INTO customers VALUES (1, 'Ada', 'ada@example.org'), (2, 'Linus', 'linus@example.org')",
    "INSERT INTO products VALUES (1, 'A-1', 1900), (2, 'A-2', 24900)",
    "CREATE INDEX orders_by_customer ON orders (customer)",
    "CREATE VIEW open_orders AS SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer",
    "ALTER TABLE orders ADD COLUMN shipped DATE",
    "UPDATE products SET cents = cents - 100 WHERE sku = 'A-1'",
    "CREATE TABLE notes (id INT PRIMARY KEY, words VARCHAR(200))",
    "INSERT INTO notes VALUES (1, 'the last one')",
]
DOWNS = [
    "DROP TABLE customers",
    "DROP TABLE products",
    "DROP TABLE orders",
    "DELETE FROM customers",
    "DELETE FROM products",
    "ALTER TABLE orders DROP INDEX orders_by_customer",
    "DROP VIEW open_orders",
    "ALTER TABLE orders DROP COLUMN shipped",
    "UPDATE products SET cents = cents + 100 WHERE sku = 'A-1'",
    "DROP TABLE notes",
    "DELETE FROM notes",
]
SCRIPT = "".join(f"{statement};\n" for statement in ELEVEN).encode()
_CUTS = 24
_FEW = 8  # of what starts a Python each time
_SECONDS = 120  # for one run of a program
_ENV = """import os
from alembic import context
from sqlalchemy import create_engine
with create_engine(os.environ["CUT_URL"]).connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
"""
_REVISION = """import os
from pathlib import Path
from alembic import op
revision, down_revision = "0001", None
def upgrade():
    for statement in Path(os.environ["CUT_FILE"]).read_text().split(";\\n"):
        if statement.strip():
            op.get_bind().exec_driver_sql(statement)
"""
_COLUMNS = (
    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = {schema} "
    "AND table_name IN ('customers', 'products', 'orders', 'notes', 'open_orders') ORDER BY 1, 2"
)
_INDEXES = {
    "PostgreSQL": "SELECT indexname FROM pg_indexes WHERE schemaname = 'app' AND indexname = 'orders_by_customer'",
    "MariaDB": "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = DATABASE() "
    "AND index_name = 'orders_by_customer'",
}


class Place(NamedTuple):
    """One database: how programs get there, how it is emptied, and how it is asked."""

    engine: str
    url: str
    empty: Callable[[], None]
    ask: Callable[[str], list[tuple[Any, ...]]]
    target: Target


Run = Callable[[Place, bytes, Path], bool]
"""Hand over a body at a place, with a folder for files: whether the tool said that all went well."""


def state(place: Place) -> list[object]:
    """Everything that the eleven statements make."""
    schema = "'app'" if place.engine == "PostgreSQL" else "DATABASE()"
    found: list[object] = [*place.ask(_COLUMNS.format(schema=schema)), *place.ask(_INDEXES[place.engine])]
    names = {str(row[0]) for row in place.ask(_COLUMNS.format(schema=schema))}
    for name in sorted(names):
        found += sorted(map(str, place.ask(f"SELECT * FROM {name}")))
    return found


def _program(arguments: list[str], **environ: str) -> bool:
    done = subprocess.run(
        arguments,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )
    return done.returncode == 0


def _psql(*flags: str) -> Run:
    def run(place: Place, body: bytes, folder: Path) -> bool:
        (folder / "plan.sql").write_bytes(body)
        return _program(["psql", "-X", "-q", *flags, "-f", str(folder / "plan.sql"), place.url])

    return run


def _mariadb(place: Place, body: bytes, folder: Path) -> bool:
    (folder / "plan.sql").write_bytes(body)
    where = server() or {}
    reach = (
        [f"--socket={where['unix_socket']}"] if "unix_socket" in where else [f"-h{where['host']}", f"-P{where['port']}"]
    )
    database = place.ask("SELECT DATABASE()")[0][0]
    with open(folder / "plan.sql", "rb") as given:
        command = ["mariadb", *reach, f"-u{where['user']}", str(database)]
        environ = {**os.environ, **({"MYSQL_PWD": where["password"]} if where["password"] else {})}
        return subprocess.run(command, stdin=given, env=environ, capture_output=True, check=False).returncode == 0


def _alembic(place: Place, body: bytes, folder: Path) -> bool:
    (folder / "plan.sql").write_bytes(body)
    (folder / "versions").mkdir()
    (folder / "alembic.ini").write_text(f"[alembic]\nscript_location = {folder}\n")
    (folder / "env.py").write_text(_ENV)
    (folder / "versions" / "0001.py").write_text(_REVISION)
    driver = {"PostgreSQL": "postgresql+psycopg", "MariaDB": "mysql+pymysql"}[place.engine]
    url = f"{driver}://{place.url.partition('://')[2]}"
    command = [sys.executable, "-m", "alembic", "-c", str(folder / "alembic.ini"), "upgrade", "head"]
    return _program(command, CUT_URL=url, CUT_FILE=str(folder / "plan.sql"))


def _yoyo(place: Place, body: bytes, folder: Path) -> bool:
    (folder / "migrations").mkdir()
    (folder / "migrations" / "0001.sql").write_bytes(body)
    driver = {"PostgreSQL": "postgresql+psycopg", "MariaDB": "mysql"}[place.engine]
    url = f"{driver}://{place.url.partition('://')[2]}"
    program = str(Path(sys.executable).with_name("yoyo"))
    return _program([program, "apply", "--batch", "--no-config-file", "--database", url, str(folder / "migrations")])


def _endmark(place: Place, body: bytes, folder: Path) -> bool:
    with contextlib.closing(Ledger.open(folder / "ledger.db", create=True)) as ledger:
        gate = ApplyGate(ledger, lambda: datetime.now(UTC))
        delivery = Delivery(raw=body, submitter="bench")
        return gate.apply(delivery, place.target, Options(), "bench").exit_code == 0


def sealed(engine: str) -> bytes:
    """The eleven statements as endmark takes them."""
    down = DOWNS if engine == "MariaDB" else None
    return plans.seal(Plan(job_id="cut", statements=ELEVEN, sha256=plans.digest(ELEVEN), down=down))


TOOLS: dict[str, dict[str, Run]] = {
    "PostgreSQL": {
        "`psql -f`": _psql(),
        "`psql -1 -v ON_ERROR_STOP=1 -f`": _psql("-1", "-v", "ON_ERROR_STOP=1"),
        "Alembic": _alembic,
        "yoyo": _yoyo,
        "endmark": _endmark,
    },
    "MariaDB": {"`mariadb < file`": _mariadb, "Alembic": _alembic, "yoyo": _yoyo, "endmark": _endmark},
}


def rows(place: Place, cuts: int) -> Iterator[str]:
    """A row of the table for each tool that is here. Raises ValueError where one does not take the whole file."""
    for name, run in TOOLS[place.engine].items():
        whole = sealed(place.engine) if run is _endmark else SCRIPT
        nothing, everything, ok = _one(place, run, whole)
        if not ok or nothing == everything:
            raise ValueError(f"{name} does not take the whole file, so nothing can be measured.")
        half = success = both = 0
        # The last byte of a script is a newline, and without it the script is as good.
        offsets = spread(
            len(whole) - (1 if run is _endmark else 2), min(cuts, _FEW) if run in (_alembic, _yoyo) else cuts
        )
        for at in offsets:
            _before, after, ok = _one(place, run, whole[:at])
            is_half = after not in (nothing, everything)
            half, success, both = half + is_half, success + ok, both + (ok and is_half)
        yield f"| {place.engine} | {name} | {len(offsets)} | {success} | {half} | {both} |"


def _one(place: Place, run: Run, body: bytes) -> tuple[list[object], list[object], bool]:
    place.empty()
    before = state(place)
    with tempfile.TemporaryDirectory() as folder:
        ok = run(place, body, Path(folder))
    return before, state(place), ok


@contextlib.contextmanager
def _postgres() -> Iterator[Place]:
    cluster = Cluster(find_postgres(os.environ.get("ENDMARK_TEST_POSTGRES")).url, f"endmark_cuts_{os.getpid()}")
    cluster.make()
    try:
        with cluster.database(0) as database:
            database.admin.prepare_threshold = None  # its tables are others after each try
            database.query(f"ALTER ROLE {cluster.gate} IN DATABASE {database.name} SET search_path = app, public")

            def empty() -> None:
                database.query("SET client_min_messages = warning")
                database.query("DROP SCHEMA IF EXISTS app CASCADE")
                database.query(f"CREATE SCHEMA app AUTHORIZATION {cluster.gate}")
                database.query("SET search_path = app, public")

            yield Place("PostgreSQL", database.url, empty, database.query, PostgresTarget(database.url))
    finally:
        cluster.remove()


@contextlib.contextmanager
def _maria() -> Iterator[Place]:
    if server() is None:
        raise OSError("no MariaDB answers")
    name = f"endmark_cuts_{os.getpid()}"

    def empty() -> None:
        query(None, f"DROP DATABASE IF EXISTS {name}")
        query(None, f"CREATE DATABASE {name} CHARACTER SET utf8mb4")

    empty()
    try:
        yield Place("MariaDB", url_of(name), empty, lambda sql: query(name, sql), MariadbTarget(url_of(name)))
    finally:
        query(None, f"DROP DATABASE IF EXISTS {name}")


def table(quick: bool) -> str:
    """Everything, as Markdown."""
    found = [f"Python {platform.python_version()}, Alembic {version('alembic')}, yoyo {version('yoyo-migrations')}"]
    for program in ("psql", "mariadb"):
        if (path := shutil.which(program)) is not None:
            found.append(subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.strip())
    found += [
        "",
        "| server | tool | cuts | it said that all went well | half left behind | both |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for place_of in (_postgres, _maria):
        with place_of() as place:
            found += rows(place, 6 if quick else _CUTS)
    return "\n".join(found)
