"""Ask a command of this machine: the prompt on its standard input, one envelope expected on its standard output.

It runs as a process group of its own, in an empty folder of its own, and nothing of either is left when it is over.
What leaves its group (a daemon) is not followed.
"""

import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from endmark.core.ending import Ending
from endmark.core.policy import Reviewer
from endmark.core.printable import safe
from endmark.core.prompt import Shown
from endmark.core.refusal import CannotTry, Signal
from endmark.sources.capture import Capture
from endmark.sources.reviewer.asking import GLANCE, How, Limits, NoAnswer, Reply, Stop

INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
STDERR_BYTES = 4_096
"""Of what a command says on standard error: the last so many bytes are kept."""

_PORTION = 65_536


def run(
    reviewer: Reviewer,
    shown: Shown,
    limits: Limits,
    how: How,
    environ: Mapping[str, str],
    files: Mapping[str, bytes],
    key: str | None,
    stop: Stop,
) -> Reply:
    """What the command printed. Raises NoAnswer for one that failed, was silent or said too much."""
    missing = [name for name in reviewer.files if name not in files]
    if missing:
        why = f"{safe(missing[0])} of reviewers.{reviewer.name}.files is not in the base commit"
        raise NoAnswer(Signal.UNREACHABLE, 0, None, why, how)
    try:
        folder = Path(tempfile.mkdtemp(prefix="endmark-review-"))
    except OSError as fault:
        raise CannotTry(f"no folder for the command could be made: {fault.strerror}. Nobody was asked.") from None
    try:
        _lay(folder, {name: files[name] for name in reviewer.files})
        return _Run(reviewer, shown.text, limits, how, key, stop).run(folder, _environment(reviewer, environ, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _lay(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o700)


def _environment(reviewer: Reviewer, environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """All that the command is told of this process's environment: little, and its own key."""
    names = [*INHERITED, *([reviewer.key.removeprefix("env:")] if reviewer.key else [])]
    return {name: environ[name] for name in names if name in environ} | {"TMPDIR": str(folder)}


class _Run:
    """One run of the command, from its start to the end of its group."""

    def __init__(self, reviewer: Reviewer, text: bytes, limits: Limits, how: How, key: str | None, stop: Stop) -> None:
        self._stop = stop
        self._reviewer = reviewer
        self._rest = memoryview(text)
        self._size = len(text)
        self._limits = limits
        self._how = how
        self._key = key
        self._out: list[bytes] = []
        self._said = 0
        self._err = b""

    def run(self, folder: Path, environment: dict[str, str]) -> Reply:
        program, *arguments = self._reviewer.command
        if program.removeprefix("./") in self._reviewer.files:
            program = str(folder / program)
        try:
            process = subprocess.Popen(
                [program, *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as fault:
            why = fault.strerror if isinstance(fault, OSError) else str(fault)
            raise self._no_answer(Signal.UNREACHABLE, f"could not be started: {why}") from None
        try:
            self._talk(process)
        finally:
            _end(process)
        return self._judge(process.returncode)

    def _talk(self, process: subprocess.Popen[bytes]) -> None:
        """Write the prompt and read both streams, until standard output ends and the program has."""
        began = last = time.monotonic()
        with selectors.DefaultSelector() as waiting:
            for stream, what in ((process.stdout, selectors.EVENT_READ), (process.stderr, selectors.EVENT_READ)):
                assert stream is not None  # noqa: S101  # it was asked for
                os.set_blocking(stream.fileno(), False)
                waiting.register(stream, what)
            assert process.stdin is not None  # noqa: S101  # it was asked for
            os.set_blocking(process.stdin.fileno(), False)
            waiting.register(process.stdin, selectors.EVENT_WRITE)
            while not self._is_over(process, waiting):
                now = time.monotonic()
                if name := self._stop():
                    raise self._no_answer(Signal.RESET, f"was killed before its end, because of {name}")
                if now - began >= self._limits.total_seconds:
                    seconds = f"{self._limits.total_seconds:g} s"
                    raise self._no_answer(Signal.IDLE, f"had not ended when its {seconds} were over; it was killed")
                if now - last >= self._limits.idle_seconds:
                    seconds = f"{self._limits.idle_seconds:g} s"
                    raise self._no_answer(Signal.IDLE, f"said nothing for {seconds}; it was killed")
                left = min(began + self._limits.total_seconds, last + self._limits.idle_seconds) - now
                for event, _ in waiting.select(max(0.0, min(left, GLANCE))):
                    self._move(event, waiting, process)
                    last = time.monotonic()
            for event, ready in waiting.select(0):  # its last words
                if ready & selectors.EVENT_READ:
                    self._move(event, waiting, process)

    def _is_over(self, process: subprocess.Popen[bytes], waiting: selectors.BaseSelector) -> bool:
        ended = process.poll() is not None
        return ended and process.stdout not in [each.fileobj for each in waiting.get_map().values()]

    def _move(
        self, event: selectors.SelectorKey, waiting: selectors.BaseSelector, process: subprocess.Popen[bytes]
    ) -> None:
        if event.fileobj is process.stdin:
            self._write(event.fd, waiting, process)
            return
        try:
            portion = os.read(event.fd, _PORTION)
        except BlockingIOError:
            return
        if not portion:
            waiting.unregister(event.fileobj)
        elif event.fileobj is process.stderr:
            # As much more as the key is long: one that is cut at the front goes with what is dropped at the end.
            self._err = (self._err + portion)[-(STDERR_BYTES + len(self._key or "")) :]
        else:
            self._out.append(portion)
            self._said += len(portion)
            if self._said > self._limits.answer_bytes:
                why = f"printed more than {self._limits.answer_bytes:,} bytes; it was killed"
                raise self._no_answer(Signal.OVER_CAP, why)

    def _write(self, descriptor: int, waiting: selectors.BaseSelector, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None  # noqa: S101  # it was asked for
        try:
            self._rest = self._rest[os.write(descriptor, self._rest[:_PORTION]) :]
        except BlockingIOError:
            return
        except OSError:  # it reads no more; whether that was too little is judged at the end
            waiting.unregister(process.stdin)
            process.stdin.close()
            return
        if not self._rest:
            waiting.unregister(process.stdin)
            process.stdin.close()

    def _judge(self, code: int) -> Reply:
        if code != 0:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise self._no_answer(Signal.BAD_STOP, how)
        if self._rest:
            read = self._size - len(self._rest)
            why = f"read at most {read:,} of the {self._size:,} bytes of the prompt, so it has not seen the change"
            raise self._no_answer(Signal.INPUT_CUT, why)
        raw = b"".join(self._out)
        if not raw:
            raise self._no_answer(Signal.EMPTY, "printed nothing")
        capture = Capture(raw=raw, ending=Ending.END_OF_FILE, facts=("command-exit:0",))
        return Reply(capture=capture, how=self._how, stderr=self._stderr())

    def _stderr(self) -> str:
        """The last of what it said beside its answer, without its key, safe to print and to keep."""
        err = self._err
        if self._key:
            # As long as it was at first, so that the front of a cut one is not moved into what is kept.
            mask = b"[key]".ljust(len(self._key), b"*")
            err = err.replace(self._key.encode(), mask)[-STDERR_BYTES:].replace(mask, b"[key]")
        text = err[-STDERR_BYTES:].decode("utf-8", "backslashreplace")
        return "\n".join(map(safe, text.split("\n"))).strip("\n")

    def _no_answer(self, why: Signal, clause: str) -> NoAnswer:
        detail = f"the command of the reviewer {self._reviewer.name} {clause}"
        return NoAnswer(why, self._said, None, detail, self._how, self._stderr())


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the group, also where its leader has ended, and let go of the pipes."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
