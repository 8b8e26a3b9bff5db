"""Who may let a plan through, and what they are shown before they do."""

import os
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from endmark.core.outcome import Outcome
from endmark.core.plan import Plan
from endmark.faces.config import Place
from endmark.faces.terminal import can_ask, paint, safe, say
from endmark.faces.words import listed, many

# What agents' hosts set for the programs they start.
MARKERS = (
    "AI_AGENT",
    "CLAUDECODE",
    "CODEX_SANDBOX",
    "CODEX_THREAD_ID",
    "CURSOR_AGENT",
    "GEMINI_CLI",
    "OPENCODE",
)
MAY_APPROVE = "ENDMARK_AGENT_MAY_APPROVE"

ADVISORY = "What a statement destroys (!) is a parser's opinion: advice, not proof."
_WARNS = "     ! "
_LINES_SHOWN = 400  # of statements, before a question; `show` has them all
_LINE_SHOWN = 2_000  # characters


class Road(StrEnum):
    """What happens to a plan once it is staged."""

    NOW = "now"
    ASK = "ask"
    WAIT = "wait"


def agent_marker(environ: Mapping[str, str]) -> str | None:
    """The variable by which an agent's host shows, unless it was switched off. A courtesy, not a lock."""
    return None if environ.get(MAY_APPROVE) == "1" else _marker(environ)


def _marker(environ: Mapping[str, str]) -> str | None:
    return next((name for name in MARKERS if environ.get(name)), None)


def who(environ: Mapping[str, str]) -> str:
    """The name records give whoever runs this."""
    import pwd

    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = f"uid {os.getuid()}"
    marker = _marker(environ)
    return f"{user} ({marker})" if marker else user


def road(
    place: Place, yes: bool, stdin_is_input: bool, environ: Mapping[str, str], *, approving: bool = False
) -> tuple[Road, str]:
    """How a plan for `place` goes on, and why it waits where it does. `approving`: the call itself is the review."""
    if place.review == "required" and not approving:
        return Road.WAIT, f"The target {place.title} asks for review" + (", so --yes is not honoured." if yes else ".")
    if place.review == "none" and not approving:
        return Road.NOW, ""
    marker = agent_marker(environ)
    if marker is not None:
        return Road.WAIT, (
            f"{marker} says that an agent's host runs this, so nothing is approved here. A person approves it, "
            f"or sets {MAY_APPROVE}=1."
        )
    if yes:
        return Road.NOW, ""
    if can_ask(stdin_is_input):
        return Road.ASK, ""
    return Road.WAIT, "There is no terminal to ask on, and no --yes."


def rehearsal_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """What a rehearsal found, for people: every word of it is somebody else's."""
    yield safe(f"Rehearsed in {found['how']}, {found['seconds']} s")
    for name, key in (("before", "before"), ("after", "after"), ("undone", "after_downs")):
        if found[key]:
            yield f"  {name:<9} {safe(found[key])}"
    yield from (f"  {safe(line)}" for line in found["changes"] or ["the schema stays as it is"])
    for lock in found["locks"]:
        yield f"  lock      {safe(lock['on'])}: {safe(lock['mode'])} (statement {lock['statement']})"
    for row in found["rows"]:
        count = "rows not known" if row["rows"] is None else f"about {many(row['rows'], 'row')}"
        yield f"  table     {safe(row['table'])}: {count}"
    if found["rows_changed"] is not None:
        yield f"  changes   {many(found['rows_changed'], 'row')}"
    for limit in found["limits"]:
        yield f"  not tried {safe(limit)}"
    for merge in found.get("merges", ()):  # a record of before there were any has none
        numbers = listed(merge["statements"])
        yield f"  offer     statements {numbers} alter one table; as one statement they would be atomic:"
        yield from (f"          | {safe(line)}" for line in merge["sql"].split("\n"))
    if found.get("merges"):
        yield "            tried as well: the schema comes out alike. 'endmark merge-alters' writes that plan"
    for clause in found.get("apart", ()):
        yield f"  no offer  {safe(clause)}"


def show_plan(
    plan: Plan, outcome: Outcome, place: Place, fingerprint: str, rehearsal: Mapping[str, Any] | None = None
) -> None:
    """The plan before the question, to standard error."""
    from endmark.effects.destroys import destroys, dialect_of

    say(f"Job {safe(plan.job_id)}, {many(plan.stmt_count, 'statement')} for {safe(place.title)}")
    for name, value in (
        ("target", safe(place.target.identity)),
        ("schema", fingerprint),
        ("digest", plan.sha256),
        ("evidence", safe(", ".join(outcome.evidence))),
    ):
        say(f"  {name:<9} {value}")
    dialect = dialect_of(place.target.identity)
    shown, hidden = 0, 0
    for number, statement in enumerate(plan.statements, 1):
        lines = list(statement_lines(number, statement, destroys(statement, dialect)))
        if shown > _LINES_SHOWN:
            hidden += 1
            lines = [line for line in lines if line.startswith(_WARNS)]  # what it destroys is always shown
        shown += len(lines)
        for line in lines:
            more = len(line) - _LINE_SHOWN
            text = line if more <= 0 else f"{line[:_LINE_SHOWN]} ... and {more:,} characters more"
            say(paint(text, "yellow", sys.stderr) if line.startswith(_WARNS) else text)
    if hidden:
        say(f"{many(hidden, 'statement')} more, not shown here: 'endmark show {safe(plan.job_id)}' shows them.")
    say(ADVISORY)
    if rehearsal is not None:
        say()
        for line in rehearsal_lines(rehearsal):
            say(line)


def statement_lines(number: int, statement: str, warnings: tuple[str, ...]) -> Iterator[str]:
    """A statement for people. Each line carries its gutter, so that no statement can draw what looks like ours."""
    for at, line in enumerate(statement.split("\n")):
        yield f"{number if not at else '':>4} | {safe(line)}"
    for warning in warnings:
        yield f"{_WARNS}{safe(warning)}"
