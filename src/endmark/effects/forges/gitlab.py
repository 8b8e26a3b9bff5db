"""GitLab: a decision as a commit status (REST API, "Commits"; read 2026-11-30).

A merge waits for it where "Pipelines must succeed" is set. `canceled` and `skipped` may count as passed there, so
neither is ever sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from endmark.core.refusal import CannotTry
from endmark.core.states import Decision
from endmark.effects.forges.report import Report, send

if TYPE_CHECKING:
    import httpx

_DESCRIPTION = 255  # characters

STATE: dict[Decision, str] = {
    Decision.PENDING: "running",
    Decision.PASS: "success",
    Decision.MERGED: "success",
    Decision.FAIL: "failed",
    Decision.INCOMPLETE: "failed",
    Decision.STALE: "failed",
}


def post(
    report: Report,
    project: str,
    token: str,
    client: httpx.Client,
    *,
    pipeline_id: int | None = None,
    job_token: bool = False,
) -> str:
    """Set the status of `report.commit` in `project` (its number, or "group/name"). Returns the status's id, as text.

    `pipeline_id`: the pipeline it belongs to; without it GitLab takes the newest of the commit. Raises CannotTry when
    GitLab does not take it.
    """
    if not project or project.startswith("/") or any(c in project for c in "?#\\ "):
        raise CannotTry(f"the project {project!r} is neither a number nor GROUP/NAME. Nothing was sent.")
    state = STATE[report.state]
    title = report.title if report.state is not Decision.INCOMPLETE else f"incomplete: {report.title}"
    body: dict[str, str | int] = {"state": state, "name": report.name, "description": _short(title)}
    if report.details_url is not None:
        body["target_url"] = report.details_url
    if pipeline_id is not None:
        body["pipeline_id"] = pipeline_id
    headers = {"JOB-TOKEN" if job_token else "PRIVATE-TOKEN": token}
    made = send(client, "POST", f"/projects/{quote(project, safe='')}/statuses/{report.commit}", body, headers)
    if made.get("status") != state or type(made.get("id")) is not int:
        raise CannotTry(f"GitLab answered that the status is {ascii(made.get('status'))[:40]}, {state} was sent.")
    return str(made["id"])


def _short(text: str) -> str:
    return text if len(text) <= _DESCRIPTION else text[: _DESCRIPTION - 3] + "..."
