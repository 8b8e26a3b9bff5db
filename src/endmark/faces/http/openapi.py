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
TEXT, COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}
MAYBE_TEXT, MAYBE_COUNT = {"type": ["string", "null"]}, {"type": ["integer", "null"], "minimum": 0}
_OUTCOME_SCHEMA = {
    "type": "object",
    "required": list(_OUTCOME),
    "properties": {
        "version": {"const": 1},
        "attempt_id": MAYBE_TEXT,
        "job_id": MAYBE_TEXT,
        "state": TEXT,
        "signal": TEXT,
        "received_bytes": MAYBE_COUNT,
        "expected_bytes": MAYBE_COUNT,
        "sha256": MAYBE_TEXT,
        "stmt_count": MAYBE_COUNT,
        "statements_run": MAYBE_COUNT,
        "target": MAYBE_TEXT,
        "evidence": {"type": "array", "items": TEXT},
        "detail": TEXT,
        "next": {"enum": ["resend-new-job-id", "wait", "ask-person", "none"]},
        "exit_code": COUNT,
        "at": TEXT,
    },
}
_PROBLEM_KEYS = (
    "type", "title", "status", "detail", "state", "signal", "received_bytes", "expected_bytes", "next", "exit_code",
    "attempt_id", "job_id",
)  # fmt: skip
_PROBLEM_SCHEMA = {
    "type": "object",
    "required": list(_PROBLEM_KEYS),
    "properties": {**_OUTCOME_SCHEMA["properties"], "type": TEXT, "title": TEXT, "status": COUNT},  # type: ignore[dict-item]
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


def answers(*more: int, success: dict[int, Any], example: Any = _PROBLEM) -> dict[str, Any]:
    found = dict(success)
    for status in sorted({*_ALWAYS, *more}):
        found[status] = {
            "description": _SAYS[status],
            "content": {"application/problem+json": {"schema": _PROBLEM_SCHEMA, "example": example}},
        }
    return {str(status): said for status, said in found.items()}


def json_of(description: str, schema: Any, example: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema, "example": example}}}


def query(name: str, schema: dict[str, Any], description: str, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "schema": schema, "description": description}


def header(name: str, description: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "in": "header", "schema": schema or TEXT, "description": description}


def route(summary: str, answers: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The keywords of a route. FastAPI's own 422 is not ours: every answer stands here."""
    return {
        "summary": summary,
        "response_model": None,
        "response_class": Response,
        "openapi_extra": {"responses": answers, "security": [{}, {"token": []}], **more},
    }


_ONE = json_of("the job as it stands", _OUTCOME_SCHEMA, _OUTCOME)
SUBMIT = route(
    "Deliver a plan, whole or not at all",
    answers(408, 409, 413, 422, success={
        200: json_of("delivered before: the job as it stands, nothing was done", _OUTCOME_SCHEMA, _OUTCOME),
        202: json_of("proven and on record, durably; it waits for review or a worker", _OUTCOME_SCHEMA, _OUTCOME),
    }),
    parameters=[
        query("target", TEXT, "the name of a target in the service's configuration", required=True),
        query("seal", {"enum": ["true", "false"]}, "take the witness form too, and seal it here"),
        header("Endmark-Job-Id", "the job id, as known from outside the body",
                {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"}),
        header("Content-Digest", "sha-256 or sha-512 of the bytes as sent (RFC 9530)"),
        header("Repr-Digest", "the same"),
    ],
    requestBody={"required": True, "description": "a plan, its MC1 envelope or that signed (DSSE), byte for byte",
                 "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
)  # fmt: skip
LIST = route(
    "The attempts on record, newest first",
    answers(success={200: json_of(
        "one page; `cursor` is for the next, null for none",
        {"type": "object", "required": ["version", "jobs", "cursor"], "properties": {
            "version": {"const": 1}, "jobs": {"type": "array", "items": _OUTCOME_SCHEMA}, "cursor": MAYBE_TEXT}},
        {"version": 1, "jobs": [_OUTCOME], "cursor": None},
    )}),
    parameters=[
        query("state", TEXT, "only those in this state"),
        query("target", TEXT, "only those for this target, by its name"),
        query("limit", {"type": "integer", "minimum": 1, "maximum": 500}, "how many at most"),
        query("cursor", TEXT, "from the page before"),
    ],
)  # fmt: skip
SHOW = route(
    "One job, by its own id or an attempt's",
    answers(success={200: _ONE}),
    parameters=[query("wait", {"type": "integer", "minimum": 0, "maximum": 30}, "seconds to wait for its next state")],
)
EVENTS = route(
    "What happens to a job, as server-sent events",
    answers(success={200: {
        "description": "events of its chain, `progress` while it is applied, `outcome` at the end",
        "content": {"text/event-stream": {"schema": TEXT}},
    }}),
    parameters=[header("Last-Event-ID", "the last number seen")],
)  # fmt: skip
APPROVE = route(
    "Let a staged job through, for a worker to apply",
    answers(409, 422, success={200: _ONE}),
    parameters=[query("fingerprint", TEXT, "the schema that was shown: once it moved, nothing is approved")],
)
DECLINE = route(
    "End a staged job without effect",
    answers(409, 422, success={200: _ONE}),
    parameters=[query("reason", TEXT, "why, for the record")],
)
REVERT = route("Stage the job that undoes an applied one", answers(409, 422, success={202: _ONE}))
TARGETS = route(
    "The targets that may be named",
    answers(success={200: json_of(
        "by name, without passwords",
        {"type": "object", "required": ["version", "targets"],
         "properties": {"version": {"const": 1}, "targets": {"type": "array", "items": {"type": "object"}}}},
        {"version": 1, "targets": [{"name": "prod", "usable": True, "target": "postgresql://db/app",
                                    "review": "required", "min_evidence": "sealed", "rehearse": False,
                                    "max_statements": None}]},
    )}),
)  # fmt: skip
_STATUS = {"type": "object", "required": ["status"], "properties": {"status": TEXT}}
HEALTH: dict[str, Any] = {
    "summary": "The process lives",
    "response_model": None,
    "response_class": Response,
    "openapi_extra": {"responses": {"200": json_of("it does", _STATUS, {"status": "alive"})}},
}
READY: dict[str, Any] = {
    "summary": "The ledger, its writer, the worker and every target can be used",
    "response_model": None,
    "response_class": Response,
    "openapi_extra": {
        "responses": {
            "200": json_of("all of it", _STATUS, {"status": "ready"}),
            "503": json_of("not all of it", _STATUS, {"status": "not ready"}),
        }
    },
}
METRICS = route(
    "Figures for Prometheus, of all targets",
    answers(success={200: {"description": "text", "content": {"text/plain": {"schema": TEXT}}}}),
)
SECURITY = {"token": {"type": "http", "scheme": "bearer", "description": "`endmark token create`"}}
