"""Doings of the patch gate that somebody kills: `python -m tests.gates.patches.killed FOLDER VERB N N ...`.

For each N a copy of FOLDER is made, and a process of its own does VERB there; it is killed by SIGKILL at its N-th
step: before it starts a git program or touches the ledger. Prints, a line each, N and how it ended; for N = 0 the steps
of one that nobody kills.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

from tests.gates.patches.world import World
from tests.support.faults import Fault, injected

from endmark.effects.git import Git


class Kill(Fault):
    def _strike(self):
        os.kill(os.getpid(), signal.SIGKILL)


class CountedGit(Git):
    """Real git; each program is a step."""

    def __init__(self, kill):
        super().__init__(os.environ)
        self.kill = kill

    def start(self, *arguments, **more):
        start = super().start
        return self.kill.around("git", arguments, lambda: start(*arguments, **more))


def prepared(folder, verb):
    """What has to stand before VERB is done; made with a ledger of its own folder."""
    world = World(folder)
    world.says("pass")
    (folder / "verdict.mc1").write_bytes(world.verdict())
    if verb == "merge":
        world.decide((folder / "verdict.mc1").read_bytes())
    world.close()


def do(folder, verb, kill):
    with injected(kill, ledger="ledger.db"):
        world = World(folder)
        world.git_program = CountedGit(kill)
        if verb == "review":
            return world.review().state
        if verb == "merge":
            return world.merge().state
        return world.decide((folder / "verdict.mc1").read_bytes()).state


def main(source, verb, numbers):
    for number in numbers:
        folder = Path(source).with_name(f"{verb}-{number}")
        shutil.copytree(source, folder, symlinks=True)
        prepared(folder, verb)
        reads, writes = os.pipe()
        pid = os.fork()
        if pid == 0:
            kill = Kill(number, what="kill")
            state = do(folder, verb, kill)
            os.write(writes, f"{state} {kill.seen}".encode())
            os._exit(0)
        os.close(writes)
        with open(reads, "rb") as said:
            words = said.read().decode()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(number, code, words, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], [int(number) for number in sys.argv[3:]])
