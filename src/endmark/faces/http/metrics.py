"""`/metrics` for Prometheus: what this process counted, and what the ledger says at this moment (H34-H36)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec
from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.faces.http import openapi
from endmark.faces.http.access import forbidden
from endmark.faces.http.service import Service
from endmark.ledger import gauges, overview
from endmark.ledger.book import Ledger

OTHER = "other"  # H35: targets that stand in the ledger and in no configuration here
_UNSETTLED = (State.STAGED, State.APPROVED, State.APPLYING, State.PARTIAL)


class Book(msgspec.Struct, frozen=True):
    """What the ledger said: how many jobs stand (target, state), for how long the oldest has, in seconds; decisions by
    state; verdicts that flipped, of merged diffs and of others."""

    jobs: dict[tuple[str, str], int]
    ages: dict[tuple[str, str], float]
    decisions: dict[str, int]
    flips: tuple[int, int]


def look(ledger: Ledger, names: dict[str, str], now: datetime) -> Book:
    """Ask the ledger; `names` is a target's name by its identity. Raises CannotTry."""
    jobs = {(name, state.value): 0 for name in names.values() for state in _UNSETTLED}
    decisions: dict[str, int] = {}
    for row in overview.counts(ledger):
        if row.kind == "decision":
            decisions[row.state] = decisions.get(row.state, 0) + row.number
        else:
            where = names.get(row.about, OTHER), row.state
            jobs[where] = jobs.get(where, 0) + row.number
    ages: dict[tuple[str, str], float] = {}
    for (identity, state), since in gauges.oldest(ledger, names, _UNSETTLED).items():
        age = (now - datetime.fromisoformat(since).astimezone(UTC)).total_seconds()
        where = names[identity], state.value
        ages[where] = max(ages.get(where, 0.0), age)
    return Book(jobs, ages, decisions, gauges.flips(ledger))


class _Now(Collector):
    """What is true while somebody looks."""

    def __init__(self, service: Service, book: Book | None) -> None:
        self._service = service
        self._book = book

    def collect(self) -> Iterable[Metric]:
        service, book = self._service, self._book
        worker, limits = service.worker, service.limits
        up = book is not None and service.writer.alive and service.ledger.stands()
        yield _gauge("endmark_ledger_up", "1 while the ledger can be read and its writer lives.", float(up))
        if worker is not None:
            yield _gauge("endmark_worker_up", "1 while the worker in this process lives.", float(worker.alive))
            yield _gauge("endmark_applying", "Jobs that the worker here is applying.", worker.busy)
            yield _gauge(
                "endmark_retry_budget_used_ratio", "Of the job with the most tries: tries used, of those it has.",
                worker.budget_used,
            )  # fmt: skip
        yield _gauge("endmark_ledger_queue_depth", "Acts that wait for the ledger's writer.", service.writer.waiting)
        yield _gauge("endmark_open_connections", "Connections to this service.", service.connections())
        yield _gauge("endmark_uploads", "Bodies that are being read.", limits.uploads)
        yield _gauge("endmark_upload_bytes", "Bytes of bodies held in memory.", limits.in_flight)
        yield _gauge("endmark_watchers", "Callers that wait for news.", limits.watchers)
        yield _gauge("endmark_unusable_targets", "Targets whose configuration cannot be used.", len(service.unusable))
        if book is not None:
            yield from _of_book(book)


def _gauge(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, value=value)


def _of_book(book: Book) -> Iterator[Metric]:
    jobs = GaugeMetricFamily("endmark_jobs", "Jobs and attempts on record.", labels=["target", "state"])
    for where, number in sorted(book.jobs.items()):
        jobs.add_metric(where, number)
    yield jobs
    ages = GaugeMetricFamily(
        "endmark_oldest_job_seconds", "How long the oldest job has been in this state.", labels=["target", "state"]
    )
    for where, seconds in sorted(book.ages.items()):
        ages.add_metric(where, seconds)
    yield ages
    decisions = GaugeMetricFamily("endmark_decisions", "Decisions on record.", labels=["state"])
    for state, number in sorted(book.decisions.items()):
        decisions.add_metric((state,), number)
    yield decisions
    flips = GaugeMetricFamily(
        "endmark_verdict_flips", "Repeated verdicts that were not the first one, among the newest 20,000 reviews.",
        labels=["merged"],
    )  # fmt: skip
    for merged, number in zip(("true", "false"), book.flips, strict=True):
        flips.add_metric((merged,), number)
    yield flips


def router(service: Service) -> APIRouter:
    """The route of this file."""
    routes = APIRouter()

    @routes.get("/metrics", **openapi.METRICS)
    async def metrics(request: Request) -> Response:
        identity = await service.allow(request)
        if identity.targets is not None:  # H34: the figures are of every target
            raise forbidden(identity, "figures are of every target, and it is for some", "admin")
        names: dict[str, str] = {}
        for name, place in service.places.items():
            names.setdefault(place.target.identity, name)
        book: Book | None
        try:
            book = await service.read(lambda ledger: look(ledger, names, service.clock()))
        except CannotTry:
            book = None  # H36: that is a figure too
        now = CollectorRegistry()
        now.register(_Now(service, book))
        return Response(
            generate_latest(service.figures.registry) + generate_latest(now), media_type=CONTENT_TYPE_LATEST
        )

    return routes
