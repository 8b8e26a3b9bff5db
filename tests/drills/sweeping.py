"""Small gates of all kinds to drill, and one sweep in a line."""

import sys
from pathlib import Path

from endmark.drills import families
from endmark.drills.body import Body
from endmark.drills.report.document import report
from endmark.drills.sweep.lanes import Job
from endmark.drills.sweep.runner import Limits, sweep
from endmark.drills.sweep.world import Commands, Functions
from endmark.drills.targets.answer import Answer, rules
from endmark.drills.targets.calling import CallPlayer, HereTarget
from endmark.drills.targets.command import CommandTarget

HOLES = Path(__file__).resolve().parents[2] / "examples" / "holes"
# Without the site packages a Python starts in half the time.
PYTHON = (sys.executable, "-I", "-S")
VERDICT = b'{"verdict": "pass", "diff_sha": "9f2c", "policy_version": "gate-2026-07"}'


def drill(target, data, faults="cuts", *, world=None, limit=5.0, stop=False, seed=0, only=None, **limits):
    """One sweep; `data` is the payload, or a Body."""
    body = data if isinstance(data, Body) else Body(data)
    found = (families.only(only),) if only is not None else tuple(families.parse(faults, seed))
    job = Job(
        target=target,
        body=body,
        families=found,
        commands=world or Commands(),
        limit=limit,
        stop_on_hole=stop,
    )
    return sweep(job, Limits(**limits), seed)


def calling(function, data=VERDICT, faults="cuts", *, effect=None, reset=None, refused_if=(), text=False, **more):
    """A sweep over a function in this process."""
    target = HereTarget("function", CallPlayer(function, text, rules(refused_if)))
    return drill(target, data, faults, world=Functions(effect, reset), **more)


def command(*argv, refused_if=(), limit=5.0):
    return CommandTarget(argv=tuple(map(str, argv)), rules=rules(refused_if), limit=limit)


def shell(text, **more):
    """A gate written as a line of shell; it gets the payload on standard input."""
    return command("/bin/sh", "-c", text, **more)


def holes(swept):
    """The text forms of the faults that were accepted or had an effect."""
    return [str(hole.fault) for hole in report(swept).holes]


def texts(swept, *answers):
    return [str(fault) for fault, _, _ in swept.found(*answers)]


def counts(swept):
    """How many faults got each answer that any got."""
    return {answer.name: swept.count(answer) for answer in Answer if swept.count(answer)}
