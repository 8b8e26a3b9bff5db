"""What the apply gate asks of a database, whatever its engine."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import msgspec

from endmark.core.refusal import Signal
from endmark.core.schemadiff import Change

Stop = Callable[[], str | None]
"""Asked often during long work, also by another thread: None to go on, else who wants it to end ("SIGTERM")."""

Progress = Callable[[int, int], None]
"""Told (done, total) of statements, or of pages of a backup."""


class Receipt(msgspec.Struct, frozen=True):
    """What the target itself says about a job. The last three are None for a receipt another tool wrote.

    `rows_changed` holds the rows each statement changed, in order, as decimal numbers between spaces.
    """

    job_id: str
    stmt_count: int
    sha256: str
    status: str
    statements_run: int | None = None
    rows_changed: str | None = None
    fingerprint_after: str | None = None


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One job to run: the statements in order, and what its receipt says. `at` is RFC 3339 UTC.

    `down[i]` undoes `statements[i]`: for engines whose DDL commits by itself, where a job is undone by its downs.
    """

    job_id: str
    attempt_id: str
    statements: Sequence[str]
    sha256: str
    at: str
    after: Sequence[str] = ()
    retry_of: str | None = None
    reverts: str | None = None
    down: Sequence[str] | None = None


class Ran(msgspec.Struct, frozen=True):
    """What ran and is ready to be committed: rows changed by each statement, and the schema's fingerprint then.

    `evidence` says how it ran where that is not in one transaction under a guard of the engine's own; `can_roll_back`:
    nothing of it lasts before `commit`.
    """

    rows_changed: tuple[int, ...]
    fingerprint_after: str
    evidence: tuple[str, ...] = ()
    can_roll_back: bool = True


class Failed(Exception):
    """The job did not go through and everything it did was rolled back, or `undone` by its downs.

    `statement` counts from 1 and is None where no statement is to blame; `statements_run` had run before.
    """

    def __init__(
        self,
        signal: Signal,
        detail: str,
        statement: int | None = None,
        statements_run: int = 0,
        *,
        undone: bool = False,
    ) -> None:
        super().__init__(detail)
        self.signal = signal
        self.detail = detail
        self.statement = statement
        self.statements_run = statements_run
        self.undone = undone


class Kept(msgspec.Struct, frozen=True):
    """A backup that was written: SHA-256 in hex and number of its bytes."""

    sha256: str
    size: int


class Session(Protocol):
    """One connection to a target. Nothing is held until `lock`; leaving the block without `commit` rolls back."""

    @property
    def place(self) -> object:
        """What tells this database from another that may come to stand at the same address."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def lock(self, timeout: float) -> None:
        """Take the target's own lock, waiting at most `timeout` seconds. Raises CannotTry."""

    def fingerprint(self) -> str:
        """64 hex over the schema as this session sees it, our own tables left out. Raises CannotTry."""

    def receipt(self, job_id: str) -> Receipt | None:
        """The receipt of a job, or None. Raises CannotTry, also when the receipts' table is not one we can trust."""

    def backup(self, to: Path, progress: Progress, stop: Stop) -> Kept:
        """Copy the whole target to `to` before the first write. Raises Failed or CannotTry."""

    def run(self, work: Work, timeout: float, progress: Progress, stop: Stop) -> Ran:
        """Run everything under the lock, guarded, with its receipt; nothing is committed yet. Raises Failed."""

    def rollback(self) -> None:
        """Undo what is not committed and let the lock go. Raises nothing."""

    def commit(self) -> None:
        """Make it last. Raises Failed only when it is certain that nothing was committed, else CannotTry."""


class Target(Protocol):
    """A database that plans may be applied to. `identity` is one spelling for one place, without any password."""

    identity: str

    def open(self) -> Session:
        """A new session. Raises CannotTry when the target is missing, unreadable or not what it should be."""

    def is_file(self, path: Path) -> bool:
        """Whether `path` is this target's own file (the ledger must not be)."""


@runtime_checkable
class Watched(Protocol):
    """What a session has beside `Session` where another connection was opened while it was at work."""

    def beside(self) -> Session | None:
        """A session on that connection, once; None where there is none, or it may be dead by now."""


class Reach(msgspec.Struct, frozen=True):
    """How another program gets to a target: variables for its environment, words for its arguments, and what of the
    former is secret."""

    environ: dict[str, str]
    words: dict[str, str]
    secrets: tuple[str, ...]


@runtime_checkable
class Reachable(Protocol):
    """What a target has beside `Target` where other programs can get to it."""

    def reach(self) -> Reach:
        """The password is in the environment alone: arguments can be read by every process."""


class Partial(Exception):
    """Some of a job stands and could not be undone: only where an engine's DDL commits by itself.

    `statements_run` of `statements` stand, as far as it is known.
    """

    def __init__(self, signal: Signal, detail: str, statements_run: int, statements: int) -> None:
        super().__init__(detail)
        self.signal = signal
        self.detail = detail
        self.statements_run = statements_run
        self.statements = statements


class InDoubt(Exception):
    """What became of a job cannot be known now; whoever has the target's lock later can tell."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Ended(msgspec.Struct, frozen=True):
    """An interrupted job brought to its end: its receipt, or None where nothing of it stands, and `how` that came."""

    receipt: Receipt | None
    how: str | None = None


@runtime_checkable
class Stepwise(Protocol):
    """What the session of an engine whose DDL commits by itself has beside `Session`. All of it needs the lock."""

    def unsettled(self) -> str | None:
        """Why no job may run here: one stands half done. None when nothing does. Raises CannotTry."""

    def recover(self, job_id: str, stop: Stop) -> Ended:
        """Bring an interrupted job to its end, or undo it. Raises Partial, InDoubt and CannotTry."""

    def settle(self, job_id: str) -> str:
        """A person took charge of what a partial job left: no longer hold others up. Returns the fingerprint.

        Raises CannotTry.
        """


class Lock(msgspec.Struct, frozen=True):
    """A lock that a statement took on something that stood before: `statement` counts from 1."""

    statement: int
    on: str
    mode: str


class Merge(msgspec.Struct, frozen=True):
    """Statements that alter one table as one statement, word for word, and their downs likewise, in reverse.

    `numbers` count from 1, in order.
    """

    table: str
    numbers: tuple[int, ...]
    statement: str
    down: str | None


class Merged(msgspec.Struct, frozen=True):
    """A plan with its merges, rehearsed: its schema came out like that of the plan as it was.

    `apart`: clauses that say which ALTERs of one table stayed apart, and why.
    """

    statements: tuple[str, ...]
    down: tuple[str, ...] | None
    merges: tuple[Merge, ...]
    apart: tuple[str, ...]


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """A plan ran from its first statement to its last, and nothing of it stands.

    `how`: where it ran, in words; `limits`: what could not be tried there. `before`, `after` and `after_downs` are
    fingerprints, the last None where there were no downs. `merges`: what could be one statement, rehearsed as well;
    `apart`: why more could not. `rows`: (table, rows in it) of the tables touched, None where
    the engine has no estimate; `rows_changed`: by each statement, None where no rows were there to be changed.
    """

    how: str
    before: str
    after: str
    after_downs: str | None
    changes: tuple[Change, ...]
    locks: tuple[Lock, ...] = ()
    rows: tuple[tuple[str, int | None], ...] = ()
    rows_changed: tuple[int, ...] | None = None
    limits: tuple[str, ...] = ()
    seconds: float
    merges: tuple[Merge, ...] = ()
    apart: tuple[str, ...] = ()


@runtime_checkable
class Rehearses(Protocol):
    """What a session has beside `Session` where a plan can be tried without the target keeping anything of it."""

    needs_lock: bool
    """Whether `rehearse` needs the target's lock."""

    @property
    def keeps_lock(self) -> bool:
        """Whether the lock is still held once it has rehearsed."""

    def rehearse(self, work: Work, timeout: float, stop: Stop) -> Rehearsal:
        """Run the plan, then its downs last to first, where nothing stays. `timeout`: seconds a statement.

        Raises Failed for what does not go through, or does not come back, with `statement` counted from 1; CannotTry
        where nothing can be rehearsed. The target is not written to.
        """


@runtime_checkable
class Merges(Protocol):
    """What the session of an engine whose DDL commits by itself has beside `Session`. Needs the lock."""

    def merge(self, work: Work, timeout: float, stop: Stop) -> Merged:
        """The plan with ALTERs of one table as one statement, tried both ways. The target is not written to.

        Raises Failed where nothing can be merged, or it would not go through; CannotTry.
        """


class Restored(msgspec.Struct, frozen=True):
    """A target that is again what it was: its fingerprint, and the jobs whose receipts went."""

    fingerprint: str
    undone: tuple[str, ...]


@runtime_checkable
class Restores(Protocol):
    """What a target has beside `Target` where endmark puts its backups back."""

    def jobs_since(self, backup: Path) -> tuple[str, ...]:
        """The jobs with a receipt in the target and none in the backup, in the order they came. Raises CannotTry."""

    def restore(
        self, backup: Path, kept: Kept, undone: Sequence[str], lock_timeout: float, progress: Progress, stop: Stop
    ) -> Restored:
        """Make the target what the backup is, under its lock. `undone`: every job that this may undo.

        Raises Failed when interrupted and CannotTry for everything else, a backup whose bytes are not `kept` and a job
        that `undone` does not name included; the target is what it was then.
        """
