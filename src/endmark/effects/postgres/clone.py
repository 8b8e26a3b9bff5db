"""A scratch database with the schema of a target and none of its rows, made by pg_dump and psql, dropped afterwards.

Its name is made of the target's identity, and whoever holds the lock of that name may make it: what a killed process
left is dropped by the next one.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from typing import IO, Protocol

import msgspec
import psycopg

from endmark.core.refusal import CannotTry, Signal
from endmark.effects.postgres.address import Address, address, libpq_environ
from endmark.effects.postgres.channel import Channel, Fault, Late, Lost, Step
from endmark.effects.postgres.functions import JOBS, NOT_OURS, SCHEMA, TRIGGER, jobs_table, quoted
from endmark.effects.program import end_group
from endmark.effects.target import Failed, Stop

PREFIX = "endmark_rehearsal_"
_SILENCE = 60.0  # seconds that the server may take to make or drop a database
_LOOK = 0.05  # seconds between two looks at `stop`
_SAID_MAX = 500
_DUMP = (
    *("pg_dump", "--schema-only", "--no-owner", "--no-privileges", "--no-publications", "--no-subscriptions"),
    *("--no-security-labels", "--no-comments", "--no-tablespaces", f"--exclude-schema={SCHEMA}"),
    f"--exclude-table=*.{JOBS}",
)
_RESTORE = ("psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction", "--file=-")


class Scratch(msgspec.Struct, frozen=True):
    """Where scratch databases may be made: a URL whose role has CREATEDB. `environ` says where programs are."""

    url: str
    environ: Mapping[str, str]


class Source(Protocol):
    """The target, as far as this goes."""

    identity: str

    def environ(self) -> dict[str, str]: ...


def name_of(source: Source) -> str:
    """The name of the scratch database of a target."""
    return PREFIX + hashlib.sha256(source.identity.encode()).hexdigest()[:16]


def connect(parameters: Mapping[str, object]) -> Channel:
    """A connection. Raises CannotTry."""
    try:
        return Channel(dict(parameters))  # type: ignore[arg-type]
    except psycopg.Error as error:
        why = " ".join(str(error).split())
        raise CannotTry(f"the scratch server cannot be reached: {why}. Nothing was written.") from None


@contextlib.contextmanager
def cloned(scratch: Scratch, source: Source, jobs: str, stop: Stop) -> Iterator[Channel]:
    """A connection to the clone. `jobs`: the schema in which `schema_jobs` stands.

    Raises Failed when interrupted, and CannotTry.
    """
    where = address(scratch.url)
    for program in (_DUMP[0], _RESTORE[0]):
        if shutil.which(program, path=scratch.environ.get("PATH", os.defpath)) is None:
            raise CannotTry(f"{program} is not on the PATH, and a clone needs it. Nothing was written.")
    name = name_of(source)
    keeper = connect(where.parameters)
    try:
        with _told(name):
            (reply,) = keeper.ask(_lock(name), silence=_SILENCE)
            if reply.rows != [("true",)]:
                raise CannotTry(f"another rehearsal is using the scratch database {name}. Nothing was written.")
            _drop(keeper, where, name)  # what a killed process left
            keeper.ask(
                Step(f"CREATE DATABASE {quoted(name)} TEMPLATE template0 ENCODING 'UTF8'".encode()), silence=_SILENCE
            )
        inside = None
        try:
            _fill(scratch.environ, source, {**where.parameters, "dbname": name}, stop)
            inside = connect({**where.parameters, "dbname": name})
            with _told(name):
                inside.ask(*_ours(jobs), silence=_SILENCE)
            yield inside
        finally:
            if inside is not None:
                inside.close()
            with contextlib.suppress(CannotTry), _told(name):
                _drop(keeper, where, name)
    finally:
        keeper.close()


def _ours(jobs: str) -> Iterator[Step]:
    """`schema_jobs` as a table that the fingerprint leaves out, and nobody may write to."""
    refuse = f"RAISE EXCEPTION 'endmark: the receipts are the gate''s' USING ERRCODE = '{NOT_OURS}'"
    every = "BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE"
    for statement in (
        f"CREATE SCHEMA {SCHEMA}",
        f"CREATE FUNCTION {SCHEMA}.whole() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {refuse}; END $$",
        f"CREATE TABLE {jobs_table(jobs)} (job_id text PRIMARY KEY, stmt_count integer, sha256 text, status text)",
        f"CREATE TRIGGER {TRIGGER} {every} ON {jobs_table(jobs)} EXECUTE FUNCTION {SCHEMA}.whole()",
    ):
        yield Step(statement.encode())


def _lock(name: str) -> Step:
    """A lock of the session: it ends with this process, however that ends."""
    return Step(b"SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended($1, 0))::text", (name,))


def _drop(keeper: Channel, where: Address, name: str) -> None:
    known = Step(b"SELECT gid FROM pg_catalog.pg_prepared_xacts WHERE database::pg_catalog.text = $1", (name,))
    prepared = keeper.ask(known, silence=_SILENCE)[0].rows
    if prepared:  # a plan can leave one, and no database is dropped under it
        inside = connect({**where.parameters, "dbname": name})
        try:
            for (gid,) in prepared:
                escaped = (gid or "").replace("'", "''")
                inside.ask(Step(f"ROLLBACK PREPARED '{escaped}'".encode()), silence=_SILENCE)
        finally:
            inside.close()
    keeper.ask(Step(f"DROP DATABASE IF EXISTS {quoted(name)} WITH (FORCE)".encode()), silence=_SILENCE)


def _fill(environ: Mapping[str, str], source: Source, into: Mapping[str, str], stop: Stop) -> None:
    """pg_dump into psql. No password stands on a command line."""
    kept = {name: value for name, value in environ.items() if name in ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")}
    common = kept | {"LC_ALL": "C"}
    with tempfile.TemporaryFile() as said, contextlib.ExitStack() as ended:
        dump = _start(_DUMP, common | source.environ(), said, stdout=subprocess.PIPE)
        ended.callback(end_group, dump)
        restore = _start(_RESTORE, common | libpq_environ(into), said, stdin=dump.stdout)
        ended.callback(end_group, restore)
        if dump.stdout is not None:
            dump.stdout.close()
        for process in (restore, dump):
            while True:
                try:
                    process.wait(_LOOK)
                    break
                except subprocess.TimeoutExpired:
                    if (by := stop()) is not None:
                        raise Failed(Signal.INTERRUPTED, f"{by} while the clone was made") from None
        if dump.returncode or restore.returncode:
            said.seek(0)
            words = " ".join(said.read(_SAID_MAX).decode("utf-8", "replace").split()) or "they said nothing"
            raise CannotTry(f"the schema cannot be copied by pg_dump and psql: {words}. Nothing was written.")


def _start(
    command: tuple[str, ...],
    environ: dict[str, str],
    said: IO[bytes],
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=said, env=environ, start_new_session=True)
    except OSError as fault:
        raise CannotTry(f"{command[0]} cannot be run for a rehearsal: {fault}. Nothing was written.") from None


@contextlib.contextmanager
def _told(name: str) -> Iterator[None]:
    try:
        yield
    except (Fault, Lost, Late) as fault:
        raise CannotTry(f"the scratch database {name} cannot be used: {fault}. Nothing was written.") from None
