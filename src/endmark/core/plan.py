"""The plan and its witness form: read, digest and seal (spec/plan.md, rules P1-P22 and W1-W6)."""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import msgspec

from endmark.core import mc1, strictjson
from endmark.core.refusal import Refused, Signal
from endmark.core.strictjson import short

TOOL = "apply_schema"
TRAILER = "END_APPLY"
ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
HEX64 = re.compile(r"[0-9a-f]{64}")

REQUIRED = ("tool", "job_id", "stmt_count", "sha256", "statements", "trailer")
OPTIONAL = ("after", "retry_of", "base", "down", "down_sha256")
WITNESS_REQUIRED = ("job_id", "stmt_count", "statements", "trailer")
WITNESS_OPTIONAL = ("after", "retry_of", "base", "down")
# P21: the order in which a sealed plan spells its keys
ORDER = (
    "tool",
    "job_id",
    "after",
    "retry_of",
    "base",
    "stmt_count",
    "sha256",
    "statements",
    "down",
    "down_sha256",
    "trailer",
)

# White space, `;`, `-- ...` and `/* ... */` say nothing. An engine may know more comments than these: it judges too.
# No possessive repeats here: those of a group match too much before Python 3.11.5.
_SPACES = re.compile(r"[ \t\n\v\f\r;]*")
_SPEAKS = re.compile(r"[ \t\n\v\f\r;]*(?:(?:--[^\n]*\n|/\*[^*]*\*/)[ \t\n\v\f\r;]*)?[^ \t\n\v\f\r;/-]")
_ABOVE_BLANKS = "A"  # every character that can open what says nothing sorts below it, and so does the empty string
_BATCH = 512  # statements joined at a time
_PIECE = 1 << 16  # characters encoded at a time


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A proven plan. `down[i]` undoes `statements[i]`; the downs run last to first."""

    job_id: str
    statements: list[str]
    sha256: str
    down: list[str] | None = None
    after: list[str] = []
    retry_of: str | None = None
    base: str | None = None

    @property
    def stmt_count(self) -> int:
        return len(self.statements)


class _Where(msgspec.Struct, frozen=True):
    """What a refusal reports about the bytes a document came from."""

    received: int
    expected: int | None

    def refuse(self, signal: Signal, detail: str | Callable[[], str]) -> NoReturn:
        raise Refused(signal, self.received, self.expected, detail)


def digest(statements: Sequence[str]) -> str:
    """SHA-256 (64 lower-case hex) over the UTF-8 of the statements joined by one newline, none at the end (P17)."""
    return _look(statements)[0].hexdigest()


def read(document: dict[str, Any], received: int, expected: int | None = None) -> Plan:
    """The plan that a strict JSON object spells. Raises `Refused`; checks stand in the order of the decision table."""
    where = _Where(received, expected)
    _check_trailer(document, where)  # P1
    _check_keys(document, REQUIRED, OPTIONAL, where)  # P2 P3
    if document["tool"] != TOOL:  # P4
        where.refuse(Signal.WRONG_VALUE, lambda: f"tool is {short(document['tool'])}, '{TOOL}' was expected")
    if ("down" in document) != ("down_sha256" in document):  # P5
        where.refuse(Signal.MISSING_KEY, "down and down_sha256 come together or not at all")
    declared = _hex64(document, "sha256", where)  # P6
    declared_down = _hex64(document, "down_sha256", where) if "down_sha256" in document else None
    plan, sha, sha_down = _common(document, where)
    _check_digest(sha, declared, "sha256", Signal.STATEMENTS_DIGEST, where)  # P18
    if sha_down is not None and declared_down is not None:
        _check_digest(sha_down, declared_down, "down_sha256", Signal.DOWN_DIGEST, where)  # P19
    return plan


def read_witness(document: dict[str, Any], received: int) -> Plan:
    """The plan whose witness form, written by a model, a strict JSON object spells in its raw key order.

    Raises `Refused`: count before statements, trailer as the last key of all, else the text was cut and closed.
    """
    where = _Where(received, None)
    _check_trailer(document, where)  # W1
    keys = list(document)
    if keys[-1] != "trailer":  # W2: a trailer that is not last proves nothing about what stands after it
        where.refuse(Signal.TRAILER_NOT_LAST, f"the last key is {short(keys[-1])}, 'trailer' must be the last of all")
    if "stmt_count" not in document or keys.index("stmt_count") > _index(keys, "statements"):  # W3
        found = "stands after them" if "stmt_count" in document else "is missing"
        where.refuse(Signal.COUNT_NOT_FIRST, f"stmt_count must stand before statements, it {found}")
    _check_keys(document, WITNESS_REQUIRED, WITNESS_OPTIONAL, where)  # W4
    return _common(document, where)[0]  # W5


def seal(plan: Plan) -> bytes:
    """`plan` as MC1, byte for byte the same each time: compact UTF-8 in the order of `ORDER` (P21, W6)."""
    document: dict[str, Any] = {
        "tool": TOOL,
        "job_id": plan.job_id,
        "after": plan.after or None,
        "retry_of": plan.retry_of,
        "base": plan.base,
        "stmt_count": plan.stmt_count,
        "sha256": plan.sha256,
        "statements": plan.statements,
        "down": plan.down,
        "down_sha256": None if plan.down is None else digest(plan.down),
        "trailer": TRAILER,
    }
    return mc1.seal(strictjson.dumps({key: document[key] for key in ORDER if document[key] is not None}))


def says_nothing(statement: str) -> bool:
    """Whether `statement` holds nothing but white space, semicolons and comments."""
    at = 0
    while (spaces := _SPACES.match(statement, at)) is not None:
        at = spaces.end()
        if statement.startswith("--", at):
            end = statement.find("\n", at)
        elif statement.startswith("/*", at):
            end = statement.find("*/", at + 2)
        else:
            break
        if end < 0:
            return True  # a comment that never ends hides the rest
        at = end + (1 if statement[end] == "\n" else 2)
    return at == len(statement)


def _check_trailer(document: dict[str, Any], where: _Where) -> None:
    found = document.get("trailer")
    if found != TRAILER:
        if "trailer" in document:
            where.refuse(Signal.NO_TRAILER, lambda: f"trailer is {short(found)}, '{TRAILER}' was expected")
        where.refuse(Signal.NO_TRAILER, f"the trailer '{TRAILER}' is missing")


def _check_keys(document: dict[str, Any], required: tuple[str, ...], optional: tuple[str, ...], where: _Where) -> None:
    missing = [key for key in required if key not in document]
    if len(document) + len(missing) > len(required):  # more than what is required
        unknown = document.keys() - {*required, *optional}
        if unknown:  # P2 W4
            where.refuse(Signal.UNKNOWN_KEY, lambda: f"unknown key {short(min(unknown))}")
    if missing:  # P3 W4
        where.refuse(Signal.MISSING_KEY, f"missing {'key' if len(missing) == 1 else 'keys'} {', '.join(missing)}")


def _common(document: dict[str, Any], where: _Where) -> "tuple[Plan, hashlib._Hash, hashlib._Hash | None]":
    """The parts that both forms share, with the digests of the statements and of the downs."""
    job_id = _id(document["job_id"], "job_id", where)  # P7
    statements, sha = _statements(document["statements"], "statements", where)
    count = document["stmt_count"]
    if type(count) is not int:  # P11: true is not 1, 3.0 is not 3
        where.refuse(Signal.WRONG_TYPE, lambda: f"stmt_count is {short(count)}, an integer was expected")
    if count != len(statements):  # P12
        where.refuse(Signal.WRONG_COUNT, lambda: f"stmt_count says {count}, {len(statements)} arrived")
    down, sha_down = None, None
    if "down" in document:  # P13: same rules, same length
        down, sha_down = _statements(document["down"], "down", where)
        if len(down) != len(statements):
            where.refuse(Signal.WRONG_COUNT, lambda: f"{len(down)} downs arrived for {len(statements)} statements")
    retry_of = None
    if "retry_of" in document:  # P14
        retry_of = _id(document["retry_of"], "retry_of", where)
        if retry_of == job_id:
            where.refuse(Signal.BAD_ID, "retry_of names the plan itself; a retry needs a new job id")
    plan = Plan(
        job_id=job_id,
        statements=statements,
        sha256=sha.hexdigest(),
        down=down,
        after=_after(document, job_id, where),
        retry_of=retry_of,
        base=_hex64(document, "base", where) if "base" in document else None,  # P6 P16, layout P22
    )
    return plan, sha, sha_down


def _statements(value: Any, key: str, where: _Where) -> "tuple[list[str], hashlib._Hash]":
    """A non-empty list of strings that each say something, with their digest."""
    if not isinstance(value, list):  # P8
        where.refuse(Signal.WRONG_TYPE, lambda: f"{key} is {short(value)}, a list of strings was expected")
    if not value:  # P8
        where.refuse(Signal.WRONG_VALUE, f"{key} is an empty list")
    try:
        sha, has_nul, may_be_blank = _look(value)  # join() takes strings only
    except TypeError:
        at, item = next((at, item) for at, item in enumerate(value) if not isinstance(item, str))
        where.refuse(Signal.WRONG_TYPE, f"{key}[{at}] is {short(item)}, a string was expected")  # P8
    if may_be_blank:
        for at, item in enumerate(value):
            if not _SPEAKS.match(item) and says_nothing(item):  # P9
                where.refuse(Signal.BLANK_STATEMENT, f"{key}[{at}] says nothing: empty, white space or comment only")
    if has_nul:  # P10
        at = next(at for at, item in enumerate(value) if "\0" in item)
        where.refuse(Signal.WRONG_VALUE, f"{key}[{at}] holds a NUL character")
    return value, sha


def _after(document: dict[str, Any], job_id: str, where: _Where) -> list[str]:
    """P15: job ids, each once, not the plan's own."""
    if "after" not in document:
        return []
    value = document["after"]
    if not isinstance(value, list):
        where.refuse(Signal.WRONG_TYPE, lambda: f"after is {short(value)}, a list of job ids was expected")
    if not value:
        where.refuse(Signal.WRONG_VALUE, "after is an empty list")
    ids = [_id(item, "after", where) for item in value]
    if len(set(ids)) != len(ids) or job_id in ids:
        where.refuse(Signal.BAD_ID, "after names a job twice, or the plan itself")
    return ids


def _id(value: Any, key: str, where: _Where) -> str:
    if not isinstance(value, str) or not ID.fullmatch(value):
        where.refuse(Signal.BAD_ID, lambda: f"{key} is {short(value)}, 1-128 of [A-Za-z0-9._:-] were expected")
    return value


def _hex64(document: dict[str, Any], key: str, where: _Where) -> str:
    value = document[key]
    if not isinstance(value, str) or not HEX64.fullmatch(value):
        where.refuse(Signal.WRONG_VALUE, lambda: f"{key} is {short(value)}, 64 lower-case hex digits were expected")
    return value


def _check_digest(sha: "hashlib._Hash", declared: str, key: str, signal: Signal, where: _Where) -> None:
    found = sha.hexdigest()
    if found == declared:
        return

    def detail() -> str:
        with_newline = sha.copy()
        with_newline.update(b"\n")
        if with_newline.hexdigest() == declared:
            return f"{key} matches only with a newline added at the end; it covers the joined statements without one"
        return f"the SHA-256 of what arrived is {found[:12]}..., {key} declares {declared[:12]}..."

    where.refuse(signal, detail)


def _look(statements: Sequence[str]) -> "tuple[hashlib._Hash, bool, bool]":
    """The digest of P17, whether a NUL is in it, and whether any statement opens as a blank one could.

    Taken batch by batch, while the cache still holds the strings and so that no second copy of a large plan is made;
    each look is one pass in C. Raises TypeError when an entry is not a string.
    """
    sha = hashlib.sha256()
    has_nul = may_be_blank = False
    for first in range(0, len(statements), _BATCH):
        batch = statements[first : first + _BATCH]
        joined = "\n".join(batch)
        has_nul = has_nul or "\0" in joined
        may_be_blank = may_be_blank or min(batch) < _ABOVE_BLANKS
        if first:
            sha.update(b"\n")
        for piece in [joined] if len(joined) <= _PIECE else _cut(joined):
            sha.update(piece.encode())
    return sha, has_nul, may_be_blank


def _cut(text: str) -> Iterator[str]:
    return (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))


def _index(keys: list[str], key: str) -> int:
    return keys.index(key) if key in keys else len(keys)
