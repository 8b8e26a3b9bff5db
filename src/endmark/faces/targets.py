"""From a URL to the target it names, and from what is on record of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from endmark.core.refusal import CannotTry

if TYPE_CHECKING:
    from endmark.effects.target import Target


def target_at(
    url: str,
    *,
    allow_owner: bool = False,
    rehearse_in: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Target:
    """The target that a URL names: `sqlite:///relative.db` or `sqlite:////absolute.db`, as in SQLAlchemy, or
    `postgresql://user@host/database`, or `mariadb://user:password@host/database`.

    `allow_owner`: take a PostgreSQL role that could write receipts by itself. `rehearse_in`: a URL of PostgreSQL where
    clones may be made for rehearsals, by programs that `environ` says the place of. Raises CannotTry for anything else.
    """
    scheme, colon, rest = url.partition("://")
    if colon and scheme in ("postgresql", "postgres"):
        return _postgres(url, allow_owner, rehearse_in, environ or {})
    if colon and scheme in ("mariadb", "mysql"):
        return _mariadb(url)
    if not colon or scheme != "sqlite":
        raise CannotTry(
            f"{_safe(url)} is not a target endmark can write to; sqlite:///FILE, postgresql://... or mariadb://... was "
            "expected."
        )
    if not rest.startswith("/") or rest == "/":
        raise CannotTry(
            "a sqlite URL that names no file was given; sqlite:///FILE (sqlite:////absolute/FILE) was expected."
        )
    from pathlib import Path

    from endmark.effects.sqlite import SqliteTarget

    found = SqliteTarget(Path(rest[1:]))
    if "?" in found.identity:  # it would begin options, of which there are none
        raise CannotTry(f"{found.path} has a question mark in its path, which no URL here can name. Nothing was done.")
    return found


def _postgres(url: str, allow_owner: bool, rehearse_in: str | None, environ: Mapping[str, str]) -> Target:
    try:
        from endmark.effects.postgres import PostgresTarget, Scratch
    except ImportError:
        raise CannotTry(
            "a PostgreSQL target needs psycopg, which is not installed. Nothing was written; "
            "pip install 'endmark[postgres]' brings it."
        ) from None
    scratch = None if rehearse_in is None else Scratch(rehearse_in, environ)
    return PostgresTarget(url, allow_owner, scratch)


def _mariadb(url: str) -> Target:
    try:
        from endmark.effects.mariadb import MariadbTarget
    except ImportError:
        raise CannotTry(
            "a MariaDB target needs PyMySQL, which is not installed. Nothing was written; "
            "pip install 'endmark[mariadb]' brings it."
        ) from None
    return MariadbTarget(url)


def _safe(url: str) -> str:
    """What may be said of a URL: no password can stand before the colon."""
    scheme, colon, _rest = url.partition("://")
    return f"{scheme}{colon}..." if colon and scheme.isalnum() else "what was given"


def target_on_record(identity: str) -> Target:
    """The target of a job on record, by what is recorded alone. Raises CannotTry.

    A user and a password are no part of that, and none is guessed: as another account the same plan, or its downs,
    would do something else.
    """
    if not identity.startswith("sqlite:"):
        raise CannotTry(
            f"the job is for {identity}, and how to get in there was not kept. Nothing was done; name that database in "
            "endmark.toml ([targets.NAME] with its url), or give target_of in Python, and call again."
        )
    return target_at(identity)
