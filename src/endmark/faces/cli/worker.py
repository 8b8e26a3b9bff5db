"""`endmark worker`: apply what is approved, on any number of machines."""

import click

from endmark.core.refusal import CannotTry
from endmark.faces.cli.at_gate import LEDGER, settings
from endmark.faces.cli.common import JSON, Result, Verb, at
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import say

NEEDS_QUEUE = "a queue needs Procrastinate, which is not installed. Nothing was done; pip install 'endmark[queue]'."


@click.command("worker", cls=Verb)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    default=2,
    show_default=True,
    metavar="N",
    help="Jobs at a time, each of another target.",
)
@click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    help="Answer /metrics for Prometheus there: counts by target and state, no ids; 127.0.0.1 without HOST.",
)
@LEDGER
@JSON
def command(concurrency: int, metrics: str | None, ledger: str | None, config: str | None) -> Result:
    """Apply what is approved, for the targets of endmark.toml, from the queue that [queue] names.

    Any number of workers may run, on any number of machines. SIGTERM or Ctrl-C drains: what runs is finished within
    [queue] drain_timeout, or rolled back; a second one does not wait. 'endmark queue init' makes the queue.

    \b
    Example:
      endmark worker --concurrency 4 --config /etc/endmark.toml
    """
    where = None if metrics is None else _address(metrics)
    try:
        from endmark.faces.worker.program import Program
    except ImportError:
        raise CannotTry(NEEDS_QUEUE) from None
    Program(settings(ledger, config), concurrency, say, where).run()
    return Result("The worker has ended. Nothing is half done.", {"version": 1, "exit_code": 0, "at": at()})


def _address(said: str) -> tuple[str, int]:
    host, _, port = said.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise Misuse(f"--metrics: {said!r} is not [HOST:]PORT, as 127.0.0.1:9464. Nothing was done.")
    return host.strip("[]") or "127.0.0.1", int(port)
