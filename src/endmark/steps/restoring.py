"""The backup of a job is put back, and the book says so: of the job, and of every later one that went with it."""

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.effects.target import Kept, Progress, Restored, Restores, Stop, Target
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry
from endmark.ledger.outcomes import outcome_of
from endmark.ledger.queries import PUT_BACK, with_revert
from endmark.steps.settle import BACKED_UP, check_free

PUTTING_BACK = "restoring"  # the event before the first page is written


class Found(msgspec.Struct, frozen=True):
    """A backup on record: where it is, what its bytes are, when it was made, and the jobs that putting it back undoes,
    the job's own among them."""

    path: Path
    kept: Kept
    at: str
    undone: tuple[str, ...]


def find(ledger: Ledger, entry: Entry, target: Target) -> Found:
    """The backup of an applied job, and what putting it back would undo. Raises CannotTry."""
    if entry.state is not State.APPLIED:
        said = f"job {entry.job_id} is {entry.state}; only an applied job's backup is put back"
        raise CannotTry(f"{said}. Nothing was done.")
    if entry.target != target.identity:
        raise CannotTry(f"job {entry.job_id} was applied to {entry.target}. Nothing was done.")
    if not isinstance(target, Restores):
        raise CannotTry(f"endmark puts no backup back into {target.identity}; use your own means. Nothing was done.")
    for event in reversed(ledger.events(entry.attempt_id)):
        to, sha256, size = (event.data.get(key) for key in ("to", "sha256", "bytes"))
        if event.event == BACKED_UP and isinstance(to, str) and isinstance(sha256, str) and isinstance(size, int):
            path = Path(to)
            return Found(path, Kept(sha256, size), event.at, target.jobs_since(path))
    raise CannotTry(f"no backup of job {entry.job_id} is on record with its digest. Nothing was done.")


def restore(
    ledger: Ledger,
    clock: Callable[[], datetime],
    entry: Entry,
    target: Target,
    later: Sequence[str],
    person: str,
    lock_timeout: float,
    progress: Progress,
    stop: Stop,
) -> tuple[Outcome, Restored]:
    """Put the backup of `entry` back. `later`: the jobs applied since that go with it, each by its name.

    Raises Failed and CannotTry; the target is what it was then.
    """
    found = find(ledger, entry, target)
    own = entry.job_id or ""
    with target.open() as session:
        check_free(ledger, session, target)
    if not isinstance(target, Restores):
        raise CannotTry(f"endmark puts no backup back into {target.identity}. Nothing was done.")
    working = ledger.in_state(State.APPLYING, target.identity)  # it would find another database under it
    if working:
        raise CannotTry(f"job {working[0].job_id} is being applied to the target. Nothing was done.")
    ledger.note(entry.attempt_id, PUTTING_BACK, clock(), {"from": str(found.path), "by": person, "later": list(later)})
    done = target.restore(found.path, found.kept, (own, *later), lock_timeout, progress, stop)
    for job_id in done.undone:
        gone = ledger.by_job(job_id)
        if gone is not None and job_id != own:
            ledger.note(gone.attempt_id, PUT_BACK, clock(), {"by": person, "with": own, "schema": done.fingerprint})
    ledger.note(
        entry.attempt_id,
        PUT_BACK,
        clock(),
        {"by": person, "from": str(found.path), "schema": done.fingerprint, "undone": list(done.undone)},
    )
    return outcome_of(with_revert(ledger, entry)), done
