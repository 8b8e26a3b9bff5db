"""The busiest route without the framework's way to it, which costs more than what the route does.

FastAPI matches routes, resolves dependencies and opens three exit stacks for each request; no route here has a
dependency. The route stays registered, for OpenAPI and for every other case, and answers the same there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any

from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

ROUTE = "endmark.route"  # in the scope: the route as written in the code, for who traces
_SHORT = 256  # bytes of a query
Handler = Callable[[Request], Awaitable[Response]]
Answering = Callable[[Request, Any], Awaitable[Response]]


class Fields(Headers):
    """Header fields that are found by their name; the framework's are searched from the first at every question."""

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        super().__init__(raw=raw)
        self._lines: dict[str, list[str]] = {}
        for name, value in raw:
            self._lines.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))

    def __getitem__(self, key: str) -> str:
        return self._lines[key.lower()][0]

    def get(self, key: str, default: Any = None) -> Any:
        found = self._lines.get(key.lower())
        return default if found is None else found[0]

    def getlist(self, key: str) -> list[str]:
        return self._lines.get(key.lower(), [])

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key.lower() in self._lines


class Asked(Request):
    """A request whose head is taken apart once. What many send alike, `?target=NAME`, is not parsed each time."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self._fields = Fields(scope["headers"])
        query = scope["query_string"]
        self._asked = _remembered(query) if len(query) <= _SHORT else QueryParams(query)

    @property
    def headers(self) -> Headers:
        return self._fields

    @property
    def query_params(self) -> QueryParams:
        return self._asked


@lru_cache(256)
def _remembered(query: bytes) -> QueryParams:
    return QueryParams(query)


class Direct:
    """Middleware, the innermost of ours. `handlers`: by method and path; `faults`: what answers what they raise."""

    def __init__(
        self, app: ASGIApp, handlers: Mapping[tuple[str, str], Handler], faults: Mapping[type[Exception], Answering]
    ) -> None:
        self._app = app
        self._handlers = handlers
        self._faults = faults
        self._known = tuple(faults)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self._handlers.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if handler is None or scope.get("root_path"):
            await self._app(scope, receive, send)
            return
        scope[ROUTE] = scope["path"]
        request = Asked(scope, receive, send)
        try:
            response = await handler(request)
        except self._known as fault:
            answering = next(self._faults[kind] for kind in type(fault).__mro__ if kind in self._faults)
            response = await answering(request, fault)
        await response(scope, receive, send)
