"""How a target is to be treated: what the caller set, as one value."""

import math
from collections.abc import Mapping
from pathlib import Path

import msgspec

from endmark.core.evidence import Level


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts in seconds; `backups` is a folder, None for no backup.

    `backup_command`: the operator's own, run before the first write in the environment `environ` and what says how to
    reach the target. `down_required`: no plan without downs. `rehearse`: before every apply. `other_approver`: who
    approves is not who submitted. `approval_expires`: seconds that an approval may wait to be used.
    """

    lock_timeout: float = 10.0
    statement_timeout: float = 300.0
    backups: Path | None = None
    backup_command: tuple[str, ...] | None = None
    backup_timeout: float = 3600.0
    environ: Mapping[str, str] = {}
    min_evidence: Level = Level.BARE
    max_statements: int | None = None
    down_required: bool = False
    rehearse: bool = False
    other_approver: bool = False
    approval_expires: float | None = None

    def __post_init__(self) -> None:
        waits = (self.lock_timeout, self.statement_timeout, self.backup_timeout, self.approval_expires or 0)
        if not all(0 <= seconds < math.inf for seconds in waits):
            raise ValueError("timeouts are finite numbers of seconds, zero or more")
