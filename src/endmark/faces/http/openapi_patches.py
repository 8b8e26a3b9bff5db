"""What each route about patches says of itself in `/openapi.json`, with examples."""

from __future__ import annotations

from endmark.faces.http.openapi import (
    COUNT,
    MAYBE_COUNT,
    MAYBE_TEXT,
    TEXT,
    answers,
    header,
    json_of,
    query,
    route,
)

_REVIEWED = {
    "review_id": "rev_01jd9y0t5v8k3m6q2r7w4x1z9c",
    "reviewer": "tests",
    "purpose": "elsewhere",
    "state": "pass",
    "signal": "complete",
    "received_bytes": 3410,
    "expected_bytes": 3410,
    "blocking": 0,
    "advisory": 0,
    "evidence": ["sealed", "envelope-length", "envelope-sha256", "sentinel"],
    "detail": "",
}
_OUTCOME = {
    "version": 1,
    "decision_id": "dec_01jd9y0t5v8k3m6q2r7w4x1z9c",
    "state": "pass",
    "signal": "complete",
    "diff_sha": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "ref": "refs/heads/main",
    "base": "1f7a7a472abf3dd9643fd615f6da379c4acb3e3a",
    "head": "b58c1ac2bd9b9a5dbe8e6ea2b9a6b3f0a7a2f9d1",
    "policy_version": "gate-2026-07",
    "merged": None,
    "reviews": [_REVIEWED],
    "evidence": ["pass:tests"],
    "detail": "Every reviewer passed it. Nothing was merged yet.",
    "next": "none",
    "exit_code": 0,
    "at": "2026-11-30T12:00:00.000000Z",
}
_PROBLEM = {
    "type": "urn:endmark:problem:body-cut",
    "title": "incomplete: body-cut",
    "status": 422,
    **_OUTCOME,
    "state": "incomplete",
    "signal": "body-cut",
    "reviews": [],
    "evidence": [],
    "detail": "No whole verdict of tests: received 1,882 of 3,410 bytes. Nothing was merged.",
    "next": "resend-new-job-id",
    "exit_code": 10,
    "received_bytes": 1882,
    "expected_bytes": 3410,
    "attempt_id": "rev_01jd9y0t5v8k3m6q2r7w4x1z9c",
    "job_id": None,
}
_STATE = {"enum": ["pending", "pass", "fail", "incomplete", "stale", "merged"]}
_TEXTS = {"type": "array", "items": TEXT}
_REVIEWED_SCHEMA = {
    "type": "object",
    "required": list(_REVIEWED),
    "properties": {
        "review_id": TEXT,
        "reviewer": TEXT,
        "purpose": TEXT,
        "state": {"enum": ["asked", "pass", "fail", "incomplete"]},
        "signal": MAYBE_TEXT,
        "received_bytes": MAYBE_COUNT,
        "expected_bytes": MAYBE_COUNT,
        "blocking": MAYBE_COUNT,
        "advisory": MAYBE_COUNT,
        "evidence": _TEXTS,
        "detail": TEXT,
    },
}
_OUTCOME_SCHEMA = {
    "type": "object",
    "required": list(_OUTCOME),
    "properties": {
        "version": {"const": 1},
        "decision_id": MAYBE_TEXT,
        "state": _STATE,
        "signal": TEXT,
        "diff_sha": MAYBE_TEXT,
        "ref": MAYBE_TEXT,
        "base": MAYBE_TEXT,
        "head": MAYBE_TEXT,
        "policy_version": MAYBE_TEXT,
        "merged": MAYBE_TEXT,
        "reviews": {"type": "array", "items": _REVIEWED_SCHEMA},
        "evidence": _TEXTS,
        "detail": TEXT,
        "next": {"enum": ["resend-new-job-id", "wait", "ask-person", "none"]},
        "exit_code": COUNT,
        "at": TEXT,
    },
}
_DESCRIBED = {
    "version": 1,
    "decision": _OUTCOME,
    "repository": "app",
    "record": {"merge_tree": "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "required": ["tests"], "submitter": "ci"},
    "reviews": [{**_REVIEWED, "decision_id": _OUTCOME["decision_id"], "findings": []}],
    "events": [{"seq": 1, "at": "2026-11-30T12:00:00.000000Z", "event": "opened", "from": None, "to": "pending"}],
}
_DESCRIBED_SCHEMA = {
    "type": "object",
    "required": list(_DESCRIBED),
    "properties": {
        "version": {"const": 1},
        "decision": _OUTCOME_SCHEMA,
        "repository": MAYBE_TEXT,
        "record": {"type": "object"},
        "reviews": {"type": "array", "items": {"type": "object", "required": ["review_id", "state", "findings"]}},
        "events": {"type": "array", "items": {"type": "object", "required": ["seq", "at", "event", "from", "to"]}},
    },
}
_ONE = json_of("the decision as it stands", _OUTCOME_SCHEMA, _OUTCOME)
_PENDING = json_of(
    "it waits for reviews; ask for it with `wait`",
    _OUTCOME_SCHEMA,
    {**_OUTCOME, "state": "pending", "next": "wait", "exit_code": 16, "detail": "It waits for reviews."},
)
_CHANGE = [
    query("repository", TEXT, "the name of a repository in the service's configuration", required=True),
    query("base", TEXT, "what is merged into: a branch, a tag or a full object id", required=True),
    query("head", TEXT, "what is merged: the same", required=True),
    query("ref", TEXT, "the branch that is merged into, where `base` is not its name"),
]
_WAIT = query("wait", {"type": "integer", "minimum": 0, "maximum": 30}, "seconds to wait until it is decided")
DECIDE = route(
    "Decide by a verdict that was made elsewhere",
    answers(408, 409, 413, 422, success={200: _ONE, 202: _PENDING}, example=_PROBLEM),
    parameters=[
        *_CHANGE,
        query("reviewer", TEXT, "whose verdict it is, where the branch asks several"),
        header("Endmark-Job-Id", "the id of this attempt", {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"}),
        header("Content-Digest", "sha-256 or sha-512 of the bytes as sent (RFC 9530)"),
        header("Repr-Digest", "the same"),
    ],
    requestBody={
        "required": True,
        "description": "a verdict in its MC1 envelope, or that signed (DSSE), byte for byte",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    },
)
REVIEW = route(
    "Have the branch's reviewers asked, and decide by their verdicts",
    answers(409, 422, success={200: _ONE, 202: _PENDING}, example=_PROBLEM),
    parameters=[*_CHANGE, _WAIT],
)
LIST = route(
    "The decisions on record, newest first",
    answers(
        success={
            200: json_of(
                "one page; `cursor` is for the next, null for none",
                {
                    "type": "object",
                    "required": ["version", "decisions", "cursor"],
                    "properties": {
                        "version": {"const": 1},
                        "decisions": {"type": "array", "items": _OUTCOME_SCHEMA},
                        "cursor": MAYBE_TEXT,
                    },
                },
                {"version": 1, "decisions": [_OUTCOME], "cursor": None},
            )
        },
        example=_PROBLEM,
    ),
    parameters=[
        query("state", _STATE, "only those in this state"),
        query("repository", TEXT, "only those of this repository, by its name"),
        query("ref", TEXT, "only those for this branch"),
        query("limit", {"type": "integer", "minimum": 1, "maximum": 500}, "how many at most"),
        query("cursor", TEXT, "from the page before"),
    ],
)
SHOW = route(
    "All that is on record of a decision: reviews, findings, evidence, events",
    answers(success={200: json_of("the decision", _DESCRIBED_SCHEMA, _DESCRIBED)}, example=_PROBLEM),
    parameters=[_WAIT],
)
APPROVE = route(
    "Record that a person looked at what the policy leaves to a person",
    answers(409, success={200: _ONE}, example=_PROBLEM),
)
MERGE = route(
    "Merge exactly what a pass binds to, by compare-and-swap",
    answers(409, success={200: json_of("the branch stands at the merge", _OUTCOME_SCHEMA,
                                       {**_OUTCOME, "state": "merged", "merged": _OUTCOME["head"]})}, example=_PROBLEM),
)  # fmt: skip
