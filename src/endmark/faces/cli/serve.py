"""`endmark serve`: the gates over HTTP."""

import os
from typing import TYPE_CHECKING, Literal

import click

from endmark.core.refusal import CannotTry
from endmark.faces.cli.at_gate import LEDGER, make_state_folder, settings
from endmark.faces.cli.common import JSON, Result, Verb, at
from endmark.faces.terminal import safe, say

if TYPE_CHECKING:
    from endmark.faces.http.tracing import Traces

NEEDS_OTEL = (
    "the environment asks for traces (OTEL_...), and OpenTelemetry is not installed. Nothing was done; "
    "pip install 'endmark[otel]' brings it, OTEL_SDK_DISABLED=true does without."
)
NEEDS_SERVER = (
    "the service needs FastAPI, uvicorn and their like, which are not installed. Nothing was done; "
    "pip install 'endmark[server]' brings them."
)


@click.command("serve", cls=Verb)
@click.option("--host", metavar="ADDRESS", help="Where to listen; 127.0.0.1 without it.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="8790 without it; 0 for any that is free.")
@click.option("--worker/--no-worker", default=None, help="Apply what is approved in this process; the default.")
@click.option(
    "--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True, help="A line of the log."
)
@LEDGER
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    host: str | None,
    port: int | None,
    worker: bool | None,
    log_format: Literal["json", "text"],
    ledger: str | None,
    config: str | None,
) -> Result:
    """Serve the gates over HTTP: agents submit, people approve, a worker in this process applies.

    Targets are those of endmark.toml, by name; each waits for review and wants sealed plans unless its table says
    otherwise. Without tokens only this machine is served; 'endmark token create' makes one. SIGTERM drains: what is
    being answered or applied is finished. OTEL_EXPORTER_OTLP_ENDPOINT and its like have it send traces.

    \b
    Examples:
      endmark serve
      endmark serve --host 0.0.0.0 --port 443 --config /etc/endmark.toml
    """
    try:
        from endmark.faces.http.log import logger
        from endmark.faces.http.server import serve
        from endmark.faces.http.service import Service
        from endmark.faces.http.settings import settings_of, wants_traces
    except ImportError:
        raise CannotTry(NEEDS_SERVER) from None
    traces = _traces() if wants_traces(os.environ) else None
    found = settings(ledger, config)
    wanted = settings_of(found, host=host, port=port, worker=worker)
    if found.ledger_is_ours:
        make_state_folder(found)
    service = Service(found, wanted, log=logger(log_format), traces=traces)
    for name, why in service.unusable.items():
        say(f"The target {safe(name)} cannot be used: {safe(why)}")
    serve(service, lambda address: say(f"Serving on {address}"))
    return Result("The service has ended. Nothing is half done.", {"version": 1, "exit_code": 0, "at": at()})


def _traces() -> "Traces":
    try:
        from endmark.faces.http.tracing import Traces
    except ImportError:
        raise CannotTry(NEEDS_OTEL) from None
    return Traces.by_environment(os.environ)
