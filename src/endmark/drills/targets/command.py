"""Any command: the bytes come on its standard input, or in a file whose name takes the place of `{}`."""

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

from endmark.core.refusal import CannotTry
from endmark.drills.body import Body
from endmark.drills.faults import Broken
from endmark.drills.targets.answer import Answer, Rules, Seen
from endmark.drills.targets.calling import data_of

FILE = "{}"
WORKER = "{worker}"
_LINGER = 1.0  # seconds for the pipes of a killed group to close


class Ran(msgspec.Struct, frozen=True):
    """How a program ended. `code` is None where its time was over."""

    code: int | None
    out: bytes
    err: bytes


class CommandTarget(msgspec.Struct, frozen=True, kw_only=True):
    """`argv` as it is run; `limit` in seconds."""

    argv: tuple[str, ...]
    limit: float = 10.0
    rules: Rules = Rules()

    @property
    def name(self) -> str:
        return " ".join(self.argv)

    def open(self, worker: int) -> "CommandPlayer":
        return CommandPlayer(self, worker)


class CommandPlayer:
    """Runs the command once for each fault."""

    def __init__(self, target: CommandTarget, worker: int) -> None:
        self._rules = target.rules
        self._limit = target.limit
        argv = [word.replace(WORKER, str(worker)) for word in target.argv]
        self._file: Path | None = None
        if any(FILE in word for word in argv):
            handle, name = tempfile.mkstemp(prefix="endmark-drill-")
            os.close(handle)
            self._file = Path(name)
            argv = [word.replace(FILE, name) for word in argv]
        self._argv = argv

    def play(self, broken: Broken | None, body: Body) -> Seen:
        data = data_of(broken, body)
        if self._file is not None:
            self._file.write_bytes(data)
            data = b""
        ran = run(self._argv, data, self._limit)
        if ran.code is None:
            return Seen(Answer.HUNG, f"no end within {self._limit:g} s")
        return self._rules.of_exit(ran.code, ran.out)

    def close(self) -> None:
        if self._file is not None:
            self._file.unlink(missing_ok=True)


def run(argv: list[str], data: bytes, limit: float) -> Ran:
    """Run a program to its end, or kill it and its group when `limit` seconds are over. Raises CannotTry."""
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
        )
    except OSError as fault:
        raise CannotTry(f"{argv[0]} cannot be run: {fault.strerror or fault}") from None
    try:
        out, err = process.communicate(data, timeout=limit)
        return Ran(process.returncode, out, err)
    except subprocess.TimeoutExpired:
        _kill(process)
        return Ran(None, b"", b"")
    except BaseException:
        _kill(process)
        raise


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """The whole group: what a hung gate started must not go on beside the next fault."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.communicate(timeout=_LINGER)
    except subprocess.TimeoutExpired:  # somebody outside the group holds the pipes
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        process.wait()
