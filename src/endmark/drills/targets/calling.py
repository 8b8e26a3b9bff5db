"""A Python callable: `module:function`, called with the bytes, or with them as text."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import msgspec

from endmark.core.refusal import CannotTry
from endmark.drills.body import Body, DoesNotFit
from endmark.drills.faults import Broken, End
from endmark.drills.targets.answer import Answer, Rules, Seen


def data_of(broken: Broken | None, body: Body) -> bytes:
    """What is handed over where there is no transport. Raises DoesNotFit."""
    if broken is None:
        return body.data
    if broken.end is not End.POLITE:
        raise DoesNotFit(f"{broken.end} is the end of a transport, and here is none")
    parts = broken.fault.play(body)
    if not all(isinstance(part, bytes) for part in parts):
        raise DoesNotFit("a stall needs a transport, and here is none")
    return b"".join(part for part in parts if isinstance(part, bytes))


class PythonTarget(msgspec.Struct, frozen=True, kw_only=True):
    """`call` as `module:function`. `text`: it takes a string; what is no UTF-8 then never reaches it."""

    call: str
    text: bool = False
    rules: Rules = Rules()

    @property
    def name(self) -> str:
        return f"python {self.call}"

    def open(self, worker: int) -> "CallPlayer":
        return CallPlayer(find(self.call), self.text, self.rules)


class CallPlayer:
    """Calls a function. A hang is ended by whoever sweeps."""

    in_process = True

    def __init__(self, function: Callable[[Any], object], text: bool = False, rules: Rules | None = None) -> None:
        self._function = function
        self._text = text
        self._rules = rules or Rules()

    def play(self, broken: Broken | None, body: Body) -> Seen:
        return self.give(data_of(broken, body))

    def give(self, data: bytes) -> Seen:
        """What the function makes of `data`."""
        argument: bytes | str = data
        if self._text:
            try:
                argument = data.decode()
            except UnicodeDecodeError:
                return Seen(Answer.REFUSED, "no UTF-8")
        try:
            value = self._function(argument)
        except (Exception, SystemExit) as fault:  # noqa: BLE001  # whatever it raises is its answer
            return self._rules.of_exception(fault)
        return self._rules.of_value(value)

    def close(self) -> None:
        """There is nothing to leave behind."""


class HereTarget(NamedTuple):
    """A player that is opened already, in this process only."""

    name: str
    player: CallPlayer

    def open(self, worker: int) -> CallPlayer:
        return self.player


def find(call: str) -> Callable[[Any], object]:
    """The callable that `module:function` names, seen from the current directory. Raises CannotTry."""
    module, colon, path = call.partition(":")
    if not colon or not module or not path:
        raise CannotTry(f"{call!a} is no module:function, such as mygate:parse")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as fault:
        raise CannotTry(f"{call} cannot be imported: {fault}") from None
    if not callable(found):
        raise CannotTry(f"{call} is no function")
    return found  # type: ignore[no-any-return]  # it is callable, as asked
