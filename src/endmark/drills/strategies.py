"""Strategies for Hypothesis: whole envelopes of plans and verdicts, and faults of a given body."""

from typing import Any

from hypothesis import strategies as st

from endmark.core import mc1, plan, strictjson
from endmark.core.plan import Plan
from endmark.drills.body import Body, DoesNotFit
from endmark.drills.families import NAMES, Family, of_data
from endmark.drills.faults import Broken

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
_BODILY = ("cuts", "flips", "tokens", "closes", "keys", "sentinel", "gaps", "mutations", "pairs")  # need no transport


def statements() -> st.SearchStrategy[str]:
    """SQL statements that say something."""
    return _TEXT.map(lambda text: f"-- {text!a}\nDELETE FROM t")


def plans(**fixed: Any) -> st.SearchStrategy[Plan]:
    """Whole plans. `fixed`: fields that are to have one value, such as job_id."""
    ids = st.from_regex(r"[A-Za-z0-9._:-]{1,40}", fullmatch=True)

    def make(job_id: str, made: list[str]) -> Plan:
        return Plan(**({"job_id": job_id, "statements": made, "sha256": plan.digest(made)} | fixed))

    return st.builds(make, ids, st.lists(statements(), min_size=1, max_size=6))


def plan_envelopes() -> st.SearchStrategy[bytes]:
    """Plans in MC1 envelopes: each is accepted by `endmark.check`."""
    return plans().map(plan.seal)


def verdict_envelopes() -> st.SearchStrategy[bytes]:
    """Verdicts in MC1 envelopes: each is accepted by `endmark.check`."""
    finding = st.fixed_dictionaries(
        {"severity": st.just("advisory"), "path": st.just("a.py"), "message": _TEXT.filter(bool)},
        optional={"line": st.integers(1, 10**6)},
    )
    verdicts = st.fixed_dictionaries(
        {
            "verdict": st.sampled_from(["pass", "fail"]),
            "diff_sha": st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
            "policy_version": _TEXT.filter(bool),
            "findings": st.lists(finding, max_size=3),
        }
    )
    return verdicts.map(lambda value: mc1.seal(strictjson.dumps(value)))


def faults(body: Body, *kinds: str) -> st.SearchStrategy[Broken]:
    """Faults of families that fit `body`, and change it; all families that need no transport, where none is named."""
    for kind in kinds:
        if kind not in NAMES:
            raise ValueError(f"{kind!a} is no family of faults")
    families = [family for kind in kinds or _BODILY if (family := Family(kind)).count(body)]

    @st.composite
    def one(draw: st.DrawFn) -> Broken:
        family = draw(st.sampled_from(families))
        return family.fault(body, draw(st.integers(0, family.count(body) - 1)))

    return one().filter(lambda broken: _changes(broken, body))


def damaged(body: Body, *kinds: str) -> st.SearchStrategy[bytes]:
    """What such faults leave of `body`."""
    return faults(body, *kinds).map(lambda broken: of_data(broken, body))


def _changes(broken: Broken, body: Body) -> bool:
    try:
        return of_data(broken, body) != body.data
    except DoesNotFit:
        return False
