"""The fixture `endmark_drill` of pytest: sweeps a payload over a parser of yours.

def test_my_gate_takes_nothing_that_is_broken(endmark_drill):
    endmark_drill(my_parser, b'{"verdict": "pass"}').check()
"""

from collections.abc import Callable
from typing import Any

import pytest


class Drilled:
    """What a sweep found. `holes`: the faults, in their text form, that were accepted or had an effect."""

    def __init__(self, report: Any) -> None:
        self.report = report
        self.holes = [str(hole.fault) for hole in report.holes]
        self.tried: int = report.swept.tried
        self.control: str = report.swept.control

    def check(self, *, crashes: bool = True) -> None:
        """Fail the test for a hole, for a hang, for a control that was not accepted; with `crashes` for those too."""
        from endmark.drills.report import terminal
        from endmark.drills.targets.answer import Answer

        swept = self.report.swept
        bad = self.report.exit_code or swept.count(Answer.HUNG) or (crashes and swept.count(Answer.CRASHED))
        if bad:
            __tracebackhide__ = True
            pytest.fail(terminal.show(self.report, 100), pytrace=False)


def drill(
    parser: Callable[[Any], object],
    payload: bytes | str,
    faults: str = "cuts",
    *,
    effect: Callable[[], object] | None = None,
    reset: Callable[[], object] | None = None,
    refused_if: tuple[str, ...] = (),
    other: bytes | None = None,
    timeout: float = 5.0,
    seed: int = 0,
) -> Drilled:
    """Sweep `payload` over `parser`, in this process and thread.

    `parser` gets bytes, or strings where `payload` is one; to return is to accept, ValueError and every exception that
    is not Python's own is a refusal, another one a crash; `refused_if` as `endmark drill python` has it. `effect` is
    asked after each fault for what must not change, `reset` sets that back before each. `timeout` in seconds a fault.
    Raises ValueError for faults or rules that are none.
    """
    from endmark.drills import families
    from endmark.drills.body import Body
    from endmark.drills.report.document import report
    from endmark.drills.sweep.lanes import Job
    from endmark.drills.sweep.runner import Limits, sweep
    from endmark.drills.sweep.world import Functions
    from endmark.drills.targets.answer import rules
    from endmark.drills.targets.calling import CallPlayer, HereTarget

    text = isinstance(payload, str)
    data = payload.encode() if isinstance(payload, str) else payload
    body = Body(data, other=other)
    name = getattr(parser, "__qualname__", repr(parser))
    job = Job(
        target=HereTarget(name, CallPlayer(parser, text, rules(refused_if))),
        body=body,
        families=tuple(families.parse(faults, seed)),
        commands=Functions(effect, reset),
        limit=timeout,
    )
    swept = sweep(job, Limits(), seed)
    return Drilled(report(swept))


@pytest.fixture
def endmark_drill() -> Callable[..., Drilled]:
    """`endmark_drill(parser, payload, faults=..., effect=..., reset=...)`; see `endmark.faces.pytest_plugin.drill`."""
    return drill
