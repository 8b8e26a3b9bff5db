"""Connections to a server: how they are opened, what is set on them, and every fault as one sentence."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import pymysql
import pymysql.cursors

from endmark.core.refusal import CannotTry, Signal
from endmark.effects.mariadb import engine
from endmark.effects.mariadb.address import Address

if TYPE_CHECKING:
    Conn: TypeAlias = pymysql.connections.Connection[pymysql.cursors.Cursor]
else:
    Conn = pymysql.connections.Connection

CONNECT_TIMEOUT = 10  # seconds until a server that does not answer is given up
READ_TIMEOUT = 60  # seconds that a look-up of ours may take
GRACE = 30  # seconds beyond a statement's own timeout until its connection is given up
_IDLE = 7 * 24 * 3600  # seconds that a connection may be quiet while another one works
# Known here so that statements are read by the rules they run by: no ANSI_QUOTES, no NO_BACKSLASH_ESCAPES; and strict,
# so that no value is cut to fit.
SQL_MODE = "STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

ACCESS = frozenset({1044, 1045, 1698, 1142, 1143, 1227, 1370})
LOST = frozenset({2002, 2003, 2006, 2013, 2055, 1053, 1927, 1158, 1159, 1160, 1161, 0})
TROUBLE = LOST | frozenset({1021, 1030, 1041, 1114, 1205, 1213, 1290, 1836, 1033, 1034, 1037, 1038, 1040, 1203, 1226})
_LATE = frozenset({1969, 3024})
_UNKNOWN_DATABASE = 1049
_SETTINGS = (
    "SET SESSION sql_mode = %s, SESSION wait_timeout = %s, SESSION foreign_key_checks = 1, SESSION unique_checks = 1, "
    "SESSION completion_type = 0, SESSION default_storage_engine = InnoDB, SESSION sql_quote_show_create = 1"
)
_LOCAL = frozenset({"127.0.0.1"})


class Server(msgspec.Struct, frozen=True):
    """What a server is. `place` tells this one from another that may come to stand at the same address."""

    version: str
    is_mariadb: bool
    place: tuple[str, ...]
    packet_max: int  # bytes
    database: str  # the one we are in, as the server spells it


def connect(address: Address, *, read_timeout: float, database: str | None = None) -> Conn:
    """A connection in autocommit, with what we rely on set. Seconds. Raises pymysql's errors."""
    conn: Conn = pymysql.connect(
        host=address.host,
        port=address.port,
        user=address.user,
        password=address.password,
        database=database or address.database,
        unix_socket=address.unix_socket,
        ssl={"ca": address.ssl_ca, "check_hostname": True} if address.ssl_ca else None,
        # Within one machine there is nobody to hide from, and a context for TLS costs more than the connection.
        ssl_disabled=address.ssl_ca is None and (address.unix_socket is not None or address.host in _LOCAL),
        charset="utf8mb4",
        autocommit=True,
        local_infile=False,
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=max(int(min(read_timeout, 1_000_000)), 1),
        write_timeout=READ_TIMEOUT,
        program_name="endmark",
    )
    try:
        rows(conn, _SETTINGS, SQL_MODE, _IDLE)
    except BaseException:
        close(conn)
        raise
    return conn


def limit_waits(conn: Conn, seconds: float) -> None:
    """How long statements of this connection wait for locks of others, rows' and tables'. Raises pymysql's errors."""
    whole = max(int(min(seconds, 1_000_000)), 1)
    rows(conn, "SET SESSION lock_wait_timeout = %s, SESSION innodb_lock_wait_timeout = %s", whole, whole)


def limit_time(conn: Conn, server: Server, seconds: float) -> None:
    """The server's own limit for a statement; MySQL has one for SELECT only. Raises pymysql's errors."""
    if server.is_mariadb:
        rows(conn, "SET SESSION max_statement_time = %s", max(seconds, 0.001) if seconds < 1_000_000 else 0)
    else:
        rows(conn, "SET SESSION max_execution_time = %s", max(int(seconds * 1000), 1))


def rows(conn: Conn, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """Every row of a query of ours. Raises pymysql's errors."""
    with conn.cursor() as cursor:
        cursor.execute(sql, values or None)
        return list(cursor.fetchall())


def close(conn: Conn | None) -> None:
    """Close a connection. Raises nothing."""
    if conn is not None:
        with contextlib.suppress(Exception):
            conn.close()


def look(conn: Conn) -> Server:
    """What the server is. Raises CannotTry for one that this gate cannot be safe with, and pymysql's errors."""
    version, comment, host, port, folder, packet, database = rows(
        conn,
        "SELECT VERSION(), @@version_comment, @@hostname, @@port, @@datadir, @@max_allowed_packet, DATABASE()",
    )[0]
    is_mariadb = engine.is_mariadb(str(version), str(comment))
    more = dict(rows(conn, "SHOW GLOBAL VARIABLES WHERE variable_name IN ('wsrep_on', 'server_uuid', 'server_uid')"))
    if more.pop("wsrep_on", "OFF") != "OFF":
        raise CannotTry("the target is a node of a Galera cluster, whose nodes share no locks. Nothing was written.")
    place = (str(host), str(port), str(folder), *(str(more[name]) for name in sorted(more)))
    return Server(version, is_mariadb, place, int(packet), str(database))


def code_of(fault: BaseException) -> int:
    """The number of an error; 0, as for a lost connection, where there is none."""
    number = fault.args[0] if fault.args else 0
    return number if isinstance(number, int) else 0


def is_lost(fault: BaseException) -> bool:
    """Whether nothing more can be asked of this connection, and what its last statement did is not known."""
    return isinstance(fault, pymysql.err.InterfaceError) or code_of(fault) in LOST


def words(fault: BaseException) -> str:
    """The server's own words."""
    said = str(fault.args[1]) if len(fault.args) > 1 else str(fault)
    return said.split("\n")[0].rstrip(".") or "the connection was lost"


def signal_of(fault: BaseException) -> Signal:
    code = code_of(fault)
    if code in _LATE:
        return Signal.STATEMENT_TIMEOUT
    return Signal.TARGET_FAULT if code in TROUBLE or is_lost(fault) else Signal.SQL_ERROR


@contextlib.contextmanager
def told(identity: str) -> Iterator[None]:
    """Every fault of the server or of the way to it as one sentence."""
    try:
        yield
    except pymysql.err.MySQLError as fault:
        code = code_of(fault)
        if code == _UNKNOWN_DATABASE:
            what = "does not exist"
        elif code in ACCESS:
            what = "does not let this account in, or not far enough"
        elif code in LOST:
            what = "cannot be reached"
        else:
            what = "cannot be used"
        raise CannotTry(f"the target {identity} {what} ({words(fault)}). Nothing was written.") from None
    except (OSError, UnicodeError, RuntimeError) as fault:
        raise CannotTry(f"the target {identity} cannot be reached ({fault}). Nothing was written.") from None
