"""Tool calls that are told apart by their ids, not by where they stand (spec/wires.md, rules MI4 and OC23)."""

from typing import Any

from endmark.core.refusal import Signal
from endmark.core.strictjson import short
from endmark.wires.framing import refuse


class Places:
    """The place of each call among all of them, in the order in which they began."""

    __slots__ = ("_known", "_places")

    def __init__(self) -> None:
        self._places: dict[str | int, int] = {}  # by id, and by index for those that continue
        self._known = 0

    def of(self, call: dict[str, Any]) -> int:
        """A call with an id of its own is another call, whatever its index; one without continues the last."""
        index, identity = call.get("index"), call.get("id")
        if index is None:
            index = 0
        if type(index) is not int:
            refuse(Signal.WRONG_TYPE, lambda: f"the index of a tool call is {short(index)}, an integer was expected")
        key = identity if isinstance(identity, str) and identity else index
        place = self._places.get(key)
        if place is None:
            place, self._known = self._known, self._known + 1
        self._places[key] = self._places[index] = place
        return place
