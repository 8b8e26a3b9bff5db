"""The service in one process, killed while its worker applies: the next one settles what was left, and goes on."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from tests.faces.worker.site import PATIENCE, SLOW, STATEMENTS, Site
from tests.support.world import make_database

from endmark.faces import config
from endmark.faces.worker.work import usable_places
from endmark.ledger.book import Ledger

LONG = (*STATEMENTS, SLOW.format(500_000), "SELECT 1")


class OneFile(Site):
    """The same without a queue: the ledger is a SQLite file."""

    def __init__(self, folder, targets=("one", "two")):
        self.folder, self.url, self.targets = folder, folder / "ledger.db", targets
        toml = ["[service]\nport = 0"]
        for name in targets:
            make_database(folder / f"{name}.db")
            toml.append(f'[targets.{name}]\nurl = "sqlite:///{folder}/{name}.db"\nreview = "none"\nbackup = "none"')
        (folder / "endmark.toml").write_text("\n".join(toml))
        self.config = config.load(str(self.url), str(folder / "endmark.toml"), {})
        self.places = usable_places(self.config)[0]
        self.book = Ledger.open(self.url, create=True)

    def ledger(self, outbox=True):
        return Ledger.open(self.url, create=False)

    def states(self):
        return {entry.job_id: entry.state.value for entry in self.book.page(1000)}

    def rows(self):
        return []

    @contextmanager
    def served(self):
        with (self.folder / "worker-serve.log").open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "endmark", "serve", "--ledger", str(self.url)],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=dict(os.environ),
            )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def under_fire(folder, kills):
    here = OneFile(folder)
    names = [f"j{n:02}" for n in range(2 * kills + 4)]
    for n, name in enumerate(names):
        here.submit(name, here.targets[n % 2], LONG)
    for _ in range(kills):
        with here.served():
            here.until(lambda: "applying" in here.states().values() or here.finished())
        assert not here.finished(), "all jobs are done, and not all kills were made"
    with here.served() as process:
        here.until(here.finished)
        process.terminate()
        assert process.wait(PATIENCE) == 0, here.said()
    here.check(names)
    here.book.close()


def test_the_service_is_killed_twice(tmp_path):
    under_fire(tmp_path, 2)


@pytest.mark.soak
def test_the_service_is_killed_many_times(tmp_path):
    under_fire(tmp_path, 20)
