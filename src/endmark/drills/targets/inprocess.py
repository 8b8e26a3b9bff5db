"""Our own gates, called in this process: what proves a plan, a verdict, a stream."""

from collections.abc import Callable
from typing import Literal

import msgspec

from endmark.core import proof
from endmark.core.ending import Ending
from endmark.core.proof import Form
from endmark.core.refusal import Refused, Signal
from endmark.drills.body import Body
from endmark.drills.faults import Broken
from endmark.drills.targets.answer import Answer, Seen
from endmark.drills.targets.calling import data_of
from endmark.seal import seal
from endmark.sources.capture import Capture

Gate = Callable[[bytes], object]


class GateTarget(msgspec.Struct, frozen=True, kw_only=True):
    """`plan` and `verdict` prove bytes; `stream` seals a captured answer of `wire`, whole as its transport tells."""

    gate: Literal["plan", "verdict", "stream"]
    wire: str | None = None
    tool: str | None = None

    @property
    def name(self) -> str:
        return f"endmark {self.gate}" + (f" {self.wire}" if self.wire else "")

    def open(self, worker: int) -> "GatePlayer":
        return GatePlayer(self)


class GatePlayer:
    """Calls the gate; `check` is for a sweep at speed."""

    in_process = True

    def __init__(self, target: GateTarget) -> None:
        self.check = _gate(target)

    def play(self, broken: Broken | None, body: Body) -> Seen:
        return self.give(data_of(broken, body))

    def give(self, data: bytes) -> Seen:
        """What the gate makes of `data`."""
        try:
            self.check(data)
        except Refused as refused:
            return Seen(Answer.REFUSED, refused.signal)
        except Exception as fault:  # noqa: BLE001  # whatever else leaves a gate is a crash
            return Seen(Answer.CRASHED, f"raised {type(fault).__name__}")
        return Seen(Answer.ACCEPTED, "proven")

    def close(self) -> None:
        """There is nothing to leave behind."""


def _gate(target: GateTarget) -> Gate:
    if target.gate == "stream":
        wire, tool = target.wire, target.tool
        return lambda data: seal(Capture(raw=data, ending=Ending.LAST_CHUNK, wire=wire), tool=tool)
    forms = (Form.VERDICT,) if target.gate == "verdict" else (Form.PLAN, Form.WITNESS)
    prove = proof.prove

    def check(data: bytes) -> None:
        if prove(data).form not in forms:
            raise Refused(Signal.WRONG_VALUE, len(data), None, f"this is no {target.gate}")

    return check
