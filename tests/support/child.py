"""Another process at the same target and ledger: `python -m tests.support.child VERB FOLDER ...`.

What is asked of it comes as lines on stdin, what it has to say goes as lines of JSON to stdout.
"""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.faults import Fault, injected
from tests.support.world import PATIENT, World

from endmark.core.refusal import CannotTry

MANY = ["CREATE TABLE t (n INTEGER PRIMARY KEY, filler BLOB)"] + [
    statement
    for n in range(60)
    for statement in (f"INSERT INTO t VALUES ({n}, randomblob(20000))", f"CREATE TABLE t{n} (x)")
]


CALM = 3


@contextmanager
def started(verb, folder, *more):
    """The process, at work."""
    command = [sys.executable, "-m", "tests.support.child", verb, str(folder), *map(str, more)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environ
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def say(value):
    print(json.dumps(value), flush=True)


def hear(process):
    """The next thing that a process says."""
    line = process.stdout.readline()
    assert line, "the other process ended without a word"
    return json.loads(line)  # noqa: TID251  # our own words


def apply(folder, threads, *names):
    """Apply the plans of these files, each in `threads` threads at once, from the moment a line arrives."""
    world, said, go = World(Path(folder)), [], threading.Barrier(int(threads) * len(names) + 1)

    def one(raw):
        go.wait()
        try:
            outcome = world.deliver(raw, options=PATIENT)
            said.append([outcome.job_id, outcome.state, outcome.exit_code])
        except CannotTry as fault:
            said.append([None, "not-tried", fault.detail])

    bodies = [Path(name).read_bytes() for name in names]
    workers = [threading.Thread(target=one, args=[raw]) for raw in bodies for _ in range(int(threads))]
    for worker in workers:
        worker.start()
    say("ready")
    sys.stdin.readline()
    go.wait()
    for worker in workers:
        worker.join()
    say(said)


def hold(folder, name):
    """Apply one plan; say each statement that is done; a line on stdin asks it to stop."""
    asked = threading.Event()

    def listen():
        if sys.stdin.readline():
            asked.set()

    threading.Thread(target=listen, daemon=True).start()
    more = {"progress": lambda done, _total: say(done), "stop": lambda: "SIGTERM" if asked.is_set() else None}
    outcome = World(Path(folder)).deliver(Path(name).read_bytes(), options=PATIENT, more=more)
    say([outcome.job_id, outcome.state, outcome.signal])


def apply_all(folder, *names):
    """Apply the plans of these files one after the other, saying what became of each."""
    world = World(Path(folder))
    say("ready")
    for name in names:
        outcome = world.deliver(Path(name).read_bytes(), options=PATIENT)
        say([outcome.job_id, outcome.state])


def exits(folder, mode, name):
    """For n = 1, 2, ... a process of its own that ends at once at the n-th call into SQLite, until one lives."""
    raw = Path(name).read_bytes()
    for n in range(1, 1_000):
        world = World(Path(folder, str(n)), mode)
        pid = os.fork()
        if pid == 0:
            with injected(Fault(n, "exit"), target="target.db", ledger="ledger.db"):
                world.deliver(raw)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        say([n, code])
        if code != 99:
            return


def kills(folder, mode, name, many, seed):
    """A process of its own for each of `many` kills at a moment by chance, spread over the time that one takes.

    CALM of them live, to tell how long that is.
    """
    raw, chance = Path(name).read_bytes(), random.Random(seed)
    took: list[float] = []
    for n in range(CALM + int(many)):
        world = World(Path(folder, str(n)), mode)
        started_at = time.monotonic()
        pid = os.fork()
        if pid == 0:
            world.deliver(raw)
            os._exit(0)
        if n >= CALM:
            time.sleep(statistics.median(took) * (n - CALM + chance.random()) / int(many))
            os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if n < CALM:
            took.append(time.monotonic() - started_at)
        say([n, code])


if __name__ == "__main__":
    verb: Any = {"apply": apply, "hold": hold, "all": apply_all, "exits": exits, "kills": kills}[sys.argv[1]]
    verb(*sys.argv[2:])
