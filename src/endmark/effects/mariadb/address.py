"""Where a MariaDB or MySQL database is, as a URL says it."""

from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

from endmark.core.refusal import CannotTry

SCHEMES = ("mariadb", "mysql")
PORT = 3306
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_OPTIONS = frozenset({"unix_socket", "ssl_ca"})
_EXPECTED = "mariadb://USER:PASSWORD@HOST:PORT/DATABASE was expected"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A database on a server, and who enters it. `identity` names the place alone: no user, no password."""

    host: str
    port: int
    database: str
    user: str | None = None
    password: str = ""
    unix_socket: str | None = None
    ssl_ca: str | None = None

    @property
    def identity(self) -> str:
        where = f"{_bracketed(self.host)}:{self.port}" if self.unix_socket is None else ""
        socket = "" if self.unix_socket is None else f"?unix_socket={quote(self.unix_socket)}"
        return f"mariadb://{where}/{quote(self.database, safe='')}{socket}"


def parse(url: str) -> Address:
    """The address in `mariadb://` or `mysql://`. Raises CannotTry, which repeats nothing that may hold a password."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORT
        host = (parts.hostname or "").lower()
        database = unquote(parts.path.removeprefix("/"), errors="strict")
        user = None if parts.username is None else unquote(parts.username, errors="strict")
        password = unquote(parts.password or "", errors="strict")
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), errors="strict")
    except ValueError:
        raise CannotTry(f"the target's URL cannot be read; {_EXPECTED}. Nothing was written.") from None
    names = [name for name, _value in options]
    if parts.scheme not in SCHEMES or parts.fragment or len(set(names)) < len(names):
        raise CannotTry(f"the target's URL cannot be read; {_EXPECTED}. Nothing was written.")
    if unknown := set(names) - _OPTIONS:
        raise CannotTry(
            f"the target's URL has the option {min(unknown)}; only {', '.join(sorted(_OPTIONS))} are known. "
            "Nothing was written."
        )
    if not 1 <= len(database) <= 64 or "/" in database or not database.isprintable() or database != database.strip():
        raise CannotTry(f"the target's URL names no database; {_EXPECTED}. Nothing was written.")
    more = dict(options)
    if not host and "unix_socket" not in more:
        raise CannotTry(f"the target's URL names no server; {_EXPECTED}. Nothing was written.")
    return Address(
        host="127.0.0.1" if host in _LOCAL else host,
        port=port,
        database=database,
        user=user,
        password=password,
        unix_socket=more.get("unix_socket"),
        ssl_ca=more.get("ssl_ca"),
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
