"""The choices of a chat completion besides number 0, of which only their end counts (spec/wires.md, OC21)."""

from collections.abc import Callable
from typing import Any

from endmark.core.refusal import Signal
from endmark.core.strictjson import short
from endmark.wires.events import failed
from endmark.wires.framing import refuse
from endmark.wires.shapes import an_object

_CALLS = ("tool_calls", "function_call")
_SAID = ("content", "refusal", *_CALLS)


class OtherChoices:
    """Each that has begun, with its finish reason once it has come."""

    def __init__(self) -> None:
        self._reasons: dict[int, str | None] = {}
        self._calling: set[int] = set()

    @property
    def open(self) -> bool:
        """Whether one of them has begun and not ended."""
        return None in self._reasons.values()

    def without(self, choices: list[Any], check_reason: Callable[[dict[str, Any]], None]) -> dict[str, Any] | None:
        """Take the others of one chunk; choice number 0 is left, where it is there."""
        first, seen = None, set()
        for item in choices:
            choice = an_object(item, "a choice")
            index = choice.get("index")
            if type(index) is not int or index < 0 or index in seen:
                refuse(Signal.WRONG_COUNT, f"a choice has the index {short(index)}, a number of its own was expected")
            seen.add(index)
            if choice.get("error") is not None:  # A8
                failed(choice["error"])
            if index == 0:
                first = choice
            else:
                self._add(index, choice, check_reason)
        return first

    def _add(self, index: int, choice: dict[str, Any], check_reason: Callable[[dict[str, Any]], None]) -> None:
        """OC5 OC6 OC13, for this choice."""
        said = an_object(choice.get("delta") or choice.get("message"), "what a choice says")
        before, reason = self._reasons.get(index), choice.get("finish_reason")
        if before is not None and any(said.get(key) for key in _SAID):
            refuse(Signal.BAD_STOP, f"more of choice {index} came after its finish reason {short(before)}")
        if any(said.get(key) for key in _CALLS):
            self._calling.add(index)
        if reason in (None, ""):
            self._reasons.setdefault(index, None)
            return
        check_reason(choice)
        if before not in (None, reason):
            refuse(Signal.BAD_STOP, lambda: f"the finish reason {short(before)} became {short(reason)}")
        if reason != "stop" and index not in self._calling:
            refuse(Signal.BAD_STOP, lambda: f"the finish reason is {short(reason)}, but no call arrived")
        self._reasons[index] = reason
