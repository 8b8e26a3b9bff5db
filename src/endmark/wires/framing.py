"""What the framings and the wires share: the options of a reader, its bounds, and how it says what is wrong."""

from collections.abc import Callable
from typing import NamedTuple, NoReturn, Protocol, TypeVar

import msgspec

from endmark.core.refusal import Signal

Item = TypeVar("Item")

DEFAULT_CAP = 64 * 1024 * 1024  # bytes of one body, framing included


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What whoever asked for the answer knows about the request.

    `max_output_tokens`: the cap that was requested; an answer that reaches it was cut by it.
    `stop_sequences`: whether the request named any; only then is a stop at one a normal end.
    `allow_close_delimited`: take a body that only the close of its connection ended; the evidence says so.
    `cap`: the most bytes read of one body. `ended_only`: ask only whether the answer ended, not whether it is one text
    or call that can be sealed; `choices` is then how many the request asked for.
    """

    max_output_tokens: int | None = None
    stop_sequences: bool = False
    allow_close_delimited: bool = False
    cap: int = DEFAULT_CAP
    ended_only: bool = False
    choices: int = 1


class Fault(NamedTuple):
    """Why the bytes are no answer."""

    signal: Signal
    detail: str | Callable[[], str]


class Broken(Exception):
    """Raised inside a wire by what can never become an answer, whatever comes next. It does not leave the room."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.fault = fault


def refuse(signal: Signal, detail: str | Callable[[], str]) -> NoReturn:
    """For a wire's own rules: stop reading here."""
    raise Broken(Fault(signal, detail))


def over_cap(cap: int) -> Fault:
    """A9: what is held is bounded."""
    return Fault(Signal.OVER_CAP, f"more than {cap:,} bytes arrived, the most that is read of one answer")


class Framing(Protocol[Item]):
    """Bytes in, whole items out: events, lines or frames. Asking what has arrived so far changes nothing.

    `received`: all bytes fed. `fault`: set for good once the bytes cannot be framed. `pending`: the bytes stop inside
    an item. `at_end`: the last byte received is the one that ended an item, so nothing stands after that item.
    """

    received: int
    fault: Fault | None

    @property
    def pending(self) -> bool: ...

    @property
    def at_end(self) -> bool: ...

    def feed(self, data: bytes) -> list[Item]:
        """The items that `data` completes, in order. Never raises for what the bytes hold."""
        ...
