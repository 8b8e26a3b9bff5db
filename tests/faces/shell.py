"""What a person at a shell does, and what is looked at afterwards."""

import io
import os
import pty
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import NamedTuple

from tests.support.world import dump, plan_bytes

from endmark.core import strictjson
from endmark.core.refusal import CannotTry
from endmark.faces import cli
from endmark.ledger.book import Ledger

PROGRAM = (sys.executable, "-W", "error", "-m", "endmark")
HERE = "sqlite:///app.db"
STATEMENTS = ("CREATE TABLE invoices (id INTEGER PRIMARY KEY, note TEXT)", "INSERT INTO invoices VALUES (1, 'Žluť ∎')")
SLOW = "CREATE TABLE s AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"

# Makes standard input the controlling terminal of a session of its own, then becomes the program.
_ON_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class Said(NamedTuple):
    code: int
    out: bytes
    err: bytes

    @property
    def text(self):
        return self.out.decode()

    @property
    def talk(self):
        return self.err.decode()

    @property
    def object(self):
        """The one object of --json: strict JSON, on one line, and nothing after it."""
        assert self.out.endswith(b"\n")
        assert self.out.count(b"\n") == 1
        assert self.out.isascii()
        return strictjson.loads(self.out)


class Shell:
    def __init__(self, folder, monkeypatch, capture):
        self.folder = folder
        self.app = folder / "app.db"
        self.monkeypatch = monkeypatch
        self._capture = capture

    def setenv(self, **variables):
        for name, value in variables.items():
            self.monkeypatch.setenv(name, value)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    def plan(self, job_id="job-1", statements=STATEMENTS, **more):
        """A file with a bare plan."""
        return self.write(f"{job_id}.json", plan_bytes(job_id, statements, **more))

    def run(self, *arguments, stdin=b""):
        """One command line in this process."""
        with self.monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            self._capture.readouterr()
            code = cli.run([str(argument) for argument in arguments])
            return Said(code, *self._capture.readouterr())

    def apply(self, job_id="job-1", statements=STATEMENTS, *flags, **more):
        return self.run("apply", self.plan(job_id, statements, **more), "--to", HERE, "--yes", "--json", *flags)

    def stage(self, job_id="job-1", statements=STATEMENTS, **more):
        said = self.run("apply", self.plan(job_id, statements, **more), "--to", HERE)
        assert said.code == 16, said
        return said

    @contextmanager
    def start(self, *arguments, before=(), **popen):
        """The program as a process of its own; every warning is an error in it. A test that fails ends it.

        `before`: a program that runs it.
        """
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [*before, *PROGRAM, *map(str, arguments)]
        with subprocess.Popen(command, cwd=self.folder, **{**streams, **popen}) as process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise

    def script(self, text, *arguments, stdin=b""):
        """A line of shell, in which "$@" is the program with these arguments."""
        command = ["/bin/sh", "-c", text, "sh", *PROGRAM, *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, input=stdin, capture_output=True)
        return Said(done.returncode, done.stdout, done.stderr)

    def program(self, *arguments, stdin=b"", **popen):
        with self.start(*arguments, **popen) as process:
            out, err = process.communicate(stdin if process.stdin else None, timeout=60)
        return Said(process.returncode, out or b"", err or b"")

    def terminal(self, *arguments, answers=(), env=None):
        """The program on a terminal of its own. `answers`: (what to wait for, and then what to type, do or send)."""
        return self.on_terminal([*PROGRAM, *map(str, arguments)], answers, env)

    def on_terminal(self, command, answers=(), env=None):
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-c", _ON_TERMINAL, *command],
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        ) as process:
            os.close(theirs)
            seen, steps = b"", list(answers)
            while piece := _read(ours):
                seen += piece
                while steps and steps[0][0] in seen:
                    for act in steps.pop(0)[1:]:
                        if callable(act):
                            act()
                        elif isinstance(act, signal.Signals):
                            process.send_signal(act)
                        else:
                            os.write(ours, act)
        os.close(ours)
        assert not steps, (steps, seen)
        return Said(process.returncode, seen, b"")

    def dump(self):
        return dump(self.app)

    def entry(self, name):
        with self.book() as book:
            return book.find(name)

    def entries(self):
        with self.book() as book:
            return book.page(1_000)

    def wait_until_applying(self, job_id):
        """Until another process has come that far with a job."""

        def has_come():
            try:
                entry = self.entry(job_id)
            except CannotTry:  # the ledger is only being made
                return False
            return entry is not None and entry.state == "applying"

        wait_for(has_come)

    def book(self):
        return Ledger.open(self.folder / "ledger.db", create=False)


def wait_for(condition, seconds=30):
    """Until `condition` holds. Only for what another process does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def _read(terminal):
    """The next piece that shows on a terminal; nothing once its program has ended."""
    assert select.select([terminal], [], [], 60)[0], "the terminal is silent"
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that the other end is closed
        return b""
