"""Any command: the bytes come on its standard input, or in a file whose name takes the place of `{}`."""

import os
import tempfile
from pathlib import Path

import msgspec

from endmark.drills.body import Body
from endmark.drills.faults import Broken
from endmark.drills.targets.answer import Answer, Rules, Seen
from endmark.drills.targets.calling import data_of
from endmark.drills.targets.process import run

FILE = "{}"
WORKER = "{worker}"


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

    in_process = False

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
        return self.give(data_of(broken, body))

    def give(self, data: bytes) -> Seen:
        """What the command makes of `data`."""
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
