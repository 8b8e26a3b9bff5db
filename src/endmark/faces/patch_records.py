"""What is on record about a patch, in the forms that others read: findings, SARIF, a forge's report."""

from collections.abc import Sequence

from endmark import __version__
from endmark.core import proof, sarif
from endmark.core.dsse import Verify
from endmark.core.patch_outcome import PatchOutcome
from endmark.core.printable import safe
from endmark.core.refusal import Refused
from endmark.core.states import Decision, Review
from endmark.core.verdict import Finding, Verdict
from endmark.effects.forges.report import Report
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import ADVICE, ReviewEntry


def findings(book: PatchBook, one: ReviewEntry, verify: Verify | None = None) -> list[Finding] | None:
    """What a whole verdict found, read anew from the bytes kept; None where there is none, or they cannot be read."""
    if one.state not in (Review.PASS, Review.FAIL):
        return None
    raw = book.answer(one.review_id)
    if raw is None:
        return None
    try:
        value = proof.prove(raw, len(raw), verify).value
    except Refused:
        return None
    return value.findings or [] if isinstance(value, Verdict) else None


def sarif_of(book: PatchBook, reviews: Sequence[ReviewEntry], verify: Verify | None = None) -> bytes:
    """One SARIF 2.1.0 log, a run for each attempt; what was not whole is marked, and holds no results."""
    runs = []
    for one in reviews:
        found = findings(book, one, verify)
        runs.append(
            sarif.Run(
                reviewer=one.reviewer,
                attempt_id=one.review_id,
                findings=found,
                signal=None if one.signal is None or found is not None else one.signal.value,
                detail=one.detail or ("nobody has answered yet" if one.state is Review.ASKED else ""),
                verdict=one.state.value if found is not None else None,
                advice=one.purpose == ADVICE,
            )
        )
    return sarif.dumps(runs, __version__)


def report_of(outcome: PatchOutcome, found: Sequence[Finding]) -> Report:
    """A decision as a forge shows it."""
    state = Decision(outcome.state)
    lines = [f"**{state.value}**: {plain(outcome.detail)}", ""]
    for one in outcome.reviews:
        count = "" if one.blocking is None else f", {one.blocking} blocking, {one.advisory} advisory"
        why = f": {plain(one.detail)}" if one.detail else ""
        lines.append(f"- {plain(one.reviewer)} ({one.purpose}): {one.state}{count}{why}")
    lines += ["", *(f"- {item.severity}: {plain(item.path)}: {plain(item.message)}" for item in found)]
    lines += ["", f"decision `{outcome.decision_id}`, diff `{outcome.diff_sha}`, policy `{outcome.policy_version}`"]
    return Report(
        commit=outcome.head or "",
        decision_id=outcome.decision_id or "",
        state=state,
        title=plain(outcome.detail) or state.value,
        summary="\n".join(lines) + "\n",
        findings=found,
    )


def plain(text: str) -> str:
    """Words for a page of Markdown: none of them is a tag, a link or a mention of somebody."""
    return "".join(f"&#{ord(letter)};" if letter in "<>[]`*_|@!&#" else letter for letter in safe(text))
