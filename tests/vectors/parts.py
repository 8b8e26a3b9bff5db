"""The parts vectors are made of. Shares no code with endmark, so no bug either."""

import hashlib
import json

CASES: dict[str, bytes] = {}


def case(path, expect, raw, comment, rule, **more):
    """Remember one vector; `more` are further header lines, with `as_` for `as`."""
    if isinstance(raw, str):
        raw = raw.encode()
    lines = {"expect": expect, "comment": comment, "rule": rule, "received": len(raw)}
    lines |= {key.rstrip("_"): value for key, value in more.items()}
    header = "".join(f"{key}: {value}\n" for key, value in lines.items() if value is not None)
    assert path not in CASES, path
    CASES[path] = header.encode() + b"\n" + raw


def sha(data):
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def digest(statements):
    return sha("\n".join(statements))


def dump(value):
    return json.dumps(value, ensure_ascii=False)


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def envelope(text, *, length=None, hexes=None, sentinel=b"\nEND\n"):
    """`text` in an envelope; length and digest are right unless given."""
    body = (text.encode() if isinstance(text, str) else text) + sentinel
    return b"MC1 %s %s\n" % (str(length or len(body)).encode(), (hexes or sha(body)).encode()) + body


def expected(raw):
    """What the header of `raw` lets one expect."""
    line = raw.split(b"\n", 1)[0]
    return len(line) + 1 + int(line.split(b" ")[1])


THREE = [
    "CREATE TABLE IF NOT EXISTS schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status TEXT)",
    "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
    "CREATE INDEX customers_name ON customers (name)",
]
TWO = ["CREATE TABLE t (id INTEGER)", "INSERT INTO t VALUES (1)"]
DOWN = ["DROP TABLE t", "DELETE FROM t"]
SEALED_ORDER = ["tool", "job_id", "after", "retry_of", "base", "stmt_count", "sha256", "statements"]
SEALED_ORDER += ["down", "down_sha256", "trailer"]
ABSENT = object()


def plan(statements=TWO, /, **changes):
    """A whole plan with some keys changed, added or, where ABSENT, left out. The digests are right unless given."""
    made = {"tool": "apply_schema", "job_id": "job_1", "stmt_count": len(statements), "sha256": ABSENT}
    made |= {"statements": statements, "trailer": "END_APPLY"} | changes
    if made["sha256"] is ABSENT and "sha256" not in changes:
        made["sha256"] = digest(statements)
    if "down" in made and "down_sha256" not in changes:
        made["down_sha256"] = digest(made["down"])
    return {key: value for key, value in made.items() if value is not ABSENT}


def witness(*order, **changes):
    """A whole witness form, its keys in `order`, with some changed, added or left out; `trailer` stays last."""
    made = {"job_id": "job_1", "stmt_count": 2, "statements": TWO, "trailer": "END_APPLY"} | changes
    keys = order or (*(key for key in made if key != "trailer"), "trailer")
    return dump({key: made[key] for key in keys if made[key] is not ABSENT})


def verdict(**changes):
    made = {"verdict": "pass", "diff_sha": "d" * 64, "policy_version": "2026-11", "findings": []} | changes
    return {key: value for key, value in made.items() if value is not ABSENT}
