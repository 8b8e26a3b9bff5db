"""The target's receipt has the last word: the one step that applying and reconciling share."""

from contextlib import suppress
from datetime import datetime
from pathlib import Path

from endmark.core.evidence import RECEIPT_FOUND, REVERTED
from endmark.core.refusal import Signal
from endmark.core.states import State
from endmark.effects.target import Receipt
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry, Moved

STANDS = frozenset({"applied", "reverted"})  # what the receipt of a job says that had its effect
BACKING_UP = "backing-up"  # the event before a backup is begun; it says where to


def remove_half_a_backup(ledger: Ledger, entry: Entry) -> None:
    """Remove what a killed process left of a backup: it is no backup, and holds the target's data. Raises CannotTry."""
    for event in ledger.events(entry.attempt_id):
        if event.event == BACKING_UP and isinstance(event.data.get("to"), str):
            with suppress(OSError):
                Path(f"{event.data['to']}.part").unlink(missing_ok=True)


def settle(ledger: Ledger, entry: Entry, receipt: Receipt | None, now: datetime) -> Entry:
    """Move an `applying` job to what its receipt, read under the target's lock, proves.

    Equal digest and count: `applied`. None: `failed`, for nothing was committed. Another, or one that says something
    else than that the job was applied: `failed`, with an alarm.
    Returns the entry as it then stands, also when another process was faster. Raises CannotTry.
    """
    try:
        if receipt is None:
            return ledger.move(
                entry.attempt_id,
                State.APPLYING,
                State.FAILED,
                now,
                signal=Signal.LOST,
                detail="it was interrupted, and the target has no receipt: nothing was committed",
            )
        same = (receipt.sha256, receipt.stmt_count) == (entry.sha256, entry.stmt_count)
        if same and receipt.status in STANDS:
            return ledger.move(
                entry.attempt_id,
                State.APPLYING,
                State.APPLIED,
                now,
                signal=Signal.COMPLETE,
                evidence=(RECEIPT_FOUND,) if receipt.status == "applied" else (RECEIPT_FOUND, REVERTED),
                statements_run=receipt.statements_run,
                fingerprint_after=receipt.fingerprint_after,
            )
        ledger.note(
            entry.attempt_id,
            "alarm",
            now,
            {"receipt_sha256": receipt.sha256, "receipt_count": receipt.stmt_count, "receipt_status": receipt.status},
        )
        return ledger.move(
            entry.attempt_id,
            State.APPLYING,
            State.FAILED,
            now,
            signal=Signal.ID_REUSED,
            detail="ALARM: the target's receipt for this id "
            + (f"says {receipt.status!r}" if same else "is for another body")
            + "; ask who wrote it",
        )
    except Moved as moved:
        return moved.entry
