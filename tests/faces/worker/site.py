"""Workers of a queue for tests: a real PostgreSQL database with ledger and queue, targets, and worker processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import psycopg
from tests.support import ledgers
from tests.support.world import make_database, plan_bytes, query

from endmark.apply_gate import ApplyGate, Delivery
from endmark.core import mc1
from endmark.core.evidence import REVIEW_NONE
from endmark.faces import api, config
from endmark.faces.worker.queue_schema import set_up
from endmark.faces.worker.work import usable_places
from endmark.ledger.book import Ledger

PATIENCE = 300.0  # seconds: a busy machine is slow, and a job that is stuck is stuck for ever
QUICK = "heartbeat = 0.2\nstalled_after = 1.0\nsweep_every = 0.5\nreconcile_every = 0.5\n"
STATEMENTS = ("CREATE TABLE IF NOT EXISTS made (job TEXT)", "INSERT INTO made VALUES ('{job}')")
# Takes a while, between two looks at whether it should end.
SLOW = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {0}) SELECT count(*) FROM c"


class Site:
    """A folder with endmark.toml and SQLite targets, and a database with the ledger and the queue."""

    def __init__(self, folder, url, targets=("one", "two", "three"), drain=60.0, queue="", more="", review="none"):
        self.folder, self.url, self.targets = folder, url, targets
        self._connection: psycopg.Connection | None = None
        toml = [f'[ledger]\nurl = "{url}"', f'[queue]\nurl = "{url}"\n{QUICK}drain_timeout = {drain}\n{queue}', more]
        for name in targets:
            make_database(folder / f"{name}.db")
            toml.append(
                f'[targets.{name}]\nurl = "sqlite:///{folder}/{name}.db"\nreview = "{review}"\nbackup = "none"\n'
                "lock_timeout = 20.0"
            )
        (folder / "endmark.toml").write_text("\n".join(toml))
        self.config = config.load(None, str(folder / "endmark.toml"), {})
        Ledger.open(url, create=True).close()
        assert self.config.queue is not None
        set_up(self.config.queue)
        self.places = usable_places(self.config)[0]

    def close(self):
        if self._connection is not None:
            self._connection.close()

    def ledger(self, outbox=True):
        return Ledger.open(self.url, create=False, outbox=self.config.outbox if outbox else None)

    def submit(self, job, target="one", statements=STATEMENTS, *, outbox=True, evidence=(REVIEW_NONE,)):
        """Stage a job as the service does for a target without review; its attempt's id."""
        with self.ledger(outbox) as ledger:
            return self.staged(ledger, job, target, statements, evidence)

    def staged(self, ledger, job, target="one", statements=STATEMENTS, evidence=(REVIEW_NONE,)):
        from endmark.apply_gate import look

        place = self.places[target]
        raw = mc1.seal(plan_bytes(job, [one.replace("{job}", job) for one in statements]))
        delivery = Delivery(raw=raw, submitter="agent", evidence=evidence)
        outcome, _ = ApplyGate(ledger, api.now).admit(look(delivery, place.target.identity, place.options))
        assert outcome.state == "staged"
        return outcome.attempt_id

    def rows(self):
        """What is on the queue: (status, task, attempt)."""
        return self.sql("SELECT status::text, task_name, args->>'attempt' FROM procrastinate_jobs ORDER BY id")

    def sql(self, sql, *values):
        try:
            done = self._connected().execute(sql, values)
        except psycopg.OperationalError:  # its server ended, and is there again
            self._connection = None
            done = self._connected().execute(sql, values)
        return done.fetchall() if done.description else []

    def _connected(self):
        if self._connection is None:
            path = "-c search_path=endmark_queue,endmark"
            self._connection = psycopg.connect(self.url, autocommit=True, options=path)
        return self._connection

    def states(self):
        return dict(self.sql("SELECT job_id, state FROM attempts"))

    def events(self, attempt):
        with self.ledger(outbox=False) as ledger:
            return [event.event for event in ledger.events(attempt)]

    def effects(self):
        """What stands in the targets: the job of every row that a job made, doubles too."""
        found = []
        for name in self.targets:
            if query(self.folder / f"{name}.db", "SELECT 1 FROM sqlite_master WHERE name = 'made'"):
                found += [job for (job,) in query(self.folder / f"{name}.db", "SELECT job FROM made")]
        return sorted(found)

    def receipts(self):
        found: dict[str, str] = {}
        for name in self.targets:
            if query(self.folder / f"{name}.db", "SELECT 1 FROM sqlite_master WHERE name = 'schema_jobs'"):
                found |= dict(query(self.folder / f"{name}.db", "SELECT job_id, status FROM schema_jobs"))
        return found

    def check(self, jobs):
        """Every job is in one final state, has one effect or none, nothing is left over, and the books agree."""
        states = self.states()
        assert sorted(states) == sorted(jobs)
        assert set(states.values()) <= {"applied", "failed"}, states
        applied = sorted(job for job, state in states.items() if state == "applied")
        assert self.effects() == applied
        assert self.receipts() == dict.fromkeys(applied, "applied")
        with self.ledger(outbox=False) as ledger:
            assert ledger.verify().problems == ()
        return states

    def until(self, holds, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, (self.states(), self.rows(), self.said())
            threading.Event().wait(0.05)

    def finished(self):
        return not {"staged", "approved", "applying", "received"} & set(self.states().values()) and not self.rows()

    def said(self):
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("worker-*.log")))

    @contextmanager
    def workers(self, count=1, concurrency=1, ready=True):
        """Worker processes; those that still run at the end are ended by SIGTERM, and end well."""
        crew = Crew(self, concurrency)
        try:
            for _ in range(count):
                crew.hire()
            if ready:
                self.until(lambda: self.said().count("Working:") >= count)
            yield crew
            crew.drain()
        finally:
            crew.kill()


class Crew:
    def __init__(self, site, concurrency):
        self.site, self.concurrency = site, concurrency
        self.processes = []

    def hire(self):
        log = self.site.folder / f"worker-{len(list(self.site.folder.glob('worker-*.log')))}.log"
        with log.open("wb") as out:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "endmark", "worker", "--concurrency", str(self.concurrency)],
                    cwd=self.site.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    env={**os.environ, "ENDMARK_DEBUG": "1"},
                )
            )
        return self.processes[-1]

    def drain(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            code = process.wait(PATIENCE)
            assert code in (0, -signal.SIGKILL), self.site.said()

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait(PATIENCE)


@contextmanager
def site(folder, **how):
    with ledgers.new_database() as url:
        made = Site(folder, url, **how)
        try:
            yield made
        finally:
            made.close()
