"""`endmark mcp`: the door for agents that speak the Model Context Protocol."""

import os

import click

from endmark.core.refusal import CannotTry
from endmark.faces.cli.at_gate import LEDGER, settings
from endmark.faces.cli.common import Result, Verb
from endmark.faces.misuse import Misuse

PORT = 8791


@click.command("mcp", cls=Verb)
@click.option("--http", is_flag=True, help="Streamable HTTP instead of standard input and output.")
@click.option("--host", help="The address to listen on (127.0.0.1). Another needs a token.")
@click.option("--port", type=click.IntRange(0, 65535), help=f"The port to listen on ({PORT}; 0: a free one).")
@LEDGER
def command(http: bool, host: str | None, port: int | None, ledger: str | None, config: str | None) -> Result:
    """Serve agents by the Model Context Protocol, on standard input and output or over HTTP.

    What they reach stands in [mcp] of endmark.toml: one target, one folder for files, one repository. A plan that
    arrives whole waits for a person ('endmark approve'), unless `immediate` there names the target.

    \b
    Examples:
      endmark mcp
      endmark mcp --http --port 8791
    """
    if not http and (host is not None or port is not None):
        raise Misuse("--host and --port go with --http.")
    from endmark.faces.mcp import settings as opened

    found = settings(ledger, config)
    opens = opened.read(found)
    try:
        from endmark.faces.mcp import server
        from endmark.faces.mcp.desk import Desk
    except ImportError as fault:
        if (fault.name or "").partition(".")[0] not in ("anyio", "mcp", "mcp_types"):
            raise
        raise CannotTry(
            "the MCP server needs the mcp package, which is not installed. Nothing was done; "
            "pip install 'endmark[mcp]' brings it."
        ) from None
    os.environ.setdefault("OTEL_SDK_DISABLED", "true")  # nothing of a plan leaves by the SDK's traces
    desk = Desk(opens)
    made = server.make(opens, desk)
    if not http:
        from endmark.faces.mcp import stdio

        return Result("", None, stdio.serve(made, desk), b"")
    from endmark.faces.mcp import http as over_http

    over_http.serve(
        made, desk, host or "127.0.0.1", PORT if port is None else port, opened.token(found), found.mcp.hosts
    )
    return Result("", None, 0, b"")
