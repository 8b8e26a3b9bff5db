"""The holes as SARIF 2.1.0: one result a hole, with the byte it begins at. A drill that proves nothing says so."""

import hashlib
import re
from typing import Any

from endmark.core import strictjson
from endmark.core.printable import safe
from endmark.core.sarif import SCHEMA, VERSION
from endmark.drills.report.document import Hole, Report
from endmark.drills.targets.answer import Answer

_MOST = 5000  # results: more than that no viewer takes
_RULES = [
    {"id": "accepted", "shortDescription": {"text": "A broken payload was taken for whole."}},
    {"id": "effect", "shortDescription": {"text": "A broken payload was refused, and had an effect."}},
]
_PLACE = re.compile(r":(?:[AB]@)?(\d{1,10})")


def dumps(report: Report) -> bytes:
    """One log with one run."""
    swept = report.swept
    proves = swept.control == "accepted" and not swept.count(Answer.INCONCLUSIVE) and swept.tried > 0
    invocation: dict[str, Any] = {"executionSuccessful": proves, "exitCode": report.exit_code}
    if not proves:
        said = f"The drill is inconclusive. The whole payload: {safe(swept.control)}."
        invocation["toolExecutionNotifications"] = [{"level": "error", "message": {"text": said}}]
    digest = hashlib.sha256(swept.body.data).hexdigest()
    run = {
        "tool": {"driver": {"name": "endmark drill", "rules": _RULES}},
        "invocations": [invocation],
        "artifacts": [{"location": {"uri": "payload"}, "length": len(swept.body.data), "hashes": {"sha-256": digest}}],
        "results": [_result(hole, swept.target) for hole in report.holes[:_MOST]],
        "properties": {"target": safe(swept.target), "tried": swept.tried, "holes": len(report.holes)},
    }
    return strictjson.dumps_ascii({"$schema": SCHEMA, "version": VERSION, "runs": [run]})


def _result(hole: Hole, target: str) -> dict[str, Any]:
    fault = str(hole.fault)
    place = _PLACE.search(fault)
    did = "was refused, and changed the effect" if hole.answer is Answer.EFFECT else "was taken for whole"
    location: dict[str, Any] = {"artifactLocation": {"uri": "payload", "index": 0}}
    if place is not None:
        location["region"] = {"byteOffset": int(place[1]), "byteLength": 0}
    return {
        "ruleId": "effect" if hole.answer is Answer.EFFECT else "accepted",
        "level": "error",
        "message": {"text": f"{fault} {did} by {safe(target)}."},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"fault/v1": fault[:200]},
    }
