"""What a policy lets through that it could keep out: numbered, explained, and told to whoever writes it.

A weakness that `forbids` is one by which a merge would be decided on nothing; `endmark policy check` exits 1 for it.
"""

from collections.abc import Iterator

import msgspec

from endmark.core.evidence import Level
from endmark.core.policy import Branch, Policy, Reviewer, is_in_clear

MANY_RETRIES = 3
LARGE_DIFF = 2 * 1024 * 1024


class Kind(msgspec.Struct, frozen=True):
    """One kind of weakness. Its number is never used again for another."""

    number: int
    forbids: bool
    says: str
    why: str
    instead: str


class Weakness(msgspec.Struct, frozen=True):
    """One weakness of one policy, at the table `where`."""

    number: int
    forbids: bool
    where: str
    says: str
    why: str
    instead: str


KINDS = (
    Kind(
        1,
        True,
        "capacity is shared, and it decides a merge",
        "shared capacity is cut, queued and swapped under load; it may advise, lint and reproduce failures",
        "name it in advisors, and ask a reviewer on dedicated capacity",
    ),
    Kind(
        2,
        True,
        "the author's own model is the only one that reviews",
        "a model that made a mistake tends not to see it",
        "name a reviewer of another model",
    ),
    Kind(
        3,
        False,
        "one reviewer decides alone",
        "its verdicts change their mind at some rate, and nothing here would show it",
        "name a second one, and author_models, so that it can be seen whether they differ",
    ),
    Kind(
        4,
        False,
        f"retries is more than {MANY_RETRIES}",
        "each attempt is one more chance for a wrong pass",
        "mend what makes answers incomplete",
    ),
    Kind(
        5,
        True,
        "a model is asked for no marks",
        "a diff that the model never saw to its end would pass unnoticed",
        "leave marks out: they are asked for then",
    ),
    Kind(
        6,
        False,
        "a command is asked for no marks",
        "nothing shows that it read the diff to its end",
        "let it echo the marks",
    ),
    Kind(
        7,
        True,
        "min_evidence is below sealed",
        "what was not sealed where it was captured may have been cut on the way",
        'min_evidence = "sealed"',
    ),
    Kind(
        8,
        False,
        "a pass is carried over to another base",
        "the diff is the same, what stands around it is not",
        'carry = "none"',
    ),
    Kind(
        9,
        False,
        "temperature is not 0",
        "the same diff gets another verdict on another day",
        "temperature = 0, where the model takes it",
    ),
    Kind(
        10,
        False,
        "no cap on output tokens is requested",
        "an answer that stopped at the provider's own cap may look finished",
        "max_output_tokens, well above any verdict",
    ),
    Kind(
        11,
        True,
        "it is asked without encryption on another machine",
        "whoever is in between reads the diff and the key, and can write the verdict",
        "an https url",
    ),
    Kind(
        12,
        False,
        "the model's name is one that moves",
        "what decides would change without a change of the policy",
        "the name of one release",
    ),
    Kind(
        13,
        False,
        "two branches of different rules share one policy version",
        "a verdict names the version, and cannot say which of the two",
        "a version for each",
    ),
    Kind(
        14,
        False,
        f"max_diff_bytes is over {LARGE_DIFF:,}",
        "models attend less to the middle of what is long; a mark around it proves only that it was there",
        "smaller changes",
    ),
    Kind(
        15,
        False,
        "no branch asks it",
        "what nobody is asked protects nothing",
        "name it in reviewers or advisors, or remove it",
    ),
    Kind(
        16,
        False,
        "a verdict from elsewhere counts for it unsigned",
        "a verdict names no reviewer: whoever can run `endmark decide` on this ledger can speak for this one",
        'signed_by, the id of its own key; or min_evidence = "signed"',
    ),
    Kind(
        17,
        False,
        "any trusted key can sign for it",
        "one reviewer's key speaks for all the others too",
        "signed_by, the id of its own key",
    ),
)
_KINDS = {kind.number: kind for kind in KINDS}


def weaknesses(policy: Policy) -> list[Weakness]:
    """All of them, those that forbid first, else in the policy's order."""
    found = [
        Weakness(kind.number, kind.forbids, where, kind.says, kind.why, kind.instead)
        for number, where in dict.fromkeys(_found(policy))
        for kind in (_KINDS[number],)
    ]
    return sorted(found, key=lambda weakness: not weakness.forbids)


def _found(policy: Policy) -> Iterator[tuple[int, str]]:
    versions: dict[str, Branch] = {}
    for branch in policy.branches.values():
        where = f"branches.{branch.name}"
        yield from ((number, where) for number in _of_branch(branch, policy.reviewers_of(branch)))
        for reviewer in policy.reviewers_of(branch):
            yield from ((number, f"reviewers.{reviewer.name}") for number in _of_reviewer(reviewer))
            if reviewer.signed_by is None and branch.level < Level.SIGNED:
                yield 16, f"reviewers.{reviewer.name}"
            elif reviewer.signed_by is None and len(branch.reviewers) > 1:
                yield 17, f"reviewers.{reviewer.name}"
        other = versions.setdefault(branch.policy, branch)
        if msgspec.structs.replace(other, name=branch.name) != branch:
            yield 13, where
    asked = {name for branch in policy.branches.values() for name in (*branch.reviewers, *branch.advisors)}
    yield from ((15, f"reviewers.{name}") for name in policy.reviewers if name not in asked)


def _of_branch(branch: Branch, reviewers: tuple[Reviewer, ...]) -> Iterator[int]:
    authors = set(branch.author_models)
    if all(reviewer.model in authors for reviewer in reviewers):
        yield 2
    elif len(reviewers) == 1:
        yield 3
    if branch.retries > MANY_RETRIES:
        yield 4
    if branch.level < Level.SEALED:
        yield 7
    if branch.carry != "none":
        yield 8
    if branch.max_diff_bytes > LARGE_DIFF:
        yield 14


def _of_reviewer(reviewer: Reviewer) -> Iterator[int]:
    is_command = reviewer.kind == "command"
    if reviewer.capacity == "shared":
        yield 1
    if not reviewer.marks:
        yield 6 if is_command else 5
    if not is_command and reviewer.temperature != 0:
        yield 9
    if not is_command and reviewer.max_output_tokens is None:
        yield 10
    if is_in_clear(reviewer):
        yield 11
    if reviewer.model is not None and reviewer.model.endswith("latest"):
        yield 12
