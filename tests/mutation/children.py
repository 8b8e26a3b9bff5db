"""Copies of a pytest process that has collected everything: each runs a few tests with one change, then ends.

The copy is forked inside pytest's own loop: it keeps the collected tests it was given, and goes on into that loop.
"""

import gc
import os
import selectors
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

_SLOWER = 10.0  # a test may take this many times as long as it did, and some seconds, before it counts as hanging


class Job:
    """What one copy does: `prepare`, run the `tests` under the `plugin`, till one fails unless it `goes_on`, `finish`.

    `seconds`: how long each test usually takes. `budget`: seconds for all of them, 0 for no limit.
    `patience`: seconds that a test may take beyond that before it counts as hanging. `done` is called in
    the process that forked, when the copy has ended.
    """

    def __init__(
        self,
        tests: Sequence[pytest.Item],
        seconds: Sequence[float],
        prepare: Callable[[], object],
        done: Callable[["Job"], None],
        *,
        finish: Callable[[], object] = lambda: None,
        plugin: object = None,
        note: str = "",
        budget: float = 0.0,
        patience: float = 10.0,
        goes_on: bool = False,
    ) -> None:
        self.tests, self.seconds, self.prepare, self.done = tests, seconds, prepare, done
        self.finish, self.plugin, self.note = finish, plugin, note
        self.budget, self.patience, self.goes_on = budget, patience, goes_on
        self.at = -1  # the test that runs
        self.failed = ""  # the test that failed first
        self.outcome = ""  # "ended", "died", "hung" or "budget"
        self.folder = ""
        self.began = self.heard = time.monotonic()

    def limit(self) -> float:
        """When, on the monotonic clock, the test that runs has hung."""
        usual = self.seconds[self.at] if 0 <= self.at < len(self.seconds) else 5.0
        return self.heard + self.patience + _SLOWER * usual

    def ends(self) -> float:
        """When, on the monotonic clock, it is ended."""
        return min(self.limit(), self.began + self.budget) if self.budget else self.limit()


class Teller:
    """A pytest plugin in a copy: says which test begins and which failed."""

    def __init__(self, pipe: int, job: Job) -> None:
        self._pipe, self._job, self._count = pipe, job, -1

    def pytest_runtest_logstart(self) -> None:
        self._count += 1
        self._say("t", self._count)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._say("f", report.nodeid)

    def end(self) -> None:
        self._job.finish()
        self._say("e", 0)

    def _say(self, kind: str, value: object) -> None:
        os.write(self._pipe, f"{kind}{value}\n".encode())


class Pool:
    """At most `width` copies at a time."""

    def __init__(self, session: pytest.Session, width: int) -> None:
        self._session, self._width = session, width
        self._selector = selectors.DefaultSelector()
        self._running: dict[int, tuple[Job, int, bytearray]] = {}  # by pipe: job, process, what is not yet a line
        gc.collect()
        gc.freeze()

    def submit(self, job: Job) -> "Teller | None":
        """None in this process; in the copy its teller, and the caller then returns to pytest's loop."""
        while len(self._running) >= self._width:
            self._wait()
        job.folder = tempfile.mkdtemp(prefix="mutant-")
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(reader)
            try:
                return self._become(job, writer)
            except BaseException as fault:  # noqa: BLE001 - nothing may go on in the place of the run
                os.write(writer, f"x{fault!r}\n".encode())
                os._exit(1)
        os.close(writer)
        job.began = job.heard = time.monotonic()
        self._running[reader] = (job, process, bytearray())
        self._selector.register(reader, selectors.EVENT_READ)
        return None

    def drain(self) -> None:
        while self._running:
            self._wait()

    def _become(self, job: Job, writer: int) -> Teller:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        config: Any = self._session.config
        config.workerinput = {"workerid": "mutant"}  # the servers belong to the session, as under xdist
        factory = config._tmp_path_factory
        factory._given_basetemp, factory._basetemp = Path(job.folder) / "tmp", None
        config.option.maxfail = 0 if job.goes_on else 1
        self._session.items[:] = job.tests
        teller = Teller(writer, job)
        config.pluginmanager.register(teller)
        if job.plugin:
            config.pluginmanager.register(job.plugin)
        job.prepare()
        return teller

    def _wait(self) -> None:
        now = time.monotonic()
        ends = [job.ends() for job, *_ in self._running.values()]
        for key, _ in self._selector.select(max(0.0, min(ends) - now)):
            self._read(key.fd)
        now = time.monotonic()
        for pipe, (job, process, _) in list(self._running.items()):
            if now >= job.ends():
                self._end(pipe, job, process, "hung" if now >= job.limit() else "budget")

    def _read(self, pipe: int) -> None:
        job, process, rest = self._running[pipe]
        got = os.read(pipe, 65536)
        rest += got
        *lines, left = bytes(rest).split(b"\n")
        rest[:] = left
        for line in lines:
            kind, value = chr(line[0]), line[1:].decode()
            job.heard = time.monotonic()
            if kind == "t":
                job.at = int(value)
            elif kind == "f":
                job.failed = job.failed or value
            elif kind == "x":
                raise RuntimeError(value)
            else:
                job.outcome = "ended"
        if not got or job.outcome:  # after a failure too it tears down what its fixtures made, on servers above all
            self._end(pipe, job, process, job.outcome or "died")

    def _end(self, pipe: int, job: Job, process: int, outcome: str) -> None:
        job.outcome = outcome
        self._selector.unregister(pipe)
        os.close(pipe)
        del self._running[pipe]
        if outcome != "ended":
            _kill(process)
        os.waitpid(process, 0)
        _kill(process)  # whatever it started and left behind
        shutil.rmtree(job.folder, ignore_errors=True)
        job.done(job)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
