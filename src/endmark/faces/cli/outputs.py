"""Where a decision goes besides standard output: a SARIF file, a signed record, a forge."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from endmark.core.patch_outcome import PatchOutcome
from endmark.core.refusal import CannotTry
from endmark.faces.cli.common import together
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import safe, say

if TYPE_CHECKING:
    from endmark.faces.patches import Patches

SARIF = click.option("--sarif", metavar="FILE", help="Write the findings there, as SARIF 2.1.0.")
OUTPUTS = together(
    SARIF,
    click.option("--record", metavar="FILE", help="Write the signed record there; a complete decision has one."),
    click.option("--key", metavar="FILE", help="The private key that signs the record."),
    click.option("--post", type=click.Choice(["github", "gitlab"]), help="Tell this forge, on the head commit."),
    click.option("--repository", metavar="NAME", help="There: OWNER/NAME, or GitLab's number or GROUP/NAME."),
)
_SECONDS = 30


class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    """The options of OUTPUTS."""

    sarif: str | None
    record: str | None
    key: str | None
    post: str | None
    repository: str | None

    def check(self) -> None:
        """Raise Misuse for what does not go together, before anybody is asked."""
        if (self.record is None) != (self.key is None):
            raise Misuse("--record and --key go together.")
        if self.repository is not None and self.post is None:
            raise Misuse("--repository goes with --post.")
        if self.post is not None:
            _where(self.post, self.repository, os.environ)

    def write(self, patches: "Patches", outcome: PatchOutcome) -> list[str]:
        """Write and post what was asked for. Returns what went wrong; the decision stands either way."""
        if outcome.decision_id is None:
            return []
        problems = []
        for name, doing in (("--sarif", self._sarif), ("--record", self._record), ("--post", self._post)):
            try:
                doing(patches, outcome)
            except CannotTry as fault:
                problems.append(f"{name}: {fault.detail}")
        return problems

    def _sarif(self, patches: "Patches", outcome: PatchOutcome) -> None:
        if self.sarif is not None:
            put(self.sarif, patches.sarif(outcome.decision_id or ""))

    def _record(self, patches: "Patches", outcome: PatchOutcome) -> None:
        if self.record is None or self.key is None:
            return
        if outcome.state not in ("pass", "fail", "merged"):  # a file of a former run must not speak for this one
            with suppress(FileNotFoundError):
                Path(self.record).unlink()
            say(f"{safe(self.record)}: no record, as the decision is {outcome.state}.")
            return
        put(self.record, patches.record(outcome.decision_id or "", self.key))

    def _post(self, patches: "Patches", outcome: PatchOutcome) -> None:
        if self.post is None:
            return
        try:
            import httpx
        except ImportError:
            raise CannotTry("telling a forge needs httpx: pip install 'endmark[capture]'") from None
        from endmark.effects.forges import github, gitlab
        from endmark.faces.patch_records import report_of

        where, token, api = _where(self.post, self.repository, os.environ)
        found = [] if outcome.state == "incomplete" else patches.findings(outcome.decision_id or "")
        report = report_of(outcome, found)
        with httpx.Client(base_url=api, timeout=_SECONDS) as client:
            if self.post == "github":
                github.post(report, where, token, client)
            else:
                number = os.environ.get("CI_PIPELINE_ID", "")
                pipeline = int(number) if number.isdecimal() and number.isascii() else None
                by_job = "GITLAB_TOKEN" not in os.environ
                gitlab.post(report, where, token, client, pipeline_id=pipeline, job_token=by_job)


_FORGES: dict[str, tuple[str, tuple[str, ...], str, str]] = {
    "github": ("GITHUB_REPOSITORY", ("GITHUB_TOKEN",), "GITHUB_API_URL", "https://api.github.com"),
    "gitlab": ("CI_PROJECT_ID", ("GITLAB_TOKEN", "CI_JOB_TOKEN"), "CI_API_V4_URL", "https://gitlab.com/api/v4"),
}


def _where(forge: str, repository: str | None, environ: Mapping[str, str]) -> tuple[str, str, str]:
    """The repository there, the token and the address of the API. Raises Misuse."""
    variable, tokens, api, usual = _FORGES[forge]
    found = repository or environ.get(variable)
    if not found:
        raise Misuse(f"--post {forge}: neither --repository nor {variable} says which repository.")
    token = next((environ[name] for name in tokens if environ.get(name)), None)
    if token is None:
        raise Misuse(f"--post {forge}: {' or '.join(tokens)} must hold a token.")
    return found, token, environ.get(api) or usual


def put(file: str, raw: bytes) -> None:
    """Write a file whole, or leave what was there. Raises CannotTry."""
    path = Path(file)
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        part.write_bytes(raw)
        part.replace(path)
    except OSError as fault:
        with suppress(OSError):
            part.unlink()
        raise CannotTry(f"{file} cannot be written: {fault.strerror or fault}") from None
