"""What this process counts about itself. Labels are states, signals and the configuration's names, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from endmark.core.outcome import Outcome

_BYTES = (0, 1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
_SECONDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600)
_ACTS = (1, 2, 4, 8, 16, 32, 64, 128)
_REFUSED = frozenset({"truncated", "rejected", "quarantined", "incomplete"})


class Figures:
    """Counters and gauges of one service, in a registry of its own. They start at zero with the process.

    Safe from any thread. No id, no name of a submitter and no URL is ever a label.
    """

    def __init__(self, targets: Iterable[str] = ()) -> None:
        self.registry = CollectorRegistry()
        here = self.registry
        self.deliveries = Counter(
            "endmark_deliveries_total",
            "Deliveries by what became of them.",
            ["target", "state", "signal"],
            registry=here,
        )
        self.redeliveries = Counter(
            "endmark_redeliveries_total", "Deliveries of whole bytes that were there before.", ["target"], registry=here
        )
        self.received_bytes = Counter("endmark_received_bytes_total", "Bytes that arrived.", ["target"], registry=here)
        self.short_bytes = Histogram(
            "endmark_short_bytes",
            "Of refused deliveries that declared their length: the bytes that did not arrive.",
            ["target"],
            buckets=_BYTES,
            registry=here,
        )
        self.problems = Counter(
            "endmark_problems_total",
            "Calls answered with a problem, by its signal.",
            ["status", "signal"],
            registry=here,
        )
        self.applies = Counter(
            "endmark_applies_total", "Jobs that the worker here ran, by the state they ended in.",
            ["target", "state", "signal"], registry=here,
        )  # fmt: skip
        self.apply_seconds = Histogram(
            "endmark_apply_seconds",
            "How long each of them took, in seconds.",
            ["target"],
            buckets=_SECONDS,
            registry=here,
        )
        self.retries = Counter(
            "endmark_apply_retries_total",
            "Tries that did not reach the target before BEGIN.",
            ["target"],
            registry=here,
        )
        self.commit_acts = Histogram(
            "endmark_ledger_commit_acts", "How many acts one commit of the ledger held.", buckets=_ACTS, registry=here
        )
        self.commit_failures = Counter(
            "endmark_ledger_commit_failures_total", "Commits of the ledger that were not made.", registry=here
        )
        self._gauges: dict[str, Gauge] = {}
        self._delivered: dict[tuple[str, str, str], tuple[Counter, Counter]] = {}  # looking a label up takes its time
        for target in targets:  # a series that is there from the start has no first step that a rate would miss
            self.received_bytes.labels(target)
            self.short_bytes.labels(target)
            self.redeliveries.labels(target)
            self.retries.labels(target)

    def delivered(self, target: str, outcome: Outcome, is_new: bool) -> None:
        """A delivery was answered; `target` is a name of the configuration."""
        if not is_new and outcome.state not in _REFUSED:
            self.redeliveries.labels(target).inc()
            return
        received = outcome.received_bytes or 0
        key = target, outcome.state, outcome.signal
        found = self._delivered.get(key)
        if found is None:
            found = self._delivered[key] = self.deliveries.labels(*key), self.received_bytes.labels(target)
        found[0].inc()
        found[1].inc(received)
        if outcome.state in _REFUSED and outcome.expected_bytes is not None:
            self.short_bytes.labels(target).observe(max(0, outcome.expected_bytes - received))

    def ran(self, target: str, outcome: Outcome | None, seconds: float) -> None:
        """The worker ran a job in that time; without an outcome it could not try."""
        if outcome is None:
            self.retries.labels(target).inc()
            return
        self.applies.labels(target, outcome.state, outcome.signal).inc()
        self.apply_seconds.labels(target).observe(seconds)

    def committed(self, acts: int, made: bool) -> None:
        """The ledger's writer made a commit, or could not."""
        if made:
            self.commit_acts.observe(acts)
        else:
            self.commit_failures.inc()
