"""Nacks as problem documents (RFC 9457), and the status of each answer (spec/http.md, H8-H11)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from endmark.core.outcome import Outcome
from endmark.core.refusal import Signal
from endmark.core.states import State
from endmark.faces.api import now
from endmark.ledger.entry import stamp

PROBLEM = "application/problem+json"
JSON = "application/json"

# H9: what a recorded nack is answered with, by its signal, else by its state.
_BY_SIGNAL = {
    Signal.ID_REUSED: 409,
    Signal.OVER_CAP: 413,
    Signal.IDLE: 408,
}
_BY_STATE = {
    State.TRUNCATED: 422,
    State.REJECTED: 422,
    State.QUARANTINED: 422,
    State.INCOMPLETE: 422,
}
# H10: an answer about a call and not about bytes, by its word; (status, exit code, next).
NOT_TRIED: dict[str, tuple[int, int, str]] = {
    "usage": (400, 2, "none"),
    "bad-framing": (400, 2, "none"),
    "unauthorized": (401, 2, "ask-person"),
    "forbidden": (403, 2, "ask-person"),
    "not-found": (404, 2, "none"),
    "method-not-allowed": (405, 2, "none"),
    "head-stalled": (408, 20, "wait"),
    "conflict": (409, 2, "none"),
    "unsupported-media": (415, 2, "none"),
    "too-many-requests": (429, 20, "wait"),
    "head-too-large": (431, 2, "none"),
    "our-fault": (500, 70, "ask-person"),
    "could-not-try": (503, 20, "wait"),
    "busy": (503, 20, "wait"),
}


class Problem(Exception):
    """An answer that is no yes (H8). `headers` go out with it; `close` ends the connection after it."""

    def __init__(
        self,
        status: int,
        document: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        *,
        close: bool = False,
    ) -> None:
        super().__init__(str(document.get("detail", "")))
        self.status = status
        self.document = dict(document)
        self.headers = dict(headers or {})
        if close:
            self.headers["connection"] = "close"

    def response(self, instance: str | None = None) -> Response:
        document = self.document if instance is None else {**self.document, "instance": instance}
        return Response(msgspec.json.encode(document), self.status, self.headers, PROBLEM)


def not_tried(word: str, detail: str, *, close: bool = False, headers: Mapping[str, str] | None = None) -> Problem:
    """A call that got to no answer about a job; nothing was recorded."""
    status, exit_code, onward = NOT_TRIED[word]
    document = {
        "type": f"urn:endmark:problem:{word}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "state": "not-tried",
        "signal": word,
        "received_bytes": None,
        "expected_bytes": None,
        "next": onward,
        "exit_code": exit_code,
        "attempt_id": None,
        "job_id": None,
        "at": stamp(now()),
    }
    more = dict(headers or {})
    if status in (429, 503):
        more.setdefault("retry-after", "1")  # H11
    return Problem(status, document, more, close=close)


def nack(outcome: Outcome, *, close: bool = False) -> Problem:
    """Bytes that were refused, and are on record."""
    status = status_of(outcome)
    facts = msgspec.to_builtins(outcome)
    document = {
        "type": f"urn:endmark:problem:{outcome.signal}",
        "title": f"{outcome.state}: {outcome.signal}",
        "status": status,
        **facts,
    }
    return Problem(status, document, close=close)


def status_of(outcome: Outcome) -> int:
    """The status of a refused delivery."""
    return _BY_SIGNAL.get(Signal(outcome.signal)) or _BY_STATE[State(outcome.state)]


def refused(outcome: Outcome) -> bool:
    """Whether the outcome is a nack of its bytes."""
    return outcome.state in _BY_STATE


def answer(outcome: Outcome, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """The object that `--json` prints."""
    return Response(msgspec.json.encode(outcome), status, dict(headers or {}), JSON)


def document(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Any other value as JSON."""
    return Response(msgspec.json.encode(value), status, dict(headers or {}), JSON)
