"""Workers whose targets are servers: delivered over HTTP, approved, applied, and one killed in the midst of a job."""

import itertools
import os
from contextlib import contextmanager

import pytest
from tests.effects.postgres.world import Cluster
from tests.faces.worker.site import Site
from tests.support import ledgers, mariadb
from tests.support.servers import postgres
from tests.support.service import envelope, served

MORE = "\n[targets.app]\nurl = '{0}'\nreview = 'required'\nbackup = 'none'\nlock_timeout = 20.0\n"
_NUMBERS = itertools.count(1)


@contextmanager
def on_postgres():
    """A database's URL, what asks it, and how it waits."""
    cluster = Cluster(postgres().url, f"endmark_test_{os.getpid()}_worker{next(_NUMBERS)}")
    cluster.make()
    try:
        with cluster.database(1) as made:
            yield made.url, made.query, "SELECT pg_sleep(1)"
    finally:
        cluster.remove()


@contextmanager
def on_mariadb():
    with mariadb.database() as name:
        yield mariadb.url_of(name), lambda sql: mariadb.query(name, sql), "SELECT SLEEP(1)"


@pytest.fixture(params=[on_postgres, on_mariadb], ids=["postgresql", "mariadb"])
def target(request):
    with request.param() as found:
        yield found


@pytest.fixture
def here(tmp_path, target):
    with ledgers.new_database() as url:
        made = Site(tmp_path, url, targets=(), more=MORE.format(target[0]))
        try:
            yield made
        finally:
            made.close()


def let_through(here, job, statements):
    """Deliver it to the service and approve it there."""
    toml = (here.folder / "endmark.toml").read_text()
    with served(here.folder, toml=toml, ledger=here.url) as service:
        said = service.submit(envelope(job, statements), target="app")
        assert (said.status, said.json["state"]) == (202, "staged")
        said = service.ask("POST", f"/v1/jobs/{job}/approve")
        assert (said.status, said.json["state"]) == (200, "approved")


def test_what_was_let_through_is_applied_once_whoever_dies(here, target):
    _, ask, wait = target
    let_through(here, "made", ["CREATE TABLE made (job VARCHAR(20))"])
    with here.workers(1) as crew:
        here.until(here.finished)
        assert here.sql("SELECT job_id, state, detail FROM attempts") == [("made", "applied", "")]
        let_through(here, "killed", ["INSERT INTO made VALUES ('killed')", wait])
        here.until(lambda: "applying" in here.states().values() or here.finished())
        crew.processes[0].kill()
        crew.hire()
        here.until(here.finished)
    state = here.states()["killed"]
    assert state in ("applied", "failed")
    assert ask("SELECT job FROM made") == ([("killed",)] if state == "applied" else [])
    receipts = dict(ask("SELECT job_id, status FROM schema_jobs"))
    assert receipts.pop("made") == "applied"
    assert (receipts.get("killed") == "applied") is (state == "applied")
    with here.ledger(outbox=False) as ledger:
        assert ledger.verify().problems == ()
