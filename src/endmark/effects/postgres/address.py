"""What a URL says: how to connect, and one spelling for one place."""

import re
from collections.abc import Mapping
from urllib.parse import quote

import msgspec
import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from endmark.core.refusal import CannotTry

SCHEMES = ("postgresql", "postgres")

# Nothing waits for ever: not for a server that does not answer, nor for a network that swallows packets. (Seconds, but
# for the last, in milliseconds.)
_PATIENCE = {
    "connect_timeout": "10",
    "keepalives": "1",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",
}
# Ours, whatever the URL says: the statements are UTF-8, and who looks who holds a lock finds us by this name.
_OURS = {"client_encoding": "UTF8", "application_name": "endmark"}
# They name a place by what stands elsewhere, so that two spellings of one place could not be told.
_PORTS = re.compile(r"[0-9,]*")
_NOT_TAKEN = ("service", "servicefile", "replication")


class Address(msgspec.Struct, frozen=True):
    """Connection parameters for libpq, and the identity: host in lower case, port and database always, no user."""

    identity: str
    parameters: dict[str, str]
    user: str


def address(url: str) -> Address:
    """What a `postgresql://` URL means. Raises CannotTry, in words that hold no part of the URL."""
    try:
        given = {key: str(value) for key, value in conninfo_to_dict(url).items() if value not in (None, "")}
    except (psycopg.Error, ValueError, UnicodeError):  # its words may hold the password
        given = {}
    if not given or "\0" in url or not _PORTS.fullmatch(given.get("port", "")):
        raise CannotTry("the target's URL is not one that PostgreSQL knows. Nothing was written.")
    for name in _NOT_TAKEN:
        if name in given:
            raise CannotTry(f"the target's URL has the option {name}, which is not taken here. Nothing was written.")
    defaults = {
        option.keyword.decode(): option.val.decode()
        for option in pq.Conninfo.get_defaults()
        if option.val is not None and option.keyword in (b"host", b"port", b"user", b"dbname")
    }
    user = given.get("user") or defaults.get("user", "")
    port = given.get("port") or defaults.get("port", "5432")
    database = given.get("dbname") or defaults.get("dbname") or user
    host = given.get("host") or given.get("hostaddr") or defaults.get("host", "")
    if not user or not database:
        raise CannotTry("the target's URL names no user or no database. Nothing was written; name both.")
    parameters = {**_PATIENCE, **given, "user": user, "port": port, "dbname": database, **_OURS}
    if host:
        parameters.setdefault("host", host)
    return Address(_identity(host, port, database), parameters, user)


def _identity(host: str, port: str, database: str) -> str:
    hosts = host.split(",")
    ports = port.split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    places = ",".join(f"{_host(one)}:{at or '5432'}" for one, at in zip(hosts, ports, strict=False))
    return f"postgresql://{places}/{quote(database, safe='')}"


def _host(host: str) -> str:
    """A name in lower case, an IPv6 address in brackets, the folder of a socket percent-encoded."""
    if host.startswith(("/", "@")):
        return quote(host, safe="")
    return f"[{host.lower()}]" if ":" in host else host.lower()


def libpq_environ(parameters: Mapping[str, str]) -> dict[str, str]:
    """Connection parameters as the variables that libpq and its programs read. Keepalives have none."""
    variables = {
        option.keyword.decode(): option.envvar.decode()
        for option in pq.Conninfo.get_defaults()
        if option.envvar is not None
    }
    return {variables[name]: str(value) for name, value in parameters.items() if name in variables}
