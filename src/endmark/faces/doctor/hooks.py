"""The hooks of the repository, where one is known."""

import os
from collections.abc import Iterator

from endmark.core.refusal import CannotTry, Refused
from endmark.effects.git import Git, hooks, open_repository
from endmark.faces import canary
from endmark.faces.doctor.finding import Case, Finding, todo, unseen, well

FAMILY = "hooks"


def look(case: Case) -> Iterator[Finding]:
    if case.repository is None:
        return
    from endmark.faces.cli.hook import program

    try:
        repository = open_repository(Git(os.environ), case.repository)
        found = [*hooks.problems(repository, program()), *canary.weaknesses(repository)]
    except (CannotTry, Refused) as fault:
        yield unseen(FAMILY, case.repository, fault.detail, "name the repository with --repo, as its own user")
        return
    for problem in found:
        do = "'endmark hook git install' renews them, 'endmark hook git check' tries them"
        yield todo(FAMILY, case.repository, problem, do)
    if not found:
        yield well(FAMILY, case.repository, "they stand as installed; 'endmark hook git check' also tries them")
