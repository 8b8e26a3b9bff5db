"""The service's log: one line an event on standard error. No header, no body, no query and no token is ever in it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any, Literal, TextIO

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from endmark.core.outcome import Outcome
from endmark.core.printable import safe

HEADER = b"x-request-id"
_OURS = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_REQUEST: ContextVar[str | None] = ContextVar("endmark_request", default=None)


def logger(form: Literal["json", "text"] = "json", stream: TextIO | None = None) -> Any:
    """`log(event, **facts)`: JSON objects, or `key=value` words that cannot drive a terminal. None: standard error."""
    renderer: Any = structlog.processors.JSONRenderer()
    if form == "text":
        renderer = structlog.processors.LogfmtRenderer(key_order=["at", "event"], bool_as_flag=False)
    made = structlog.wrap_logger(
        structlog.PrintLogger(stream or sys.stderr),
        processors=[
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.EventRenamer("event"),
            _of_request,
            *([_printable] if form == "text" else []),
            renderer,
        ],
    )
    return made.msg


def told(outcome: Outcome) -> dict[str, Any]:
    """What a line says of a job; never its `detail`, which may quote what arrived."""
    return {
        "state": outcome.state,
        "signal": outcome.signal,
        "received_bytes": outcome.received_bytes,
        "expected_bytes": outcome.expected_bytes,
        "attempt_id": outcome.attempt_id,
        "job_id": outcome.job_id,
    }


class RequestIds:
    """H37: every request has an id, its own or the one it came with (`X-Request-Id`), in its answer and its lines."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == HEADER), b"")
        name = given if _OURS.fullmatch(given) else os.urandom(8).hex().encode()

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (HEADER, name)]
            await send(message)

        token = _REQUEST.set(name.decode())
        try:
            await self._app(scope, receive, answer)
        finally:
            _REQUEST.reset(token)


def _of_request(_logger: Any, _method: str, facts: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    name = _REQUEST.get()
    if name is not None:
        facts["request_id"] = name
    return facts


def _printable(_logger: Any, _method: str, facts: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {key: safe(value) if isinstance(value, str) else value for key, value in facts.items()}
