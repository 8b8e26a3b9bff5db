"""Procrastinate's tables in a schema of their own, in the ledger's database: made, brought up, or printed."""

from __future__ import annotations

import re
from pathlib import Path

import procrastinate
import psycopg
from procrastinate.schema import SchemaManager, migrations_path

from endmark.core.refusal import CannotTry
from endmark.faces.worker.outbox import Queue
from endmark.ledger.postgres.connection import Connection, connect, explained

_MADE = re.compile(r"procrastinate (\d+)\.(\d+)\.(\d+)")
_FILE = re.compile(r"(\d+)\.(\d+)\.(\d+)_\d+_.*\.sql")
_LOOK = (
    "SELECT obj_description(oid, 'pg_namespace'), EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = n.oid "
    "AND relname = 'procrastinate_jobs') FROM pg_namespace n WHERE nspname = %s"
)
# Whoever waits for a target that was busy is told the moment it is free: Procrastinate tells only of new rows.
_NEXT = (
    "CREATE INDEX endmark_waiting ON procrastinate_jobs (lock) WHERE status = 'todo'",
    """CREATE FUNCTION endmark_next_in_line() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM procrastinate_jobs WHERE lock = OLD.lock AND status = 'todo') THEN
        PERFORM pg_notify('procrastinate_queue_v1#' || OLD.queue_name, '{"type": "job_inserted", "job_id": 0}');
    END IF;
    RETURN NULL;
END;
$$""",
    *(
        f"CREATE TRIGGER endmark_{name} AFTER {event} ON procrastinate_jobs FOR EACH ROW "
        "WHEN (OLD.lock IS NOT NULL AND OLD.status = 'doing') EXECUTE FUNCTION endmark_next_in_line()"
        for name, event in (("left", "DELETE"), ("put_off", "UPDATE OF status"))
    ),
)
_TABLES = ("jobs", "events", "workers", "periodic_defers")


def set_up(queue: Queue, timeout: float = 30.0) -> bool:
    """Make the queue's tables, or bring them up; whether anything was done. Raises CannotTry; then nothing was."""
    try:
        with connect(queue.place, timeout) as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('endmark queue setup', 0))")
            steps = _missing(queue, connection)
            for step in steps:
                connection.execute(step.encode())
            return bool(steps)
    except psycopg.Error as error:
        raise explained(error, queue.place, timeout) from error


def check(queue: Queue, timeout: float = 10.0) -> None:
    """Raises CannotTry where the queue is not there, or not of the version that is installed here."""
    try:
        with connect(queue.place, timeout) as connection:
            missing = _missing(queue, connection)
    except psycopg.Error as error:
        raise explained(error, queue.place, timeout) from error
    if missing:
        raise CannotTry(
            f"the queue {queue.place.database}, schema {queue.schema}: it is not there, or older than the installed "
            f"Procrastinate {procrastinate.__version__}. Nothing was done; run 'endmark queue init'."
        )


def script(queue: Queue, role: str | None) -> str:
    """The SQL for an administrator, run in the ledger's database. `role`: whom gates and workers connect as."""
    lines = [*_made(queue.schema), *([] if role is None else _grants(queue.schema, role))]
    return "BEGIN;\n\n" + "".join(f"{line.rstrip().rstrip(';')};\n\n" for line in lines) + "COMMIT;\n"


def _missing(queue: Queue, connection: Connection) -> list[str]:
    """What has to be run for the installed version. Raises CannotTry for a schema that is not a queue's."""
    row = connection.execute(_LOOK, (queue.schema,)).fetchone()
    if row is None:
        return _made(queue.schema)
    found = _MADE.search(row[0] or "")
    if found is None or not row[1]:
        raise CannotTry(
            f"the schema {queue.schema} of {queue.place.database} is not a queue that endmark made. Nothing was done; "
            "name another with ?schema=NAME in [queue]."
        )
    stands, here = _numbers(found), _installed()
    if stands > here:
        raise CannotTry(
            f"the queue's schema {queue.schema} is of Procrastinate {'.'.join(map(str, stands))}, and "
            f"{procrastinate.__version__} is installed here. Nothing was done; install that one."
        )
    newer = [file for file in sorted(Path(migrations_path).iterdir()) if stands < _version(file) <= here]
    if not newer:
        return []
    return [_path(queue.schema), *(file.read_text(encoding="utf-8") for file in newer), _comment(queue.schema)]


def _made(schema: str) -> list[str]:
    return [f"CREATE SCHEMA {schema}", _path(schema), SchemaManager.get_schema(), *_NEXT, _comment(schema)]


def _grants(schema: str, role: str) -> list[str]:
    quoted = '"' + role.replace('"', '""') + '"'
    return [
        f"GRANT USAGE ON SCHEMA {schema} TO {quoted}",
        *(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.procrastinate_{name} TO {quoted}" for name in _TABLES),
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {quoted}",
    ]


def _path(schema: str) -> str:
    return f"SET LOCAL search_path = {schema}, pg_catalog"


def _comment(schema: str) -> str:
    return f"COMMENT ON SCHEMA {schema} IS 'the queue of endmark: procrastinate {'.'.join(map(str, _installed()))}'"


def _installed() -> tuple[int, ...]:
    return tuple(int(word) for word in re.findall(r"\d+", procrastinate.__version__)[:3])


def _numbers(found: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(word) for word in found.groups())


def _version(file: Path) -> tuple[int, ...]:
    found = _FILE.fullmatch(file.name)
    return (0,) if found is None else _numbers(found)
