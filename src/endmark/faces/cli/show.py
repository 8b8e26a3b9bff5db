"""`endmark show`: everything on record about one job or attempt."""

from typing import Any

import click
import msgspec

from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry
from endmark.core.states import MOVES, State
from endmark.faces.api import Job
from endmark.faces.cli.at_gate import LEDGER, open_to_read, settings
from endmark.faces.cli.common import JSON, Result, Verb
from endmark.faces.misuse import Misuse
from endmark.faces.review import ADVISORY, rehearsal_lines, statement_lines
from endmark.faces.terminal import safe
from endmark.faces.words import many, sentence
from endmark.ledger.entry import Entry, Event
from endmark.steps.rehearsing import REHEARSED

# What was refused has no plan: its bytes, where they are kept, prove nothing.
_UNPROVEN = frozenset({State.RECEIVED, *MOVES[State.RECEIVED]} - {State.STAGED})


@click.command("show", cls=Verb)
@click.argument("id")
@click.option("--sarif", metavar="FILE", help="Of a decision or a review: write the findings there, as SARIF 2.1.0.")
@LEDGER
@JSON
@click.pass_context
def command(ctx: click.Context, id: str, sarif: str | None, ledger: str | None, config: str | None) -> Result:
    """Everything on record about one job or attempt: its facts, evidence, timeline and statements; or about a patch.

    ID is a job's id, or the id of an attempt, a decision (dec_...) or a review, that every answer carries. What each
    statement destroys is a parser's opinion: advice, not proof.

    \b
    Examples:
      endmark show billing-2026-11-30
      endmark show dec_01m8p570g1pjna04mfndzbvxsw --sarif findings.sarif
    """
    found = settings(ledger, config)
    gate = open_to_read(ctx, found)
    if gate.ledger.find(id) is None:
        from endmark.faces.cli.show_patch import show_patch

        if (patch := show_patch(gate, found, id, sarif)) is not None:
            return patch
    if sarif is not None:
        raise Misuse("--sarif: only a decision or a review about a patch has findings.")
    job = gate.job(id)
    entry = gate.ledger.get(job.outcome.attempt_id or "")
    if entry is None:
        raise CannotTry(f"attempt {id} is no longer in the ledger. Nothing was done.")
    events = gate.ledger.events(entry.attempt_id)
    statements, gone = ([], "") if entry.state in _UNPROVEN else _statements(job, entry)
    rehearsal = job.rehearsal
    lines = [*_facts(entry, job.outcome), "", *timeline(events), *_listing(statements, gone)]
    if rehearsal is not None:
        lines += ["", *rehearsal_lines(rehearsal)]
    document = {
        "version": 1,
        "job": job.outcome,
        "record": {name: value for name, value in msgspec.structs.asdict(entry).items() if name in _RECORD},
        "statements": statements,
        "statements_missing": gone or None,
        "rehearsal": rehearsal,
        "events": events,
        "exit_code": 0,
    }
    return Result("\n".join(lines), document)


_RECORD = (
    "kind",
    "level",
    "body_sha256",
    "submitter",
    "approver",
    "approved_fingerprint",
    "fingerprint_before",
    "fingerprint_after",
    "backup",
    "received_at",
    "changed_at",
)


def _statements(job: Job, entry: Entry) -> tuple[list[dict[str, Any]], str]:
    """Each statement with what is known of it; or none, and why."""
    from endmark.effects.destroys import destroys, dialect_of

    try:
        plan = job.plan
    except CannotTry as fault:
        return [], fault.detail
    rows, dialect = entry.statement_rows or (), dialect_of(entry.target)
    return [
        {
            "sql": statement,
            "destroys": destroys(statement, dialect),
            "rows_changed": rows[at] if at < len(rows) else None,
            "down": plan.down[at] if plan.down else None,
        }
        for at, statement in enumerate(plan.statements)
    ], ""


def _facts(entry: Entry, outcome: Outcome) -> list[str]:
    received = f"{entry.received_bytes:,} bytes"
    if entry.expected_bytes is not None:
        received = f"{entry.received_bytes:,} of {entry.expected_bytes:,} bytes"
    ran = None if entry.statements_run is None else f"{entry.statements_run:,} of {entry.stmt_count or 0:,}"
    changed = None if entry.statement_rows is None else f"{sum(entry.statement_rows):,}"
    known = (
        ("job", entry.job_id),
        ("attempt", entry.attempt_id),
        ("target", entry.target),
        ("received", received),
        ("body sha256", entry.body_sha256),
        ("plan sha256", entry.sha256),
        ("evidence", ", ".join(entry.evidence)),
        ("submitted by", entry.submitter),
        ("approved by", entry.approver),
        ("statements run", ran),
        ("rows changed", changed),
        ("schema before", entry.fingerprint_before),
        ("schema after", entry.fingerprint_after),
        ("backup", entry.backup),
    )
    return [sentence(outcome), "", *(f"{name:<15} {safe(value)}" for name, value in known if value)]


def timeline(events: list[Event]) -> list[str]:
    return [f"{event.at[:23].replace('T', ' ')}  {_happened(event)}" for event in events]


def _happened(event: Event) -> str:
    what = f"{event.from_state} > {event.to_state}" if event.from_state else event.event
    if event.event == REHEARSED:
        return safe(f"{what}, {event.data.get('how')}")  # what it found stands below
    more = {key.replace("_", " "): value for key, value in event.data.items() if key not in ("set", "stderr") and value}
    return safe(", ".join([what, *(key if value is True else f"{key} {value}" for key, value in more.items())]))


def _listing(statements: list[dict[str, Any]], gone: str) -> list[str]:
    if gone:
        return ["", safe(gone)]
    lines: list[str] = []
    for number, statement in enumerate(statements, 1):
        lines += statement_lines(number, statement["sql"], statement["destroys"])
        if statement["rows_changed"] is not None:
            lines.append(f"     = {many(statement['rows_changed'], 'row')} changed")
    return ["", *lines, ADVISORY] if lines else []
