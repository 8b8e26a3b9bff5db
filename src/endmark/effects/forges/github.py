"""GitHub: a decision as a check run (REST API, "Check runs"; read 2026-11-30).

Only a GitHub App may write check runs; the token of a workflow is one. A check that is `neutral` or `skipped` counts as
passed for a protected branch, so neither is ever sent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from endmark.core.refusal import CannotTry
from endmark.core.states import Decision
from endmark.core.verdict import Finding
from endmark.effects.forges.report import Report, send

if TYPE_CHECKING:
    import httpx

API = "https://api.github.com"
ANNOTATIONS = 50  # in one request; each further request adds to those before
_TEXT = 65_535  # characters of a summary
_MESSAGE = 64 * 1024  # bytes of an annotation's message
_REPOSITORY = re.compile(r"[A-Za-z0-9-]{1,39}/(?!\.{1,2}$)[A-Za-z0-9_.-]{1,100}")
_VERSION = "2022-11-28"

CONCLUSION: dict[Decision, str | None] = {
    Decision.PENDING: None,  # the run is in progress
    Decision.PASS: "success",
    Decision.MERGED: "success",
    Decision.FAIL: "failure",
    Decision.INCOMPLETE: "action_required",
    Decision.STALE: "action_required",
}


def post(report: Report, repository: str, token: str, client: httpx.Client) -> str:
    """Write a check run for `report.commit` in `repository` ("owner/name"). Returns its id, as text.

    Raises CannotTry when GitHub does not take it, also when it took only some of the annotations.
    """
    if not _REPOSITORY.fullmatch(repository):
        raise CannotTry(f"the repository {repository!r} is not OWNER/NAME. Nothing was sent.")
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": _VERSION,
    }
    notes = [annotation(finding) for finding in report.findings if finding.line is not None]
    path = f"/repos/{repository}/check-runs"
    made = send(client, "POST", path, payload(report, notes[:ANNOTATIONS]), headers)
    number = made.get("id")
    if type(number) is not int:
        raise CannotTry("GitHub answered without the id of the check run it made.")
    for at in range(ANNOTATIONS, len(notes), ANNOTATIONS):
        more = {"output": {**_output(report), "annotations": notes[at : at + ANNOTATIONS]}}
        send(client, "PATCH", f"{path}/{number}", more, headers)
    return str(number)


def payload(report: Report, annotations: list[dict[str, Any]]) -> dict[str, Any]:
    """The body of the request that makes the check run."""
    conclusion = CONCLUSION[report.state]
    body: dict[str, Any] = {
        "name": report.name,
        "head_sha": report.commit,
        "external_id": report.decision_id,
        "status": "in_progress" if conclusion is None else "completed",
        "output": {**_output(report), "annotations": annotations},
    }
    if conclusion is not None:
        body["conclusion"] = conclusion
    if report.details_url is not None:
        body["details_url"] = report.details_url
    return body


def annotation(finding: Finding) -> dict[str, Any]:
    """A finding beside its line. Control characters are shown as escapes."""
    message = _plain(finding.message).encode()[:_MESSAGE].decode(errors="ignore")
    return {
        "path": _plain(finding.path),
        "start_line": finding.line,
        "end_line": finding.line,
        "annotation_level": "failure" if finding.severity == "blocking" else "warning",
        "message": message,
    }


def _output(report: Report) -> dict[str, str]:
    summary = report.summary
    if len(summary) > _TEXT:
        summary = summary[: _TEXT - 40] + "\n\n(shortened; see the artifacts)\n"
    return {"title": report.title, "summary": summary}


def _plain(text: str) -> str:
    return "".join(c if c == "\n" or c.isprintable() else ascii(c)[1:-1] for c in text)
