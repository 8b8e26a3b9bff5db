"""Where a CI system runs a review: what it was started for, and what it gets back (docs/ci.md).

The variables and fields are those that GitHub Actions and GitLab CI/CD document; read 2026-11-30.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from endmark.core import strictjson
from endmark.core.patch_outcome import PatchOutcome
from endmark.core.refusal import CannotTry, Refused
from endmark.faces.misuse import Misuse

_EVENT_MOST = 25 * 1024 * 1024  # bytes; GitHub caps what it sends
_OID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SAFE = re.compile(r"[A-Za-z0-9._:-]{0,200}")


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is for. `ref`: the full name of the branch to merge into; `head`: the commit that is judged.

    `base`: the commit that is merged into, where the system fixed one; else the branch as it stands when it is fetched.
    """

    ref: str
    head: str
    base: str | None = None


def by_github(environ: Mapping[str, str]) -> Started:
    """What a workflow of GitHub was started for. Raises Misuse for any event but the two that carry a change."""
    name = environ.get("GITHUB_EVENT_NAME", "")
    if name not in ("pull_request", "merge_group"):
        raise Misuse(
            f"the event is {name or 'not named'}; this runs on pull_request and merge_group. Nobody was asked. "
            "(pull_request_target hands secrets to whoever opens a pull request; see docs/ci.md.)"
        )
    event = _event(environ.get("GITHUB_EVENT_PATH", ""))
    if name == "merge_group":
        group = _table(event, "merge_group")
        ref = _text(group, "base_ref")
        return Started(
            ref=_full(ref.removeprefix("refs/heads/")), head=_oid(group, "head_sha"), base=_oid(group, "base_sha")
        )
    pull = _table(event, "pull_request")
    return Started(ref=_full(_text(_table(pull, "base"), "ref")), head=_oid(_table(pull, "head"), "sha"))


def by_gitlab(environ: Mapping[str, str]) -> Started:
    """What a job of GitLab was started for. Raises Misuse outside a merge request's pipeline."""
    branch = environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME")
    if not branch:
        raise Misuse("this is no pipeline of a merge request (CI_MERGE_REQUEST_TARGET_BRANCH_NAME is not set).")
    # In pipelines for merged results CI_COMMIT_SHA is a merge that GitLab made for this run alone.
    name = (
        "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA" if environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") else "CI_COMMIT_SHA"
    )
    return Started(ref=_full(branch), head=_oid(environ, name))


STARTED = {"github": by_github, "gitlab": by_gitlab}


def values(outcome: PatchOutcome | None, exit_code: int) -> dict[str, str]:
    """What later steps may read. Without an outcome nothing was decided, which is no success."""
    state = "not-tried" if outcome is None else outcome.state
    if exit_code != 0 and state in ("pass", "merged"):
        state = "incomplete"  # it was decided, and could not be told
    found = {
        "state": state,
        "decision_id": "" if outcome is None else outcome.decision_id or "",
        "diff_sha": "" if outcome is None else outcome.diff_sha or "",
        "exit_code": str(exit_code),
    }
    return {name: value if _SAFE.fullmatch(value) else "" for name, value in found.items()}


def page(outcome: PatchOutcome | None, summary: str, exit_code: int, problem: str = "") -> str:
    """The summary of a run, in Markdown. `summary`: what a forge is told of the decision."""
    title = values(outcome, exit_code)["state"]
    text = f"## endmark: {title}\n\n{summary.strip() or 'Nothing was decided.'}\n"
    return f"{text}\n{problem}\n" if problem else text


def hand_back(forge: str, outcome: PatchOutcome | None, text: str, exit_code: int, environ: Mapping[str, str]) -> None:
    """Write the summary and the values where the CI system reads them. Raises CannotTry.

    GitHub names two files; for GitLab, `endmark.md` and `endmark.env` (a dotenv report) in the working folder.
    """
    found = values(outcome, exit_code)
    if forge == "github":
        if environ.get("GITHUB_OUTPUT"):
            _append(environ["GITHUB_OUTPUT"], "".join(f"{name}={value}\n" for name, value in found.items()))
        if environ.get("GITHUB_STEP_SUMMARY"):
            _append(environ["GITHUB_STEP_SUMMARY"], text)
        return
    for name, content in (
        ("endmark.env", "".join(f"ENDMARK_{name.upper()}={value}\n" for name, value in found.items())),
        ("endmark.md", text),
    ):
        Path(name).unlink(missing_ok=True)
        _append(name, content)


def _append(name: str, text: str) -> None:
    try:
        with open(name, "a", encoding="utf-8") as file:
            file.write(text)
    except OSError as fault:
        raise CannotTry(f"{name} cannot be written: {fault.strerror or fault}") from None


def _event(name: str) -> dict[str, Any]:
    try:
        with open(name, "rb") as file:
            raw = file.read(_EVENT_MOST + 1)
        return strictjson.loads(raw)
    except (OSError, ValueError) as fault:
        raise Misuse(f"GITHUB_EVENT_PATH: {os.path.basename(name) or 'nothing'} cannot be read ({fault}).") from None
    except Refused as refused:
        raise Misuse(f"GITHUB_EVENT_PATH: it is no event: {refused.detail}.") from None


def _table(event: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = event.get(name)
    if not isinstance(found, dict):
        raise Misuse(f"the event has no {name}. Nobody was asked.")
    return found


def _text(table: Mapping[str, Any], name: str) -> str:
    found = table.get(name)
    if not isinstance(found, str) or not found:
        raise Misuse(f"the event has no {name}. Nobody was asked.")
    return found


def _oid(table: Mapping[str, Any], name: str) -> str:
    found = _text(table, name)
    if not _OID.fullmatch(found):
        raise Misuse(f"{name} is no object id in full. Nobody was asked.")
    return found


def _full(branch: str) -> str:
    return f"refs/heads/{branch}"
