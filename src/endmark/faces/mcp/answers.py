"""What a call is answered with: words an agent can act on, the same as a structure, and whether it is an error."""

from typing import Any

import msgspec

from endmark.core.decision import Next
from endmark.core.outcome import Outcome, could_not_try, of_refusal
from endmark.core.patch_outcome import PatchOutcome
from endmark.core.patch_outcome import of_refusal as patch_refusal
from endmark.core.printable import safe
from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.faces.api import now
from endmark.faces.words import sentence

_WELL = (0, 16)  # exit codes of what was done, or waits
_RESEND = (
    "Send the whole again under a new job_id, in smaller plans if it was cut. Never append to what was sent, and never "
    "continue it."
)
_STATUS = "Do not send it again. Ask job_status"


class Answer(msgspec.Struct, frozen=True):
    """`document` is the structured content, a JSON object."""

    text: str
    document: dict[str, Any]
    is_error: bool


def of_outcome(outcome: Outcome, *, asked: bool = False, why: str = "") -> Answer:
    """What became of a job. `asked`: somebody only wanted to know, so that a refused job is no error of this call.

    `why`: what kept it where it is.
    """
    lines = [sentence(outcome), *([f"It was not applied now: {safe(why)}"] if why else [])]
    if outcome.received_bytes is not None:
        expected = "not declared" if outcome.expected_bytes is None else f"{outcome.expected_bytes:,}"
        lines.append(
            f"Signal: {outcome.signal}. Received bytes: {outcome.received_bytes:,}. Expected bytes: {expected}."
        )
    lines.append(f"Next: {_next(outcome)}")
    return _answer(lines, outcome, not asked and outcome.exit_code not in _WELL)


def of_decision(outcome: PatchOutcome, *, asked: bool = False) -> Answer:
    """What became of a verdict. A `fail` that arrived whole is an answer, no error."""
    found = "" if outcome.signal in ("complete", outcome.state) else f" ({outcome.signal})"
    lines = [f"{outcome.state}{found}: {safe(outcome.detail)}".rstrip(": ")]
    for one in outcome.reviews:
        expected = "not declared" if one.expected_bytes is None else f"{one.expected_bytes:,}"
        lines.append(
            f"{safe(one.reviewer)}: {one.state}, received bytes: {one.received_bytes}, expected bytes: {expected}. "
            f"{safe(one.detail)}".rstrip()
        )
    whole = outcome.state in ("pass", "fail", "merged", "pending")
    ours = "" if outcome.decision_id is None else f' job_status("{outcome.decision_id}") says it again.'
    lines.append("Next: " + (f"nothing more.{ours}" if whole else f"nothing was merged. {_whole_verdict(outcome)}"))
    return _answer(lines, outcome, not asked and not whole)


def _whole_verdict(outcome: PatchOutcome) -> str:
    if outcome.next is Next.RESEND:
        return "Ask the reviewer anew, and send the whole envelope as it was sealed; never append to a cut one."
    return "Tell the person who runs this."


def of_refused(refused: Refused, kind: str = "plan") -> Answer:
    """What was refused; its record where a gate kept one."""
    if isinstance(refused.outcome, Outcome):
        return of_outcome(refused.outcome)
    return of_decision(patch_refusal(refused, at())) if kind == "verdict" else of_outcome(of_refusal(refused, at()))


def of_cannot(fault: CannotTry) -> Answer:
    """The world is not in a state to try."""
    outcome = could_not_try(fault.detail if fault.detail.endswith(".") else f"{fault.detail}.", at())
    lines = [
        sentence(outcome),
        (
            "Next: mend what it names, or wait, and make the same call again: nothing was recorded, so the id is free. "
            "If it goes on, tell the person who runs this."
        ),
    ]
    return _answer(lines, outcome, True)


def not_a_call(detail: str) -> Answer:
    """The call itself is not one that can be made."""
    outcome = Outcome(state="not-tried", signal="usage", detail=detail, next=Next.NONE, exit_code=2, at=at())
    return _answer([f"{detail} Nothing was applied.", "Next: call again as the tool's schema says."], outcome, True)


def running(job_id: str | None) -> Answer:
    """It takes longer than a call may: it goes on."""
    detail = "It is still being worked on and goes on without this call. Nothing is known of its end yet."
    outcome = Outcome(
        job_id=job_id, state="running", signal="running", detail=detail, next=Next.WAIT, exit_code=16, at=at()
    )
    return _answer([f"running: {detail}", f"Next: {_STATUS}{_of(job_id)} in some seconds."], outcome, False)


def busy() -> Answer:
    """Too much is being worked on: this call was not begun, and will not be."""
    detail = "Too many calls are being worked on, so this one was not begun. Nothing was taken and nothing was applied."
    outcome = Outcome(state="not-tried", signal="busy", detail=detail, next=Next.WAIT, exit_code=20, at=at())
    return _answer([detail, "Next: wait some seconds and make the same call again; the id is free."], outcome, True)


def our_fault(fault: BaseException, *, may_have_applied: bool, job_id: str | None = None) -> Answer:
    """A mistake of ours. What is not known is not claimed."""
    said = "It is not known whether anything was applied" if may_have_applied else "Nothing was applied"
    detail = f"{said}: endmark itself failed ({type(fault).__name__})."
    outcome = Outcome(
        job_id=job_id, state="unknown", signal="our-fault", detail=detail, next=Next.ASK, exit_code=70, at=at()
    )
    lines = [f"unknown: {detail}", f"Next: {_STATUS}{_of(job_id)}, and tell the person who runs this."]
    return _answer(lines, outcome, True)


def at() -> str:
    """The time in the spelling of records."""
    return now().isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def _next(outcome: Outcome) -> str:
    if outcome.signal == Signal.ID_REUSED:
        return (
            f"{_STATUS}{_of(outcome.job_id)} what became of the job that has this id. A different plan needs an id of "
            "its own."
        )
    if outcome.next is Next.RESEND:
        return _RESEND
    if outcome.next is Next.WAIT and outcome.state == "staged":
        return (
            f"A person looks at it and runs: endmark approve {outcome.job_id}. Tell them that it waits. "
            f"{_STATUS}{_of(outcome.job_id)} what became of it."
        )
    if outcome.next is Next.WAIT:
        return f"{_STATUS}{_of(outcome.job_id)} in some seconds."
    if outcome.next is Next.ASK:
        return "Do not send anything for this target now; tell the person who runs this."
    return (
        "nothing more." if outcome.exit_code == 0 else "Nothing of it stands; read why before you write another plan."
    )


def _of(job_id: str | None) -> str:
    return "(the plan's job_id)" if job_id is None else f'("{safe(job_id)}")'


def _answer(lines: list[str], outcome: Outcome | PatchOutcome, is_error: bool) -> Answer:
    return Answer("\n".join(lines), msgspec.to_builtins(outcome), is_error)
