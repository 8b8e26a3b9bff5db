"""Findings as SARIF 2.1.0, for the tools that show them. A run without a whole verdict is marked as the standard says.

There `executionSuccessful` is false, a notification says why, and `results` is null: nothing was computed, which is not
the same as nothing found.
"""

from typing import Any

import msgspec

from endmark.core import strictjson
from endmark.core.printable import safe
from endmark.core.verdict import Finding

VERSION = "2.1.0"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"blocking": "error", "advisory": "note"}
_RULES = [
    {"id": "blocking", "shortDescription": {"text": "Stands against the change."}},
    {"id": "advisory", "shortDescription": {"text": "Worth a look; stands against nothing."}},
]
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One reviewer's attempt. `findings` of a whole verdict; None, with `signal` and `detail`, where there is none.

    `advice`: it decides nothing.
    """

    reviewer: str
    attempt_id: str
    findings: list[Finding] | None
    signal: str | None = None
    detail: str = ""
    verdict: str | None = None
    advice: bool = False


def dumps(runs: list[Run], version: str) -> bytes:
    """One SARIF log of these attempts; `version` is endmark's own. Only ASCII, so that no byte can drive a terminal."""
    log = {"$schema": SCHEMA, "version": VERSION, "runs": [_run(run, version) for run in runs]}
    return strictjson.dumps_ascii(log)


def _run(run: Run, version: str) -> dict[str, Any]:
    invocation: dict[str, Any] = {"executionSuccessful": run.findings is not None}
    if run.findings is None:
        said = f"incomplete: no whole verdict of {safe(run.reviewer)}. {safe(run.detail)}".rstrip()
        notification: dict[str, Any] = {"level": "error", "message": {"text": said}}
        if run.signal is not None:
            notification["descriptor"] = {"id": run.signal}
        invocation["toolExecutionNotifications"] = [notification]
    driver = {"name": "endmark", "semanticVersion": version, "rules": _RULES}
    return {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"endmark/{_segment(run.reviewer)}/{_segment(run.attempt_id)}"},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": None if run.findings is None else [_result(finding) for finding in run.findings],
        "properties": {"verdict": run.verdict if run.findings is not None else "incomplete"}
        | ({"advice": True} if run.advice else {}),
    }


def _result(finding: Finding) -> dict[str, Any]:
    message = "\n".join(map(safe, finding.message.split("\n")))
    result: dict[str, Any] = {
        "ruleId": finding.severity,
        "ruleIndex": list(_LEVELS).index(finding.severity),
        "level": _LEVELS[finding.severity],
        "message": {"text": message},
    }
    uri = relative_uri(finding.path)
    if uri is None:  # no place in the repository; it must not become a link to somewhere else
        result["message"]["text"] = f"{safe(finding.path)}: {message}"
        return result
    place: dict[str, Any] = {"artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"}}
    if finding.line is not None:
        place["region"] = {"startLine": min(finding.line, 2**31 - 1)}
    result["locations"] = [{"physicalLocation": place}]
    return result


def relative_uri(path: str) -> str | None:
    """A path of the repository as a relative URI (RFC 3986); None for one that could lead out of it."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return None
    return "/".join(map(_segment, parts))


def _segment(text: str) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))
