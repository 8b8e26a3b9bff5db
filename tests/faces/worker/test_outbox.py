"""A queue row is written in the ledger's own transaction: with what makes a job due, or not at all."""

import asyncio
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import psycopg
import pytest
from tests.support import ledgers
from tests.support.world import plan_bytes

from endmark.core import mc1
from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.faces import api, config
from endmark.faces.http import body as bodies
from endmark.faces.http.access import EVERYTHING
from endmark.faces.http.jobs import deliver
from endmark.faces.http.service import Service
from endmark.faces.http.settings import settings_of
from endmark.faces.misuse import Misuse
from endmark.faces.worker.outbox import RUN, SHOW, Deferring, line_of
from endmark.ledger.batch import Writer
from endmark.ledger.book import Ledger

DUE = "SELECT queue_name, task_name, lock, args FROM procrastinate_jobs"


def test_the_row_holds_the_attempts_id_and_nothing_else(here):
    attempt = here.submit("j1")
    identity = here.places["one"].target.identity
    assert here.sql(DUE) == [(line_of(identity), RUN, identity, {"attempt": attempt})]
    assert len(f"procrastinate_queue_v1#{line_of(identity)}") < 64  # bytes of a channel's name


def test_what_came_before_gets_no_second_row(here):
    here.submit("j1")
    with here.ledger() as ledger, pytest.raises(AssertionError):  # it is not new
        here.staged(ledger, "j1", statements=("SELECT 1",))
    with here.ledger() as ledger:
        here.staged(ledger, "j1")
    assert len(here.rows()) == 1


def test_what_waits_for_a_person_has_no_row_until_it_is_approved(here):
    attempt = here.submit("j1", evidence=())
    assert here.rows() == []
    place = here.places["one"]
    with api.Gate(here.url, reconcile=False, outbox=here.config.outbox) as gate:
        gate.doing.let_pass(attempt, place.target, place.options, "ann")
        assert here.rows() == [("todo", RUN, attempt)]
        gate.doing.decline(attempt, "ann", "no")
    assert len(here.rows()) == 1  # it does no harm
    with Ledger.open(
        here.url, create=False, outbox=Deferring("endmark_queue", frozenset({place.target.identity}))
    ) as book:
        shown = here.staged(book, "j2", evidence=())
    assert here.rows()[1:] == [("todo", SHOW, shown)]


class Broken(Exception):
    """Something else in the same batch ended it."""


def test_a_ledger_that_is_rolled_back_leaves_no_row(here):
    def act(ledger):
        with ledger.batch(api.now):
            attempt = here.staged(ledger, "j1")
            ledger.move(attempt, State.STAGED, State.APPROVED, api.now(), approver="ann")
            assert ledger.store.ask("SELECT count(*) FROM procrastinate_jobs") == [(2,)]  # within, they are there
            raise Broken

    with here.ledger() as ledger, pytest.raises(Broken):
        act(ledger)
    assert (here.rows(), here.states()) == ([], {})


def test_one_commit_holds_a_batch_and_its_rows(here):
    with here.ledger() as ledger:
        writer = Writer(ledger, api.now)
        gate = threading.Event()  # closed until all have come
        held = writer.submit(lambda _ledger: gate.wait(30))
        posted = [writer.submit(partial(here.staged, job=f"j{n}")) for n in range(20)]
        bad = writer.submit(lambda ledger: ledger.note("att_none", "seen", api.now(), {}))
        gate.set()
        held.result(30)
        attempts = [one.result(30) for one in posted]
        with pytest.raises(KeyError):
            bad.result(30)
        writer.close()
    assert sorted(row[2] for row in here.rows()) == sorted(attempts)


def test_without_its_queue_nothing_is_recorded(here):
    here.sql("DROP SCHEMA endmark_queue CASCADE")
    with (
        here.ledger() as ledger,
        pytest.raises(CannotTry, match=r"has no queue.*nothing was changed.*endmark queue init"),
    ):
        here.staged(ledger, "j1")
    assert here.states() == {}


def test_the_service_queues_what_it_takes_and_what_it_approves(here):
    """By its own ways to the ledger; it applies nothing itself."""
    service = Service(here.config, settings_of(here.config))
    assert service.settings.worker is False
    first, second = (bodies.Body(raw=mc1.seal(plan_bytes(job, ["CREATE TABLE made (a)"]))) for job in ("j1", "j2"))

    async def life():
        await service.start()
        place = service.places["one"]
        taken, _ = await deliver(service, first, place, EVERYTHING)
        held, _ = await deliver(service, second, place, EVERYTHING, hold=True)
        assert [row[2] for row in here.rows()] == [taken.attempt_id]
        await service.gated(
            place, lambda gate: gate.doing.let_pass(str(held.attempt_id), place.target, place.options, "ann")
        )
        await service.stop()
        return [taken.attempt_id, held.attempt_id]

    attempts = asyncio.run(life())
    assert [row[2] for row in here.rows()] == attempts
    assert [row[1] for row in here.rows()] == [RUN, RUN]
    assert here.states() == {"j1": "staged", "j2": "approved"}


def test_approving_on_the_command_line_queues_it(here):
    attempt = here.submit("j1", evidence=())
    done = subprocess.run(
        [sys.executable, "-m", "endmark", "approve", "j1", "--later", "--yes"],
        cwd=here.folder, capture_output=True, env={**os.environ}, check=False,
    )  # fmt: skip
    assert done.returncode == 16, done.stderr
    assert here.rows() == [("todo", RUN, attempt)]


BOOK = "postgresql://root@db.example/books"


@pytest.mark.parametrize(
    ("ledger", "queue", "says"),
    [
        ("sqlite:///ledger.db", BOOK, r"needs a ledger in PostgreSQL.*Remove \[queue\]"),
        (BOOK, "postgresql://root@db.example/other", "the same database, written the same way, was expected"),
        (BOOK, "postgresql://root@127.0.0.1/books", "the same database"),
        (BOOK, "postgresql://root@db.example:5433/books", "the same database"),
        (BOOK, f"{BOOK}?schema=endmark", "the schema endmark is the ledger's"),
        (f"{BOOK}?schema=endmark_queue", BOOK, "the schema endmark_queue is the ledger's"),
        (BOOK, f"{BOOK}?schema=No", "the queue's URL names a schema that endmark does not take"),
        (BOOK, "redis://db.example/0", "postgresql://USER@HOST/DATABASE, as the ledger's, was expected"),
        (BOOK, "env:NO_SUCH", "the variable NO_SUCH is not set"),
    ],
)
def test_a_queue_beside_another_ledger_is_refused(tmp_path, ledger, queue, says):
    file = tmp_path / "endmark.toml"
    file.write_text(f'[ledger]\nurl = "{ledger}"\n[queue]\nurl = "{queue}"\n')
    with pytest.raises(Misuse, match=says):
        config.load(None, str(file), {})


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("tries = 0", "tries: 0 is not a number above zero"),
        ("heartbeat = 0.0", "heartbeat: 0.0"),
        ("stalled_after = 15.0", "at least twice the heartbeat"),
        ("speed = 1", "unknown field `speed`"),
    ],
)
def test_what_the_table_cannot_say(tmp_path, more, says):
    file = tmp_path / "endmark.toml"
    file.write_text(f'[ledger]\nurl = "{BOOK}"\n[queue]\nurl = "{BOOK}"\n{more}\n')
    with pytest.raises(Misuse, match=says):
        config.load(None, str(file), {})


def test_a_ledger_in_a_file_takes_no_outbox(tmp_path):
    with pytest.raises(CannotTry, match="a queue needs one in PostgreSQL"):
        Ledger.open(Path(tmp_path, "ledger.db"), create=True, outbox=Deferring("endmark_queue"))
    assert list(tmp_path.iterdir()) == []


def test_init_makes_finds_and_prints(tmp_path):
    def run(*words):
        command = [sys.executable, "-m", "endmark", "queue", "init", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    with ledgers.new_database() as url:
        Ledger.open(url, create=True).close()
        (tmp_path / "endmark.toml").write_text(f'[ledger]\nurl = "{url}"\n[queue]\nurl = "{url}?schema=q"\n')
        printed = run("--print", "--role", "postgres")
        assert 'GRANT USAGE ON SCHEMA q TO "postgres"' in printed.stdout
        with psycopg.connect(url, autocommit=True) as admin:
            assert admin.execute("SELECT to_regnamespace('q')").fetchone() == (None,)  # nothing was done
            admin.execute(printed.stdout)
        assert run().stdout.startswith("The queue stands already")
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("DROP SCHEMA q CASCADE")
        assert run().stdout.startswith("Made the queue")
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("DROP SCHEMA q CASCADE")
            admin.execute("CREATE SCHEMA q")
        refused = run()
        assert (refused.returncode, "is not a queue that endmark made" in refused.stderr) == (20, True)
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("COMMENT ON SCHEMA q IS 'the queue of endmark: procrastinate 99.0.0'")
            admin.execute("CREATE TABLE q.procrastinate_jobs ()")
        assert "is installed here" in run().stderr
