"""Who is asking, and whether they may (H12-H18)."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache

import msgspec
from starlette.requests import Request

from endmark.faces.http.problems import Problem, not_tried
from endmark.ledger.book import Ledger
from endmark.ledger.tokens import SCOPES, Token, Tokens, digest

LOCAL = "local"
_FRESH = 2.0  # H18: seconds that what the ledger said of a token is believed
_REMEMBERED = 10_000
_ONE_LINE = ("authorization", "endmark-job-id", "host", "last-event-id", "origin", "content-type")  # H48
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")  # what proxies add


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks: a token's name, or `local` where there are no tokens. `targets` and `branches`: None for any."""

    name: str
    scopes: tuple[str, ...]
    targets: tuple[str, ...] | None = None
    branches: tuple[str, ...] | None = None

    secret: str | None = None  # what they showed: asked about again while they wait for news

    def __repr__(self) -> str:
        return f"Identity({self.name!r})"  # no secret is ever printed

    @property
    def caller(self) -> str | None:
        """Whose share of the service it takes; None where callers cannot be told apart."""
        return None if self.name == LOCAL else self.name

    def may(self, scope: str) -> bool:
        """H13."""
        return scope in self.scopes or "admin" in self.scopes

    def reaches(self, target: str | None) -> bool:
        """H14: whether it is for the target of this name; None is a target that no configuration names."""
        return self.targets is None or target in self.targets

    def reaches_branch(self, branch: str, repository: str | None = None) -> bool:
        """H14: whether it is for this branch, by its short or its full name, of the repository with this name.

        A token that names targets and no branch is for none.
        """
        if self.branches is None:
            return self.targets is None
        mine = map(placed, self.branches)
        return any(where in (None, repository) and full_name(word) == full_name(branch) for where, word in mine)


def placed(word: str) -> tuple[str | None, str]:
    """A branch as a token names it: `main`, or `app:main` for one repository. No branch's name holds a colon."""
    where, colon, branch = word.rpartition(":")
    return (where if colon else None), branch


def full_name(branch: str) -> str:
    return branch if branch.startswith("refs/") else f"refs/heads/{branch}"


EVERYTHING = Identity(name=LOCAL, scopes=SCOPES)


class Keyring:
    """What the ledger says of tokens, remembered for a moment. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, Token | None]] = {}
        self._any = (float("-inf"), False)

    def remembered(self, secret: str) -> tuple[bool, Token | None]:
        """(whether it is known lately, what of)."""
        at, token = self._known.get(digest(secret), (float("-inf"), None))
        return self._clock() - at < _FRESH, token

    def look(self, ledger: Ledger, secret: str) -> Token | None:
        """Ask the ledger. Raises CannotTry."""
        token = Tokens(ledger).find(secret)
        if token is not None:  # of what nobody knows nothing is remembered
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[token.sha256] = self._clock(), token
        return token

    def fresh(self) -> bool:
        """Whether it is known lately that there are tokens, or none."""
        return self._any[1] or self._clock() - self._any[0] < _FRESH

    def look_for_any(self, ledger: Ledger) -> bool:
        """Whether there ever was a token: from the first one on nobody is let in without. Raises CannotTry."""
        self._any = self._clock(), bool(ledger.ask(len, "SELECT 1 FROM tokens LIMIT 1"))
        return self._any[1]

    @property
    def any(self) -> bool:
        return self._any[1]


def bearer(headers: Mapping[str, str]) -> str | None:
    """The secret in an Authorization header, or None. Raises Problem for another scheme."""
    said = headers.get("authorization")
    if said is None:
        return None
    scheme, _, secret = said.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise unauthorized("an Authorization header of another kind than Bearer came")
    return secret.strip()


def unauthorized(why: str) -> Problem:
    return not_tried(
        "unauthorized",
        f"No token counts here: {why}. Nothing was done; 'endmark token create' makes one.",
        headers={"www-authenticate": 'Bearer realm="endmark"'},
        close=True,
    )


def forbidden(identity: Identity, why: str, scope: str) -> Problem:
    return not_tried(
        "forbidden",
        f"The token {identity.name} may not do that: {why}. Nothing was done.",
        headers={"www-authenticate": f'Bearer realm="endmark", error="insufficient_scope", scope="{scope}"'},
        close=True,
    )


def check_call(request: Request) -> None:
    """H48: what means one thing is said once, and no name holds a NUL. Raises Problem."""
    for name in _ONE_LINE:
        if len(request.headers.getlist(name)) > 1:
            said = f"The header field {name.title()} came more than once; one was expected. Nothing was done."
            raise not_tried("usage", said, close=True)
    if "\0" in request.scope["path"]:
        raise not_tried("not-found", "No name here holds a NUL byte. Nothing was done.", close=True)
    asked = request.query_params.multi_items()
    if any("\0" in word for pair in asked for word in pair):
        raise not_tried("usage", "A parameter holds a NUL byte. Nothing was done.", close=True)
    twice = next((name for name, number in Counter(name for name, _ in asked).items() if number > 1), None)
    if twice is not None:
        said = f"The parameter {twice[:64]!a} came more than once; one was expected. Nothing was done."
        raise not_tried("usage", said, close=True)


def check_local(request: Request) -> None:
    """H17: without tokens only this machine is served, and no web page that a browser on it shows. Raises Problem."""
    host = request.headers.get("host", "").rpartition("@")[2]
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if not is_loopback(name):  # a name that leads here by a trick of DNS
        raise not_tried("forbidden", "Without tokens only localhost is served. Nothing was done.", close=True)
    if any(name in request.headers for name in _FORWARDED):
        said = "A proxy passed this on for somebody else, and without tokens only this machine is served."
        raise not_tried("forbidden", f"{said} Nothing was done; 'endmark token create' makes a token.", close=True)
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "none")
    if (origin is not None and origin != f"http://{host}") or site not in ("none", "same-origin"):
        raise not_tried("forbidden", "A page from elsewhere asked. Nothing was done.", close=True)


@lru_cache(1024)
def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches that host."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
