"""A merge that somebody kills: `python -m tests.effects.git.killed FOLDER N WHEN`. Prints what became of it."""

import os
import signal
import sys

from endmark.core.refusal import CannotTry, Refused
from endmark.effects.git import Gate, Git, OutcomeUnknown, Person, open_repository, read_change
from endmark.effects.git.merge import merge


class Counting(Git):
    """Real git; our own process is killed before or after its n-th."""

    def __init__(self, at, when):
        super().__init__(os.environ)
        self.at, self.when, self.seen = at, when, 0

    def start(self, *arguments, **more):
        self.seen += 1
        if self.seen == self.at and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        running = super().start(*arguments, **more)
        if self.seen == self.at and self.when == "after":
            running.finish()
            os.kill(os.getpid(), signal.SIGKILL)
        return running


def main(folder, at, when):
    git = Counting(int(at), when)
    with Gate(open_repository(git, folder)) as gate:
        change = read_change(gate, base="main", head="lines")
        git.seen = 0
        try:
            done = merge(gate, change, message=b"Merge.\n", person=Person("A", "a@example.com"), at=1_700_009_999)
            print("merged", done.tip)
        except (CannotTry, Refused, OutcomeUnknown) as fault:
            print(type(fault).__name__, fault)
        print(git.seen)


if __name__ == "__main__":
    main(*sys.argv[1:])
