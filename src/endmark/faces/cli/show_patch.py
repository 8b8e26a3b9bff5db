"""`endmark show` of a decision about a patch, or of one review."""

from collections.abc import Iterator

import msgspec

from endmark.core.dsse import Verify
from endmark.core.states import Review
from endmark.core.verdict import Finding
from endmark.faces.api import Gate
from endmark.faces.cli.at_patch import lines
from endmark.faces.cli.common import Result
from endmark.faces.cli.outputs import put
from endmark.faces.cli.show import timeline
from endmark.faces.config import Config
from endmark.faces.patch_records import findings, sarif_of
from endmark.faces.terminal import safe
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import DecisionEntry, ReviewEntry
from endmark.ledger.patch_outcomes import outcome_of

_MOST_LINES = 2_000  # of findings for people; --json has them all


def show_patch(gate: Gate, config: Config, name: str, sarif: str | None) -> Result | None:
    """The decision or the review of this id, or None. `sarif`: where its findings go too. Raises CannotTry."""
    book = PatchBook(gate.ledger)
    one = book.review(name)
    entry = book.get(name if one is None else one.decision_id)
    if entry is None:
        return None
    reviews = book.reviews(entry.decision_id) if one is None else [one]
    verify = _verifier(config)
    if sarif is not None:
        put(sarif, sarif_of(book, reviews, verify))
    found = {each.review_id: findings(book, each, verify) for each in reviews}
    events = [each for each in book.events(entry.decision_id) if one is None or each.data.get("review") == name]
    outcome = outcome_of(entry, reviews)
    said = {each.data["review"]: str(each.data["stderr"]) for each in events if each.data.get("stderr")}
    text = [*lines(outcome), *_facts(entry), *_reviews(reviews, found, said), "", *timeline(events)]
    document = {
        "version": 1,
        "decision": outcome,
        "record": {key: value for key, value in msgspec.structs.asdict(entry).items() if key in _RECORD},
        "reviews": [
            {**msgspec.structs.asdict(each), "findings": found[each.review_id], "stderr": said.get(each.review_id)}
            for each in reviews
        ],
        "events": events,
        "exit_code": 0,
    }
    return Result("\n".join(text), document)


_RECORD = (
    "repository",
    "merge_tree",
    "records_sha",
    "policy_sha256",
    "required",
    "submitter",
    "approver",
    "opened_at",
    "changed_at",
)


def _verifier(config: Config) -> Verify | None:
    if not config.trusted_keys:
        return None
    from endmark.sources.keys import verifier

    return verifier(config.trusted_keys)


def _facts(entry: DecisionEntry) -> Iterator[str]:
    for name, value in (
        ("branch", entry.ref),
        ("base", entry.base),
        ("head", entry.head),
        ("merge tree", entry.merge_tree),
        ("policy", f"{entry.policy_version} ({entry.policy_sha256})"),
        ("asked", ", ".join(entry.required)),
        ("repository", entry.repository),
        ("submitted by", entry.submitter),
        ("approved by", entry.approver),
    ):
        if value:
            yield f"  {name:<12} {safe(value)}"


def _reviews(reviews: list[ReviewEntry], found: dict[str, list[Finding] | None], said: dict[str, str]) -> Iterator[str]:
    left = _MOST_LINES
    for one in reviews:
        yield ""
        yield f"{safe(one.reviewer)} ({one.purpose}) {one.state}: {safe(one.review_id)}"
        for name, value in (
            ("model", one.model),
            ("evidence", ", ".join(one.evidence)),
            ("answer", one.body_sha256),
            ("prompt", one.prompt_sha256),
            ("shown", one.shown_sha256),
            ("why", one.detail),
        ):
            if value:
                yield f"  {name:<12} {safe(value)}"
        if one.state is Review.INCOMPLETE and one.review_id in said:
            yield "  the last that it said on standard error:"
            yield from (f"    | {safe(line)}" for line in said[one.review_id].split("\n"))
        for item in found[one.review_id] or []:
            told = list(_finding(item))
            if len(told) > left:
                yield "  ... more findings: --json and --sarif have them all"
                break
            left -= len(told)
            yield from told


def _finding(item: Finding) -> Iterator[str]:
    """A finding for people. Each line carries its gutter, so that none can draw what looks like ours."""
    place = item.path if item.line is None else f"{item.path}:{item.line}"
    yield f"  {item.severity:<9} {safe(place)}"
    for line in item.message.split("\n"):
        yield f"    | {safe(line)}"
