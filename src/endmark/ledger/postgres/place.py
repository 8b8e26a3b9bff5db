"""What a ledger's URL says: which database, which schema, and one spelling that holds no user and no password."""

import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec
import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from endmark.core.refusal import CannotTry

SCHEMA = "endmark"

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_NOT_TAKEN = ("service", "servicefile", "replication", "options")
# Ours, whatever the URL says. The last three make a dead network known; in seconds.
_OURS = {
    "client_encoding": "UTF8",
    "application_name": "endmark",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "4",
}


class Place(msgspec.Struct, frozen=True):
    """Connection parameters for libpq, the schema, and what may be shown."""

    parameters: dict[str, str]
    schema: str
    database: str
    """`postgresql://host:port/database`, all three always said."""
    beside: tuple[str, ...] = ()
    """Schemas that are looked into after it."""

    @property
    def shown(self) -> str:
        return self.database if self.schema == SCHEMA else f"{self.database}?schema={self.schema}"


def place_of(url: str, schema: str = SCHEMA) -> Place:
    """What a `postgresql://` URL means; `?schema=NAME` names another schema than `schema`. Raises CannotTry."""
    try:
        rest, schema = _without_schema(url, schema)
        given = {key: str(value) for key, value in conninfo_to_dict(rest).items() if value not in (None, "")}
    except (psycopg.Error, ValueError):  # its words may hold the password
        raise CannotTry(
            "the ledger's URL is not one that PostgreSQL knows; postgresql://USER@HOST/DATABASE was expected. "
            "Nothing was done."
        ) from None
    if not _NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise CannotTry(
            "the ledger's URL names a schema that endmark does not take; 1 to 63 of a-z, 0-9 and _ were expected, not "
            "beginning with a digit or pg_. Nothing was done."
        )
    for name in _NOT_TAKEN:
        if name in given:
            raise CannotTry(f"the ledger's URL has the option {name}, which is not taken here. Nothing was done.")
    defaults = {
        option.keyword.decode(): option.val.decode()
        for option in pq.Conninfo.get_defaults()
        if option.val is not None and option.keyword in (b"host", b"port", b"user", b"dbname")
    }
    known = defaults | given
    if not (user := known.get("user")):
        raise CannotTry("the ledger's URL names no user. Nothing was done; name one.")
    database, port = known.get("dbname", user), known.get("port", "5432")
    host = given.get("host") or given.get("hostaddr") or defaults.get("host", "")
    parameters = {"keepalives": "1", **given, **_OURS, "user": user, "port": port, "dbname": database}
    return Place(parameters, schema, f"postgresql://{_places(host, port)}/{quote(database, safe='')}")


def _without_schema(url: str, schema: str) -> tuple[str, str]:
    parts = urlsplit(url)
    if "schema=" not in parts.query:
        return url, schema
    options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True)
    names = [value for name, value in options if name == "schema"]
    if len(names) != 1:
        raise ValueError("one schema")
    rest = urlencode([(name, value) for name, value in options if name != "schema"], quote_via=quote)
    return parts._replace(query=rest).geturl(), names[0]


def _places(host: str, port: str) -> str:
    hosts, ports = host.split(","), port.split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    return ",".join(f"{_host(one)}:{at or '5432'}" for one, at in zip(hosts, ports, strict=False))


def _host(host: str) -> str:
    """A name in lower case, an IPv6 address in brackets, the folder of a socket percent-encoded."""
    if host.startswith(("/", "@")):
        return quote(host, safe="")
    return f"[{host.lower()}]" if ":" in host else host.lower()
