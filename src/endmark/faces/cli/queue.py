"""`endmark queue`: make the queue that workers take jobs from, and have a parked job tried again."""

import click

from endmark.core.refusal import CannotTry
from endmark.faces.api import now
from endmark.faces.cli.at_gate import LEDGER, settings
from endmark.faces.cli.common import JSON, Group, Result, Verb, at
from endmark.faces.cli.worker import NEEDS_QUEUE
from endmark.faces.config import Config
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import safe
from endmark.faces.worker.outbox import Queue


@click.group("queue", cls=Group)
def command() -> None:
    """The queue of workers, in the ledger's own PostgreSQL database."""


@command.command("init", cls=Verb)
@click.option("--print", "print_", is_flag=True, help="Only print the SQL for an administrator.")
@click.option("--role", metavar="NAME", help="With --print: the role of gates and workers; its rights are printed too.")
@LEDGER
@JSON
def init(print_: bool, role: str | None, ledger: str | None, config: str | None) -> Result:
    """Make the queue's tables in a schema of their own, or bring them up to the installed version.

    With --print nothing is done: an administrator runs the SQL in the ledger's database.

    \b
    Examples:
      endmark queue init
      endmark queue init --print --role gate
    """
    found = _queue(settings(ledger, config))
    try:
        from endmark.faces.worker.queue_schema import script, set_up
    except ImportError:
        raise CannotTry(NEEDS_QUEUE) from None
    facts = {"version": 1, "queue": found.place.database, "schema": found.schema, "exit_code": 0, "at": at()}
    if print_:
        sql = script(found, role)
        return Result(sql.rstrip("\n"), {**facts, "sql": sql})
    if role is not None:
        raise Misuse("--role goes with --print.")
    made = set_up(found)
    said = "Made the queue" if made else "The queue stands already"
    return Result(f"{said}: {safe(found.place.database)}, schema {found.schema}", {**facts, "made": made})


@command.command("retry", cls=Verb)
@click.argument("id")
@LEDGER
@JSON
def retry(id: str, ledger: str | None, config: str | None) -> Result:
    """Have workers try a job again that was parked: after its last try, or after a mistake of endmark's.

    \b
    Example:
      endmark queue retry billing-2026-11-30
    """
    from endmark.ledger.book import Ledger

    found = settings(ledger, config)
    _queue(found)
    with Ledger.open(found.ledger, create=False, outbox=found.outbox) as book:
        entry = book.find(id)
        if entry is None:
            raise CannotTry(f"there is no job or attempt {id} in the ledger {book.place}. Nothing was done.")
        if found.outbox is None or found.outbox.call_for(entry) is None or entry.state not in ("staged", "approved"):
            raise CannotTry(f"job {id} is {entry.state}: no worker would apply it. Nothing was done.")
        book.note(entry.attempt_id, "resumed", now(), {})
        book.send([entry])
    document = {"version": 1, "attempt_id": entry.attempt_id, "exit_code": 0, "at": at()}
    return Result(f"Workers try {safe(entry.job_id or id)} again.", document)


def _queue(found: Config) -> Queue:
    """What [queue] names. Raises Misuse."""
    if found.queue is None:
        raise Misuse(f"{found.file or 'endmark.toml'}: there is no [queue]; one with the ledger's url was expected.")
    return found.queue
