"""What the tests of every wire do: feed bytes in portions, ask at every byte, close what was cut."""

import json
import random
from collections.abc import Callable, Iterable, Iterator

from tests.wires.bodies import Call, Turn

from endmark.core.ending import WHOLE, Ending
from endmark.core.refusal import Refused
from endmark.wires.answer import Answer, Reader

ENDINGS = (Ending.SHORT, Ending.RESET, Ending.CLOSED, Ending.LAST_CHUNK, Ending.LENGTH_MET)

STATEMENTS = [
    "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT UNIQUE)",
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers (id), at TEXT)",
    "CREATE INDEX orders_by_customer ON orders (customer_id)",
    'CREATE VIEW "open" AS SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id',
    "ALTER TABLE orders ADD COLUMN shipped_at TEXT",
    "INSERT INTO customers (name, email) VALUES ('Ada', 'ada@example.org'), ('Žofie', 'zofie@example.org')",
    "INSERT INTO orders (customer_id, at) VALUES (1, '2026-11-30')",
    "UPDATE customers SET name = '{\"a\": [1, 2]}' WHERE id = 1",
    "UPDATE orders\n   SET shipped_at = '€ 😀 \\\\'\n WHERE id = 1",
    "CREATE TABLE log (id INTEGER PRIMARY KEY, said TEXT)",
    "INSERT INTO log (said) VALUES ('END_APPLY')",
]
PLAN = json.dumps(
    {"job_id": "job_7", "stmt_count": 11, "statements": STATEMENTS, "trailer": "END_APPLY"}, ensure_ascii=False
)
VERDICT = json.dumps(
    {
        "verdict": "pass",
        "diff_sha": "d" * 64,
        "policy_version": "2026-11",
        "findings": [{"severity": "advisory", "path": "src/ž.py", "message": 'say "why" here {or there}', "line": 3}],
    },
    ensure_ascii=False,
)
TURNS = {
    "plan": Turn(calls=(Call("apply_schema", PLAN),)),
    "verdict": Turn(text=VERDICT),
}


def bytewise(raw: bytes) -> list[bytes]:
    return [raw[at : at + 1] for at in range(len(raw))]


def portions(raw: bytes, rng: random.Random) -> Iterator[bytes]:
    """`raw` in portions of any length, some empty."""
    longest = rng.choice([1, 3, 20, 300, 5_000])
    at = 0
    while at < len(raw):
        size = rng.randint(0 if longest > 1 else 1, longest)
        yield raw[at : at + size]
        at += size


def fed(reader: Reader, parts: Iterable[bytes]) -> Reader:
    for part in parts:
        reader.feed(part)
    return reader


def outcome(reader: Reader, ending: Ending = Ending.LAST_CHUNK) -> Answer | Refused:
    try:
        return reader.finish(ending)
    except Refused as refused:
        return refused


def answers(make: Callable[[], Reader], raw: bytes) -> dict[int, set[Ending]]:
    """At which offsets, and for which endings, a body that stops there is an answer. One reader is asked at all."""
    reader = make()
    found: dict[int, set[Ending]] = {}
    for at in range(len(raw) + 1):
        for ending in ENDINGS:
            answer = outcome(reader, ending)
            assert answer.received_bytes == at
            if not isinstance(answer, Refused):
                found.setdefault(at, set()).add(ending)
        reader.feed(raw[at : at + 1])
    return found


WHOLE_ENDINGS = set(ENDINGS) & WHOLE


def closed(text: str) -> str:
    """Cut JSON as a repairer closes it: the open string, then every open bracket."""
    opened: list[str] = []
    in_string = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = in_string
        elif character == '"':
            in_string = not in_string
        elif not in_string and character in "{[":
            opened.append("}" if character == "{" else "]")
        elif not in_string and character in "}]":
            opened.pop()
    if in_string:
        text += "\\" * escaped + '"'
    elif text.rstrip()[-1:] in (",", ":"):
        text = text.rstrip()[:-1] if text.rstrip()[-1] == "," else text + "null"
    return text + "".join(reversed(opened))
