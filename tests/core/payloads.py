"""Whole payloads to damage. Built here from the rules and not with endmark, which is what is being tested."""

import hashlib
import json
import re
from itertools import count
from typing import Any

THREE = [
    "CREATE TABLE IF NOT EXISTS schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status TEXT)",
    "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
    "CREATE INDEX customers_name ON customers (name)",
]
UNCOVERED = ("job_id", "after", "retry_of", "base")


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest(statements: list[str]) -> str:
    return sha("\n".join(statements).encode())


def document(statements: list[str] = THREE, /, **changes: Any) -> dict[str, Any]:
    """A whole plan, with keys changed or added; its digests are right unless given."""
    made: dict[str, Any] = {"tool": "apply_schema", "job_id": "job_1", "stmt_count": len(statements)}
    made |= {"sha256": digest(statements), "statements": statements}
    if "down" in changes:
        made |= {"down": changes["down"], "down_sha256": digest(changes["down"])}
    return made | {"trailer": "END_APPLY"} | changes


def witness(statements: list[str] = THREE, /, **more: Any) -> dict[str, Any]:
    """A whole witness form."""
    made = {"job_id": "job_1", "stmt_count": len(statements), **more, "statements": statements}
    return made | {"trailer": "END_APPLY"}


def verdict(**changes: Any) -> dict[str, Any]:
    return {"verdict": "pass", "diff_sha": "d" * 64, "policy_version": "1", "findings": []} | changes


def dump(value: Any, **how: Any) -> bytes:
    return json.dumps(value, **({"ensure_ascii": False} | how)).encode()


def envelope(text: bytes) -> bytes:
    body = text + b"\nEND\n"
    return b"MC1 %d %s\n%s" % (len(body), sha(body).encode(), body)


def statements(size: int, *, seed: int = 0) -> list[str]:
    """About `size` bytes of statements, with what SQL holds: quotes, braces, comments, other scripts, line ends."""
    kinds = (
        "CREATE TABLE t{n} (id INTEGER PRIMARY KEY, \"name\" TEXT NOT NULL DEFAULT '', CHECK (id > 0))",
        "-- step {n}\nINSERT INTO t{n} (id, name) VALUES ({n}, 'naïve ünïcode €{n}')",
        "CREATE INDEX t{n}_name ON t{n} (name) /* }} ] */",
        'INSERT INTO log VALUES (\'{{"step": {n}, "of": [1, 2]}}\\n\')',
        "UPDATE t{n}\r\n   SET name = '😀 \\u0041'\r\n WHERE id = {n};",
    )
    made: list[str] = []
    for n in count(seed):
        made.append(kinds[n % len(kinds)].format(n=n))
        if sum(map(len, made)) >= size:
            return made
    raise AssertionError


def of_size(size: int) -> bytes:
    """An envelope of exactly `size` bytes around a plan."""
    text = dump(document(statements(size - 700)))
    for pad in range(size):
        raw = envelope(text[:-1] + b" " * pad + b"}")
        if len(raw) == size:
            return raw
    raise AssertionError(f"no plan of {size} bytes")


def spans(raw: bytes, keys: tuple[str, ...] = UNCOVERED) -> list[range]:
    """Where the values of some keys stand in a bare plan whose values of these hold no brace and no escape."""
    found = []
    for key in keys:
        value = re.search(rb'"%s"\s*:\s*("[^"]*"|\[[^\]]*\])' % key.encode(), raw)
        if value:
            found.append(range(*value.span(1)))
    return found
