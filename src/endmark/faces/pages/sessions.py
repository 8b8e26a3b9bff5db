"""Who is signed in: sessions in memory, gone when the service ends.

A session holds the token itself, so that every request of it is judged as if it carried the token: a revoked one ends
the session by itself.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from endmark.faces.http.access import LOCAL, Identity
from endmark.faces.http.problems import Problem, not_tried
from endmark.faces.http.service import Service

COOKIE = "endmark_session"
LASTS = 8 * 3600.0  # seconds from the sign-in on
_MOST = 10_000  # sessions; the one that was quiet for longest ends


class Session(msgspec.Struct, kw_only=True):
    """One browser's. `secret` is None where there are no tokens at all; `ends` is monotonic, in seconds."""

    id: str
    csrf: str
    secret: str | None
    ends: float


class Sessions:
    """All of one service. It belongs to the loop's thread; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[str, Session] = OrderedDict()

    def begin(self, secret: str | None) -> Session:
        """A new one."""
        made = Session(
            id=secrets.token_urlsafe(32), csrf=secrets.token_urlsafe(32), secret=secret, ends=self._clock() + LASTS
        )
        self._kept[made.id] = made
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        return made

    def of(self, request: Request) -> Session | None:
        """The one that a request's cookie names, or None."""
        found = self._kept.get(request.cookies.get(COOKIE, ""))
        if found is None:
            return None
        if self._clock() >= found.ends:
            del self._kept[found.id]
            return None
        self._kept.move_to_end(found.id)
        return found

    def end(self, session: Session) -> None:
        """Sign out."""
        self._kept.pop(session.id, None)


class Visit(msgspec.Struct, frozen=True):
    """A request whose sender is known. `request` carries the session's token, as a caller of the API would send it."""

    request: Request
    identity: Identity
    session: Session | None
    is_new: bool

    @property
    def csrf(self) -> str:
        return "" if self.session is None else self.session.csrf

    def may(self, *scopes: str) -> bool:
        """Whether a form is worth showing; the act itself is judged anew."""
        return self.session is not None and any(map(self.identity.may, scopes))


async def visit(service: Service, sessions: Sessions, request: Request) -> Visit:
    """Who is looking. Raises Problem, as the API does."""
    session = sessions.of(request)
    if session is not None and session.secret is not None and "authorization" not in request.headers:
        request = with_token(request, session.secret)
    identity = await service.allow(request)
    is_new = session is None and identity.name == LOCAL
    return Visit(request, identity, sessions.begin(None) if is_new else session, is_new)


def with_token(request: Request, secret: str) -> Request:
    """The same request, as if it had carried the token. Raises Problem for what cannot be one."""
    if not secret.isascii() or not secret.isprintable():
        raise not_tried("unauthorized", "That is no token. Nothing was done; 'endmark token create' makes one.")
    headers = [*request.scope["headers"], (b"authorization", f"Bearer {secret}".encode())]
    return Request({**request.scope, "headers": headers}, request.receive)


def keep(response: Response, request: Request, session: Session) -> None:
    """Have the browser keep the session: no script sees it, no other site sends it, nobody sends it in the clear where
    the browser came over TLS."""
    response.set_cookie(
        COOKIE,
        session.id,
        max_age=int(LASTS),
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.headers.get("origin", "").startswith("https:"),
    )


def check_origin(request: Request) -> None:
    """A form comes from a page of ours. Raises Problem."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        ours = site == "same-origin"
    else:
        ours = origin is None or origin.partition("://")[2] == request.headers.get("host")
    if not ours:
        raise forged("The form came from a page that is not this service's.")


def check_form(visit: Visit, sent: str) -> None:
    """The form was shown in this very session. Raises Problem."""
    check_origin(visit.request)
    if not visit.csrf or not hmac.compare_digest(sent.encode(), visit.csrf.encode()):
        raise forged("The form did not carry the token of this session.")


def forged(why: str) -> Problem:
    return not_tried("forbidden", f"{why} Nothing was done; load the page again and repeat it there.", close=True)
