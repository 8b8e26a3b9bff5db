"""What a service tells Prometheus: exact values after a table of deliveries, and labels that stay few."""

import re
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families
from tests.ledger.plans import book_with
from tests.ledger.test_patches import CUT, FAIL, PASS, merged, review
from tests.support.service import envelope, served

from endmark.core.states import State
from endmark.faces.http import metrics
from endmark.faces.http.metrics import OTHER
from endmark.ledger import gauges
from endmark.ledger.book import Ledger
from endmark.ledger.patch_book import PatchBook

ROOT = Path(__file__).resolve().parents[3]
ALERTS = ROOT / "integrations" / "prometheus" / "alerts.yml"
ENDS = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


def scraped(site, **how):
    """sample name -> {label values in the order of their names: value}."""
    said = site.ask("GET", "/metrics", **how)
    assert said.status == 200, said
    assert said.headers["content-type"].startswith("text/plain")
    found: dict = {}
    for family in text_string_to_metric_families(said.body.decode()):
        for sample in family.samples:
            values = tuple(value for _, value in sorted(sample.labels.items()))
            assert values not in found.setdefault(sample.name, {}), sample
            found[sample.name][values] = sample.value
    return found


def test_exact_figures_after_a_table_of_deliveries(tmp_path):
    whole, cut, flipped = envelope("a"), envelope("b")[:90], envelope("c").replace(b"made", b"mbde")
    short = int(envelope("b").split()[1]) + len(envelope("b").split(b"\n")[0]) + 1 - 90
    with served(tmp_path, worker=True) as site:
        before = scraped(site)
        assert before["endmark_jobs"][("staged", "prod")] == 0
        assert before["endmark_short_bytes_count"] == {("auto",): 0, ("other",): 0, ("prod",): 0}
        for body, target in (
            (whole, "prod"),
            (whole, "prod"),
            (cut, "prod"),
            (cut, "other"),
            (flipped, "prod"),
            (b"", "prod"),
        ):
            site.submit(body, target=target)
        site.submit(envelope("d"), target="auto")
        site.ask("GET", "/v1/jobs/nobody")
        site.until(lambda: scraped(site).get("endmark_applies_total"))
        found = scraped(site)
    assert found["endmark_deliveries_total"] == {
        ("complete", "staged", "auto"): 1,
        ("complete", "staged", "prod"): 1,
        ("body-cut", "truncated", "prod"): 1,
        ("body-cut", "truncated", "other"): 1,
        ("envelope-digest", "quarantined", "prod"): 1,
        ("empty", "truncated", "prod"): 1,
    }
    assert found["endmark_redeliveries_total"] == {("auto",): 0, ("other",): 0, ("prod",): 1}
    assert found["endmark_received_bytes_total"][("prod",)] == len(whole) + 90 + len(flipped)
    assert found["endmark_short_bytes_sum"][("prod",)] == found["endmark_short_bytes_sum"][("other",)] == short
    assert found["endmark_problems_total"] == {
        ("body-cut", "422"): 2, ("empty", "422"): 1, ("envelope-digest", "422"): 1, ("not-found", "404"): 1,
    }  # fmt: skip
    assert found["endmark_applies_total"] == {("complete", "applied", "auto"): 1}
    assert found["endmark_apply_seconds_count"] == {("auto",): 1}
    jobs = {where: number for where, number in found["endmark_jobs"].items() if number}
    assert jobs == {
        ("staged", "prod"): 1, ("applied", "auto"): 1, ("quarantined", "prod"): 1, ("truncated", "prod"): 2,
        ("truncated", "other"): 1,
    }  # fmt: skip
    assert set(found["endmark_oldest_job_seconds"]) == {("staged", "prod")}
    assert 0 <= found["endmark_oldest_job_seconds"][("staged", "prod")] < 60
    for name in ("endmark_ledger_up", "endmark_worker_up"):
        assert found[name] == {(): 1}
    assert found["endmark_open_connections"][()] >= 1
    for name in ("endmark_ledger_queue_depth", "endmark_applying", "endmark_upload_bytes", "endmark_uploads"):
        assert found[name] == {(): 0}
    assert found["endmark_ledger_commit_acts_count"][()] <= found["endmark_ledger_commit_acts_sum"][()] == 7
    assert found["endmark_ledger_commit_failures_total"] == {(): 0}
    assert found["endmark_retry_budget_used_ratio"] == {(): 0}


def test_labels_never_hold_what_others_chose(tmp_path):
    """H35"""
    with served(tmp_path) as site:
        secret = site.make_token("agent-x", "submit")
        site.submit(envelope("job-y"), token=secret)
        site.ask("GET", "/v1/jobs/path-z", token=secret)
        site.ask("GET", "/v1/jobs?target=target-w", token=secret)
        said = site.ask("GET", "/metrics", token=secret).body
    for word in (b"agent-x", b"job-y", b"path-z", b"target-w", b"sqlite:", str(tmp_path).encode(), b"att_"):
        assert word not in said


def test_a_job_of_a_target_that_no_configuration_names(tmp_path):
    with served(tmp_path) as site:
        site.submit(envelope("a"))
        with Ledger.open(tmp_path / "ledger.db", create=False) as ledger:
            found = metrics.look(ledger, {}, site.service.clock())
    assert found.jobs == {(OTHER, "staged"): 1}
    assert found.ages == {}


def test_who_may_see_figures(tmp_path):
    """H34"""
    with served(tmp_path) as site:
        assert site.ask("GET", "/metrics").status == 200  # this machine, before the first token
        everywhere, some = site.make_token("all", "review"), site.make_token("some", "submit", targets=("prod",))
        site.service.keyring.look_for_any(site.service.ledger)
        assert [site.ask("GET", "/metrics", token=token).status for token in (None, "emk_x", some, everywhere)] == [
            401, 401, 403, 200,
        ]  # fmt: skip


def test_a_ledger_that_is_gone_is_a_figure_and_no_fault(tmp_path):
    """H36"""
    with served(tmp_path) as site:
        (tmp_path / "ledger.db").rename(tmp_path / "away.db")
        assert scraped(site)["endmark_ledger_up"] == {(): 0}
        (tmp_path / "away.db").rename(tmp_path / "ledger.db")
        assert scraped(site)["endmark_ledger_up"] == {(): 1}


def test_a_target_out_of_reach_uses_the_retry_budget(tmp_path):
    with served(tmp_path, worker=True) as site:
        (tmp_path / "auto.db").rename(tmp_path / "away.db")
        site.submit(envelope("a"), target="auto")
        site.until(lambda: scraped(site)["endmark_apply_retries_total"][("auto",)] >= 1)
        assert scraped(site)["endmark_retry_budget_used_ratio"][()] >= 1 / 8


def test_flips_and_ages_are_asked_of_the_book(path):
    with Ledger.open(path, create=True) as ledger:
        book = PatchBook(ledger)
        assert gauges.flips(ledger) == (0, 0)
        done = merged(book)
        for number, said in enumerate((PASS, FAIL, CUT)):
            review(book, done, "sec", said, f"again-{number}", purpose="replay")
        assert gauges.flips(ledger) == (1, 0)  # what did not end is no flip
        assert gauges.flips(ledger, window=1) == (0, 0)
        first = book_with(ledger, State.STAGED, target="shop")
        book_with(ledger, State.STAGED, target="shop")
        assert gauges.oldest(ledger, ["shop", "none"], [State.STAGED, State.APPLYING]) == {
            ("shop", State.STAGED): first.changed_at
        }


def test_every_metric_that_an_alert_names_exists(tmp_path):
    with served(tmp_path, worker=True) as site:
        said = site.ask("GET", "/metrics").body.decode()
    kinds = {family.name: family.type for family in text_string_to_metric_families(said)}
    known = set(kinds) | {name + end for name, kind in kinds.items() for end in ENDS.get(kind, ())}
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 9
    for rule in rules:
        named = set(re.findall(r"\bendmark_[a-z_]+", rule["expr"]))
        assert named, rule
        assert named <= known, (rule["alert"], named - known)
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert set(rule["annotations"]) == {"summary", "do"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_takes_the_alert_rules():
    subprocess.run(["promtool", "check", "rules", ALERTS], check=True, capture_output=True)


def test_the_first_versions_ledger_is_served(tmp_path):
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as old:
        old.executescript((ROOT / "tests" / "vectors" / "ledger" / "version-1.sql").read_text())
    with served(tmp_path) as site:
        before = len(site.attempts())
        assert site.submit(envelope("new-1")).status == 202
        assert len(site.attempts()) == before + 1
        assert scraped(site)["endmark_jobs"][("staged", "prod")] == 1
