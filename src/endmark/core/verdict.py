"""The reviewer's verdict: read from the JSON of an envelope (spec/verdict.md, rules V1-V11)."""

from typing import Any, Literal

import msgspec

from endmark.core.refusal import Refused, Signal
from endmark.core.strictjson import short

KEYS = ("verdict", "diff_sha", "policy_version", "findings", "marks")
REQUIRED = ("verdict", "diff_sha", "policy_version")


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One remark. `line` counts from 1 in the new file; only a blocking one stands against a pass."""

    severity: Literal["blocking", "advisory"]
    path: str
    message: str
    line: int | None = None


class Verdict(msgspec.Struct, frozen=True):
    """A proven verdict. `findings` and `marks` are None where a verdict made elsewhere has none."""

    verdict: Literal["pass", "fail"]
    diff_sha: str
    policy_version: str
    findings: list[Finding] | None
    marks: list[str] | None


def read(
    document: dict[str, Any], received: int, expected: int | None = None, marks: list[str] | None = None
) -> Verdict:
    """The verdict that the strict JSON object of an envelope spells.

    `marks`: the marks the reviewer was asked to echo, in order; None when none were asked for.
    Raises `Refused`; checks stand in the order of the decision table.
    """

    def refuse(signal: Signal, detail: str) -> Refused:
        return Refused(signal, received, expected, detail)

    if "marks" in document and list(document)[-1] != "marks":  # V1
        raise refuse(Signal.MARKS, "marks is not the last key of all")
    if marks is not None and document.get("marks") != marks:  # V2
        raise refuse(Signal.MARKS, "the marks that were asked for are missing, altered or out of order")
    unknown = document.keys() - set(KEYS)
    if unknown:  # V3
        raise refuse(Signal.UNKNOWN_KEY, f"unknown key {short(min(unknown))}")
    missing = [key for key in REQUIRED if key not in document]
    if missing:  # V4
        raise refuse(Signal.MISSING_KEY, f"missing {'key' if len(missing) == 1 else 'keys'} {', '.join(missing)}")
    word = document["verdict"]
    if word not in ("pass", "fail"):  # V5
        raise refuse(Signal.WRONG_VALUE, f"verdict is {short(word)}, exactly 'pass' or 'fail' was expected")
    for key in ("diff_sha", "policy_version"):  # V6
        if not isinstance(document[key], str) or not document[key]:
            raise refuse(Signal.WRONG_TYPE, f"{key} is {short(document[key])}, a non-empty string was expected")
    found = _findings(document["findings"], refuse) if "findings" in document else None
    echoed = document.get("marks")
    if "marks" in document and not (isinstance(echoed, list) and echoed and all(type(m) is str and m for m in echoed)):
        raise refuse(Signal.WRONG_TYPE, "marks is not a non-empty list of non-empty strings")  # V9
    if word == "pass" and found and any(finding.severity == "blocking" for finding in found):  # V10
        raise refuse(Signal.CONTRADICTION, "a pass with a blocking finding contradicts itself")
    return Verdict(word, document["diff_sha"], document["policy_version"], found, echoed)


def _findings(value: Any, refuse: Any) -> list[Finding]:
    try:
        findings = msgspec.convert(value, list[Finding])
    except msgspec.ValidationError as fault:  # V7. The message quotes what was found, so it is made safe to print.
        raise refuse(Signal.WRONG_TYPE, f"findings: {ascii(str(fault))[1:-1][:200]}") from None
    for at, finding in enumerate(findings):
        if not finding.path or not finding.message or (finding.line is not None and finding.line < 1):  # V8
            raise refuse(Signal.WRONG_VALUE, f"findings[{at}]: path and message must say something, line counts from 1")
    return findings
