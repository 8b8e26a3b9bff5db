"""A MariaDB server for the tests: one that runs, else a private one from installed binaries, else installed when root.

One server serves a whole run, also under xdist; each test has a database of its own. Where there is none, the summary
says what was not tested.
"""

import fcntl
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pymysql
import pytest
from tests.support.world import QUICK, World, clock

from endmark.effects.mariadb import MariadbTarget
from endmark.effects.mariadb.address import parse
from endmark.effects.mariadb.clone import PREFIX
from endmark.effects.mariadb.lock import key_of
from endmark.ledger.book import Ledger
from endmark.reconcile import settle_as_gone, settle_by_hand

HOST, PORT = "127.0.0.1", 3306
OURS = ("schema_jobs", "endmark_receipts", "endmark_journal")
SEED = (
    "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(40))",
    "INSERT INTO users VALUES (1, 'ann'), (2, 'bob')",
)
WHY_NOT: list[str] = []  # why there is no server, for the summary
_GIVEN = os.environ.get("ENDMARK_TEST_MARIADB")  # read before a test hides it


def connect(database=None, **more):
    where = server()
    assert where is not None
    return pymysql.connect(**{**where, **more}, database=database, charset="utf8mb4", autocommit=True)


@cache
def server():
    """How to reach a server as one who may do everything; None where there is none, and WHY_NOT says why."""
    running = {"host": HOST, "port": PORT, "user": "root", "password": ""}
    if _GIVEN:
        address = parse(_GIVEN)
        running = {"host": address.host, "port": address.port, "user": address.user, "password": address.password}
    if _answers(running):
        return running
    folder = Path(tempfile.gettempdir(), f"endmark-tests-mariadb-{os.getuid()}")
    folder.mkdir(mode=0o755, exist_ok=True)
    with open(folder / "start", "w") as gate:  # of many workers one starts it
        fcntl.flock(gate, fcntl.LOCK_EX)
        in_use = os.open(folder / "in-use", os.O_RDWR | os.O_CREAT, 0o600)  # for as long as this process lives
        fcntl.flock(in_use, fcntl.LOCK_SH)
        private = {"unix_socket": str(folder / "sock"), "user": "root", "password": ""}
        if _answers(private) or (_installed() and _start(folder) and _waits_for(private)):
            return private
    WHY_NOT.append(f"no MariaDB answers at {HOST}:{PORT}, and none could be started")
    return None


def environ():
    """What another process needs to find the same server."""
    return {} if _GIVEN is None else {"ENDMARK_TEST_MARIADB": _GIVEN}


def needed():
    """Skip the test, and have the summary say it, where there is no server."""
    if server() is None:
        pytest.skip(f"not tested: {WHY_NOT[0]}")


def _answers(where):
    try:
        if "unix_socket" in where:  # PyMySQL leaves one that refuses to the collector, which warns
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(where["unix_socket"])
        pymysql.connect(**where, connect_timeout=2).close()
    except (pymysql.err.MySQLError, OSError):
        return False
    return True


def _installed():
    if _program("mariadbd") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for more in (["update"], ["install", "-y", "--no-install-recommends", "mariadb-server"]):
            subprocess.run(["apt-get", *more], env=environ, capture_output=True, timeout=300, check=False)
    return _program("mariadbd") is not None


def _program(name):
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"])
    return shutil.which(name, path=path)


# Ends the server once no process holds the file `in-use` any more, however those ended.
_KEEPER = """
import fcntl, os, subprocess, sys
if os.fork():
    os._exit(0)
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
with open(sys.argv[1], "r+") as in_use:
    fcntl.flock(in_use, fcntl.LOCK_EX)
    server.terminate()
    server.wait()
"""


def _start(folder):
    """A private server that this user may run, or `nobody` in the place of root."""
    data, user = folder / "data", pwd.getpwuid(os.geteuid()).pw_name
    if os.geteuid() == 0:
        user = "nobody"
        shutil.chown(folder, user)
    if not (data / "mysql").exists():
        install = [_program("mariadb-install-db"), "--no-defaults", f"--datadir={data}", f"--user={user}"]
        made = subprocess.run([*install, "--auth-root-authentication-method=normal"], capture_output=True, check=False)
        if made.returncode != 0:
            return False
    command = [_program("mariadbd"), "--no-defaults", f"--datadir={data}", f"--user={user}", "--skip-networking"]
    more = [f"--socket={folder / 'sock'}", f"--pid-file={folder / 'pid'}", f"--log-error={folder / 'log.err'}"]
    quick = ["--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0"]  # nothing here outlives a power cut
    subprocess.run(
        [sys.executable, "-c", _KEEPER, str(folder / "in-use"), *command, *more, *quick],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return True


def _waits_for(where):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if _answers(where):
            return True
        time.sleep(0.1)
    return False


def url_of(database, user=None, password=None):
    where = server()
    entry = f"{user or where['user']}:{password if user else where['password']}"
    if "unix_socket" in where:
        return f"mariadb://{entry}@/{database}?unix_socket={where['unix_socket']}"
    return f"mariadb://{entry}@{where['host']}:{where['port']}/{database}"


@contextmanager
def database(statements=SEED):
    """A database of its own, gone afterwards, with the scratch database that a killed gate may have left."""
    name = f"endmark_test_{uuid4().hex[:12]}"
    with closing(connect()) as conn, conn.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        try:
            cursor.execute(f"USE {name}")
            for statement in statements:
                cursor.execute(statement)
            yield name
        finally:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")
            cursor.execute(f"DROP DATABASE IF EXISTS {PREFIX}{key_of(name)}")


def query(name, sql, *values):
    with closing(connect(name)) as conn, conn.cursor() as cursor:
        cursor.execute(sql, values or None)
        return list(cursor.fetchall())


def dump(name, ours=False):
    """All that SQL can see of a database, line by line; without our own tables unless asked for."""
    lines = []
    for table, kind in query(name, "SHOW FULL TABLES"):
        if table.lower() in OURS and not ours:
            continue
        made = query(name, f"SHOW CREATE TABLE `{table}`")[0]
        lines.append(f"{kind} {made}")
        lines += sorted(f"{table} {row}" for row in query(name, f"SELECT * FROM `{table}`"))
    for what in ("triggers", "routines", "events"):
        schema = {"triggers": "trigger_schema", "routines": "routine_schema", "events": "event_schema"}[what]
        column = {"triggers": "action_statement", "routines": "routine_definition", "events": "event_definition"}[what]
        lines += sorted(
            f"{what} {row}"
            for row in query(name, f"SELECT {column} FROM information_schema.{what} WHERE {schema} = DATABASE()")
        )
    return lines


class MariaWorld(World):
    """A MariaDB database and a ledger."""

    def __init__(self, folder, name):
        super().__init__(folder)
        self.name = name
        self.target: Any = MariadbTarget(url_of(name))
        if not self.ledger.exists():
            self.ledger.parent.mkdir(parents=True, exist_ok=True)
            Ledger.open(self.ledger, create=True).close()

    def dump(self, ours=False):
        return dump(self.name, ours)

    def query(self, sql, *values):
        return query(self.name, sql, *values)

    def receipts(self):
        if not self.query("SHOW TABLES LIKE 'schema_jobs'"):
            return {}
        return {row[0]: row[1:] for row in self.query("SELECT job_id, stmt_count, sha256, status FROM schema_jobs")}

    def journal(self):
        return self.query("SELECT job_id, n, state FROM endmark_journal ORDER BY job_id, n")

    def settle(self, job_id, reason, gone=False):
        with self.book() as ledger:
            entry = ledger.by_job(job_id)
            if gone:
                return settle_as_gone(ledger, entry, self.target, "ann", reason, clock())
            return settle_by_hand(ledger, entry, self.target, 0, "ann", reason, clock())

    def check_books_agree(self):
        """The ledger's applied jobs are exactly the target's receipts, nothing is half done, and the chain holds."""
        report, entries = self.verified(), self.entries()
        assert report.ok, report.problems
        assert [entry.job_id for entry in entries if entry.state in ("applying", "partial")] == []
        applied = {entry.job_id: (entry.stmt_count, entry.sha256) for entry in entries if entry.state == "applied"}
        assert {job: row[:2] for job, row in self.receipts().items()} == applied
        assert {row[2] for row in self.receipts().values()} <= {"applied", "reverted"}

    def run(self, work, *, timeout=10.0, progress=lambda done, total: None, stop=lambda: None):
        """Run one job through the session alone."""
        with self.target.open() as session:
            session.lock(0)
            ran = session.run(work, timeout, progress, stop)
            session.commit()
            return ran


__all__ = ["QUICK", "MariaWorld", "clock", "connect", "database", "dump", "needed", "query", "server", "url_of"]
