"""Running git: in a scrubbed environment, to a finite end, with every fault in one sentence."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from endmark.core.refusal import CannotTry
from endmark.effects.git.environment import scrubbed

if TYPE_CHECKING:  # a hook waits for each import
    from endmark.effects.target import Stop

OLDEST = (2, 38)
"""The first git whose `merge-tree --write-tree` merges without a work tree."""

DEFAULT_TIMEOUT = 120.0  # seconds for one process
DEFAULT_CAP = 1 << 30  # bytes of standard output that are held in memory
_ERROR_CAP = 1 << 16  # bytes of standard error that are kept; the rest is read and dropped
_CHUNK = 1 << 18
_TICK = 0.1  # seconds between two looks at `stop`


class Answer(NamedTuple):
    """What one process said. `words` is its standard error in one line that cannot drive a terminal."""

    code: int
    out: bytes
    words: str


class OverCap(Exception):
    """The process wrote more than it was allowed to; it was ended. `seen` bytes had come."""

    def __init__(self, seen: int) -> None:
        super().__init__(seen)
        self.seen = seen


class Lost(CannotTry):
    """The process was ended by us or by a signal: what it had done by then is not known."""


def _never() -> None:
    return None


class Git:
    """The git program found on `environ`'s PATH. `timeout`: seconds for one process. `stop`: who wants it to end."""

    def __init__(self, environ: Mapping[str, str], timeout: float = DEFAULT_TIMEOUT, stop: Stop = _never) -> None:
        self.environ = environ
        self.timeout = timeout
        self.stop = stop
        self._version: tuple[int, int] | None = None

    def start(
        self,
        *arguments: str,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        cap: int = DEFAULT_CAP,
        network: bool = False,
        stoppable: bool = True,
    ) -> Running:
        """Start `git ARGUMENTS` as a process group of its own. Raises CannotTry when it cannot be started."""
        return Running(
            ["git", *arguments],
            _verb(arguments),
            cwd,
            scrubbed(self.environ, network) | dict(env or {}),
            stdin,
            cap,
            self.timeout,
            self.stop if stoppable else _never,
        )

    def check_version(self) -> tuple[int, int]:
        """The version, asked once. Raises CannotTry when it is older than 2.38 or cannot be read."""
        if self._version is None:
            with self.start("version", cap=4096) as running:
                self.note_version(running.finish())
        assert self._version is not None  # noqa: S101  # noted, or something was raised
        return self._version

    def start_version(self) -> Running | None:
        """Start asking for the version; None where it is known. `note_version` takes the answer."""
        return None if self._version is not None else self.start("version", cap=4096)

    def note_version(self, answer: Answer) -> None:
        """Raises CannotTry when the version is older than 2.38 or cannot be read."""
        self._version = read_version(answer)


def read_version(answer: Answer) -> tuple[int, int]:
    """The two numbers in the answer of `git version`. Raises CannotTry."""
    said = re.match(rb"git version (\d{1,4})\.(\d{1,4})", answer.out)
    if answer.code != 0 or said is None:
        raise CannotTry(f"'git version' does not say a version: {answer.words or cleaned(answer.out)}")
    version = int(said[1]), int(said[2])
    if version < OLDEST:
        raise CannotTry(
            f"git {version[0]}.{version[1]} is too old: {OLDEST[0]}.{OLDEST[1]} or newer is needed. Nothing was done; "
            "install a newer git, or put it first on the PATH."
        )
    return version


class Running:
    """One git process. Use it as a context: however the block is left, no process of the group is left behind."""

    def __init__(
        self,
        command: list[str],
        verb: str,
        cwd: str | None,
        env: dict[str, str],
        stdin: bytes,
        cap: int,
        timeout: float,
        stop: Stop,
    ) -> None:
        self.verb = verb
        self._stdin = memoryview(stdin)
        self._cap = cap
        self._stop = stop
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._words = bytearray()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=env,
                bufsize=0,
                start_new_session=True,  # a group of its own, without a terminal to ask on
            )
        except FileNotFoundError as fault:
            if cwd is not None and not os.path.isdir(cwd):
                raise CannotTry(f"there is no folder {cleaned(cwd)}. Nothing was done.") from None
            raise CannotTry(f"git was not found on the PATH: {fault.strerror}. Nothing was done.") from None
        except (OSError, ValueError) as fault:
            raise CannotTry(f"git could not be started: {cleaned(str(fault))}. Nothing was done.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        """Kill what still runs of the group, and let the pipes go. Raises nothing."""
        process = self._process
        if process.returncode is None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def chunks(self) -> Iterator[bytes]:
        """Standard output as it comes, all of it. Raises OverCap, or Lost after the timeout or a stop."""
        process = self._process
        assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018  # opened as pipes
        seen = 0
        with selectors.DefaultSelector() as waiting:
            waiting.register(process.stdout, selectors.EVENT_READ)
            waiting.register(process.stderr, selectors.EVENT_READ)
            if process.stdin is not None:
                os.set_blocking(process.stdin.fileno(), False)
                waiting.register(process.stdin, selectors.EVENT_WRITE)
            while waiting.get_map():
                for key, _ in waiting.select(min(_TICK, self._left())):
                    if key.fileobj is process.stdin:
                        if not self._write(key.fd):
                            waiting.unregister(process.stdin)
                            process.stdin.close()
                        continue
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        waiting.unregister(key.fileobj)
                    elif key.fileobj is process.stderr:
                        self._words += chunk[: _ERROR_CAP - len(self._words)]
                    else:
                        seen += len(chunk)
                        if seen > self._cap:
                            raise OverCap(seen)
                        yield chunk
        try:
            process.wait(self._left())
        except subprocess.TimeoutExpired:
            raise self._late() from None

    def finish(self) -> Answer:
        """Everything it says. Raises Lost after the timeout, a stop or a signal, CannotTry for more than the cap."""
        try:
            out = b"".join(self.chunks())
        except OverCap:
            raise CannotTry(f"'git {self.verb}' wrote more than {self._cap:,} bytes. Nothing was done.") from None
        return self.answer(out)

    def code(self) -> int:
        """The exit code, once `chunks` has ended. Raises Lost when a signal ended it."""
        code = self._process.returncode
        if code < 0:
            raise Lost(f"'git {self.verb}' was ended by signal {-code}")
        return code

    def answer(self, out: bytes = b"") -> Answer:
        """How it ended, once `chunks` has. Raises Lost when a signal ended it."""
        return Answer(self.code(), out, cleaned(bytes(self._words)))

    def _write(self, descriptor: int) -> bool:
        """Hand over more of standard input. Returns whether there is more."""
        try:
            self._stdin = self._stdin[os.write(descriptor, self._stdin[:_CHUNK]) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:  # it reads no more; its exit code and words say why
            return False
        return bool(self._stdin)

    def _left(self) -> float:
        if by := self._stop():
            raise Lost(f"{by} ended 'git {self.verb}'")
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self._late()
        return left

    def _late(self) -> Lost:
        return Lost(f"'git {self.verb}' did not end within {self._timeout:g} s")


def _verb(arguments: tuple[str, ...]) -> str:
    """The sub-command, past the options of git itself."""
    rest = iter(arguments)
    for argument in rest:
        if argument == "-c":
            next(rest, None)
        elif not argument.startswith("-"):
            return argument
    return "git"


def cleaned(said: bytes | str, most: int = 500) -> str:
    """`said` in one line, at most so many characters, with everything escaped that could drive a terminal."""
    text = said.decode("utf-8", "backslashreplace") if isinstance(said, bytes) else said
    lines = (line.removeprefix("fatal: ").removeprefix("error: ").strip() for line in text.splitlines())
    line = "; ".join(filter(None, lines))
    if not line.isprintable():
        line = "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in line)
    return line if len(line) <= most else line[:most] + " ..."


def failed(answer: Answer, verb: str) -> CannotTry:
    """What is raised for an exit code that is no answer."""
    return CannotTry(f"'git {verb}' ended with {answer.code}: {answer.words or 'it said nothing'}")
