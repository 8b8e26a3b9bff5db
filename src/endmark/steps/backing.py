"""A backup before the first write: by the target's own means into a folder, or by the operator's command."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from endmark.core.refusal import CannotTry
from endmark.effects import command
from endmark.effects.target import Progress, Reachable, Session, Stop, Target
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry
from endmark.steps.settle import BACKED_UP, BACKING_UP
from endmark.steps.treatment import Options

_PASSWORDS = ("PGPASSWORD", "MYSQL_PWD")  # of the caller's, where the target's URL holds none


def back_up(
    ledger: Ledger,
    clock: Callable[[], datetime],
    entry: Entry,
    session: Session,
    target: Target,
    options: Options,
    progress: Progress,
    stop: Stop,
) -> Path | None:
    """Make the backup that the target asks for. Raises Failed when interrupted, and CannotTry where there is none."""
    if options.backup_command is not None:
        _by_command(ledger, clock, entry, target, options, options.backup_command, stop)
    if options.backups is None:
        return None
    to = options.backups / f"{entry.job_id}-{entry.attempt_id}.db"
    ledger.note(entry.attempt_id, BACKING_UP, clock(), {"to": str(to)}, durable=False)
    kept = session.backup(to, progress, stop)
    ledger.note(
        entry.attempt_id,
        BACKED_UP,
        clock(),
        {"to": str(to), "sha256": kept.sha256, "bytes": kept.size},
        durable=False,
    )
    return to


def _by_command(
    ledger: Ledger,
    clock: Callable[[], datetime],
    entry: Entry,
    target: Target,
    options: Options,
    words: tuple[str, ...],
    stop: Stop,
) -> None:
    if not isinstance(target, Reachable):
        raise CannotTry("a backup by a command is for servers; this target is copied by endmark. Nothing was written.")
    reach = target.reach()
    known = {**reach.words, "job": entry.job_id or "", "attempt": entry.attempt_id}
    arguments = command.filled(words, known)
    environ = {**options.environ, **reach.environ}
    secrets = (*reach.secrets, *(environ[name] for name in _PASSWORDS if environ.get(name)))
    done = command.run(arguments, environ, options.backup_timeout, secrets, stop)
    ledger.note(
        entry.attempt_id,
        BACKED_UP,
        clock(),
        {
            "command": list(arguments),
            "exit_code": done.exit_code,
            "ended_by": done.ended_by,
            "seconds": round(done.seconds, 3),
            "output": done.output,
        },
    )
    command.check(done, arguments[0])
