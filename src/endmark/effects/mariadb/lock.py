"""The target's own lock: two names of GET_LOCK, which outlive the commits of DDL.

The *gate's* name keeps other gates out. The *runner's* name is held by the connection that runs a plan's statements:
a killed client's statement can go on in the server, and whoever has both names knows that none does.
"""

import hashlib
import time

from endmark.core.refusal import CannotTry
from endmark.effects.mariadb.connection import Conn, rows

_HOLDERS = "SELECT id, user, host, time FROM information_schema.processlist WHERE id = IS_USED_LOCK(%s)"
_SLICE = 20.0  # seconds of one wait, within the time that an answer may take
RUNNER_WAIT = 2.0  # seconds for the server to notice that a connection is gone, however impatient the caller


def key_of(database: str) -> str:
    """What stands for a database in the names of locks and scratch databases. Both are case-blind, so this is."""
    return hashlib.sha256(database.lower().encode()).hexdigest()[:24]


def gate_name(database: str) -> str:
    return f"endmark:{key_of(database)}:gate"


def runner_name(database: str) -> str:
    return f"endmark:{key_of(database)}:run"


def take_both(conn: Conn, database: str, timeout: float) -> None:
    """Hold the gate's name and know that the runner's is free. Raises CannotTry and pymysql's errors."""
    _take(conn, database, gate_name(database), timeout)
    try:
        runner = runner_name(database)
        _take(conn, database, runner, max(timeout, RUNNER_WAIT))
        rows(conn, "SELECT RELEASE_LOCK(%s)", runner)
    except BaseException:
        release(conn, gate_name(database))
        raise


def _take(conn: Conn, database: str, name: str, timeout: float) -> None:
    end = time.monotonic() + timeout
    while not get(conn, name, min(max(end - time.monotonic(), 0), _SLICE)):
        if time.monotonic() < end:
            continue
        break
    else:
        return
    holder = rows(conn, _HOLDERS, name)
    who = "another connection"
    if holder:
        number, user, host, seconds = holder[0]
        who = f"connection {number} of {user} at {host}, busy for {seconds} s"
    raise CannotTry(f"the target's database {database} is locked by another gate ({who}). Nothing was written.")


def get(conn: Conn, name: str, timeout: float) -> bool:
    """GET_LOCK: whether the name is held now. `timeout` in seconds. Raises pymysql's errors."""
    return bool(rows(conn, "SELECT GET_LOCK(%s, %s)", name, max(timeout, 0.0))[0][0] == 1)


def is_held(conn: Conn, name: str, by: int) -> bool:
    """Whether the connection with this number holds the name. Raises pymysql's errors."""
    return bool(rows(conn, "SELECT IS_USED_LOCK(%s)", name)[0][0] == by)


def release(conn: Conn, name: str) -> None:
    rows(conn, "SELECT RELEASE_LOCK(%s)", name)
