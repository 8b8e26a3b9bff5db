"""kill -9 of the gate, and of the server, at moments by chance."""

import os
import shutil
import subprocess
import sys
import threading
from collections import Counter

import pytest
from tests.effects.postgres.child import CALM, statements
from tests.effects.postgres.world import Cluster, PostgresWorld
from tests.support.servers import NoServer, restart_postgres, start_postgres
from tests.support.world import PATIENT

from endmark.core import strictjson
from endmark.core.refusal import CannotTry
from endmark.effects.target import Failed


def look(world, n):
    """What job `n` left after it was settled: all of it and its receipt, or nothing. Says which."""
    receipt = world.receipts().get(f"j{n}")
    tables = world.database.query("SELECT count(*) FROM pg_tables WHERE tablename ~ %s", f"^t{n}(_|$)")
    assert tables == [(21 if receipt else 0,)]
    if receipt:
        assert world.database.query(f"SELECT count(*), sum(length(filler)) FROM t{n}") == [(400, 80_000)]
        assert receipt[2] == "applied"
    entry = world.entry(f"j{n}")
    assert (entry.state if entry else None) in ({"applied"} if receipt else {"failed", "staged", None})
    return "applied" if receipt else "nothing"


def kill_and_settle(world, many, seed):
    found: Counter[str] = Counter()
    command = [sys.executable, "-m", "tests.effects.postgres.child", world.folder, world.database.url, many, seed]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environ
    ) as child:
        assert child.stdin
        assert child.stdout
        for _ in range(CALM + many):
            said = strictjson.loads(b'{"said": %s}' % child.stdout.readline().strip())
            n, code = said["said"]
            entry = world.entry(f"j{n}")
            found[f"was {entry.state if entry else 'not recorded'}"] += 1
            found[f"exit {code}"] += 1
            assert world.reconcile(lock_timeout=30).left == []
            found[look(world, n)] += 1
            world.check_books_agree()
            child.stdin.write(b"\n")
    assert found["exit 0"] >= CALM
    return found


def test_a_kill_at_any_moment_leaves_all_or_nothing(world):
    found = kill_and_settle(world, 5, seed="kills")
    assert found["exit -9"] >= 3


@pytest.mark.soak
def test_two_hundred_kills_leave_all_or_nothing(world, record_property):
    found = kill_and_settle(world, 200, seed="long")
    record_property("kills", found["exit -9"])
    assert found["exit -9"] >= 100
    assert found["was applying"] >= 20


@pytest.fixture(scope="module")
def private():
    """A server of its own, which may be ended at any time, with what a default one has switched off."""
    try:
        started = start_postgres("max_prepared_transactions = 5")
    except NoServer as why:
        pytest.skip(f"not tested: {why}")
    cluster = Cluster(started.url, "endmark_power")
    try:
        cluster.make()
        with cluster.database(1) as database:
            yield started, database
    finally:
        subprocess.run(started.stop, check=False, capture_output=True)
        shutil.rmtree(started.folder or "", ignore_errors=True)


@pytest.mark.soak
def test_a_transaction_cannot_be_prepared_for_a_later_commit(private):
    _, database = private
    before = database.dump()
    with pytest.raises(Failed, match="statement 2 may not end the transaction"):
        database.run(["CREATE TABLE a (n integer)", "PREPARE TRANSACTION 'later'", "SELECT 1"], "prepared")
    assert database.query("SELECT count(*) FROM pg_prepared_xacts") == [(0,)]
    assert database.dump() == before


@pytest.mark.soak
def test_a_server_that_is_ended_at_once_leaves_all_or_nothing(tmp_path, private):
    """`pg_ctl stop -m immediate`, as a power cut would; the log brings back what was acknowledged."""
    started, database = private
    world = PostgresWorld(tmp_path, database)
    found: Counter[str] = Counter()
    for n in range(25):
        at = threading.Event()

        def reached(done, _total, at=at, n=n):
            if done > n * 41 // 25:
                at.set()

        def end(at=at):
            at.wait(30)
            restart_postgres(started)

        power = threading.Thread(target=end)
        power.start()
        try:
            world.apply(f"j{n}", statements(n), options=PATIENT, more={"progress": reached})
        except CannotTry:
            found["could not try"] += 1
        at.set()
        power.join()
        assert world.reconcile(lock_timeout=30).left == []
        found[look(world, n)] += 1
        world.check_books_agree()
    assert found["nothing"] >= 1
    print(dict(found))
