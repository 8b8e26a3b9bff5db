"""`[alerts]` of endmark.toml, and how whoever is to be told of an incident is told."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:  # every command reads the configuration, and few tell anybody of anything
    from endmark.core.patch_outcome import PatchOutcome
    from endmark.replay import Replayed

SECONDS = 30
"""How long a URL or a program may take."""


class AlertsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[alerts]`. `url`: where the JSON object is posted, or `env:NAME`; `command`: a program that gets it on its
    standard input, as a line for no shell. Both may be given."""

    url: str | None = None
    command: str | None = None


def document_of(done: "Replayed") -> dict[str, Any]:
    """What is told of a replay: all of it, with incidents and rates. `exit_code` is that of `endmark replay`."""
    document = {"version": 1, **msgspec.structs.asdict(done), "incidents": done.incidents}
    document["rates"] = [{**msgspec.structs.asdict(rate), "rate": rate.rate} for rate in done.rates]
    # Where nobody gave a whole verdict nothing was compared, and a nightly run must not look as if it had been.
    compared = not done.pairs or any(pair.complete for pair in done.pairs)
    document["exit_code"] = 1 if done.incidents else 0 if compared else 13
    return document


def document_of_alarms(alarms: "list[PatchOutcome]") -> dict[str, Any]:
    """What is told of decisions that ended as failed or overtaken, although their branch holds the merge."""
    return {"version": 1, "alarms": alarms, "exit_code": 1}


def tell(document: Mapping[str, Any], table: AlertsTable, environ: Mapping[str, str]) -> list[str]:
    """Tell whoever is to be told. Returns what went wrong, without the URL's secret; the incident stands anyway."""
    raw = msgspec.json.encode(document)
    return [*_posted(raw, table.url, environ), *_piped(raw, table.command)]


def _posted(raw: bytes, url: str | None, environ: Mapping[str, str]) -> Iterable[str]:
    if url is None:
        return
    where = url
    if url.startswith("env:"):
        where, name = environ.get(url.removeprefix("env:"), ""), url.removeprefix("env:")
        if not where:
            yield f"the alert was not posted: the variable {name} is not set"
            return
    try:
        import httpx
    except ImportError:
        yield "the alert was not posted: that needs httpx; pip install 'endmark[capture]' brings it"
        return
    try:
        with httpx.Client(timeout=SECONDS) as client:
            client.post(where, content=raw, headers={"Content-Type": "application/json"}).raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as fault:
        # A webhook's path is its secret: its host is enough to find it.
        yield f"the alert did not reach {_host(where)}: {type(fault).__name__}"


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]


def _piped(raw: bytes, program: str | None) -> Iterable[str]:
    if program is None:
        return
    import shlex
    import subprocess

    try:
        done = subprocess.run(shlex.split(program), input=raw, timeout=SECONDS, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired) as fault:
        yield f"the alert's command did not run: {fault}"
        return
    if done.returncode:
        yield f"the alert's command ended with {done.returncode}: {program}"
