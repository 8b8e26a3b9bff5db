"""What each route says of itself in `/openapi.json`, with examples."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

_OUTCOME = {
    "version": 1,
    "attempt_id": "att_01jd9y0t5v8k3m6q2r7w4x1z9c",
    "job_id": "billing-2026-11-30",
    "state": "staged",
    "signal": "complete",
    "received_bytes": 3410,
    "expected_bytes": 3410,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "stmt_count": 11,
    "statements_run": None,
    "target": "postgresql://db/app",
    "evidence": ["sealed", "envelope-length", "envelope-sha256", "sentinel"],
    "detail": "Whole and staged: 11 statements waiting for review. Nothing was written.",
    "next": "wait",
    "exit_code": 16,
    "at": "2026-11-30T12:00:00.000000Z",
}
_PROBLEM = {
    "type": "urn:endmark:problem:body-cut",
    "title": "truncated: body-cut",
    "status": 422,
    **_OUTCOME,
    "state": "truncated",
    "signal": "body-cut",
    "received_bytes": 1882,
    "sha256": None,
    "stmt_count": None,
    "evidence": [],
    "detail": "Received 1,882 of 3,410 bytes. Nothing was written. Send the whole payload again under a new job id.",
    "next": "resend-new-job-id",
    "exit_code": 10,
}
_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}
_MAYBE_TEXT, _MAYBE_COUNT = {"type": ["string", "null"]}, {"type": ["integer", "null"], "minimum": 0}
_OUTCOME_SCHEMA = {
    "type": "object",
    "required": list(_OUTCOME),
    "properties": {
        "version": {"const": 1},
        "attempt_id": _MAYBE_TEXT,
        "job_id": _MAYBE_TEXT,
        "state": _TEXT,
        "signal": _TEXT,
        "received_bytes": _MAYBE_COUNT,
        "expected_bytes": _MAYBE_COUNT,
        "sha256": _MAYBE_TEXT,
        "stmt_count": _MAYBE_COUNT,
        "statements_run": _MAYBE_COUNT,
        "target": _MAYBE_TEXT,
        "evidence": {"type": "array", "items": _TEXT},
        "detail": _TEXT,
        "next": {"enum": ["resend-new-job-id", "wait", "ask-person", "none"]},
        "exit_code": _COUNT,
        "at": _TEXT,
    },
}
_PROBLEM_KEYS = (
    "type", "title", "status", "detail", "state", "signal", "received_bytes", "expected_bytes", "next", "exit_code",
    "attempt_id", "job_id",
)  # fmt: skip
_PROBLEM_SCHEMA = {
    "type": "object",
    "required": list(_PROBLEM_KEYS),
    "properties": {**_OUTCOME_SCHEMA["properties"], "type": _TEXT, "title": _TEXT, "status": _COUNT},  # type: ignore[dict-item]
}
_SAYS = {
    400: "the call makes no sense",
    401: "no token that counts",
    403: "the token may not do that",
    404: "there is no such thing, or not for this token",
    405: "another method was expected",
    408: "the body stalled; recorded",
    409: "the id belongs to another body or target, or the job cannot take this; recorded where bytes came",
    413: "over the cap; recorded",
    422: "not proven whole, or wrong; recorded with its byte count",
    429: "too often",
    503: "could not try now; nothing was changed",
}
_ALWAYS = (400, 401, 403, 404, 429, 503)


def _answers(*more: int, success: dict[int, Any]) -> dict[str, Any]:
    found = dict(success)
    for status in sorted({*_ALWAYS, *more}):
        found[status] = {
            "description": _SAYS[status],
            "content": {"application/problem+json": {"schema": _PROBLEM_SCHEMA, "example": _PROBLEM}},
        }
    return {str(status): said for status, said in found.items()}


def _json(description: str, schema: Any, example: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema, "example": example}}}


def _query(name: str, schema: dict[str, Any], description: str, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "schema": schema, "description": description}


def _header(name: str, description: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "in": "header", "schema": schema or _TEXT, "description": description}


def _route(summary: str, answers: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The keywords of a route. FastAPI's own 422 is not ours: every answer stands here."""
    return {
        "summary": summary,
        "response_model": None,
        "response_class": Response,
        "openapi_extra": {"responses": answers, "security": [{}, {"token": []}], **more},
    }


_ONE = _json("the job as it stands", _OUTCOME_SCHEMA, _OUTCOME)
SUBMIT = _route(
    "Deliver a plan, whole or not at all",
    _answers(408, 409, 413, 422, success={
        200: _json("delivered before: the job as it stands, nothing was done", _OUTCOME_SCHEMA, _OUTCOME),
        202: _json("proven and on record, durably; it waits for review or a worker", _OUTCOME_SCHEMA, _OUTCOME),
    }),
    parameters=[
        _query("target", _TEXT, "the name of a target in the service's configuration", required=True),
        _query("seal", {"enum": ["true", "false"]}, "take the witness form too, and seal it here"),
        _header("Endmark-Job-Id", "the job id, as known from outside the body",
                {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"}),
        _header("Content-Digest", "sha-256 or sha-512 of the bytes as sent (RFC 9530)"),
        _header("Repr-Digest", "the same"),
    ],
    requestBody={"required": True, "description": "a plan, its MC1 envelope or that signed (DSSE), byte for byte",
                 "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
)  # fmt: skip
LIST = _route(
    "The attempts on record, newest first",
    _answers(success={200: _json(
        "one page; `cursor` is for the next, null for none",
        {"type": "object", "required": ["version", "jobs", "cursor"], "properties": {
            "version": {"const": 1}, "jobs": {"type": "array", "items": _OUTCOME_SCHEMA}, "cursor": _MAYBE_TEXT}},
        {"version": 1, "jobs": [_OUTCOME], "cursor": None},
    )}),
    parameters=[
        _query("state", _TEXT, "only those in this state"),
        _query("target", _TEXT, "only those for this target, by its name"),
        _query("limit", {"type": "integer", "minimum": 1, "maximum": 500}, "how many at most"),
        _query("cursor", _TEXT, "from the page before"),
    ],
)  # fmt: skip
SHOW = _route(
    "One job, by its own id or an attempt's",
    _answers(success={200: _ONE}),
    parameters=[_query("wait", {"type": "integer", "minimum": 0, "maximum": 30}, "seconds to wait for its next state")],
)
EVENTS = _route(
    "What happens to a job, as server-sent events",
    _answers(success={200: {
        "description": "events of its chain, `progress` while it is applied, `outcome` at the end",
        "content": {"text/event-stream": {"schema": _TEXT}},
    }}),
    parameters=[_header("Last-Event-ID", "the last number seen")],
)  # fmt: skip
APPROVE = _route(
    "Let a staged job through, for a worker to apply",
    _answers(409, 422, success={200: _ONE}),
    parameters=[_query("fingerprint", _TEXT, "the schema that was shown: once it moved, nothing is approved")],
)
DECLINE = _route(
    "End a staged job without effect",
    _answers(409, 422, success={200: _ONE}),
    parameters=[_query("reason", _TEXT, "why, for the record")],
)
REVERT = _route("Stage the job that undoes an applied one", _answers(409, 422, success={202: _ONE}))
TARGETS = _route(
    "The targets that may be named",
    _answers(success={200: _json(
        "by name, without passwords",
        {"type": "object", "required": ["version", "targets"],
         "properties": {"version": {"const": 1}, "targets": {"type": "array", "items": {"type": "object"}}}},
        {"version": 1, "targets": [{"name": "prod", "usable": True, "target": "postgresql://db/app",
                                    "review": "required", "min_evidence": "sealed", "rehearse": False,
                                    "max_statements": None}]},
    )}),
)  # fmt: skip
_STATUS = {"type": "object", "required": ["status"], "properties": {"status": _TEXT}}
HEALTH: dict[str, Any] = {
    "summary": "The process lives",
    "response_model": None,
    "response_class": Response,
    "openapi_extra": {"responses": {"200": _json("it does", _STATUS, {"status": "alive"})}},
}
READY: dict[str, Any] = {
    "summary": "The ledger, its writer, the worker and every target can be used",
    "response_model": None,
    "response_class": Response,
    "openapi_extra": {
        "responses": {
            "200": _json("all of it", _STATUS, {"status": "ready"}),
            "503": _json("not all of it", _STATUS, {"status": "not ready"}),
        }
    },
}
METRICS = _route(
    "Figures for Prometheus, of all targets",
    _answers(success={200: {"description": "text", "content": {"text/plain": {"schema": _TEXT}}}}),
)
SECURITY = {"token": {"type": "http", "scheme": "bearer", "description": "`endmark token create`"}}
