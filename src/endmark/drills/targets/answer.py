"""What a gate made of one payload, and the rules by which that is told."""

import re
import signal
from enum import Enum
from typing import NamedTuple, Protocol

import msgspec

from endmark.drills.body import Body
from endmark.drills.faults import BadFault, Broken


class Answer(Enum):
    """How a fault ended. The value is its letter in a map and in a state file."""

    REFUSED = "r"
    ACCEPTED = "A"  # a hole
    EFFECT = "E"  # a hole: the answer was no, and the world was changed
    CRASHED = "c"
    HUNG = "h"
    INCONCLUSIVE = "i"
    NO_FAULT = "-"  # it does not fit, or does no damage
    NOT_TRIED = "."

    @property
    def is_hole(self) -> bool:
        return self in (Answer.ACCEPTED, Answer.EFFECT)


class Seen(NamedTuple):
    """An answer, and a few words about it for people."""

    answer: Answer
    note: str = ""


class Player(Protocol):
    """One opened target, used by one worker. `in_process`: it runs here, where nobody else could end a hang.

    A player that has `give(data) -> Seen` too is swept faster; one with `check(data)`, which raises Refused, fastest.
    """

    in_process: bool

    def play(self, broken: Broken | None, body: Body) -> Seen:
        """Give it what a fault leaves of `body`; None: the whole. Raises DoesNotFit."""

    def close(self) -> None:
        """Leave nothing behind."""


class Target(Protocol):
    """What is attacked. It can be sent to another process."""

    @property
    def name(self) -> str:
        """For people, in one line."""

    def open(self, worker: int) -> Player:
        """Raises CannotTry."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Which answers are a refusal. With no rule of its kind: any exit but 0, a status 400 to 499, and of exceptions
    ValueError and all that are not Python's own."""

    exits: tuple[int, ...] = ()
    statuses: tuple[int, ...] = ()
    raises: tuple[str, ...] = ()
    stdout: str | None = None
    returns: str | None = None

    def of_exit(self, code: int, stdout: bytes) -> Seen:
        """`code` as subprocess tells it: negative for a signal."""
        if code < 0:
            return Seen(Answer.CRASHED, f"ended by {_signal(-code)}")
        if code in self.exits:
            return Seen(Answer.REFUSED, f"exit {code}")
        if code - 128 in _FATAL:  # as a shell tells of its child
            return Seen(Answer.CRASHED, f"exit {code}: ended by {_signal(code - 128)}")
        if self.stdout is not None and re.search(self.stdout.encode(), stdout):
            return Seen(Answer.REFUSED, f"exit {code}, and said so")
        if code and self.exits:
            return Seen(Answer.CRASHED, f"exit {code}, which is no refusal")
        return Seen(Answer.REFUSED if code else Answer.ACCEPTED, f"exit {code}")

    def of_status(self, status: int, body: bytes) -> Seen:
        """The status of an HTTP answer, and its body."""
        if status in self.statuses:
            return Seen(Answer.REFUSED, f"status {status}")
        if status >= 500:
            return Seen(Answer.CRASHED, f"status {status}")
        if self.stdout is not None and re.search(self.stdout.encode(), body):
            return Seen(Answer.REFUSED, f"status {status}, and said so")
        if status >= 300 and self.statuses:
            return Seen(Answer.CRASHED, f"status {status}, which is no refusal")
        return Seen(Answer.ACCEPTED if status < 300 else Answer.REFUSED, f"status {status}")

    def of_exception(self, fault: BaseException) -> Seen:
        """What a callable raised."""
        kinds = type(fault).__mro__
        what = f"raised {type(fault).__name__}"
        if any(kind.__name__ in self.raises for kind in kinds):
            return Seen(Answer.REFUSED, what)
        own = type(fault).__module__ == "builtins"
        refuses = isinstance(fault, Exception) and not self.raises and (isinstance(fault, ValueError) or not own)
        return Seen(Answer.REFUSED if refuses else Answer.CRASHED, what)

    def of_value(self, value: object) -> Seen:
        """What a callable returned."""
        if self.returns is not None and re.search(self.returns, repr(value)):
            return Seen(Answer.REFUSED, "returned, and said so")
        return Seen(Answer.ACCEPTED, "returned")


def rules(texts: tuple[str, ...]) -> Rules:
    """The rules that `exit:3,4`, `status:422`, `raises:KeyError`, `stdout:REGEX` and `returns:REGEX` spell.

    Raises BadFault.
    """
    found = Rules()
    for text in texts:
        kind, _, value = text.partition(":")
        parts = tuple(part.strip() for part in value.split(","))
        if kind in ("exit", "status") and all(re.fullmatch(r"[0-9]{1,3}", part) for part in parts):
            numbers = tuple(map(int, parts))
            field = "exits" if kind == "exit" else "statuses"
            found = msgspec.structs.replace(found, **{field: getattr(found, field) + numbers})
        elif kind == "raises" and all(part.isidentifier() for part in parts):
            found = msgspec.structs.replace(found, raises=found.raises + parts)
        elif kind in ("stdout", "returns") and value:
            try:
                re.compile(value)
            except re.error as fault:
                raise BadFault(f"{text[:60]!a}: {fault}") from None
            found = msgspec.structs.replace(found, **{kind: value})
        else:
            raise BadFault(
                f"{text[:60]!a} names no refusal; exit:3,4 or status:422 or raises:KeyError or stdout:REGEX "
                "or returns:REGEX was expected"
            )
    return found


# What a shell reports of a child that these ended.
_FATAL = (
    signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL,
)  # fmt: skip


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
