"""Faults of the world around the gate, each a context or a wrapper around the real thing."""

import os
import resource
import sqlite3
import tempfile
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shutil import rmtree

NOBODY = 65534


@contextmanager
def locked(path, how="IMMEDIATE"):
    """Another connection holds the write lock of a database (or, with EXCLUSIVE, keeps readers out as well)."""
    conn = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        conn.execute(f"BEGIN {how}")
        yield conn
    finally:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        conn.close()


@contextmanager
def file_size_limit(size):
    """No file of this process grows past `size` bytes: a write beyond it is an I/O error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def open_folder():
    """A folder that every user may reach, unlike pytest's."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        for path in folder.rglob("*"):
            if path.is_dir():
                path.chmod(0o700)
        rmtree(folder)


def as_user():
    """Root may write what is read-only; nobody may not. For anybody else there is nothing to change."""
    return _as_nobody() if os.geteuid() == 0 else nullcontext()


@contextmanager
def _as_nobody():
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


class Fault:
    """Counts the writes and reads of every wrapped connection; at the n-th it does `what`: fail it, or end us.

    `when`: "before" the statement ran, or "after" it did, so that its answer is lost.
    """

    def __init__(self, at, what="fail", when="before"):
        self.at, self.what, self.when = at, what, when
        self.seen = 0
        self.fired = ""

    def around(self, name, sql, do):
        self.seen += 1
        mine = self.seen == self.at
        if mine:
            self.fired = f"{name}: {sql}"
            if self.when == "before":
                self._strike()
        result = do()
        if mine:
            if isinstance(result, sqlite3.Connection):
                result.close()
            del result  # a cursor kept by the traceback would keep its lock
            self._strike()
        return result

    def _strike(self):
        if self.what == "exit":
            os._exit(99)
        raise _disk_error()


def _disk_error():
    error = sqlite3.OperationalError("disk I/O error (a test's)")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    return error


@contextmanager
def injected(fault, **names):
    """Every `sqlite3.connect` to a path that holds the value of one of `names` is wrapped; `fault` sees its calls."""
    real = sqlite3.connect

    def connect(database, *args, **more):
        name = next((name for name, part in names.items() if part in str(database)), None)
        if name is None:
            return real(database, *args, **more)
        return fault.around(name, "open", lambda: real(database, *args, factory=_wrapped(fault, name), **more))

    sqlite3.connect = connect
    try:
        yield fault
    finally:
        sqlite3.connect = real


class Unflushed(sqlite3.Connection):
    """Waits for no disk: nothing that a test does here outlives a power cut, and all of it outlives a process."""

    def execute(self, sql, *args):
        flushes = sql.startswith("PRAGMA synchronous") and "=" in sql
        return super().execute("PRAGMA synchronous = OFF" if flushes else sql, *args)


@contextmanager
def unflushed():
    real = sqlite3.connect
    sqlite3.connect = lambda *args, factory=Unflushed, **more: real(*args, factory=factory, **more)
    try:
        yield
    finally:
        sqlite3.connect = real


def _wrapped(fault, name):
    class Cursor(sqlite3.Cursor):
        def execute(self, sql, *args):
            return fault.around(name, sql, lambda: super(Cursor, self).execute(sql, *args))

    class Connection(Unflushed):
        def cursor(self, factory=Cursor):
            return super().cursor(factory)

        def execute(self, sql, *args):
            return fault.around(name, sql, lambda: super(Connection, self).execute(sql, *args))

        def backup(self, *args, **more):
            return fault.around(name, "backup", lambda: super(Connection, self).backup(*args, **more))

    return Connection
