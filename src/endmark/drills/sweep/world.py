"""What a gate has an effect on, and how it is looked at and set back: by commands, or by functions of a test."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from endmark.core.refusal import CannotTry
from endmark.drills.targets.command import WORKER
from endmark.drills.targets.process import run


class World(Protocol):
    """`resets` and `counts` say whether it can be set back, and whether there is a cheap look."""

    resets: bool
    looks: bool
    counts: bool

    def reset(self) -> None:
        """Set it back. Raises CannotTry."""

    def look(self) -> bytes:
        """All of it."""

    def count(self) -> bytes:
        """A cheap look, for after each fault."""


class Worlds(Protocol):
    """Opens the world of each worker, if there `is_any`."""

    @property
    def is_any(self) -> bool: ...

    def open(self, worker: int) -> World: ...


class Commands(msgspec.Struct, frozen=True, kw_only=True):
    """Shell commands. `{worker}` in one is the number of the worker. `limit` in seconds."""

    effect: str | None = None
    counter: str | None = None
    reset: str | None = None
    limit: float = 60.0

    @property
    def is_any(self) -> bool:
        return any((self.effect, self.counter, self.reset))

    def open(self, worker: int) -> "CommandWorld":
        return CommandWorld(self, worker)


class CommandWorld:
    """The world of one worker."""

    def __init__(self, commands: Commands, worker: int) -> None:
        self._commands = commands
        self._worker = str(worker)
        self.resets = commands.reset is not None
        self.looks = commands.effect is not None or commands.counter is not None
        self.counts = commands.counter is not None and commands.effect is not None

    def reset(self) -> None:
        if self._commands.reset is None:
            return
        code, out = self._run(self._commands.reset)
        if code != 0:
            said = out.decode("utf-8", "replace").strip().partition("\n")[0]
            raise CannotTry(f"the reset command ended with exit {code}: {said[:200]}")

    def look(self) -> bytes:
        return self._seen(self._commands.effect or self._commands.counter or "")

    def count(self) -> bytes:
        return self._seen(self._commands.counter or self._commands.effect or "")

    def _seen(self, command: str) -> bytes:
        """The exit code belongs to what is seen: a probe that fails where it did not before has seen something."""
        code, out = self._run(command)
        return b"%d\n%b" % (code, out)

    def _run(self, command: str) -> tuple[int, bytes]:
        ran = run(["/bin/sh", "-c", command.replace(WORKER, self._worker)], b"", self._commands.limit)
        if ran.code is None:
            raise CannotTry(f"{command[:60]!a} did not end within {self._commands.limit:g} s")
        return ran.code, ran.out if ran.code == 0 else ran.out + ran.err


class Functions:
    """Functions of a test, in its own process: `effect` returns something that compares equal while nothing changed."""

    def __init__(self, effect: Callable[[], object] | None, reset: Callable[[], object] | None) -> None:
        self._effect = effect
        self._reset = reset
        self.resets = reset is not None
        self.looks = effect is not None
        self.counts = False
        self.is_any = self.resets or self.looks

    def __repr__(self) -> str:
        return "functions"  # the same in every process, for a state file

    def open(self, worker: int) -> "Functions":
        return self

    def reset(self) -> None:
        if self._reset is not None:
            self._reset()

    def look(self) -> bytes:
        return repr(self._effect()).encode("utf-8", "backslashreplace") if self._effect is not None else b""

    def count(self) -> bytes:
        return self.look()
