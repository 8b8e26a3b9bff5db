"""Who may ask the service for what: tokens by the SHA-256 of their secret, which itself is kept nowhere."""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from endmark.core.refusal import CannotTry
from endmark.ledger.book import Ledger
from endmark.ledger.entry import stamp

SCOPES = ("submit", "review", "approve", "admin")
PREFIX = "emk_"  # H12
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_SECRET = re.compile(r"emk_[A-Za-z0-9_-]{43}")
_COLUMNS = ("name", "sha256", "scopes", "targets", "branches", "created_by", "created_at", "expires_at", "revoked_at")
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM tokens "  # noqa: S608  # names of our own


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """One token. `targets` and `branches`: the only ones it is for; None for any. Times are RFC 3339 UTC."""

    name: str
    sha256: str
    scopes: tuple[str, ...]
    targets: tuple[str, ...] | None = None
    branches: tuple[str, ...] | None = None
    created_by: str
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None

    def counts(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or stamp(now) < self.expires_at)


class Tokens:
    """The tokens of a ledger. Every method raises CannotTry when it cannot be used."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def create(
        self,
        name: str,
        scopes: tuple[str, ...],
        now: datetime,
        *,
        created_by: str,
        chance: Callable[[int], bytes],
        targets: tuple[str, ...] | None = None,
        branches: tuple[str, ...] | None = None,
        expires_at: datetime | None = None,
    ) -> tuple[str, Token]:
        """(the secret, which is never to be had again, and what is kept). `chance` gives that many random bytes.

        Raises ValueError for a name, a scope or a limit that cannot be, and CannotTry for a name that was used before:
        records name who did what, so no name (H15) ever means two.
        """
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name for a token: 1-64 of [A-Za-z0-9._@-] were expected")
        if name == "local":
            raise ValueError("local is the name of whoever needs no token")
        if not scopes or not set(scopes) <= set(SCOPES):
            raise ValueError(f"scopes are some of {', '.join(SCOPES)}")
        for limit in (targets, branches):
            if limit is not None and (not limit or not all(limit) or any("\n" in word for word in limit)):
                raise ValueError("a limit names one thing at least, each on one line")
        if expires_at is not None and expires_at <= now:
            raise ValueError("a token that has expired is of no use")
        secret = PREFIX + base64.urlsafe_b64encode(chance(32)).rstrip(b"=").decode()
        token = Token(
            name=name,
            sha256=digest(secret),
            scopes=tuple(word for word in SCOPES if word in scopes),
            targets=targets,
            branches=branches,
            created_by=created_by,
            created_at=stamp(now),
            expires_at=None if expires_at is None else stamp(expires_at),
        )
        values = msgspec.structs.asdict(token) | {
            "scopes": " ".join(token.scopes),
            "targets": None if targets is None else "\n".join(targets),
            "branches": None if branches is None else "\n".join(branches),
        }
        with self._ledger.transaction(token.created_at, True) as store:
            store.alone("tokens")
            if store.ask("SELECT 1 FROM tokens WHERE name = ?", (name,)):
                raise CannotTry(f"there was a token called {name} already. Nothing was done; take another name.")
            store.insert("tokens", _COLUMNS, tuple(values[column] for column in _COLUMNS))
        return secret, token

    def revoke(self, name: str, now: datetime) -> Token:
        """End a token for good. Raises CannotTry where there is none of this name."""
        at = stamp(now)
        with self._ledger.transaction(at, True) as store:
            store.alone("tokens")
            rows = store.ask(f"{_SELECT}WHERE name = ?", (name,))
            if not rows:
                raise CannotTry(f"there is no token called {name}. Nothing was done; 'endmark token list' has them.")
            token = _token(rows[0])
            if token.revoked_at is None:
                store.run("UPDATE tokens SET revoked_at = ? WHERE name = ?", (at, name))
                token = msgspec.structs.replace(token, revoked_at=at)
        return token

    def all(self) -> list[Token]:
        """Every token there ever was, by name."""
        return self._ledger.ask(_token, f"{_SELECT}ORDER BY name")

    def find(self, secret: str) -> Token | None:
        """The token of this secret, revoked and expired ones too."""
        if not _SECRET.fullmatch(secret):
            return None
        wanted = digest(secret)
        found = self._ledger.ask(_token, f"{_SELECT}WHERE sha256 = ?", wanted)
        return found[0] if found and hmac.compare_digest(found[0].sha256, wanted) else None


def digest(secret: str) -> str:
    """What is kept of a secret. 32 random bytes need no slow hash: there is nothing to guess."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _token(row: tuple[Any, ...]) -> Token:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["scopes"] = tuple(values["scopes"].split())
    for limit in ("targets", "branches"):
        values[limit] = None if values[limit] is None else tuple(values[limit].split("\n"))
    return Token(**values)
