"""All that is known of one decision about a patch; the diff too, where its repository is at hand."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from endmark.core.dsse import Verify
from endmark.core.patch_outcome import PatchOutcome
from endmark.core.refusal import CannotTry, Refused
from endmark.core.verdict import Finding
from endmark.effects.git import Gate, Git, open_repository, read_blocks
from endmark.faces.pages.job import Happened, happened
from endmark.faces.patch_records import findings
from endmark.ledger.book import Ledger
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import DecisionEntry, ReviewEntry
from endmark.ledger.patch_outcomes import outcome_of
from endmark.steps.patch_case import read_again

_DIFF_CAP = 512 * 1024  # bytes of a diff that is shown
_FINDINGS = 500  # of one review
_KINDS = {"+": "add", "-": "del", "@": "hunk"}


class Reviewed(msgspec.Struct, frozen=True):
    """One attempt at a review, and what it found; None where it was not whole."""

    entry: ReviewEntry
    findings: list[Finding] | None
    more: int


class Whole(msgspec.Struct, frozen=True):
    """A decision."""

    entry: DecisionEntry
    outcome: PatchOutcome
    reviews: list[Reviewed]
    advice: list[Reviewed]
    replays: list[Reviewed]
    events: list[Happened]


class File(msgspec.Struct, frozen=True):
    """The patch of one path: (kind, text) of each line."""

    path: str
    lines: list[tuple[str, str]]
    is_binary: bool


def whole(ledger: Ledger, entry: DecisionEntry, verify: Verify | None) -> Whole:
    """What the book says of it. Raises CannotTry."""
    book = PatchBook(ledger)
    reviews = book.reviews(entry.decision_id)
    made = [_reviewed(book, one, verify) for one in reviews]
    return Whole(
        entry=entry,
        outcome=outcome_of(entry, reviews),
        reviews=[one for one in made if one.entry.purpose not in ("advice", "replay")],
        advice=[one for one in made if one.entry.purpose == "advice"],
        replays=[one for one in made if one.entry.purpose == "replay"],
        events=[happened(event) for event in book.events(entry.decision_id)],
    )


def diff(repository: Path | None, entry: DecisionEntry) -> tuple[list[File], str]:
    """(the patch of each path as it was judged, or none and why)."""
    if repository is None:
        return [], 'No repository is configured, so the diff is not shown: [service] repository = "DIR" names one.'
    try:
        found = open_repository(Git(os.environ), str(repository))
        if os.path.realpath(found.common_dir) != entry.repository:
            return [], "The configured repository is not the one that this was decided in, so the diff is not shown."
        with Gate(found) as gate:
            blocks = read_blocks(gate, read_again(gate, entry).change, _DIFF_CAP)
    except (Refused, CannotTry) as fault:
        return [], f"The diff cannot be shown: {fault.detail}."
    return [
        File(
            block.record.path.decode("utf-8", "backslashreplace"),
            [_coloured(line) for line in block.patch.decode("utf-8", "backslashreplace").splitlines()],
            block.is_binary,
        )
        for block in blocks
    ], ""


def _reviewed(book: PatchBook, one: ReviewEntry, verify: Verify | None) -> Reviewed:
    found = findings(book, one, verify)
    if found is None:
        return Reviewed(one, None, 0)
    return Reviewed(one, found[:_FINDINGS], max(0, len(found) - _FINDINGS))


def _coloured(line: str) -> tuple[str, str]:
    if line.startswith(("+++ ", "--- ", "diff ", "index ")):
        return "head", line
    return _KINDS.get(line[:1], "same"), line
