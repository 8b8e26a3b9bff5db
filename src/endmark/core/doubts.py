"""Why a recorded verdict proves nothing, or contradicts: the reasons, and which one record has (docs/reaudit.md).

A record is never made better here. What has no reason against it has at least said what a proof would have had; that
is all that an old log can show.
"""

import re
from typing import Any

import msgspec

from endmark.core.oldlog import Fields


class Reason(msgspec.Struct, frozen=True):
    """One reason: its word in every list, what it means, and what a person does about it."""

    word: str
    means: str
    do: str
    contradicts: bool = False


REASONS = (
    Reason("repaired", "the verdict was read from a repaired or partial body", "review again: what was cut is unknown"),
    Reason(
        "blocking-pass",
        "it says pass, and has blocking findings",
        "look at the findings: they may have been merged",
        contradicts=True,
    ),
    Reason(
        "other-diff", "the verdict names another diff than the one decided on", "review the diff that was merged", True
    ),
    Reason(
        "contradicted",
        "another record for the same diff says otherwise",
        "the fail counts: review again before relying on it",
        True,
    ),
    Reason("ambiguous", "one field has two values in the record", "find out which was meant; do not choose the pass"),
    Reason("unknown-verdict", "the verdict is neither exactly pass nor exactly fail", "treat it as incomplete"),
    Reason("no-diff", "it does not say what was reviewed", "find the diff by time and id; review it again"),
    Reason("no-length", "no length was declared for the body", "a cut could not have been seen"),
    Reason("length-mismatch", "other bytes were received than declared", "the body was cut, or two were mixed up"),
    Reason("no-digest", "there is no SHA-256 of the body", "a change could not have been seen"),
    Reason("bad-digest", "its digest is not 64 lower-case hex digits", "it identifies nothing"),
    Reason("no-end", "it does not say that the answer reached its end", "a cut could not have been seen"),
    Reason("bad-end", "the answer ended for another reason than being finished", "it was cut: review again"),
    Reason("cut-line", "the log ends within this line", "a value in it may be cut"),
    Reason("unreadable", "the line cannot be read", "look at the line itself"),
)
_REASONS = {reason.word: reason for reason in REASONS}

NAMES: dict[str, tuple[str, ...]] = {
    "verdict": ("verdict", "decision", "outcome", "result"),
    "diff": ("diff_sha", "diff_sha256", "diff", "diff_id", "patch_sha", "patch_id", "head_sha", "commit", "sha"),
    "reviewed": ("verdict_diff_sha", "reviewed_diff_sha", "reviewed_diff", "reviewed_sha", "verdict_for"),
    "declared": ("expected_bytes", "declared_bytes", "declared_length", "content_length", "body_length", "length"),
    "received": ("received_bytes", "bytes_received", "body_bytes", "received", "bytes"),
    "digest": ("body_sha256", "verdict_sha256", "envelope_sha256", "content_sha256", "sha256", "digest"),
    "end": ("sentinel", "end", "trailer", "terminal", "finish_reason", "stop_reason", "done", "complete"),
    "source": ("source", "parsed_by", "parser", "parse", "read_by"),
    "findings": ("findings",),
    "blocking": ("blocking", "blocking_findings", "blocking_count", "findings_blocking", "n_blocking"),
    "id": ("attempt_id", "review_id", "job_id", "run_id", "request_id", "id"),
    "at": ("at", "timestamp", "time", "ts", "date"),
}
"""By what names old logs call each fact, the surest first."""

_REPAIRED = re.compile(r"repair|recover|partial|lenient|salvag|heuristic|best.?effort|fallback|regex|fix|guess", re.I)
_FLAGS = ("repaired", "was_repaired", "json_repaired", "recovered", "partial", "is_partial", "truncated", "incomplete")
_ENDS = frozenset({"true", "1", "yes", "end", "end_apply", "stop", "end_turn", "[done]", "message_stop", "complete"})
_ENDS_TOO = frozenset({"completed", "done", "ok", "present", "length-met", "last-chunk", "end-stream"})
_NO = frozenset({"", "0", "false", "no", "none", "null", "0.0"})
_HEX = re.compile(r"[0-9a-f]{64}")


class Judged(msgspec.Struct, frozen=True):
    """One record of a verdict, and the reasons against it. Texts are as logged, shortened, and not safe to print."""

    line: int
    id: str
    at: str
    diff: str
    verdict: str
    reasons: tuple[str, ...]


def explain(word: str) -> Reason:
    """The reason of that name."""
    return _REASONS[word]


def judge(fields: Fields, contradicted: bool = False) -> Judged | None:
    """The record of a verdict, with the reasons against it in the order of REASONS; None for another kind of record.

    `contradicted`: whether another record of the log says otherwise of the same diff.
    """
    places = _places(fields)
    facts = {fact: _find(fields, places, names) for fact, names in NAMES.items()}
    verdict = facts["verdict"]
    if verdict.value is None:
        return None
    reasons = {
        "repaired": _is_repaired(fields, facts["source"].value),
        "blocking-pass": verdict.value != "fail" and _blocks(facts),
        "other-diff": _differs(facts["diff"].value, facts["reviewed"].value),
        "contradicted": contradicted,
        "ambiguous": any(fact.twice for fact in facts.values()) or _says_both(fields),
        "unknown-verdict": verdict.value not in ("pass", "fail"),
        "no-diff": facts["diff"].value is None,
        "cut-line": fields.cut,
        **_lengths(facts["declared"].value, facts["received"].value),
        **_digests(facts["digest"].value),
        **_ends(facts["end"].value),
    }
    return Judged(
        line=fields.line,
        id=_text(facts["id"].value),
        at=_text(facts["at"].value),
        diff=_text(facts["diff"].value),
        verdict=_text(verdict.value),
        reasons=tuple(reason.word for reason in REASONS if reasons.get(reason.word)),
    )


def verdict_of(fields: Fields) -> tuple[str, str] | None:
    """The diff and the verdict of a record that names both, `pass` or `fail`; what is looked at for contradictions."""
    places = _places(fields)
    diff, verdict = (_find(fields, places, NAMES[name]).value for name in ("diff", "verdict"))
    return (_text(diff), verdict) if diff is not None and verdict in ("pass", "fail") else None


class _Fact(msgspec.Struct, frozen=True):
    value: Any
    twice: bool


def _places(fields: Fields) -> dict[str, list[str]]:
    """Where each name stands: at the top or below it, the highest first."""
    places: dict[str, list[str]] = {}
    for key in fields.values:
        places.setdefault(key.rpartition(".")[2], []).append(key)
    return {name: sorted(keys, key=len) for name, keys in places.items()}


def _find(fields: Fields, places: dict[str, list[str]], names: tuple[str, ...]) -> _Fact:
    """The value under the surest name, and whether another place with that name disagrees."""
    for name in names:
        keys = [key for key in places.get(name, ()) if fields.values[key] is not None]
        if keys:
            value = fields.values[keys[0]]
            twice = any(fields.values[key] != value or key in fields.twice for key in keys)
            return _Fact(value, twice)
    return _Fact(None, False)


def _text(value: Any) -> str:
    return "" if value is None else str(value)[:200]


def _word(value: Any) -> str:
    return str(value).strip().lower()


def _says_both(fields: Fields) -> bool:
    """Whether it says pass under one name of a verdict, and fail under another."""
    places = (key for key in fields.values if key.rpartition(".")[2] in NAMES["verdict"])
    return {"pass", "fail"} <= {_word(fields.values[key]) for key in places}


def _is_repaired(fields: Fields, source: Any) -> bool:
    if source is not None and _REPAIRED.search(str(source)):
        return True
    flags = (key for key in fields.values if key.rpartition(".")[2] in _FLAGS)
    return any(fields.values[key] is not None and _word(fields.values[key]) not in _NO for key in flags)


def _blocks(facts: dict[str, _Fact]) -> bool:
    findings, count = facts["findings"].value, facts["blocking"].value
    if count is not None and _word(count) not in {*_NO, "[]"}:
        return True
    if isinstance(findings, list):
        return any(isinstance(one, dict) and _word(one.get("severity")) == "blocking" for one in findings)
    return isinstance(findings, str) and re.search(r"\bblocking\b", findings, re.I) is not None


def _differs(diff: Any, reviewed: Any) -> bool:
    return diff is not None and reviewed is not None and _text(diff) != _text(reviewed)


def _lengths(declared: Any, received: Any) -> dict[str, bool]:
    one, other = _count(declared), _count(received)
    return {"no-length": one is None, "length-mismatch": one is not None and other is not None and one != other}


def _count(value: Any) -> int | None:
    text = str(value).strip()
    return int(text) if re.fullmatch("[1-9][0-9]{0,15}", text) else None


def _digests(digest: Any) -> dict[str, bool]:
    return {"no-digest": digest is None, "bad-digest": digest is not None and not _HEX.fullmatch(str(digest))}


def _ends(end: Any) -> dict[str, bool]:
    return {"no-end": end is None, "bad-end": end is not None and _word(end) not in _ENDS | _ENDS_TOO}
