"""Workers that are killed in the midst of a job: each job ends once, with one effect or none, and nothing is stuck."""

import random
import shutil
import subprocess
from contextlib import contextmanager

import psycopg
import pytest
from tests.faces.worker.site import SLOW, STATEMENTS, Site
from tests.support import servers

LONG = (*STATEMENTS, SLOW.format(500_000), "SELECT 1")


def crew_under_fire(here, kills, jobs, seed):
    """Three workers, of which one is killed again and again while a job of it runs, and replaced."""
    chance = random.Random(seed)
    names = [f"j{n:03}" for n in range(jobs)]
    for n, name in enumerate(names):
        here.submit(name, here.targets[n % len(here.targets)], LONG)
    killed = 0
    with here.workers(3, concurrency=2) as crew:
        while killed < kills:
            here.until(lambda: "applying" in here.states().values() or here.finished())
            assert not here.finished(), f"only {killed} kills"
            victim = chance.choice([process for process in crew.processes if process.poll() is None])
            victim.kill()
            victim.wait()
            killed += 1
            crew.hire()
        here.until(here.finished)
    return here.check(names)


def test_six_kills_of_three_workers(here):
    states = crew_under_fire(here, 6, 15, 1)
    assert "applied" in states.values()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_many_kills_of_three_workers(here, seed):
    states = crew_under_fire(here, 12, 50, seed)
    assert "applied" in states.values()


@contextmanager
def private_site(folder):
    """Ledger and queue on a server of this test's own, which it may end."""
    server = servers.start_postgres("track_commit_timestamp = on")
    try:
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("CREATE DATABASE books ENCODING 'UTF8' TEMPLATE template0")
        made = Site(folder, server.url.rpartition("/")[0] + "/books")
        yield made, server
        made.close()
    finally:
        subprocess.run(server.stop, check=False, capture_output=True, timeout=60)
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.mark.soak
def test_the_server_of_ledger_and_queue_ends_and_comes_back(tmp_path):
    names = [f"j{n:03}" for n in range(40)]
    with private_site(tmp_path) as (here, server):
        for n, name in enumerate(names):
            here.submit(name, here.targets[n % 3], LONG)
        with here.workers(3, concurrency=2):
            for _ in range(4):
                here.until(lambda: "applying" in here.states().values() or here.finished())
                servers.restart_postgres(server)
            here.until(here.finished)
        states = here.check(names)
    assert "applied" in states.values()
