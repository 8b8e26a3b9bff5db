"""Whole processes: the command line, against a bare Python start and against the peers a user would pick."""

import itertools
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path

from bench.measure import Row, prepared, row
from bench.payloads import ELEVEN, envelope, plan

_PYTHON_START = [sys.executable, "-c", "import json, hashlib, sqlite3"]
_ENDMARK = str(Path(sys.executable).with_name("endmark"))

_ALEMBIC_INI = """[alembic]
script_location = {folder}/migrations
sqlalchemy.url = sqlite:///{database}
"""
_ALEMBIC_ENV = """from alembic import context
from sqlalchemy import create_engine

engine = create_engine(context.config.get_main_option("sqlalchemy.url"))
with engine.connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
"""
_ALEMBIC_REVISION = """from alembic import op

revision = "0001"
down_revision = None


def upgrade():
{body}
"""


def _run(command: list[str], stdin: bytes | None = None) -> None:
    environment = os.environ | {"ENDMARK_AGENT_MAY_APPROVE": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, input=stdin, capture_output=True, check=False, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()[-500:]}")


class _Folder:
    """A place with a ledger, fresh databases, and the eleven statements in each tool's form."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers = itertools.count()
        self.ledger = folder / "ledger.db"
        self.script = folder / "eleven.sql"
        self.script.write_text("BEGIN IMMEDIATE;\n" + ";\n".join(ELEVEN) + ";\nCOMMIT;\n")

    def database(self) -> Path:
        path = self.folder / f"app-{next(self.numbers)}.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as conn:
            conn.execute("CREATE TABLE settled (id INTEGER)")
        return path

    def envelope(self) -> tuple[Path, Path]:
        database = self.database()
        file = database.with_suffix(".mc1")
        file.write_bytes(envelope(plan(database.name, ELEVEN)))
        return database, file

    def endmark(self, ready: tuple[Path, Path]) -> None:
        database, file = ready
        to = f"sqlite:///{database}"
        _run([_ENDMARK, "apply", str(file), "--ledger", str(self.ledger), "--to", to, "--yes", "--no-backup"])

    def shell(self, ready: tuple[Path, Path]) -> None:
        _run(["sqlite3", "-bail", str(ready[0])], self.script.read_bytes())

    def alembic_place(self) -> tuple[Path, Path]:
        database, _ = self.envelope()
        place = database.with_suffix(".alembic")
        (place / "migrations" / "versions").mkdir(parents=True)
        (place / "alembic.ini").write_text(_ALEMBIC_INI.format(folder=place, database=database))
        (place / "migrations" / "env.py").write_text(_ALEMBIC_ENV)
        body = "\n".join(f"    op.execute({statement!r})" for statement in ELEVEN)
        (place / "migrations" / "versions" / "0001_eleven.py").write_text(_ALEMBIC_REVISION.format(body=body))
        return database, database.with_suffix(".mc1")

    def alembic(self, ready: tuple[Path, Path]) -> None:
        place = ready[0].with_suffix(".alembic")
        _run([sys.executable, "-m", "alembic", "-c", str(place / "alembic.ini"), "upgrade", "head"])


def measure(quick: bool) -> list[Row]:
    count = 9 if quick else 41
    rows = []
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as name:
        place = _Folder(Path(name).resolve())
        _, file = place.envelope()
        for what, command in (
            ("endmark check FILE", [_ENDMARK, "check", str(file)]),
            ("endmark --help", [_ENDMARK, "--help"]),
        ):
            start = partial(_run, _PYTHON_START)
            rows.append(row(f"{what} : python start", partial(_run, command), start, 2.5, count))
        rows.append(
            prepared(
                "endmark apply, eleven statements : alembic upgrade head",
                place.endmark,
                place.alembic,
                place.alembic_place,
                0.25,
                count,
            )
        )
        if shutil.which("sqlite3"):
            what = "endmark apply, eleven statements : sqlite3 shell (no proof, no receipt)"
            rows.append(prepared(what, place.endmark, place.shell, place.envelope, None, count))
    return rows
