"""Jobs that stand where nothing moves them on by itself."""

import os
from collections.abc import Iterator
from pathlib import Path

from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.faces.api import now
from endmark.faces.config import Config
from endmark.faces.doctor.books import older
from endmark.faces.doctor.finding import Case, Finding, todo, unseen, well
from endmark.faces.misuse import Misuse
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry
from endmark.steps.approving import void
from endmark.steps.treatment import Options

FAMILY = "jobs"
_LISTED = 20


def look(case: Case) -> Iterator[Finding]:
    where = case.config.ledger
    if isinstance(where, Path) and (not os.path.lexists(where) or older(where) is not None):
        return
    try:
        with Ledger.open(where, create=False) as book:
            found = list(_found(book, case.config))
    except CannotTry as fault:
        yield unseen(FAMILY, "jobs", fault, "mend the ledger first")
        return
    yield from found[:_LISTED]
    if len(found) > _LISTED:
        yield todo(FAMILY, "more", f"{len(found) - _LISTED:,} more jobs", "'endmark jobs' lists them")
    if not found:
        yield well(FAMILY, "jobs", "none stands applying or partial, and no approval has run out")


def _found(book: Ledger, config: Config) -> Iterator[Finding]:
    for entry in book.in_state(State.APPLYING):
        do = "if no gate is at work on it, 'endmark reconcile' settles it by the receipt in its target"
        yield todo(FAMILY, _name(entry), f"it stands applying since {entry.changed_at}", do)
    for entry in book.in_state(State.PARTIAL):
        do = f"its target takes no other job: look, then 'endmark settle {_name(entry)} --reason TEXT'"
        yield todo(FAMILY, _name(entry), f"a part of it stands in {entry.target}", do)
    for entry in book.in_state(State.APPROVED):
        options = _options(entry, config)
        # By its age alone: what the schema is now shows when it is applied.
        why = None if options is None else void(book, entry, entry.approved_fingerprint or "", options, now())
        if why is not None:
            yield todo(FAMILY, _name(entry), why, f"look again, then 'endmark approve {_name(entry)}'")


def _options(entry: Entry, config: Config) -> Options | None:
    try:
        return None if entry.target is None else config.place(entry.target).options
    except (Misuse, CannotTry):
        return None


def _name(entry: Entry) -> str:
    return entry.job_id or entry.attempt_id
