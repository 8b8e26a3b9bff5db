"""One connection to the book's database, on which nothing waits for ever, and what its errors mean."""

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg import waiting
from psycopg.abc import PQGen

from endmark.core.refusal import CannotTry
from endmark.ledger.postgres.place import Place

_T = TypeVar("_T")

_IDLE = 60.0  # seconds: a merge in git happens within a transaction

_SETTINGS = (
    "SELECT set_config('search_path', %s, false), set_config('lock_timeout', %s, false), "
    "set_config('statement_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false), "
    "set_config('default_transaction_isolation', 'read committed', false), "
    "set_config('default_transaction_read_only', 'off', false), "
    # A durable commit is flushed, whatever a role's default says; what waits for a standby goes on waiting for it.
    "set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') = 'off' THEN 'on' "
    "ELSE current_setting('synchronous_commit') END, false), current_setting('server_encoding')"
)


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives an answer up after `patience` seconds: a server may hang without closing anything."""

    patience: float = 60.0

    def wait(self, gen: PQGen[_T], *how: Any, **more: Any) -> _T:
        return super().wait(_bounded(gen, self.patience), *how, **more)


def _bounded(gen: PQGen[_T], patience: float) -> PQGen[_T]:
    """The same steps, until nothing was ready for `patience` seconds."""
    ended: float | None = None
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready == waiting.Ready.NONE:  # nothing yet: asked again every tenth of a second
                now = time.monotonic()
                ended = ended or now + patience
                if now > ended:
                    raise psycopg.OperationalError(f"the server has not answered for {patience:g} s")
            else:
                ended = None
            wanted = gen.send(ready)
    except StopIteration as done:
        result: _T = done.value
        return result
    finally:
        if isinstance(gen, Generator):
            gen.close()


def connect(place: Place, timeout: float, *, statement_timeout: float | None = None) -> Connection:
    """A new connection: no transaction of its own, its path and its limits set. Raises psycopg.Error or CannotTry.

    `timeout`, in seconds, is how long a lock or (half as long again, unless `statement_timeout` says otherwise) a
    statement may last.
    """
    patience = max(timeout, 1.0)
    connection = Connection.connect(
        **place.parameters,  # type: ignore[arg-type]  # all of them are strings
        autocommit=True,
        connect_timeout=max(2, round(timeout)),
        tcp_user_timeout=round(patience * 2000),
    )
    try:
        connection.patience = patience * 2 if statement_timeout is None else statement_timeout
        locks, statements = f"{timeout * 1000:.0f}ms", f"{(statement_timeout or patience * 1.5) * 1000:.0f}ms"
        path = ", ".join((place.schema, *place.beside))
        values = (path, locks, statements, f"{max(patience * 2, _IDLE) * 1000:.0f}ms")
        row = connection.execute(_SETTINGS, values).fetchone()
        if row is None or row[-1] != "UTF8":
            found = None if row is None else row[-1]
            raise cannot(place, f"its database holds {found}", "one that holds UTF8", "give it such a database")
    except BaseException:
        connection.close()
        raise
    return connection


def lost(error: psycopg.Error, connection: psycopg.Connection[Any] | None) -> bool:
    """Whether the connection is gone, so that the server may have done more than it could say."""
    if connection is None or connection.closed or connection.broken:
        return True
    if isinstance(error, psycopg.errors.PipelineAborted):  # something before it failed, and is said elsewhere
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(("08", "57P"))


def explained(error: psycopg.Error, place: Place, timeout: float) -> CannotTry:
    """What PostgreSQL found, in words, with what to do about it."""
    state = error.sqlstate or ""
    said = " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())
    if state in ("55P03", "57014", "40P01", "25P03"):
        found, do = f"it stayed locked by another process for {timeout:g} s", "try again when that process is done"
    elif state in _ADVICE:
        found, do = _ADVICE[state]
    elif state[:2] in ("28", "3D"):
        found, do = f"PostgreSQL says: {said}", "correct the URL or let an administrator let this role in"
    elif not state and not isinstance(error, psycopg.OperationalError):  # psycopg would not even send it
        found, do = f"a value cannot be kept ({said})", "correct what was asked"
    elif not state or state.startswith(("08", "57P")):
        found, do = f"it cannot be reached ({said})", "try again when its server answers"
    elif state[:2] in ("22", "23"):
        found, do = f"PostgreSQL says: {said}", "correct what was asked"
    else:
        found, do = f"PostgreSQL says: {said}", "run `endmark ledger verify`"
    return cannot(place, found, "a ledger that can be read and written", do)


_ADVICE = {
    "25006": ("it is read-only", "give the URL of the server that takes writes"),
    "42501": (
        "this role may not do that",
        "let an administrator run what `endmark ledger init --print --role ROLE` prints",
    ),
    # No book asks for a function or a type that is not there: who keeps a queue beside it does.
    "42883": ("its database has no queue, or one of another version", "run `endmark queue init`"),
    "42704": ("its database has no queue", "run `endmark queue init`"),
    "3F000": ("its database has no queue", "run `endmark queue init`"),
    "53100": ("its disk is full", "free some space, then try again"),
    "53300": ("its server takes no more connections", "try again later, or let it take more"),
}


def cannot(place: Place, found: str, expected: str, do: str) -> CannotTry:
    return CannotTry(f"ledger {place.shown}: {found}; expected {expected}; nothing was changed; {do}")


def unknown(place: Place) -> CannotTry:
    """A commit was asked for, and no answer came."""
    return CannotTry(
        f"ledger {place.shown}: the connection was lost during a commit, and its server cannot be asked whether it was "
        "made; expected an answer; either all of this act was recorded or nothing of it; the same again, once the "
        "server answers, finds which"
    )
