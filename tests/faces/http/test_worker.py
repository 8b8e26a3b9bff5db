"""The worker and the end of the service: what is begun is finished, what cannot be tried is tried again."""

import threading

import pytest
from tests.gates.patches.world import World
from tests.support.patch_service import REPOSITORY
from tests.support.service import TOML, answer_in, envelope, everything, served
from tests.support.world import FOREVER, query

from endmark.core.refusal import CannotTry
from endmark.effects.sqlite import SqliteTarget
from endmark.faces.patches import Patches
from endmark.faces.worker import embedded
from endmark.faces.worker.work import places_by_identity, run_job
from endmark.ledger import work_queries
from endmark.ledger.book import Ledger
from endmark.ledger.patch_book import PatchBook

OURS = ("endmark-worker", "endmark-apply", "endmark-rehearse", "endmark-ledger", "endmark-http")


def state(site, job):
    return site.ask("GET", f"/v1/jobs/{job}").json["state"]


def test_a_target_out_of_reach_is_tried_again_and_then_left(tmp_path, monkeypatch):
    """H27"""
    monkeypatch.setattr(embedded, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(embedded, "LOOKS_EVERY", 0.02)
    tries = []
    real = SqliteTarget.open

    def away(target):
        tries.append(target)
        raise CannotTry("the target is away")

    with served(tmp_path, worker=True) as site:
        monkeypatch.setattr(SqliteTarget, "open", away)
        site.submit(envelope("away"), target="auto")
        with Ledger.open(tmp_path / "ledger.db", create=False) as ledger:
            attempt = ledger.page(1)[0].attempt_id
            site.until(lambda: any(event.event == "parked" for event in ledger.events(attempt)))
        assert len(tries) == embedded.TRIES
        monkeypatch.setattr(SqliteTarget, "open", real)
        assert state(site, "away") == "staged"
    with served(tmp_path, worker=True) as site:  # the next start begins anew
        site.until(lambda: state(site, "away") == "applied")


def test_jobs_that_are_put_off_keep_no_other_from_its_turn(tmp_path, monkeypatch):
    """H27: more of them than are looked at in one go, and behind them one for a target that is there."""
    monkeypatch.setattr(embedded, "_FIRST_PAUSE", 1000.0)
    monkeypatch.setattr(embedded, "LOOKS_EVERY", 0.02)
    monkeypatch.setattr(work_queries, "MOST", 2)
    real = SqliteTarget.open

    def away(target):
        if target.identity.endswith("auto.db"):
            raise CannotTry("the target is away")
        return real(target)

    monkeypatch.setattr(SqliteTarget, "open", away)
    with served(tmp_path, worker=True) as site:
        jobs = [f"away-{number}" for number in range(5)]
        for job in jobs:
            site.submit(envelope(job), target="auto")
        site.until(lambda: len(site.service.worker._tries) == len(jobs))
        site.submit(envelope("there"))
        site.ask("POST", "/v1/jobs/there/approve", b"")
        site.until(lambda: state(site, "there") == "applied")
        assert {state(site, job) for job in jobs} == {"staged"}


def test_one_job_can_be_run_by_anybody_any_number_of_times(tmp_path):
    """H26"""
    with served(tmp_path) as site:
        for job, target in (("staged", "prod"), ("free", "auto")):
            site.submit(envelope(job), target=target)
        config, place_of = site.service.config, places_by_identity(site.service.places)
        left = run_job(config, place_of, "staged")
        assert (left.ran, left.outcome.state) == (False, "staged")
        done = [run_job(config, place_of, "free") for _ in range(2)]
        assert [(one.ran, one.outcome.state) for one in done] == [(True, "applied"), (False, "applied")]
        with pytest.raises(CannotTry):
            run_job(config, place_of, "nothing")
        nowhere = run_job(config, lambda _identity: None, "staged")
        assert (nowhere.ran, nowhere.outcome.state) == (False, "staged")


def test_a_job_that_was_held_back_is_not_applied_where_review_was_wanted_then(tmp_path):
    """H26: a target that wants no review now took the job when it did."""
    with served(tmp_path) as site:
        site.submit(envelope("old"))
        config = site.service.config
        loose = site.service.config.targets["prod"]
        loose.review = "none"
        place = config.served("prod")
        left = run_job(config, lambda _identity: place, "old")
        assert (place.review, left.ran, left.outcome.state) == ("none", False, "staged")


def test_a_target_that_hangs_keeps_nobody_from_reading(tmp_path, monkeypatch):
    hangs, entered = threading.Event(), threading.Semaphore(0)
    real = SqliteTarget.open

    def hanging(target):
        entered.release()
        assert hangs.wait(20)
        return real(target)

    with served(tmp_path) as site:
        jobs = [f"hangs-{number}" for number in range(8)]
        for job in jobs:
            site.submit(envelope(job))
        monkeypatch.setattr(SqliteTarget, "open", hanging)
        threads = [threading.Thread(target=site.ask, args=("POST", f"/v1/jobs/{job}/approve", b"")) for job in jobs]
        try:
            for thread in threads:
                thread.start()
            assert all(entered.acquire(timeout=20) for _ in jobs)
            assert [state(site, job) for job in jobs] == ["staged"] * 8
            assert not hangs.is_set()
        finally:
            hangs.set()
            for thread in threads:
                thread.join()
        assert [state(site, job) for job in jobs] == ["approved"] * 8


def test_what_is_being_sent_when_the_service_ends_is_taken(tmp_path):
    """H32"""
    raw = envelope("last")
    with served(tmp_path) as site:
        wire = site.connect()
        watcher = site.connect()
        site.submit(envelope("watched"))
        watcher.sendall(site.head("GET", "/v1/jobs/watched?wait=30"))
        wire.sendall(site.head("POST", "/v1/jobs?target=prod", f"Content-Length: {len(raw)}") + raw[:100])
        site.until(lambda: site.service.limits.in_flight > 0 and site.service.limits.watchers == 1)
        site.server.should_exit = True
        assert answer_in(everything(watcher)).json["state"] == "staged"
        wire.sendall(raw[100:])
        assert answer_in(everything(wire)).status == 202
        wire.close()
        watcher.close()
    assert [state for state, _, _ in site.attempts()] == ["staged", "staged"]


def test_what_runs_too_long_at_the_end_is_rolled_back(tmp_path):
    """H33"""
    with served(tmp_path, worker=True, drain_timeout=0.3) as site:
        before = site.world()
        site.submit(envelope("long", ["CREATE TABLE made (a)", FOREVER]), target="auto")
        site.until(lambda: state(site, "long") == "applying")
    assert [state for state, _, _ in site.attempts()] == ["failed"]
    assert query(tmp_path / "auto.db", "SELECT name FROM sqlite_master WHERE name = 'made'") == []
    assert {name: site.world()[name] for name in ("prod", "other")} == {
        name: before[name] for name in ("prod", "other")
    }
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(OURS)]


def test_what_a_crash_left_of_decisions_is_settled_as_jobs_are(tmp_path, monkeypatch):
    """A merge that was made and not written down, in a repository of the configuration; another one is gone."""
    toml = TOML + REPOSITORY + '[repositories.gone]\npath = "gone.git"\n'
    world = World(tmp_path / "site")
    monkeypatch.setenv("HOME", str(world.home))
    world.says("pass")
    with Patches(world.path, world.repo) as patches:
        assert patches.review("main", "topic").state == "pass"
        with monkeypatch.context() as patch:
            patch.setattr(PatchBook, "_move", broken)
            with pytest.raises(KeyboardInterrupt):
                patches.merge("main", "topic")
    tip = world.tip()
    assert (world.states(), len(world.merges())) == (["pass"], 1)
    with served(tmp_path / "site", toml=toml, worker=True) as site:
        site.until(lambda: world.states() == ["merged"])
        assert site.ask("GET", "/readyz").status == 200
    assert (world.tip(), len(world.merges())) == (tip, 1)
    world.is_sound()
    world.close()


def broken(*_args, **_more):
    raise KeyboardInterrupt
