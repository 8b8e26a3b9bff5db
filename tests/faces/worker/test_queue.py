"""Workers of a queue: what they do with rows, also with rows that mean nothing, and how they end."""

import subprocess
import sys
import threading
import time
import urllib.request
from types import SimpleNamespace

import pytest
from tests.faces.worker.site import SLOW, STATEMENTS, site
from tests.gates.patches.world import World
from tests.support.world import query

from endmark.core import strictjson
from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.faces import api
from endmark.faces.patches import Patches
from endmark.faces.worker import queue
from endmark.faces.worker.metrics import Metrics
from endmark.faces.worker.queue import Again, Tasks
from endmark.faces.worker.upkeep import Upkeep

DEFER = (
    "SELECT procrastinate_defer_jobs_v1(ARRAY[ROW(queue_name, %s, 0, lock, NULL, %s::jsonb, NULL)]"
    "::procrastinate_job_to_defer_v1[]) FROM procrastinate_jobs ORDER BY id LIMIT 1"
)


def tasks_of(here, said=None):
    return Tasks(here.config, here.config.queue, here.places, (said if said is not None else []).append)


def upkeep_of(here, said=None):
    tasks = tasks_of(here, said)
    say = (said if said is not None else []).append
    return Upkeep(here.config, here.config.queue, here.places, tasks, say, threading.Event())


def row(attempts=0, *, abort=False):
    return SimpleNamespace(job=SimpleNamespace(attempts=attempts, queue="a line"), should_abort=lambda: abort)


def test_rows_that_are_doubled_or_mean_nothing_do_no_harm(here):
    jobs = [f"j{n}" for n in range(6)]
    for n, job in enumerate(jobs):
        attempt = here.submit(job, here.targets[n % 3])
        here.sql(DEFER, "endmark.run", f'{{"attempt": "{attempt}"}}')  # on another target's line, perhaps
    waiting = here.submit("waits", evidence=())
    for task, args in (
        ("endmark.run", '{"attempt": "att_nothing"}'),  # no such job
        ("endmark.run", f'{{"attempt": "{waiting}"}}'),  # nobody approved it
        ("endmark.run", '{"attempts": 1}'),  # not ours
        ("endmark.other", "{}"),
        ("endmark.show", '{"attempt": "att_nothing"}'),
    ):
        here.sql(DEFER, task, args)
    with here.workers(2, concurrency=3):
        here.until(lambda: not here.rows() and here.states()["j5"] == "applied")
    assert here.states() == {**dict.fromkeys(jobs, "applied"), "waits": "staged"}
    assert here.effects() == jobs


def test_what_has_no_row_is_swept_onto_the_queue(here):
    lost = here.submit("lost", outbox=False)
    had = here.submit("had", "two")
    here.submit("waits", evidence=(), outbox=False)
    parked = here.submit("parked", outbox=False)
    with here.ledger() as ledger:
        ledger.note(parked, "parked", api.now(), {"why": "away"})
    upkeep = upkeep_of(here)
    assert (upkeep.sweep(), upkeep.sweep()) == (1, 0)
    assert {one[2] for one in here.rows()} == {had, lost}
    done = subprocess.run(
        [sys.executable, "-m", "endmark", "queue", "retry", "parked"], cwd=here.folder, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {one[2] for one in here.rows()} == {had, lost, parked}
    here.sql("DELETE FROM procrastinate_jobs")
    assert upkeep.sweep() == 3  # it is parked no more


def test_a_target_out_of_reach_is_tried_again_and_then_parked(here, monkeypatch):
    def away(*_args, **_how):
        raise CannotTry("the target is away")

    attempt = here.submit("j1")
    said: list[str] = []
    tasks = tasks_of(here, said)
    monkeypatch.setattr(queue, "run_job", away)
    pauses = []
    for tries in range(11):
        with pytest.raises(Again) as later:
            tasks.run(row(tries), attempt)
        pauses.append(later.value.seconds)
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 120, 120, 120, 120]
    assert "parked" not in here.events(attempt)
    tasks.run(row(11), attempt)
    assert here.events(attempt)[-1] == "parked"
    assert here.states() == {"j1": "staged"}
    shown = subprocess.run(
        [sys.executable, "-m", "endmark", "show", "j1"], cwd=here.folder, capture_output=True, text=True, check=False
    )
    assert "parked, tries 12, why the target is away" in shown.stdout


def test_a_mistake_of_ours_is_parked_at_once_and_the_worker_lives(here, monkeypatch):
    def wrong(*_args, **_how):
        raise ZeroDivisionError("by us")

    attempt = here.submit("j1")
    tasks = tasks_of(here)
    monkeypatch.setattr(queue, "run_job", wrong)
    tasks.run(row(), attempt)
    assert here.events(attempt)[-1] == "parked"
    assert upkeep_of(here).sweep() == 0
    tasks.run(row(), "att_nothing")  # nothing to note it on


def test_a_row_whose_workers_all_died_is_parked(here):
    """A job that kills whoever takes it must not go round for ever."""
    attempt = here.submit("j1")
    said: list[str] = []
    upkeep = upkeep_of(here, said)
    for tries in range(1, 12):
        here.sql("UPDATE procrastinate_jobs SET status = 'doing'")  # by a worker of which nothing is known
        assert upkeep.reap() == 1
        assert here.sql("SELECT status::text, attempts FROM procrastinate_jobs") == [("todo", tries)]
    here.sql("UPDATE procrastinate_jobs SET status = 'doing'")
    assert upkeep.reap() == 1
    assert (here.rows(), here.events(attempt)[-1], here.states()) == ([], "parked", {"j1": "staged"})
    assert (upkeep.sweep(), upkeep.reap()) == (0, 0)


def test_a_living_workers_row_is_left_to_it(here):
    here.submit("j1")
    here.sql("INSERT INTO procrastinate_workers DEFAULT VALUES")
    here.sql("UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT max(id) FROM procrastinate_workers)")
    assert upkeep_of(here).reap() == 0
    here.sql("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '2 seconds'")
    assert upkeep_of(here).reap() == 1
    assert [one[0] for one in here.rows()] == ["todo"]
    assert here.sql("SELECT count(*) FROM procrastinate_workers") == [(0,)]


def test_what_a_dead_worker_left_applying_is_settled_by_whoever_takes_its_row(here):
    attempt = here.submit("j1")
    with here.ledger(outbox=False) as ledger:
        entry = ledger.get(attempt)
        ledger.move(
            attempt,
            entry.state,
            (State.APPROVED, State.APPLYING),
            api.now(),
            approver="x",
            approved_fingerprint="f" * 64,
        )
    with here.places["one"].target.open() as session:
        session.lock(0)
        tasks_of(here).run(row(), attempt)  # it may live: its lock is held
        assert here.states() == {"j1": "applying"}
    tasks_of(here).run(row(), attempt)
    assert here.check(["j1"]) == {"j1": "failed"}


def test_each_chore_is_done_by_one_at_a_time(here):
    first, second = upkeep_of(here), upkeep_of(here)
    here.submit("lost", outbox=False)
    with first.alone("sweep") as connection:
        assert connection is not None
        assert second.sweep() == 0
    assert second.sweep() == 1


def test_a_night_is_replayed_once_and_by_one_at_a_time(tmp_path):
    """Two workers with a timetable of seconds: no night is done twice, and none beside another."""
    repository = tmp_path / "app"
    subprocess.run(["git", "init", "--quiet", "--bare", repository], check=True)
    queue = f'replay = ["{repository}"]\nreplay_at = "* * * * * *"\n'
    with site(tmp_path, queue=queue) as here:
        first, second = upkeep_of(here), upkeep_of(here)
        with first.alone("replay") as connection:
            assert connection is not None
            assert second.replay() is False
        assert second.replay() is True
        began = time.time()
        with here.workers(2):
            here.until(lambda: here.said().count("replay of ") >= 4)
            assert len(here.sql("SELECT 1 FROM procrastinate_jobs WHERE status = 'doing'")) <= 1
        ((made,),) = here.sql("SELECT last_value FROM procrastinate_jobs_id_seq")
        assert made <= time.time() - began + 2  # each worker alone would have made as many


def told_of(folder):
    """The one alert that a command wrote down."""
    return strictjson.loads((folder / "told.json").read_bytes())


def test_the_nightly_replay_tells_of_an_incident(tmp_path, monkeypatch):
    """What [alerts] names gets the object; what it could not be told is said, and its URL is not."""
    world = World(tmp_path / "patches")
    monkeypatch.setenv("HOME", str(world.home))
    more = (
        f'[repositories.app]\npath = "{world.repo}"\n'
        f'[alerts]\nurl = "http://127.0.0.1:1/a-secret-path"\ncommand = "sh -c \'cat > {tmp_path}/told.json\'"\n'
    )
    with site(tmp_path, queue=f'replay = ["{world.repo}"]\n', more=more) as here:
        said: list[str] = []
        upkeep = upkeep_of(here, said)
        world.says("pass", "fail", "fail")
        with Patches(here.config.ledger, world.repo) as patches:
            decided = patches.review("main", "topic")
            assert decided.state == "pass"
            assert patches.merge("main", "topic").state == "merged"
        assert upkeep.replay() is True
        assert [one["decision_id"] for one in told_of(tmp_path)["incidents"]] == [decided.decision_id]
        assert any("1 incident" in line for line in said)
        (problem,) = (line for line in said if "the alert" in line)
        assert "127.0.0.1:1" in problem
        assert "a-secret-path" not in problem
    world.close()


def test_figures_of_a_worker(here):
    """What it ran, by target and state, and no id."""
    said: list[str] = []
    metrics = Metrics(here.places, "127.0.0.1", 0)
    tasks = Tasks(here.config, here.config.queue, here.places, said.append, metrics.figures.ran)
    attempt = here.submit("counted")
    ((line,),) = here.sql("SELECT queue_name FROM procrastinate_jobs")
    taken = row()
    taken.job.queue = line
    tasks.run(taken, attempt)
    tasks.run(taken, attempt)  # it was run already: not counted again
    failing = here.submit("broken", statements=("CREATE TABLE made (again TEXT)",))
    tasks.run(taken, failing)
    with metrics.served() as address, urllib.request.urlopen(f"{address}/metrics", timeout=20) as answer:
        figures = answer.read().decode()
    assert 'endmark_applies_total{signal="complete",state="applied",target="one"} 1.0' in figures
    assert 'endmark_applies_total{signal="sql-error",state="failed",target="one"} 1.0' in figures
    assert 'endmark_apply_seconds_count{target="one"} 2.0' in figures
    assert not any(word in figures for word in ("counted", "broken", attempt))
    assert here.states() == {"counted": "applied", "broken": "failed"}


def test_sigterm_lets_what_runs_finish(here):
    here.submit("long", statements=(*STATEMENTS, SLOW.format(1_000_000)))
    with here.workers() as crew:
        here.until(lambda: here.states()["long"] == "applying")
        here.submit("next")
        crew.drain()
    assert here.states() == {"long": "applied", "next": "staged"}
    assert [one[0] for one in here.rows()] == ["todo"]  # for another worker
    assert "The worker has ended. Nothing is half done." in here.said()


@pytest.mark.parametrize("how", ["said twice", "its time is over"])
def test_what_runs_too_long_at_the_end_is_rolled_back(tmp_path, how):
    with site(tmp_path, drain=60.0 if how == "said twice" else 0.2) as here:
        here.submit("endless", statements=(*STATEMENTS, SLOW.format(10**12)))
        with here.workers() as crew:
            here.until(lambda: here.states()["endless"] == "applying")
            process = crew.processes[0]
            process.terminate()
            if how == "said twice":
                here.until(lambda: process.poll() is not None or process.terminate() is not None)
            crew.drain()
        assert here.check(["endless"]) == {"endless": "failed"}
        assert query(here.folder / "one.db", "SELECT name FROM sqlite_master WHERE name = 'made'") == []
